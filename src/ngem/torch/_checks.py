"""Checks of the tensors and settings that a user passes: expected, got, try.

Tensors are checked by type, shape and dtype only. A check of values would wait for the device in
every step. Instead a bad value gives a loss that is not finite, never a plausible number: a scale
that is not positive, a mean at infinity, a negative weight, a strength outside [0, 1].
"""

import math
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from .._defaults import COORDINATE_CHOICES
from .._errors import check_choice as check_choice
from .._errors import check_not_empty, check_target_shape

_ONE_DTYPE = ({torch.float32}, {torch.float64})

REDUCTIONS = ("mean", "sum", "none")


def as_floats(**tensors: Any) -> list[Tensor]:
    """Return the tensors in one floating dtype, at least single precision."""
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name} must be a tensor, got {type(value).__name__}; try {name} = "
                f"torch.as_tensor({name}, dtype=torch.float32)."
            )
    kinds = {tensor.dtype for tensor in tensors.values()}
    # This runs in every step, so the usual case returns at once.
    if kinds in _ONE_DTYPE:
        return list(tensors.values())
    for name, value in tensors.items():
        if not value.dtype.is_floating_point:
            raise TypeError(
                f"{name} must hold real floating-point numbers, got {value.dtype}; try "
                f"{name}.float()."
            )
    dtype = torch.float64 if torch.float64 in kinds else torch.float32
    return [value.to(dtype) for value in tensors.values()]


def shape_rows(
    logits: Tensor, mean: Tensor, scale: Tensor, y: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return parameters and targets that all have the same rows."""
    weights, means, targets = logits.shape, mean.shape, y.shape
    if (
        scale.shape == means
        and means[:-1] == weights
        and targets[:-1] == weights[:-1]
        and targets[-1:] == means[-1:]
        and mean.numel()
    ):
        return logits, mean, scale, y
    check_mixture(logits, mean, scale)
    y = shape_targets(mean, y)
    check_not_empty(tuple(y.shape))
    rows, batch = y.shape[:-1], logits.dim() - 1
    logits, mean, scale = (
        part.expand(*rows, *part.shape[batch:]) for part in (logits, mean, scale)
    )
    return logits, mean, scale, y


def check_mixture(logits: Tensor, mean: Tensor, scale: Tensor) -> None:
    """Refuse mixture parameters whose shapes do not match."""
    weights, means, scales = tuple(logits.shape), tuple(mean.shape), tuple(scale.shape)
    if not weights or weights[-1] == 0:
        raise ValueError(
            "logits must have shape (..., components) with at least one component, got "
            f"{weights}; for a single Gaussian pass logits of shape (..., 1)."
        )
    if means[:-1] != weights or means[-1] == 0:
        raise ValueError(
            f"mean must have shape (..., components, dim) = {(*weights, 'dim')} to fit logits of "
            f"shape {weights}, got {means}; for a single target column pass mean.unsqueeze(-1)."
        )
    full = (*means, means[-1])
    if scales not in (means, full):
        raise ValueError(
            f"scale must have the shape of mean, {means} (standard deviations), or {full} (lower "
            f"Cholesky factors), got {scales}; to share one scale between dimensions use "
            "scale.expand_as(mean)."
        )


def shape_targets(mean: Tensor, y: Tensor) -> Tensor:
    """Return targets with the axes (*more, *batch, dim), refusing other shapes."""
    batch, got = tuple(mean.shape[:-2]), tuple(y.shape)
    lacks_last_axis = check_target_shape("y", got, batch, mean.shape[-1], "y.unsqueeze(-1)")
    return y.unsqueeze(-1) if lacks_last_axis else y


def as_weights(losses: Tensor, weights: Any) -> Tensor:
    """Return sample weights, one for each loss; NaN in place of one that is not a weight."""
    (weights,) = as_floats(weights=weights)
    rows = tuple(losses.shape)
    if tuple(weights.shape) != rows:
        raise ValueError(
            f"weights must have one entry per row, shape {rows}, got {tuple(weights.shape)}; try "
            f"weights.expand{rows}."
        )
    return only_between(weights.to(losses.dtype), torch.finfo(losses.dtype).max)


def only_between(values: Tensor, largest: float) -> Tensor:
    """Return values, with NaN for those that are not between 0 and `largest`."""
    return torch.where((values >= 0) & (values <= largest), values, math.nan)


def check_one_dimensional(what: str, mean: Tensor) -> None:
    """Refuse a univariate functional of a multivariate mixture."""
    if mean.shape[-1] != 1:
        raise ValueError(
            f"{what} needs a one-dimensional mixture, got mean of shape {tuple(mean.shape)} with "
            f"{mean.shape[-1]} target columns; pass one column, such as mean[..., :1] and "
            "scale[..., :1]."
        )


def check_fraction(what: str, value: Any) -> float:
    """Return a number, refusing one outside [0, 1].

    `_errors.check_fraction` also takes arrays, but is slow and cannot be compiled.
    """
    if not isinstance(value, float | int | Real):
        raise TypeError(
            f"{what} must be a number between 0 and 1, got {type(value).__name__}; try 0.5."
        )
    if not 0 <= float(value) <= 1:
        raise ValueError(
            f"{what} must lie between 0 and 1, got {value!r}; for a percentage divide by 100."
        )
    return float(value)


def check_settings(
    coordinates: str | None, flattening: float | None
) -> tuple[str | None, float | None]:
    """Return the settings of a preconditioner; None stands for its own."""
    if coordinates is not None:
        check_choice("coordinates", coordinates, COORDINATE_CHOICES)
    if flattening is not None:
        flattening = check_fraction("flattening", flattening)
    return coordinates, flattening


def as_strength(power: Tensor, mean: Tensor) -> Tensor:
    """Return a strength given as a tensor; NaN if it lies outside [0, 1]."""
    (power,) = as_floats(power=power)
    if power.dim() != 0:
        raise ValueError(
            f"power must be a number or a tensor of shape (), got {tuple(power.shape)}; one "
            "strength holds for all rows, try power.mean()."
        )
    return only_between(power.detach().to(mean.device, mean.dtype), 1.0)
