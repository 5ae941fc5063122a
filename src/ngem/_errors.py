"""Checks of plain values that a user hands in; an error says expected, got, try.

Neither JAX nor PyTorch is needed here. Checks of arrays that JAX may trace are in
`mixture/checks.py`, those of tensors in `torch/_checks.py`.
"""

import numbers
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

Value = TypeVar("Value")


class DataError(RuntimeError):
    """A data file that is missing, damaged or cannot be fetched."""


def check_choice(what: str, value: Value, choices: Iterable[Value]) -> Value:
    """Return a choice by name, refusing one that does not exist."""
    choices = tuple(choices)
    # Of one type first: an array compares element by element, and has no truth value.
    if not any(isinstance(value, type(choice)) and value == choice for choice in choices):
        raise ValueError(
            f"{what} must be one of {', '.join(map(repr, choices))}, got {value!r}; check the "
            "spelling."
        )
    return value


def check_not_negative(what: str, value: float, usual: float) -> float:
    """Return a number if it is at least zero."""
    if not value >= 0:
        raise ValueError(f"{what} must be at least 0, got {value}; try {usual:g}.")
    return value


def as_numbers(what: str, value: Any) -> np.ndarray:
    """Return real numbers as an array in double precision, refusing what holds none."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{what} must hold real numbers, got {type(value).__name__} that is no array of them; "
            "convert it with numpy.asarray(values, float) first."
        )
    return array.astype(np.float64)


def check_fraction(what: str, value: Any) -> Any:
    """Return a number or an array, refusing values outside [0, 1]."""
    numbers = as_numbers(what, value)
    if not np.all((numbers >= 0) & (numbers <= 1)):
        raise ValueError(
            f"{what} must lie between 0 and 1, got {describe(value)}; for a percentage divide by "
            "100."
        )
    return value


def check_probability(what: str, value: Any) -> float:
    """Return one number, refusing several and values outside [0, 1]."""
    if np.ndim(check_fraction(what, value)):
        raise ValueError(
            f"{what} must be one number, got an array of shape {np.shape(value)}; try 0.9."
        )
    return float(value)


def check_count(what: str, value: Any, low: int, example: int) -> int:
    """Return a whole number of at least `low`."""
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole or int(value) < low:
        raise ValueError(
            f"{what} must be a whole number of at least {low}, got {value!r}; try {example}."
        )
    return int(value)


def check_target_shape(
    name: str, got: tuple[int, ...], batch: tuple[int, ...], dim: int, with_axis: str
) -> bool:
    """Return whether targets lack their last axis, refusing those that do not fit a mixture.

    The one rule for the axes of targets, which `ngem.Mixture` states. Sizes never broadcast: a
    wrong shape would otherwise pair rows with the targets of other rows.

    Args:
        name: What the targets are called.
        got: Their shape.
        batch: Shape of the mixture's rows.
        dim: Target columns of the mixture.
        with_axis: How to write the targets with one more axis at their end.
    """
    if dim == 1 and got == batch:
        return True
    if got[max(0, len(got) - len(batch) - 1) :] == (*batch, dim):
        return False
    hint = (
        "give one target per row of the mixture's parameters, and put more axes, for several "
        "targets per row, first"
    )
    if got[-1:] != (dim,) and dim > 1:
        hint = f"for a mixture over {dim} target columns pass targets with {dim} columns"
    elif dim == 1 and got[max(0, len(got) - len(batch)) :] == batch:
        hint = f"for a mixture over 1 target column pass {with_axis}"
    raise ValueError(f"{name} must have shape {(*batch, dim)}, got {got}; {hint}.")


def check_not_empty(shape: tuple[int, ...]) -> None:
    """Refuse targets without rows, of which there is no mean loss."""
    if 0 in shape:
        raise ValueError(
            f"the batch must hold at least one row, got targets of shape {shape}; skip empty "
            "batches, since the mean of no losses is not a number."
        )


def check_finite(name: str, value: Any) -> None:
    """Refuse NaN and infinity, naming the first row and column that holds one."""
    array = np.asarray(value)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        place = f"row {bad[0][0]}" + (f", column {bad[0][1]}" if array.ndim > 1 else "")
        raise ValueError(
            f"{name} must hold finite numbers, got {array[tuple(bad[0])]} at {place} ({len(bad)} "
            "such values in all); drop or impute those rows."
        )


def describe(value: Any) -> str:
    """Return a number as it is, and an array as its range."""
    array = np.asarray(value)
    return repr(array.item()) if array.size == 1 else f"values from {array.min()} to {array.max()}"
