"""Which curvature boosts a mixture best: the same grid for each, chosen by held-out rows."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..datasets import load_uci, uci_splits
from ..datasets.uci import SOURCES
from ..estimator.boosting_regressor import MixtureBoostingRegressor
from .objective_study import TASKS
from .store import Run, Unit, rounded

#: Curvatures that are complete-data Fisher informations; held-out rows choose between them.
NGEM = ("fisher", "em")

#: In place of a number of components or of a curvature: the one that held-out rows chose.
CHOSEN = "chosen"


class Problem(NamedTuple):
    """Rows for training, of which some are held out, and rows for the test."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def problem(name: str, seed: int) -> Problem:
    """Return a published split of a UCI set, or a draw of a generated task."""
    if name in SOURCES:
        x, y, _ = load_uci(name)
        train, test = uci_splits(name)[seed]
    else:
        data = TASKS[name].rows(seed)
        x, y, test = data.x, data.y, data.split.test
        train = np.concatenate([data.split.train, data.split.validation])
    y = y[:, 0] if y.shape[1] == 1 else y
    return Problem(x[train], y[train], x[test], y[test])


@dataclass(frozen=True)
class Settings:
    """The grid of the study.

    Attributes:
        datasets: UCI sets and generated tasks: "splits", how many splits or draws, and
            "components", numbers of components, each a run of its own.
        curvatures: Learning rates to choose from, by curvature.
        rates: Rates of weights and scales to choose from, relative to that of means.
        parameters: Parameters of the estimator that all runs have.
    """

    datasets: dict[str, dict[str, Any]]
    curvatures: dict[str, list[float]]
    rates: list[dict[str, float]]
    parameters: dict[str, Any]


def units(settings: Settings) -> list[Unit]:
    """Return one unit for each set, split, curvature and K.

    First numbers of components come first, then first splits: an interrupted study has all sets.
    Curvatures come last: it has all of them for a set, and runs at the same time do not compile the
    same programs.
    """
    sets = settings.datasets
    return [
        {
            "dataset": name,
            "curvature": curvature,
            "components": one["components"][rank],
            "seed": seed,
        }
        for rank in range(max(len(one["components"]) for one in sets.values()))
        for seed in range(max(one["splits"] for one in sets.values()))
        for name, one in sets.items()
        if seed < one["splits"] and rank < len(one["components"])
        for curvature in settings.curvatures
    ]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return every point of the grid, and test scores of the one that held-out rows chose."""
    rows = problem(unit["dataset"], unit["seed"])
    points = [
        {"learning_rate": rate, **others}
        for rate, others in itertools.product(
            settings.curvatures[unit["curvature"]], settings.rates
        )
    ]
    models = [
        MixtureBoostingRegressor(
            unit["components"],
            n_members=1,
            curvature=unit["curvature"],
            n_jobs=1,
            random_state=unit["seed"],
            **point,
            **settings.parameters,
        ).fit(rows.x, rows.y)
        for point in points
    ]
    grid = [
        {**point, "validation_nll": held_out_nll(model), "rounds": int(model.best_round_[0])}
        for point, model in zip(points, models, strict=True)
    ]
    best = min(range(len(grid)), key=lambda index: grid[index]["validation_nll"])
    return {**grid[best], **test_scores(models[best], rows), "grid": grid}


def held_out_nll(model: Any) -> float:
    """Return the mean NLL of the rows that an estimator held out, in the user's units."""
    return rounded(-float(np.nanmean(model.oof_log_prob_)))


def test_scores(model: Any, rows: Problem) -> dict[str, Any]:
    """Return the likelihood of the test rows, and their CRPS for a single target."""
    nll = -float(np.mean(model.log_prob(rows.x_test, rows.y_test)))
    if rows.y_test.ndim > 1:
        return {"nll": rounded(nll)}
    crps = float(np.mean(model.crps(rows.x_test, rows.y_test)))
    return {"nll": rounded(nll), "crps": rounded(crps)}


def derived(runs: Sequence[Run]) -> list[Run]:
    """Return runs in which held-out rows also chose K, the kind of Fisher information, or both."""
    by_kind = _choose(
        [run for run in runs if run["curvature"] in NGEM], {"curvature": "ngem"}, ("components",)
    )
    both = [*runs, *by_kind]
    return [*by_kind, *_choose(both, {"components": CHOSEN}, ("curvature",))]


def _choose(runs: Iterable[Run], change: Unit, kept: tuple[str, ...]) -> list[Run]:
    """Return the run that is best on held-out rows, of each set, seed and value of `kept`."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for one in runs:
        groups.setdefault(tuple(one[key] for key in ("dataset", "seed", *kept)), []).append(one)
    return [{**min(group, key=_validation_nll), **change} for group in groups.values()]


def _validation_nll(run: Run) -> float:
    return run["validation_nll"]
