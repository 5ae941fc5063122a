"""Functions of a mixture's logits, means and scales: distribution, draws, quantiles, scores."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Categorical, MixtureSameFamily

from . import _checks
from ._families import family_of

# Most mixtures need about ten steps. This bounds the worst case, where every step bisects.
_MAX_STEPS = 240


class MixtureParameters(NamedTuple):
    """Parameters of a mixture, in the order of the arguments of a loss: `loss(*parameters, y)`.

    Attributes:
        logits: Unnormalized log weights, (..., components).
        mean: Means, (..., components, dim).
        scale: Standard deviations, (..., components, dim), or lower Cholesky factors,
            (..., components, dim, dim).
    """

    logits: Tensor
    mean: Tensor
    scale: Tensor


def distribution(logits: Tensor, mean: Tensor, scale: Tensor) -> MixtureSameFamily:
    """Return the mixture as a PyTorch distribution with events of shape (dim,).

    >>> distribution(torch.zeros(5, 2), torch.zeros(5, 2, 3), torch.ones(5, 2, 3))
    MixtureSameFamily(
      Categorical(logits: torch.Size([5, 2])),
      Independent(Normal(loc: torch.Size([5, 2, 3]), scale: torch.Size([5, 2, 3])), 1))
    """
    logits, mean, scale = _read(logits, mean, scale)
    components = family_of(mean, scale).distribution(mean, scale)
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
    picked_mean, picked_scale = (
        part.reshape(len(weights), n_components, *part.shape[logits.dim() :])[row, picked]
        for part in (mean, scale)
    )
    noise = torch.empty_like(picked_mean).normal_(generator=generator)
    draws = family_of(mean, scale).transform(noise, picked_mean, picked_scale)
    return draws.movedim(1, 0).reshape(*shape, *batch, mean.shape[-1])


def cdf(logits: Tensor, mean: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    """Return P(Y <= y) of a one-dimensional mixture.

    Args:
        logits: Unnormalized log weights, (..., components).
        mean: Means, (..., components, 1).
        scale: Standard deviations, (..., components, 1), or (..., components, 1, 1).
        y: Points, (..., 1).
    """
    weights, location, std = _univariate("cdf", logits, mean, scale)
    y = _checks.shape_targets(mean, *_checks.as_floats(y=y))
    return _cdf(weights, location, std, y.squeeze(-1))


def quantile(logits: Tensor, mean: Tensor, scale: Tensor, q: float | Tensor) -> Tensor:
    """Return the inverse of `cdf` at q, (*rows, *levels).

    The result is accurate to 1e-6 in probability and can be differentiated once, in q and in the
    parameters.

    Args:
        logits: Unnormalized log weights, (..., components).
        mean: Means, (..., components, 1).
        scale: Standard deviations, (..., components, 1), or (..., components, 1, 1).
        q: One level, or a tensor of levels: every row is asked for each of them.

    >>> mean = torch.tensor([[-1.0], [1.0]])
    >>> quantile(torch.zeros(2), mean, torch.ones(2, 1), torch.tensor([0.0, 0.5]))
    tensor([-inf, 0.])
    """
    parts = _univariate("quantile", logits, mean, scale)
    if not isinstance(q, Tensor):
        q = torch.tensor(_checks.check_fraction("q", q), dtype=torch.float64)
    levels = _checks.as_floats(q=q)[0].to(mean.device, parts[0].dtype)
    # Rows, then levels, then components.
    weights, location, std = (part.unsqueeze(-2) for part in parts)
    x = _quantiles(weights, location, std, levels.reshape(-1))
    return x.reshape(*logits.shape[:-1], *levels.shape)


def _quantiles(weights: Tensor, location: Tensor, std: Tensor, q: Tensor) -> Tensor:
    with torch.no_grad():
        x = _search(weights, location, std, q)
        z = (x.unsqueeze(-1) - location) / std
        density = (weights * _normal_density(z) / std).sum(-1)
    if not torch.is_grad_enabled():
        return x
    # cdf(x) = q, so dx = (dq - d cdf) / density: the gradient of a Newton step of length zero.
    inside = x.isfinite() & (density > 0)
    miss = q - _cdf(weights, location, std, torch.where(inside, x, 0.0))
    step = torch.where(inside, (miss - miss.detach()) / torch.where(inside, density, 1.0), 0.0)
    return x + step


def crps(logits: Tensor, mean: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    """Return the continuous ranked probability score, E|Y - y| - E|Y - Y'| / 2, in closed form.

    Args:
        logits: Unnormalized log weights, (..., components).
        mean: Means, (..., components, 1).
        scale: Standard deviations, (..., components, 1), or (..., components, 1, 1).
        y: Targets, (..., 1).
    """
    weights, location, std = _univariate("crps", logits, mean, scale)
    y = _checks.shape_targets(mean, *_checks.as_floats(y=y))
    distance = _mean_distance(y - location, std)
    score = torch.zeros_like(distance[..., 0])
    # sum_ij weight_i weight_j g_ij, where g_ij lies between 0 and both distances: see ngem.Mixture.
    # One component against all others at a time, so that no row needs K x K numbers.
    for index in range(weights.shape[-1]):
        one = slice(index, index + 1)
        pair = _mean_distance(location - location[..., one], torch.hypot(std, std[..., one]))
        mean = 0.5 * distance[..., one] + (0.5 * distance - 0.5 * pair)
        mean = mean.clamp(min=0).minimum(distance).minimum(distance[..., one])
        score = score + (weights[..., one] * weights * mean).sum(-1)
    return score


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
    std = family_of(mean, scale).univariate_scale(scale)
    return torch.softmax(logits, -1), mean.squeeze(-1), std


def _cdf(weights: Tensor, location: Tensor, std: Tensor, x: Tensor) -> Tensor:
    total = (weights * _normal_cdf((x.unsqueeze(-1) - location) / std)).sum(-1)
    return total.clamp(max=1)  # rounding can make the sum of the weights exceed one


def _normal_cdf(z: Tensor) -> Tensor:
    # torch.special.ndtr is (1 + erf) / 2, which loses all digits in the lower tail.
    return 0.5 * torch.erfc(-z / math.sqrt(2))


def _normal_density(z: Tensor) -> Tensor:
    return torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)


def _mean_distance(offset: Tensor, std: Tensor) -> Tensor:
    """Return E|Y| for Y ~ N(offset, std^2)."""
    z = offset / std
    return offset * torch.erf(z / math.sqrt(2)) + 2 * std * _normal_density(z)


def _search(weights: Tensor, location: Tensor, std: Tensor, q: Tensor) -> Tensor:
    """Return the point where the cdf reaches q, by Newton's method within a bracket.

    A mixture's quantile lies between the smallest and the largest quantile of its components.
    Upper quantiles are lower ones of the reflected mixture. The lower tail is nearly exponential,
    so Newton's method solves log cdf(x) = log q.
    """
    inside = (q > 0) & (q < 1)
    sign = torch.where(q > 0.5, -1.0, 1.0).to(q.dtype)
    level = torch.where(inside, torch.where(q > 0.5, 1 - q, q), 0.5)
    location = sign.unsqueeze(-1) * location
    bounds = location + std * torch.special.ndtri(level).unsqueeze(-1)
    low, high = bounds.amin(-1), bounds.amax(-1)
    x = 0.5 * low + 0.5 * high
    step = before = high - low
    eps = torch.finfo(x.dtype).eps
    for _ in range(_MAX_STEPS):
        z = (x.unsqueeze(-1) - location) / std
        reached = (weights * _normal_cdf(z)).sum(-1)
        density = (weights * _normal_density(z) / std).sum(-1)
        excess = torch.log(reached / level)
        low, high = torch.where(excess < 0, x, low), torch.where(excess < 0, high, x)
        newton = -excess * reached / density
        middle = 0.5 * low + 0.5 * high
        converged = (excess.abs() <= 4 * eps) | (newton.abs() <= eps * x.abs())
        done = converged | (middle == low) | (middle == high)
        if bool(done.all()):
            break
        # Bisect where Newton's step leaves the bracket or is not half the step before the last.
        safe = (x + newton > low) & (x + newton < high) & (2 * newton.abs() < before.abs())
        before, step = step, torch.where(safe, newton, middle - x)
        x = torch.where(done, x, torch.where(safe, x + newton, middle))
    outside = torch.where(q == 0, -math.inf, torch.where(q == 1, math.inf, math.nan))
    return torch.where(inside, sign * x, outside)
