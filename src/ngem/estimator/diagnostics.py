"""Diagnostics of a fit: used components, and gain over one Gaussian and over a linear model."""

from typing import Any

import numpy as np

from ..ensemble import GuardFit
from .prediction import Model
from .preprocessing import Table
from .targets import TargetUnits

#: Most rows to evaluate; more would not change the result visibly.
_ROWS = 20_000

#: A component is dead if its mean responsibility is below this.
_DEAD = 1e-3


def diagnose(model: Model, targets: TargetUnits, train: Table, judged: GuardFit) -> dict[str, Any]:
    """Return the diagnostics of a model as plain numbers.

    `effective_components` is exp of the mean entropy of a member's weights on training rows.
    `dead_components` lists the components with almost no responsibility there, counted through all
    members. The gains are the mean log density of held-out rows, minus that of one Gaussian for all
    rows, and minus that of a linear model with Gaussian noise. Both have the same wide densities
    beside them as the networks, so that no single row decides. They are in nats per row and do not
    depend on units. A value that cannot be computed is None.
    """
    train = _thin(train)
    entropy, resp = model.usage(train.x, train.y)
    usage = np.average(resp, axis=0, weights=train.weights).ravel()
    mean_entropy = np.average(entropy.mean(axis=1), weights=train.weights)
    return {
        "effective_components": _number(np.exp(mean_entropy)),
        "dead_components": np.flatnonzero(usage < _DEAD).tolist(),
        "gain_over_gaussian": _number(judged.networks - judged.gaussian),
        "gain_over_linear": _number(judged.networks - judged.linear),
        "target_location": model.targets.location.tolist(),
        "target_scale": model.targets.scale.tolist(),
        "nll_offset": targets.mean_offset(train),
    }


def _thin(table: Table) -> Table:
    """Return at most `_ROWS` rows of a table, evenly spaced."""
    rows = np.unique(np.linspace(0, len(table.x) - 1, min(len(table.x), _ROWS)).astype(int))
    return table.take(rows)


def _number(value: float | np.floating) -> float | None:
    """Return a finite number as a float, and anything else as None."""
    return float(value) if np.isfinite(value) else None
