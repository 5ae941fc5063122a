"""Rules for parameters: what a value may be, in code and in words."""

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..families import FAMILY_NAMES, is_family_name


class Rule(NamedTuple):
    """A test that raises for no value, and the words for what passes it."""

    test: Callable[[Any], bool]
    expected: str
    example: Any


def is_integer(value: Any, low: int) -> bool:
    """Return whether a value is an integer of at least `low`."""
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return is_whole and low <= int(value) < 2**31


def is_number(value: Any, low: float, high: float) -> bool:
    """Return whether a value is a number from `low` to `high`."""
    is_real = isinstance(value, int | float | np.integer | np.floating)
    return is_real and not isinstance(value, bool) and bool(low <= value <= high)


def integer(example: int, low: int = 1) -> Rule:
    """Return the rule of an integer."""
    return Rule(lambda v: is_integer(v, low), f"an integer of at least {low}", example)


def number(low: float, high: float, expected: str, example: float) -> Rule:
    """Return the rule of a number in an interval."""
    return Rule(lambda v: is_number(v, low, high), expected, example)


def flag() -> Rule:
    """Return the rule of a boolean."""
    return Rule(lambda v: isinstance(v, bool | np.bool_), "True or False", True)


def choice(choices: Any, *kinds: type, otherwise: str = "") -> Rule:
    """Return the rule of one of some names, or an object of some kinds."""
    names = tuple(choices)
    expected = f"one of {', '.join(map(repr, names))}{otherwise}"
    return Rule(
        lambda v: isinstance(v, kinds) or (isinstance(v, str) and v in names), expected, names[0]
    )


def optional(rule: Rule) -> Rule:
    """Return a rule that None passes too."""
    return Rule(lambda v: v is None or rule.test(v), f"None or {rule.expected}", None)


# Open ends of intervals: the least positive number, and the greatest below one.
TINY, ALMOST = float(np.finfo(np.float32).tiny), 1 - float(np.finfo(np.float32).eps)
POSITIVE = (TINY, 1e30, "a positive number")

#: Stands for a family that held-out rows choose.
AUTO = "auto"

_FAMILIES = ", ".join(map(repr, FAMILY_NAMES))


#: Rules that several estimators share.
SHARED: dict[str, Rule] = {
    "n_components": integer(5),
    "n_members": integer(5),
    "family": Rule(
        lambda v: is_family_name(v) or (isinstance(v, str) and v == AUTO),
        f"one of {_FAMILIES}, with its options, one for each target column, or {AUTO!r}",
        FAMILY_NAMES[0],
    ),
    "early_stopping": flag(),
    "validation_fraction": number(TINY, ALMOST, "a number between 0 and 1", 0.1),
    "scale_floor": number(*POSITIVE, 1e-4),
    "guard": flag(),
    "resolution": optional(number(*POSITIVE, 1.0)),
    "callbacks": Rule(
        lambda v: isinstance(v, Sequence) and all(map(callable, v)), "a sequence of callables", ()
    ),
    "random_state": Rule(lambda v: True, "anything that scikit-learn takes", None),
    "verbose": Rule(
        lambda v: isinstance(v, bool | np.bool_) or is_integer(v, 0), "an integer of at least 0", 0
    ),
}


def check_rules(settings: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Refuse a parameter that breaks its rule, saying what it may be."""
    for name, value in settings.items():
        rule = rules[name]
        if not rule.test(value):
            raise ValueError(
                f"{name} must be {rule.expected}, got {value!r}; for example {name}="
                f"{rule.example!r}."
            )


def plain_value(value: Any) -> Any:
    """Return a parameter as JSON can hold it: lists and Python's own numbers."""
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        return [plain_value(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value
