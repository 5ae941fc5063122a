"""What each parameter of the boosted estimator may be, and the objects that it stands for."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._machine import available_cores
from ..boosting import CURVATURES, Curvature, Outputs, Plan, Team, TreeSettings
from ..families import AbstractFamily, get_family
from .rules import (
    POSITIVE,
    SHARED,
    TINY,
    Rule,
    check_rules,
    choice,
    integer,
    is_integer,
    number,
    optional,
    plain_value,
)

#: Parameters that say how to run rather than what to do. A file never holds them.
TRANSIENT = {"callbacks": (), "n_jobs": None, "random_state": None, "verbose": 0}

#: Leaves of a tree at most. LightGBM's SHAP values recurse as deep as a tree may be.
_MOST_LEAVES = 4096

#: From so many rows on, threads of LightGBM gain more than they cost.
_MANY_ROWS = 20_000

#: What None may become, the first one where held-out rows cannot choose.
CHOICES: dict[str, tuple[Any, ...]] = {"n_components": (5, 3), "weight_rate": (0.1, 1.0)}

_FRACTION = (TINY, 1.0, "a number above 0 and at most 1")
_NOT_NEGATIVE = (0.0, 1e30, "a number of at least 0")


def _is_columns(value: Any) -> bool:
    if isinstance(value, str):
        return value == "auto"
    listed = isinstance(value, Sequence | np.ndarray)
    return listed and all(isinstance(one, str) or is_integer(one, -(2**31)) for one in value)


RULES: dict[str, Rule] = {
    **SHARED,
    "n_components": optional(integer(5)),
    "curvature": choice(CURVATURES),
    "learning_rate": number(*_FRACTION, 0.05),
    "max_rounds": integer(2000),
    "num_leaves": Rule(
        lambda v: is_integer(v, 2) and v <= _MOST_LEAVES, f"an integer from 2 to {_MOST_LEAVES}", 31
    ),
    "min_rows_in_leaf": integer(20),
    "l2": number(*_NOT_NEGATIVE, 1.0),
    "damping": number(*_NOT_NEGATIVE, 1e-3),
    "weight_rate": optional(number(*_FRACTION, 0.3)),
    "scale_rate": number(*_FRACTION, 0.2),
    "row_fraction": number(*_FRACTION, 0.8),
    "column_fraction": number(*_FRACTION, 0.8),
    "max_bins": Rule(lambda v: is_integer(v, 2) and v <= 65_535, "an integer from 2 to 65535", 255),
    "patience": integer(50),
    "scale_floor": number(*POSITIVE, 1e-3),
    "categorical_features": Rule(_is_columns, "'auto' or names or numbers of columns", "auto"),
    "n_jobs": optional(
        Rule(lambda v: v == -1 or is_integer(v, 1), "-1 or an integer of at least 1", 1)
    ),
}


def check(settings: Mapping[str, Any]) -> None:
    """Refuse a parameter that no fit could use, saying what it may be."""
    check_rules(settings, RULES)


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as JSON can hold them."""
    return {name: plain_value(value) for name, value in settings.items() if name not in TRANSIENT}


def resolve(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with what None stands for where held-out rows have no choice."""
    return {**settings, **kinds(settings)[0]}


def kinds(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what held-out rows choose from: the first choices, and each other one by itself.

    With one component there are no weights, and nothing to choose for them.
    """
    given = {name: settings[name] for name in CHOICES}
    first = {name: CHOICES[name][0] if one is None else one for name, one in given.items()}
    open_ones = [name for name in CHOICES if given[name] is None and first["n_components"] > 1]
    others = [{**first, name: one} for name in open_ones for one in CHOICES[name][1:]]
    return [first, *others]


def family(settings: Mapping[str, Any]) -> AbstractFamily:
    """Return the components' distribution, in the user's units."""
    return get_family(settings["family"], scale_floor=float(settings["scale_floor"]))


def outputs(settings: Mapping[str, Any], dim: int) -> Outputs:
    """Return what the raw outputs stand for."""
    return Outputs(int(settings["n_components"]), dim, family(settings).base)


def threads(settings: Mapping[str, Any], n_members: int, n_rows: int) -> int:
    """Return the threads of each member: several only where there is one member of many rows."""
    return cores(settings) if n_members == 1 and n_rows >= _MANY_ROWS else 1


def cores(settings: Mapping[str, Any]) -> int:
    """Return how many cores to use."""
    asked = settings["n_jobs"]
    return available_cores() if asked in (None, -1) else int(asked)


def trees(settings: Mapping[str, Any]) -> TreeSettings:
    """Return how trees are grown."""
    return TreeSettings(
        learning_rate=float(settings["learning_rate"]),
        num_leaves=int(settings["num_leaves"]),
        min_rows_in_leaf=int(settings["min_rows_in_leaf"]),
        l2=float(settings["l2"]),
        row_fraction=float(settings["row_fraction"]),
        column_fraction=float(settings["column_fraction"]),
        max_bins=int(settings["max_bins"]),
    )


def plan(settings: Mapping[str, Any], dim: int, threads: int, team: Team) -> Plan:
    """Return how to boost.

    Raises:
        ValueError: If several processes cannot boost like this.
    """
    if settings["curvature"] == "scaled" and team.n_processes > 1:
        raise ValueError(
            "curvature must not be 'scaled' with several processes, whose rows have other units, "
            "got 'scaled'; try 'em', or one process."
        )
    return Plan(
        outputs(settings, dim),
        Curvature(
            settings["curvature"],
            float(settings["damping"]),
            float(settings["weight_rate"]),
            float(settings["scale_rate"]),
        ),
        trees(settings),
        max_rounds=int(settings["max_rounds"]),
        patience=int(settings["patience"]) if settings["early_stopping"] else None,
        threads=threads,
        team=team,
    )
