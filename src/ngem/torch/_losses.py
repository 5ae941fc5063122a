"""Losses by name: functions and a module for a user's own training loop."""

from typing import Any

import torch
from torch import Tensor, nn

from .. import _defaults
from . import _checks
from ._families import Strength
from ._gradient import MixtureNLL
from ._location_scale import components_of, read_family
from ._preconditioners import AbstractPreconditioner, Preconditioner, VarianceWeights
from ._schedule import PowerSchedule

Power = float | int | Tensor | PowerSchedule

#: Objectives by name, the same as in JAX. All but "mse" have the value of the negative
#: log-likelihood and differ in their preconditioner; "mse", None here, is a loss of its own.
OBJECTIVES: dict[str, AbstractPreconditioner | None] = {
    "nll": Preconditioner(),
    "sgem": Preconditioner(),  # Corollary 2: its gradient is the likelihood's
    "ngem": Preconditioner(
        power=_defaults.POWER,
        logits_rule=_defaults.LOGITS_RULE,
        damping=_defaults.DAMPING,
        coordinates=_defaults.COORDINATES,
    ),
    "ngem-listing": Preconditioner(power=1.0, logits_rule="listing"),
    "ngem-derived": Preconditioner(power=1.0, logits_rule="derived"),
    "beta-nll": VarianceWeights(_defaults.BETA),
    "mse": None,
}


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
    family: str = "gaussian",
) -> Tensor:
    """Return the loss of a mixture under an objective by name.

    Args:
        logits: Unnormalized log weights, (..., components).
        mean: Means, (..., components, dim).
        scale: Standard deviations, (..., components, dim), or lower Cholesky factors,
            (..., components, dim, dim).
        y: Targets, (..., dim).
        objective: A name in `OBJECTIVES`.
        power: Strength of "ngem" on the Gaussians: a number, a tensor or a `PowerSchedule`. If
            None, the objective's own: 0.5 for "ngem". Objectives without a strength ignore it.
        weights: Sample weights, (...,); "mean" divides by their sum.
        reduction: "mean", "sum" or "none".
        coordinates: Coordinates of the scale, as for `ngem_loss`. If None, those of a
            `PowerSchedule` under "ngem", else the objective's own.
        flattening: Flattening of the weights, as for `ngem_loss`. If None, likewise.
        family: Distribution of the components, as for `ngem_loss`.
    """
    _check_names(objective, reduction)
    logits, mean, scale, y = _checks.as_floats(logits=logits, mean=mean, scale=scale, y=y)
    logits, mean, scale, y = _checks.shape_rows(logits, mean, scale, y)
    preconditioner = OBJECTIVES[objective]
    if preconditioner is None:
        return _reduce(_squared_error(logits, mean, y), weights, reduction)
    if isinstance(power, PowerSchedule) and objective == "ngem":
        coordinates = power.coordinates if coordinates is None else coordinates
        flattening = power.flattening if flattening is None else flattening
    if coordinates is not None or flattening is not None:
        preconditioner = preconditioner.with_settings(
            *_checks.check_settings(coordinates, flattening)
        )
    strength = preconditioner.power
    if power is not None and preconditioner.takes_power:
        strength = _strength(power, mean)
    components = components_of(family, mean, scale)
    averaged = weights is None and reduction == "mean"
    losses = MixtureNLL.apply(
        logits, mean, scale, y, strength, preconditioner, components, averaged
    )[0]
    return losses if averaged else _reduce(losses, weights, reduction)


def ngem_loss(
    logits: Tensor,
    mean: Tensor,
    scale: Tensor,
    y: Tensor,
    *,
    power: Power | None = _defaults.POWER,
    weights: Tensor | None = None,
    reduction: str = "mean",
    coordinates: str | None = None,
    flattening: float | None = None,
    family: str = "gaussian",
) -> Tensor:
    """Return the mean negative log-likelihood, with a natural gradient of constant half strength.

    The value is that of `nll_loss`; only the gradient differs. The natural gradient is taken with
    respect to `mean` and the logarithm of `scale`. The chain rule continues from there.

    Args:
        logits: Unnormalized log weights, (..., components).
        mean: Means, (..., components, dim).
        scale: Standard deviations, (..., components, dim), or lower Cholesky factors,
            (..., components, dim, dim).
        y: Targets, (..., dim).
        power: Strength on the Gaussians, (weight_k F_k)^-power: 0 is NLL, 1 is the paper's. A
            number, a tensor, or a `PowerSchedule` for the strength that the estimator uses. None is
            the default, 0.5.
        weights: Sample weights, (...,); "mean" divides by their sum.
        reduction: "mean", "sum" or "none".
        coordinates: Coordinates of the scale in which its Fisher information is taken: "log_scale"
            for a scale that is exp or softplus of a network's output; "scale", the paper's, for one
            that is an output itself; "variance" for targets of the order of one, so that components
            find their positions before they narrow. If None, those of a `PowerSchedule`, else
            "log_scale".
        flattening: Flattening of the weights in responsibilities, 0 to 1. It keeps components alive
            while they find their positions, but is slightly biased unless the power falls to zero.
            If None, that of a `PowerSchedule`, else 0.
        family: Distribution of the components: "gaussian"; or "laplace", "logistic", "student" and
            "student(df)" with heavier tails, whose scales have the shape of `mean`.

    >>> logits, mean, scale = torch.zeros(1, 1), torch.zeros(1, 1, 1), 2 * torch.ones(1, 1, 1)
    >>> mean.requires_grad_()
    tensor([[[0.]]], requires_grad=True)
    >>> ngem_loss(logits, mean, scale, torch.ones(1, 1), power=1.0).backward()
    >>> mean.grad  # mean - y: the variance has canceled
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
        family=family,
    )


def nll_loss(
    logits: Tensor,
    mean: Tensor,
    scale: Tensor,
    y: Tensor,
    *,
    weights: Tensor | None = None,
    reduction: str = "mean",
    family: str = "gaussian",
) -> Tensor:
    """Return the mean negative log-likelihood of a mixture, equation (3).

    Args:
        logits: Unnormalized log weights, (..., components).
        mean: Means, (..., components, dim).
        scale: Standard deviations, (..., components, dim), or lower Cholesky factors,
            (..., components, dim, dim).
        y: Targets, (..., dim).
        weights: Sample weights, (...,); "mean" divides by their sum.
        reduction: "mean", "sum" or "none".
        family: Distribution of the components, as for `ngem_loss`.
    """
    return mixture_loss(
        logits,
        mean,
        scale,
        y,
        objective="nll",
        weights=weights,
        reduction=reduction,
        family=family,
    )


class NGEMLoss(nn.Module):
    """`mixture_loss` as a module.

    Args:
        objective: A name in `OBJECTIVES`.
        power: Strength, as for `mixture_loss`. A `PowerSchedule` becomes a submodule: it moves with
            the loss and is part of its state.
        reduction: "mean", "sum" or "none".
        coordinates: Coordinates of the scale, as for `mixture_loss`.
        flattening: Flattening of the weights, as for `mixture_loss`.
        family: Distribution of the components, as for `mixture_loss`.

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
        family: str = "gaussian",
    ) -> None:
        super().__init__()
        self.objective = _checks.check_choice("objective", objective, OBJECTIVES)
        self.reduction = _checks.check_choice("reduction", reduction, _checks.REDUCTIONS)
        self.power = power
        self.coordinates = coordinates
        self.flattening = flattening
        read_family(family)  # refuses one that does not exist
        self.family = family

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
            family=self.family,
        )

    def extra_repr(self) -> str:
        return f"objective={self.objective!r}, reduction={self.reduction!r}"


def _check_names(objective: Any, reduction: Any) -> None:
    # This runs in every step, so the usual case returns at once.
    are_strings = isinstance(objective, str) and isinstance(reduction, str)
    if are_strings and objective in OBJECTIVES and reduction in _checks.REDUCTIONS:
        return
    _checks.check_choice("objective", objective, OBJECTIVES)
    _checks.check_choice("reduction", reduction, _checks.REDUCTIONS)


def _strength(power: Any, mean: Tensor) -> Strength:
    if isinstance(power, PowerSchedule):  # which keeps it in its range
        return power.power.to(mean.device, mean.dtype)
    if isinstance(power, Tensor):
        return _checks.as_strength(power, mean)
    return _checks.check_fraction("power", power)


def _squared_error(logits: Tensor, mean: Tensor, y: Tensor) -> Tensor:
    """Return the mean over target columns of (E[Y] - y)^2."""
    expected = (torch.softmax(logits, -1).unsqueeze(-1) * mean).sum(-2)
    return (expected - y).square().mean(-1)


def _reduce(losses: Tensor, weights: Any, reduction: str) -> Tensor:
    if weights is not None:
        weights = _checks.as_weights(losses, weights)
        losses = weights * losses
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.mean() if weights is None else losses.sum() / weights.sum()
