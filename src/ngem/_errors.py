"""Checks of plain values that a user hands in; an error says expected, got, try.

Neither JAX nor PyTorch is needed here. Checks of arrays that JAX may trace are in
`mixture/checks.py`, those of tensors in `torch/_checks.py`.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

Value = TypeVar("Value")


class DataError(RuntimeError):
    """A data file that is missing, damaged or cannot be fetched."""


def check_choice(what: str, value: Value, choices: Iterable[Value]) -> Value:
    """Return a choice by name, refusing one that does not exist."""
    choices = tuple(choices)
    if value not in choices:
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


def check_fraction(what: str, value: Any) -> Any:
    """Return a number or an array, refusing values outside [0, 1]."""
    if not np.all((np.asarray(value) >= 0) & (np.asarray(value) <= 1)):
        raise ValueError(
            f"{what} must lie between 0 and 1, got {describe(value)}; for a percentage divide by "
            "100."
        )
    return value


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
