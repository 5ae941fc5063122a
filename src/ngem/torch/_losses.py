"""Losses by name: functions and a module for a user's own training loop."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .. import _defaults
from .._defaults import COORDINATE_CHOICES
from . import _checks
from ._gradient import MixtureNLL
from ._schedule import PowerSchedule

Power = float | int | Tensor | PowerSchedule


class Preconditioner(NamedTuple):
    """What an objective does to the likelihood's gradient.

    Attributes:
        power: Strength on the components, (weight_k F_k)^-power.
        logits_rule: What the logits receive: "plain", "listing" (Appendix C) or "derived" (B.7).
        damping: Weights are inverted as (weight + damping) / (1 + damping).
        beta: If not None, gradients are multiplied by variance^beta instead.
        coordinates: Coordinates of the scale in which F_k is taken: "scale" is the paper's,
            see `_defaults.COORDINATE_CHOICES`.
        flattening: Responsibilities are reckoned as of weight^(1 - flattening * power).
    """

    power: float = 0.0
    logits_rule: str = "plain"
    damping: float = 0.0
    beta: float | None = None
    coordinates: str = "scale"
    flattening: float = 0.0


#: Objectives by name, the same as in JAX. None is the squared error of the mixture's mean.
OBJECTIVES: dict[str, Preconditioner | None] = {
    "nll": Preconditioner(),
    "sgem": Preconditioner(),  # Corollary 2: its gradient is the likelihood's
    "ngem": Preconditioner(
        _defaults.POWER,
        _defaults.LOGITS_RULE,
        _defaults.DAMPING,
        coordinates=_defaults.COORDINATES,
    ),
    "ngem-listing": Preconditioner(1.0, "listing"),
    "ngem-derived": Preconditioner(1.0, "derived"),
    "beta-nll": Preconditioner(beta=_defaults.BETA),
    "mse": None,
}

# Objectives with a strength that can be set; the others ignore it.
_WITH_POWER = ("ngem", "ngem-listing", "ngem-derived")


def mixture_loss(
    logits: Tensor,
    mean: Tensor,
    scale: Tensor,
    y: Tensor,
    *,
    objective: str = "ngem",
    power: Power | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    coordinates: str | None = None,
    flattening: float | None = None,
) -> Tensor:
    """Return the loss of a Gaussian mixture under an objective by name.

    Args:
        logits: Unnormalised log weights, (..., components).
        mean: Means, (..., components, dim).
        scale: Standard deviations, (..., components, dim), or lower Cholesky factors,
            (..., components, dim, dim).
        y: Targets, (..., dim).
        objective: A name in `OBJECTIVES`.
        power: Strength of "ngem" on the Gaussians: a number, a tensor or a `PowerSchedule`. The
            default is the library's choice; objectives without a strength ignore it.
        weights: Sample weights, (...,); "mean" divides by their sum.
        reduction: "mean", "sum" or "none".
        coordinates: Of the scale, see `Preconditioner`; if None, the objective's own, or for "ngem"
            those of a `PowerSchedule`.
        flattening: Of the weights, likewise.
    """
    if objective not in OBJECTIVES or reduction not in _checks.REDUCTIONS:
        _checks.check_choice("objective", objective, OBJECTIVES)
        _checks.check_choice("reduction", reduction, _checks.REDUCTIONS)
    logits, mean, scale, y = _checks.as_floats(logits=logits, mean=mean, scale=scale, y=y)
    rows = _checks.check_shapes(logits, mean, scale, y)
    if rows is not None:
        logits, mean, scale, y = _spread(rows, logits, mean, scale, y)
    preconditioner = OBJECTIVES[objective]
    if preconditioner is None:
        return _reduce(_squared_error(logits, mean, y), weights, reduction)
    if isinstance(power, PowerSchedule) and objective == "ngem":
        flattening = power.flattening if flattening is None else flattening
        coordinates = power.coordinates if coordinates is None else coordinates
    if coordinates is not None:
        _checks.check_choice("coordinates", coordinates, COORDINATE_CHOICES)
        preconditioner = preconditioner._replace(coordinates=coordinates)
    if flattening is not None:
        preconditioner = preconditioner._replace(
            flattening=_checks.check_fraction("flattening", float(flattening))
        )
    strength, *settings = preconditioner
    if power is not None and objective in _WITH_POWER:
        strength = _strength(power, mean)
    averaged = weights is None and reduction == "mean"
    losses = MixtureNLL.apply(logits, mean, scale, y, strength, *settings, averaged)[0]
    return losses if averaged else _reduce(losses, weights, reduction)


def ngem_loss(
    logits: Tensor,
    mean: Tensor,
    scale: Tensor,
    y: Tensor,
    *,
    power: Power | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    coordinates: str | None = None,
    flattening: float | None = None,
) -> Tensor:
    """Return the mean negative log-likelihood, sending natural gradients back.

    The value is that of `nll_loss`; only the gradient differs. The natural gradient is taken with
    respect to `mean` and the logarithm of `scale`, and the chain rule goes on from there.

    Args:
        logits: Unnormalised log weights, (..., components).
        mean: Means, (..., components, dim).
        scale: Standard deviations, (..., components, dim), or lower Cholesky factors,
            (..., components, dim, dim).
        y: Targets, (..., dim).
        power: Strength on the Gaussians, (weight_k F_k)^-power: 0 is NLL, 1 the paper's. A number,
            a tensor or a `PowerSchedule`. The default is the library's choice.
        weights: Sample weights, (...,); "mean" divides by their sum.
        reduction: "mean", "sum" or "none".
        coordinates: "log_scale" for a scale that is exp or softplus of what is learned; "scale",
            the paper's, for one that is learned as it is; "variance" for targets of the order of
            one, to let components find their places before they narrow. By default those of a
            `PowerSchedule`, else "log_scale".
        flattening: Keeps components alive while they find their places, but is slightly biased
            unless the power falls to zero: by default that of a `PowerSchedule`, else 0.

    >>> logits, mean, scale = torch.zeros(1, 1), torch.zeros(1, 1, 1), 2 * torch.ones(1, 1, 1)
    >>> mean.requires_grad_()
    tensor([[[0.]]], requires_grad=True)
    >>> ngem_loss(logits, mean, scale, torch.ones(1, 1), power=1.0).backward()
    >>> mean.grad  # mean - y: the variance has cancelled
    tensor([[[-1.]]])
    """
    return mixture_loss(
        logits,
        mean,
        scale,
        y,
        power=power,
        weights=weights,
        reduction=reduction,
        coordinates=coordinates,
        flattening=flattening,
    )


def nll_loss(
    logits: Tensor,
    mean: Tensor,
    scale: Tensor,
    y: Tensor,
    *,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean negative log-likelihood of a Gaussian mixture, equation (3).

    Args:
        logits: Unnormalised log weights, (..., components).
        mean: Means, (..., components, dim).
        scale: Standard deviations, (..., components, dim), or lower Cholesky factors,
            (..., components, dim, dim).
        y: Targets, (..., dim).
        weights: Sample weights, (...,); "mean" divides by their sum.
        reduction: "mean", "sum" or "none".
    """
    return mixture_loss(
        logits, mean, scale, y, objective="nll", weights=weights, reduction=reduction
    )


class NGEMLoss(nn.Module):
    """`mixture_loss` as a module.

    Args:
        objective: A name in `OBJECTIVES`.
        power: Strength of "ngem": a number, a tensor or a `PowerSchedule`, which then moves with
            the module and belongs to its state.
        reduction: "mean", "sum" or "none".
        coordinates: Of the scale, as for `ngem_loss`.
        flattening: Of the weights, as for `ngem_loss`.

    >>> criterion = NGEMLoss()
    >>> criterion(torch.zeros(4, 3), torch.zeros(4, 3, 1), torch.ones(4, 3, 1), torch.zeros(4, 1))
    tensor(0.9189)
    """

    def __init__(
        self,
        *,
        objective: str = "ngem",
        power: Power | None = None,
        reduction: str = "mean",
        coordinates: str | None = None,
        flattening: float | None = None,
    ):
        super().__init__()
        self.objective = _checks.check_choice("objective", objective, OBJECTIVES)
        self.reduction = _checks.check_choice("reduction", reduction, _checks.REDUCTIONS)
        self.power = power
        self.coordinates = coordinates
        self.flattening = flattening

    def forward(
        self,
        logits: Tensor,
        mean: Tensor,
        scale: Tensor,
        y: Tensor,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the loss of a batch."""
        return mixture_loss(
            logits,
            mean,
            scale,
            y,
            objective=self.objective,
            power=self.power,
            weights=weights,
            reduction=self.reduction,
            coordinates=self.coordinates,
            flattening=self.flattening,
        )

    def extra_repr(self) -> str:
        return f"objective={self.objective!r}, reduction={self.reduction!r}"


def _strength(power: Power, mean: Tensor) -> float | Tensor:
    if isinstance(power, PowerSchedule):
        power = power.power
    if isinstance(power, Tensor):
        return _checks.check_scalar(power).detach().to(mean.device, mean.dtype)
    return _checks.check_fraction("power", float(power))


def _squared_error(logits: Tensor, mean: Tensor, y: Tensor) -> Tensor:
    """Return the mean over target columns of (E[Y] - y)^2."""
    expected = (torch.softmax(logits, -1).unsqueeze(-1) * mean).sum(-2)
    return (expected - y).square().mean(-1)


def _spread(rows: tuple[int, ...], *tensors: Tensor) -> list[Tensor]:
    """Return parameters and targets with the same rows, where either stood for several."""
    batch = tensors[0].dim() - 1
    *params, y = tensors
    spread = [tensor.expand(*rows, *tensor.shape[batch:]) for tensor in params]
    return [*spread, y.expand(*rows, -1)]


def _reduce(losses: Tensor, weights: Tensor | None, reduction: str) -> Tensor:
    if weights is not None:
        _checks.check_weights(tuple(losses.shape), weights)
        (weights,) = _checks.as_floats(weights=weights)
        weights = weights.to(losses.dtype)
        losses = weights * losses
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.mean() if weights is None else losses.sum() / weights.sum()
