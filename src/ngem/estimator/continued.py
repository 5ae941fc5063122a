"""Going on with a fitted model: its networks as a start, and how new rows differ from the old."""

import operator
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..families import get_family, is_family_name, order_columns
from ..nn import Guard, MixtureNetwork, average
from ..optimizers import get_optimizer
from ..streams import as_stream
from . import parameters
from .members import Job, standardized, train_members
from .prediction import Model
from .preprocessing import Inputs, Table
from .rules import is_integer
from .seeds import draw_seed
from .stream_fit import ToFit, read_stream
from .targets import TargetUnits, make_model, own_predictor, read_inside

#: A mean that moved by more than this many standard deviations is worth a warning, and a fraction
#: of rows outside the range of the training rows.
_SHIFT, _OUTSIDE = 0.5, 0.05

#: Standard errors of a mean by which it must have moved at least.
_ERRORS = 5.0

#: Names in a warning.
_NAMED = 5

#: Rate of `partial_fit`, in that of `fit`.
_SLOWER = 0.1


class DriftWarning(UserWarning):
    """New rows differ from those that fixed a model's scaling."""


def networks_of(model: Model) -> list[MixtureNetwork]:
    """Return the networks of a fitted model."""
    predictor = own_predictor(model)
    arrays, rest = eqx.partition(predictor.members, eqx.is_array)
    each = [
        jax.tree.map(operator.itemgetter(index), arrays) for index in range(predictor.n_members)
    ]
    return [eqx.combine(one, rest) for one in each]


def _settled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters to go on with: the strength of the natural gradient stays where it ended.

    Its schedule is for components that have no place yet.
    """
    objective = parameters.plan(settings, 1).resolved_objective
    power = settings["power"] if objective.schedule is None else objective.schedule.end
    dropout = 0.0 if settings["dropout"] == "auto" else settings["dropout"]
    return {**settings, "power": power, "dropout": dropout}


def known_units(estimator: Any) -> tuple[Inputs, TargetUnits]:
    """Return the units of a fitted estimator."""
    return estimator.model_.inputs, estimator._targets


def go_on_settings(estimator: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Return parameters to go on with, refusing those that the fitted networks cannot have."""
    fixed = estimator._fit_settings
    n_members = own_predictor(estimator.model_).n_members
    table = estimator.table_
    names = [None] * estimator.n_outputs_ if table is None else table.targets
    asked = order_columns(settings["family"], names)
    if is_family_name(asked) and get_family(asked).kind == get_family(fixed["family"]).kind:
        settings = {**settings, "family": fixed["family"]}  # with what targets have said of it
    known = {"n_members": n_members, "family": fixed["family"], "resolution": fixed["resolution"]}
    for name, value in known.items():
        if settings[name] != value:
            raise ValueError(
                f"{name} must stay {value!r} to go on with a fitted model, got {settings[name]!r}; "
                "set warm_start=False and call fit to start anew."
            )
    chosen = {name: fixed[name] for name in ("n_components", "covariance")}
    return _settled({**settings, **chosen})


def go_on(estimator: Any, X: Any, y: Any, n_epochs: int) -> None:
    """Train a fitted estimator on new rows; see `MDNRegressor.partial_fit`."""
    if not is_integer(n_epochs, 1):
        raise ValueError(f"n_epochs must be a positive integer, got {n_epochs!r}; try 1.")
    settings = go_on_settings(estimator, estimator.get_params(deep=False))
    given = _read(estimator, X, y, _pass_settings(settings, n_epochs))
    inputs, targets = known_units(estimator)
    rows = standardized(inputs, targets, given.table)
    report_drift(estimator, rows)
    start, callbacks = networks_of(estimator.model_), estimator._callbacks()
    job = Job(given.settings, given.seed, rows, given.held_out, None, callbacks, start)
    members = estimator._train(job, given.train or train_members)
    guard = _widened(own_predictor(estimator.model_).guard, rows)
    guard = guard if given.widen is None else given.widen(guard)
    network = average([member.result.network for member in members], guard)
    estimator.model_ = make_model(targets, network, inputs, estimator.resolution)
    more = estimator.stream_info_["rows"] if given.train is not None else len(rows.y)
    facts = estimator.diagnostics_
    estimator.diagnostics_ = {**facts, "training_rows": facts["training_rows"] + more}
    estimator.folds_ = estimator.oof_log_prob_ = None  # they say nothing of these networks


def _read(estimator: Any, X: Any, y: Any, settings: dict[str, Any]) -> ToFit:
    """Return new rows to train on, none of which are held out."""
    units, stream = known_units(estimator), as_stream(X, y)
    if stream is not None:
        return read_stream(estimator, stream, settings, units)
    table, ndim = estimator._read_table(X, y, n_outputs=estimator.n_outputs_)
    table = read_inside(parameters.named_family(settings), estimator._round(table))
    seed = draw_seed(settings["random_state"])
    nobody = [np.empty(0, int)] * own_predictor(estimator.model_).n_members
    return ToFit(settings, ndim, len(table.y), table, None, seed, nobody, table, units)


def report_drift(estimator: Any, rows: Table) -> None:
    """Keep how rows differ from those that fixed the scaling, and warn if they do."""
    guard, count = own_predictor(estimator.model_).guard, len(estimator.model_.inputs.fill)
    names = [f"x{index}" for index in range(count)]
    names = names if estimator.table_ is None else estimator.table_.inputs
    estimator.drift_ = measure_drift(guard, rows, names)
    warn_of_drift(estimator.drift_)


def _pass_settings(settings: Mapping[str, Any], n_epochs: int) -> dict[str, Any]:
    """Return the parameters of some passes over new rows, at a constant low learning rate."""
    usual = get_optimizer(settings["optimizer"]).learning_rate
    rate = usual if settings["learning_rate"] is None else settings["learning_rate"]
    return {
        **settings,
        "early_stopping": False,
        "learning_rate": None if rate is None else _SLOWER * float(rate),
        "learning_rate_schedule": "constant",
        "max_epochs": n_epochs,
        "checkpoint": None,
        "warmup": 0.0,
    }


def measure_drift(guard: Guard | None, rows: Table, names: Sequence[str]) -> dict[str, Any]:
    """Return how new rows differ from those that fixed the scaling.

    Shifts are differences of means in standard deviations of the old rows. Fractions of rows that
    lie outside the range of the old rows are None without a guard, which knows it.

    Args:
        guard: The guard of the fitted model, or None.
        rows: New rows, as networks read them.
        names: Names of the inputs, without indicators of gaps.
    """
    x = np.asarray(rows.x[:, : len(names)], np.float64)
    drift: dict[str, Any] = {
        "rows": len(x),
        "feature_shift": dict(zip(names, x.mean(axis=0).tolist(), strict=True)),
        "target_shift": np.asarray(rows.y, np.float64).mean(axis=0).tolist(),
        "features_outside": None,
        "targets_outside": None,
    }
    if guard is not None:
        low, high = np.asarray(guard.low), np.asarray(guard.high)
        reach = (np.asarray(guard.ceiling) - np.asarray(guard.floor)) / 4
        least, most = np.asarray(guard.floor) + reach, np.asarray(guard.ceiling) - reach
        drift["features_outside"] = float(np.mean(_outside(rows.x, low, high)))
        drift["targets_outside"] = float(np.mean(_outside(rows.y, least, most)))
    return drift


def _outside(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    margin = 1e-5 * (1 + np.abs(values))  # rounding in single precision
    return np.any((values < low - margin) | (values > high + margin), axis=1)


def warn_of_drift(drift: Mapping[str, Any]) -> None:
    """Warn if new rows differ so much that the fixed scaling does not fit them."""
    least = max(_SHIFT, _ERRORS / np.sqrt(drift["rows"]))
    shifts = {**drift["feature_shift"]}
    shifts |= {f"target {index}": one for index, one in enumerate(drift["target_shift"])}
    moved = [name for name in shifts if abs(shifts[name]) > least]
    moved.sort(key=lambda name: -abs(shifts[name]))
    told = [f"the mean of {name} moved by {shifts[name]:+.1f} deviations" for name in moved]
    told = told[:_NAMED] + ([f"those of {len(told) - _NAMED} more"] if len(told) > _NAMED else [])
    for what in ("features", "targets"):
        fraction = drift[f"{what}_outside"]
        if fraction is not None and fraction > _OUTSIDE:
            told.append(f"{fraction:.0%} of the rows have {what} outside the range of the fit")
    if told:
        warnings.warn(
            f"new rows should be like those of the fit, whose scaling stays, got others: "
            f"{'; '.join(told)}. Consider a new fit to all rows.",
            DriftWarning,
            stacklevel=3,
        )


def _widened(guard: Guard | None, rows: Table) -> Guard | None:
    """Return the guard with a range that also holds new rows."""
    if guard is None or not len(rows.x):
        return guard
    x, y = (np.asarray(part, np.float32) for part in (rows.x, rows.y))
    parts = {
        "low": jnp.minimum(guard.low, x.min(axis=0)),
        "high": jnp.maximum(guard.high, x.max(axis=0)),
        "floor": jnp.minimum(guard.floor, y.min(axis=0)),
        "ceiling": jnp.maximum(guard.ceiling, y.max(axis=0)),
    }
    return eqx.tree_at(
        lambda tree: tuple(getattr(tree, name) for name in parts), guard, tuple(parts.values())
    )
