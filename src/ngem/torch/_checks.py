"""Checks of the tensors and settings that a user passes: expected, got, try.

Tensors are checked by shape and dtype only. A check of values would wait for the device in every
step, so a scale that is not positive gives a loss that is not finite, never a plausible number.
"""

import torch
from torch import Tensor

from .._defaults import COORDINATE_CHOICES
from .._errors import check_choice as check_choice

_ONE_DTYPE = ({torch.float32}, {torch.float64})

REDUCTIONS = ("mean", "sum", "none")


def as_floats(**tensors: Tensor) -> list[Tensor]:
    """Return the tensors in one floating dtype, at least single precision."""
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


def check_shapes(logits: Tensor, mean: Tensor, scale: Tensor, y: Tensor) -> tuple[int, ...] | None:
    """Return the shape of the rows, or None if all tensors have them already."""
    weights, means, targets = logits.shape, mean.shape, y.shape
    if (
        scale.shape == means
        and means[:-1] == weights
        and targets[:-1] == weights[:-1]
        and targets[-1:] == means[-1:]
        and mean.numel()
    ):
        return None
    check_mixture(logits, mean, scale)
    rows = check_target(mean, y)
    return None if rows == weights[:-1] == targets[:-1] else rows


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


def check_target(mean: Tensor, y: Tensor) -> tuple[int, ...]:
    """Return the shape of the rows, refusing targets that do not match the mixture."""
    batch, dim, got = tuple(mean.shape[:-2]), mean.shape[-1], tuple(y.shape)
    if not got or got[-1] != dim:
        hint = "y.unsqueeze(-1)" if dim == 1 else f"targets with {dim} columns"
        raise ValueError(
            f"y must have shape {(*batch, dim)}, got {got}; for a mixture over {dim} target "
            f"column{'s' if dim > 1 else ''} pass {hint}."
        )
    rows = got[:-1] if got[:-1] == batch else _broadcast(batch, got, dim)
    if 0 in rows:
        raise ValueError(
            f"the batch must hold at least one row, got shapes {(*batch, dim)} and {got}; skip "
            "empty batches, since the mean of no losses is not a number."
        )
    return rows


def _broadcast(batch: tuple[int, ...], got: tuple[int, ...], dim: int) -> tuple[int, ...]:
    try:
        return tuple(torch.broadcast_shapes(batch, got[:-1]))
    except RuntimeError:
        raise ValueError(
            f"y must have shape {(*batch, dim)}, got {got}; give one target per row of the "
            "mixture's parameters."
        ) from None


def check_weights(rows: tuple[int, ...], weights: Tensor) -> None:
    """Refuse sample weights that do not match the rows."""
    if tuple(weights.shape) != rows:
        raise ValueError(
            f"weights must have one entry per row, shape {rows}, got {tuple(weights.shape)}; try "
            f"weights.expand{rows}."
        )


def check_one_dimensional(what: str, mean: Tensor) -> None:
    """Refuse a univariate functional of a multivariate mixture."""
    if mean.shape[-1] != 1:
        raise ValueError(
            f"{what} needs a one-dimensional mixture, got mean of shape {tuple(mean.shape)} with "
            f"{mean.shape[-1]} target columns; pass one column, such as mean[..., :1] and "
            "scale[..., :1]."
        )


def check_fraction(what: str, value: float) -> float:
    """Return a number, refusing one outside [0, 1].

    `_errors.check_fraction` also takes arrays, but is slow and cannot be compiled.
    """
    if not 0 <= value <= 1:
        raise ValueError(
            f"{what} must lie between 0 and 1, got {value!r}; for a percentage divide by 100."
        )
    return value


def check_settings(
    coordinates: str | None, flattening: float | None
) -> tuple[str | None, float | None]:
    """Return the settings of a preconditioner; None stands for its own."""
    if coordinates is not None:
        check_choice("coordinates", coordinates, COORDINATE_CHOICES)
    if flattening is not None:
        flattening = check_fraction("flattening", float(flattening))
    return coordinates, flattening


def check_scalar(power: Tensor) -> Tensor:
    """Return a strength given as a tensor, refusing more than one number."""
    if power.dim() != 0:
        raise ValueError(
            f"power must be a number or a tensor of shape (), got {tuple(power.shape)}; one "
            "strength holds for all rows, try power.mean()."
        )
    return power
