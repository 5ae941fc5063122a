"""Boosted mixtures: time to a likelihood; a round, and predictions, beside LightGBM's own."""

import contextlib
import itertools
import time
from dataclasses import replace
from typing import Any

import numpy as np

from ..boosting import (
    Curvature,
    Forest,
    Outputs,
    Plan,
    Rows,
    Team,
    TreeSettings,
    boost,
    import_lightgbm,
    marginal_start,
    newton,
)
from ..estimator import boosting_parameters as parameters
from ..estimator.boosting_regressor import MixtureBoostingRegressor
from ..families import DiagonalGaussian
from .ours import noise
from .peers import table
from .timing import Turn, seconds


class _Reached(Exception):
    """Raised to stop boosting when the goal is reached."""


def _quick_plan(components: int, rounds: int) -> Plan:
    """Return a plan of one member and one thread, with steps that are soon as good as a peer.

    The estimator's own are a third of these: they need more rounds and end lower.
    """
    quick = MixtureBoostingRegressor(
        components, learning_rate=0.3, weight_rate=1.0, max_rounds=rounds
    )
    return parameters.plan(quick.get_params(deep=False), 1, 1, Team())


def reach(*, data: str, rows: int | None = None, epochs: int | None = None) -> Turn:
    """Return a turn that boosts one mixture until its validation NLL reaches `goal`.

    It gives seconds with binning and start, None if the goal was not reached, and the lowest NLL.
    """
    task, seeds = table(data, rows), itertools.count()
    plan = _quick_plan(5, epochs or 2000)

    def turn(goal: float) -> tuple[float | None, float]:
        started, seed = time.perf_counter(), next(seeds)
        lowest, reached = np.inf, None

        def report(number: int, train_nll: float, validation_nll: float, best: float) -> None:
            nonlocal lowest, reached
            lowest = min(lowest, best)
            if lowest <= goal:
                reached = time.perf_counter() - started
                raise _Reached

        train = _binned(plan.trees, task.x, task.y)
        held_out = _binned(plan.trees, task.x_validation, task.y_validation, train.binned)
        rng = np.random.default_rng(seed)
        start = marginal_start(plan.outputs, task.y, train.weights, rng)
        with contextlib.suppress(_Reached):
            boost(plan, train, held_out, start, seed, report)
        return reached, float(lowest)

    return turn


def _binned(trees: TreeSettings, x: np.ndarray, y: np.ndarray, like: Any = None) -> Rows:
    targets = np.ascontiguousarray(y.T.astype(np.float32))
    return Rows(trees.bin_rows(x, [], 1, like), targets, np.ones(len(y), np.float32))


def our_round(*, rows: int, features: int, components: int, rounds: int) -> Turn:
    """Return a turn of some rounds of a boosted mixture: 3 trees a component, as in a fit."""
    x, y = noise(rows, features, 1)
    outputs = Outputs(components, 1, DiagonalGaussian(scale_floor=1e-3))
    train = _binned(TreeSettings(), x, y)
    start = marginal_start(outputs, y, train.weights, np.random.default_rng(0))
    train.binned.set_init_score(np.repeat(start, rows))
    settings = TreeSettings().to_lightgbm(outputs.num_raw, x.shape, 0, 1)
    booster = import_lightgbm().Booster(settings, train.binned)

    def objective(raw: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
        single = raw.T.astype(np.float32)
        step = newton(outputs, Curvature("em"), single, train.y, train.weights)
        return np.asarray(step.grad).T, np.asarray(step.curvature).T

    return _rounds(lambda: booster.update(fobj=objective), rounds)


def multiclass_round(*, rows: int, features: int, components: int, rounds: int) -> Turn:
    """Return a turn of some rounds of LightGBM's multiclass objective with as many trees."""
    x, y = noise(rows, features, 1)
    classes = 3 * components
    labels = np.argsort(np.argsort(y[:, 0])) * classes // rows
    settings = TreeSettings().to_lightgbm(classes, x.shape, 0, 1) | {"objective": "multiclass"}
    lightgbm = import_lightgbm()
    booster = lightgbm.Booster(settings, lightgbm.Dataset(x, labels, params=settings))
    return _rounds(booster.update, rounds)


def our_evaluation(*, rows: int, features: int, components: int, rounds: int) -> Turn:
    """Return a turn that takes rows through trees as predictions do."""
    forest, x = _forest(rows, features, components, rounds)
    return lambda: seconds(lambda: forest.raw(x))


def lightgbm_evaluation(*, rows: int, features: int, components: int, rounds: int) -> Turn:
    """Return a turn that takes the same rows through the same trees by LightGBM's own call."""
    forest, x = _forest(rows, features, components, rounds)
    return lambda: seconds(lambda: forest.booster.predict(x, raw_score=True, num_threads=1))


def _forest(rows: int, features: int, components: int, rounds: int) -> tuple[Forest, np.ndarray]:
    """Return trees of the default size, grown from a few rows of noise, and all rows."""
    x, y = noise(rows, features, 1)
    plan, few = _quick_plan(components, rounds), slice(0, 5000)
    train = _binned(plan.trees, x[few], y[few])
    start = marginal_start(plan.outputs, y[few], train.weights, np.random.default_rng(0))
    return boost(replace(plan, patience=None), train, None, start, 0).forest, x


def _rounds(update: Any, rounds: int) -> Turn:
    def work() -> None:
        for _ in range(rounds):
            update()

    update()
    return lambda: seconds(work) / rounds
