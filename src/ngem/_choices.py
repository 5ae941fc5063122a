"""Choices by name, and the check that all of them share; neither JAX nor PyTorch is needed."""

from collections.abc import Iterable
from typing import TypeVar

Value = TypeVar("Value")

#: Coordinates of a scale in which its Fisher information can be taken. A network's raw output
#: stands for log(scale), nearly; the paper takes `scale` itself.
COORDINATES = ("scale", "log_scale")


def check_choice(what: str, value: Value, choices: Iterable[Value]) -> Value:
    """Return a choice by name, refusing one that does not exist."""
    choices = tuple(choices)
    if value not in choices:
        raise ValueError(
            f"{what} must be one of {', '.join(map(repr, choices))}, got {value!r}; check the "
            "spelling."
        )
    return value
