"""What a mixture's logits, means and scales stand for: a distribution, draws, quantiles, scores."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import (
    Categorical,
    Independent,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
)

from . import _checks

# Newton's steps and halvings take turns, so every other step halves the bracket: enough for any
# bracket in double precision.
_MAX_STEPS = 240


class MixtureParameters(NamedTuple):
    """What the losses and the functions here take: `loss(*parameters, y)`.

    Attributes:
        logits: Unnormalised log weights, (..., components).
        mean: Means, (..., components, dim).
        scale: Standard deviations, (..., components, dim), or lower Cholesky factors,
            (..., components, dim, dim).
    """

    logits: Tensor
    mean: Tensor
    scale: Tensor


def distribution(logits: Tensor, mean: Tensor, scale: Tensor) -> MixtureSameFamily:
    """Return the mixture as a distribution of PyTorch's, with events of shape (dim,).

    >>> distribution(torch.zeros(5, 2), torch.zeros(5, 2, 3), torch.ones(5, 2, 3))
    MixtureSameFamily(
      Categorical(logits: torch.Size([5, 2])),
      Independent(Normal(loc: torch.Size([5, 2, 3]), scale: torch.Size([5, 2, 3])), 1))
    """
    logits, mean, scale = _read(logits, mean, scale)
    if scale.dim() > mean.dim():
        components = MultivariateNormal(mean, scale_tril=scale)
    else:
        components = Independent(Normal(mean, scale), 1)
    return MixtureSameFamily(Categorical(logits=logits), components)


@torch.no_grad()
def sample(
    logits: Tensor,
    mean: Tensor,
    scale: Tensor,
    shape: Sequence[int] = (),
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return independent draws, shape + batch + (dim,)."""
    logits, mean, scale = _read(logits, mean, scale)
    n_draws, batch, n_components = math.prod(shape), logits.shape[:-1], logits.shape[-1]
    weights = torch.softmax(logits, -1).reshape(-1, n_components)
    picked = torch.multinomial(weights, n_draws, replacement=True, generator=generator)
    row = torch.arange(len(weights), device=picked.device).unsqueeze(-1)
    centre = mean.reshape(len(weights), n_components, -1)[row, picked]
    spread = scale.reshape(len(weights), n_components, *scale.shape[logits.dim() :])[row, picked]
    noise = torch.empty_like(centre).normal_(generator=generator)
    if scale.dim() > mean.dim():
        draws = centre + (spread @ noise.unsqueeze(-1)).squeeze(-1)
    else:
        draws = centre + spread * noise
    return draws.movedim(1, 0).reshape(*shape, *batch, mean.shape[-1])


def cdf(logits: Tensor, mean: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    """Return P(Y <= y) of a one-dimensional mixture.

    Args:
        logits: Unnormalised log weights, (..., components).
        mean: Means, (..., components, 1).
        scale: Standard deviations, (..., components, 1), or (..., components, 1, 1).
        y: Where, (..., 1).
    """
    weights, location, width = _univariate("cdf", logits, mean, scale)
    (y,) = _checks.as_floats(y=y)
    _checks.check_target(mean, y)
    return _cdf(weights, location, width, y.squeeze(-1))


def quantile(logits: Tensor, mean: Tensor, scale: Tensor, q: float | Tensor) -> Tensor:
    """Return the inverse of `cdf` at q, which broadcasts against the rows.

    Accurate to 1e-6 in probability, differentiable once in q and in the parameters. A mixture's
    quantile lies between the least and the greatest of its components' quantiles.

    >>> mean = torch.tensor([[-1.0], [1.0]])
    >>> quantile(torch.zeros(2), mean, torch.ones(2, 1), torch.tensor([0.0, 0.5]))
    tensor([-inf, 0.])
    """
    weights, location, width = _univariate("quantile", logits, mean, scale)
    if not isinstance(q, Tensor):
        q = torch.tensor(_checks.check_fraction("q", q))
    q = q.to(location.device, location.dtype)
    with torch.no_grad():
        x = _search(weights, location, width, q)
        z = (x.unsqueeze(-1) - location) / width
        density = (weights * _normal_density(z) / width).sum(-1)
    if not torch.is_grad_enabled():
        return x
    # cdf(x) = q, so dx = (dq - d cdf) / density: one more of Newton's steps, of length zero.
    inside = x.isfinite() & (density > 0)
    miss = q - _cdf(weights, location, width, torch.where(inside, x, 0.0))
    step = torch.where(inside, (miss - miss.detach()) / torch.where(inside, density, 1.0), 0.0)
    return x + step


def crps(logits: Tensor, mean: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    """Return the continuous ranked probability score, E|Y - y| - E|Y - Y'| / 2, in closed form.

    Args:
        logits: Unnormalised log weights, (..., components).
        mean: Means, (..., components, 1).
        scale: Standard deviations, (..., components, 1), or (..., components, 1, 1).
        y: Targets, (..., 1).
    """
    weights, location, width = _univariate("crps", logits, mean, scale)
    (y,) = _checks.as_floats(y=y)
    _checks.check_target(mean, y)
    error = (weights * _mean_distance(y - location, width)).sum(-1)
    spread = torch.zeros_like(weights[..., 0])
    # One component against all others at a time, never K x K numbers per row.
    for index in range(weights.shape[-1]):
        one = slice(index, index + 1)
        pair = _mean_distance(location - location[..., one], torch.hypot(width, width[..., one]))
        spread = spread + (weights[..., one] * weights * pair).sum(-1)
    return error - 0.5 * spread


def _read(logits: Tensor, mean: Tensor, scale: Tensor) -> list[Tensor]:
    tensors = _checks.as_floats(logits=logits, mean=mean, scale=scale)
    _checks.check_mixture(*tensors)
    return tensors


def _univariate(
    what: str, logits: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return weights, locations and standard deviations, each (..., components)."""
    logits, mean, scale = _read(logits, mean, scale)
    _checks.check_one_dimensional(what, mean)
    return torch.softmax(logits, -1), mean.squeeze(-1), scale.reshape(logits.shape)


def _cdf(weights: Tensor, location: Tensor, width: Tensor, x: Tensor) -> Tensor:
    total = (weights * torch.special.ndtr((x.unsqueeze(-1) - location) / width)).sum(-1)
    return total.clamp(max=1)  # weights may add up to a rounding unit more


def _normal_density(z: Tensor) -> Tensor:
    return torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)


def _mean_distance(offset: Tensor, width: Tensor) -> Tensor:
    """Return E|Y| for Y ~ N(offset, width^2)."""
    z = offset / width
    return offset * torch.erf(z / math.sqrt(2)) + 2 * width * _normal_density(z)


def _search(weights: Tensor, location: Tensor, width: Tensor, q: Tensor) -> Tensor:
    """Return where the distribution function reaches q: Newton's method within a bracket."""
    inside = (q > 0) & (q < 1)
    level = torch.where(inside, q, 0.5)
    bounds = location + width * torch.special.ndtri(level).unsqueeze(-1)
    low, high = bounds.amin(-1), bounds.amax(-1)
    level = level.expand(low.shape)
    x = 0.5 * low + 0.5 * high
    for number in range(_MAX_STEPS):
        z = (x.unsqueeze(-1) - location) / width
        miss = (weights * torch.special.ndtr(z)).sum(-1) - level
        low, high = torch.where(miss < 0, x, low), torch.where(miss < 0, high, x)
        middle = 0.5 * low + 0.5 * high
        newton = x - miss / (weights * _normal_density(z) / width).sum(-1)
        sound = (newton > low) & (newton < high)
        ahead = torch.where(sound, newton, middle) if number % 2 == 0 else middle
        if bool(((ahead == x) | (middle == low) | (middle == high)).all()):
            break
        # What has arrived stays, while other rows are still searching.
        x = torch.where(miss == 0, x, ahead)
    outside = torch.where(q == 0, -math.inf, torch.where(q == 1, math.inf, math.nan))
    return torch.where(inside, x, outside)
