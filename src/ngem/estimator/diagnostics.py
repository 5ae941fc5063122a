"""What a fit has found: how many components it uses, and what it gains over one Gaussian."""

from typing import Any

import numpy as np

from .prediction import Model
from .preprocessing import Table

#: Rows that are looked at; more would say the same.
_ROWS = 20_000

#: A component is dead where its mean responsibility is lower than this.
_DEAD = 1e-3


def diagnose(model: Model, train: Table, held_out: Table | None) -> dict[str, Any]:
    """Return plain numbers about a model, in standardised units where they have any.

    `effective_components` is exp of the mean entropy of the weights on training rows, and
    `dead_components` lists those that are responsible for almost nothing there. The gains are what
    the mixture's mean log density is above that of one Gaussian for all rows, and of a linear
    model with Gaussian noise, on validation rows where there are any: nats per row, which no units
    change. None stands for what cannot be told.
    """
    rows = "training" if held_out is None else "validation"
    train = _thin(train)
    held_out = train if held_out is None else _thin(held_out)
    # All rows at once: one program to compile, not one for many rows and one for few.
    entropy, resp, log_prob = model.facts(
        *(np.concatenate([getattr(table, name) for table in (train, held_out)]) for name in "xy")
    )
    seen = len(train.x)
    score = np.average(log_prob[seen:], weights=held_out.weights)
    usage = np.average(resp[:seen], axis=0, weights=train.weights)
    gaussian, linear = _baselines(model, train, held_out)
    return {
        "effective_components": _number(np.exp(np.average(entropy[:seen], weights=train.weights))),
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
    # With fewer rows than that a line fits by chance, and the comparison would say nothing.
    enough = len(train.x) > 2 * design[0].shape[1]
    return gaussian, _linear_log_prob(design, targets, weights, floor) if enough else np.nan


def _linear_log_prob(design, targets, weights, floor: float) -> float:
    """Return the mean log density on the second rows of the linear model of the first ones."""
    root = np.sqrt(np.ones(len(design[0])) if weights[0] is None else weights[0])[:, None]
    slope = np.linalg.lstsq(root * design[0], root * targets[0], rcond=1e-6)[0]
    residuals = [y - x @ slope for x, y in zip(design, targets, strict=True)]
    dim = targets[0].shape[1]
    # The network cannot be narrower than its floor; neither may what it is compared with.
    covariance = (root * residuals[0]).T @ (root * residuals[0]) / np.sum(root**2)
    covariance = covariance + floor**2 * np.eye(dim)
    distance = np.sum(residuals[1] * np.linalg.solve(covariance, residuals[1].T).T, axis=1)
    log_det = np.linalg.slogdet(2 * np.pi * covariance)[1]
    return float(-0.5 * (np.average(distance, weights=weights[1]) + log_det))


def _thin(table: Table) -> Table:
    """Return evenly spaced rows of a long table."""
    rows = np.unique(np.linspace(0, len(table.x) - 1, min(len(table.x), _ROWS)).astype(int))
    return table.take(rows)


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
