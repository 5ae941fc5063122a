"""Diagnostics of a fit: used components, and gain over one Gaussian and over a linear model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from .prediction import Model
from .preprocessing import Table

#: Most rows to evaluate; more would not change the result visibly.
_ROWS = 20_000

#: A component is dead if its mean responsibility is below this.
_DEAD = 1e-3


def diagnose(model: Model, train: Table, held_out: Table | None) -> dict[str, Any]:
    """Return the diagnostics of a model as plain numbers.

    `effective_components` is exp of the mean entropy of the weights on training rows.
    `dead_components` lists the components with almost no responsibility there. The gains are the
    mixture's mean log density minus that of one Gaussian for all rows, and minus that of a linear
    model with Gaussian noise. They are in nats per row, do not depend on units, and use validation
    rows if there are any. A value that cannot be computed is None.
    """
    rows = "training" if held_out is None else "validation"
    train = _thin(train)
    held_out = train if held_out is None else _thin(held_out)
    # One call for all rows: XLA then compiles one program instead of two.
    entropy, resp, log_prob = model.facts(
        *(np.concatenate([getattr(table, name) for table in (train, held_out)]) for name in "xy")
    )
    n_train = len(train.x)
    score = np.average(log_prob[n_train:], weights=held_out.weights)
    usage = np.average(resp[:n_train], axis=0, weights=train.weights)
    mean_entropy = np.average(entropy[:n_train], weights=train.weights)
    gaussian, linear = _baselines(model, train, held_out)
    return {
        "effective_components": _number(np.exp(mean_entropy)),
        "dead_components": np.flatnonzero(usage < _DEAD).tolist(),
        "gain_over_gaussian": _number(score - gaussian),
        "gain_over_linear": _number(score - linear),
        "gain_rows": rows,
        "target_location": model.targets.location.tolist(),
        "target_scale": model.targets.scale.tolist(),
        "nll_offset": model.targets.log_volume,
    }


def _baselines(model: Model, train: Table, held_out: Table) -> tuple[float, float]:
    """Return the mean log density of one Gaussian, and of a linear model with Gaussian noise."""
    floor = model.network.family.scale_floor
    inputs = [model.inputs.forward(table.x).astype(float) for table in (train, held_out)]
    design = [np.column_stack([np.ones(len(x)), x]) for x in inputs]
    targets = [model.targets.forward(table.y).astype(float) for table in (train, held_out)]
    constant = [matrix[:, :1] for matrix in design]
    weights = (train.weights, held_out.weights)
    gaussian = _linear_log_prob(constant, targets, weights, floor)
    # With fewer rows a linear model fits by chance, and the comparison is meaningless.
    enough = len(train.x) > 2 * design[0].shape[1]
    return gaussian, _linear_log_prob(design, targets, weights, floor) if enough else np.nan


def _linear_log_prob(
    design: Sequence[Float[np.ndarray, "_ _"]],
    targets: Sequence[Float[np.ndarray, "_ _"]],
    weights: Sequence[Float[np.ndarray, " _"] | None],
    floor: float,
) -> float:
    """Return the held-out mean log density of a linear model with Gaussian noise.

    Each argument but the last holds first the training rows, then the held-out rows.
    """
    root = np.sqrt(np.ones(len(design[0])) if weights[0] is None else weights[0])[:, None]
    slope = np.linalg.lstsq(root * design[0], root * targets[0], rcond=1e-6)[0]
    residuals = [y - x @ slope for x, y in zip(design, targets, strict=True)]
    dim = targets[0].shape[1]
    # The network's scales have a floor, so the noise of the linear model gets the same floor.
    covariance = (root * residuals[0]).T @ (root * residuals[0]) / np.sum(root**2)
    covariance = covariance + floor**2 * np.eye(dim)
    distance = np.sum(residuals[1] * np.linalg.solve(covariance, residuals[1].T).T, axis=1)
    log_det = np.linalg.slogdet(2 * np.pi * covariance)[1]
    return float(-0.5 * (np.average(distance, weights=weights[1]) + log_det))


def _thin(table: Table) -> Table:
    """Return at most `_ROWS` rows of a table, evenly spaced."""
    rows = np.unique(np.linspace(0, len(table.x) - 1, min(len(table.x), _ROWS)).astype(int))
    return table.take(rows)


def _number(value: float | np.floating) -> float | None:
    """Return a finite number as a float, and anything else as None."""
    return float(value) if np.isfinite(value) else None
