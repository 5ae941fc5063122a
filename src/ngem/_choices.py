"""Choices by name, and the check that all of them share; neither JAX nor PyTorch is needed."""

from collections.abc import Iterable
from typing import TypeVar

Value = TypeVar("Value")

#: Coordinates of a scale in which its Fisher information can be taken. The paper takes the scale
#: itself. In its logarithm, nearly a network's raw output, scales move fastest where small;
#: in the variance slowest, so that components find their places before they narrow. Above one,
#: "variance" goes on as the logarithm: there is nothing to wait for, and its square has no bound.
COORDINATES = ("scale", "log_scale", "variance")


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
