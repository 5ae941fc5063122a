"""Nine UCI sets on their published splits, with the estimator as users have it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets import load_uci, uci_splits
from ..estimator.regressor import MDNRegressor
from .store import Unit, rounded


@dataclass(frozen=True)
class Settings:
    """Which estimators are fitted to which sets.

    Attributes:
        datasets: Names of UCI sets with one target.
        objectives: Parameters of `MDNRegressor` that differ from its defaults, by a method's name.
        published: The best NLL that others have published for neural methods, by set.
        splits: How many of the published splits to use, by set.
        max_epochs: Largest number of epochs; 0 is the estimator's default.
    """

    datasets: list[str]
    objectives: dict[str, dict[str, Any]]
    published: dict[str, float]
    splits: dict[str, int]
    max_epochs: int


def units(settings: Settings) -> list[Unit]:
    """Return one unit for each set, method and split; all sets of a split come first."""
    return [
        {"dataset": name, "objective": objective, "seed": split}
        for split in range(max(settings.splits.values()))
        for name in settings.datasets
        for objective in settings.objectives
        if split < settings.splits[name]
    ]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return the test scores of a method on a split, in the set's units.

    Nothing is chosen: the parameters are the estimator's defaults, but for those of the method.
    """
    table, split = load_uci(unit["dataset"]), uci_splits(unit["dataset"])[unit["seed"]]
    model = MDNRegressor(
        **settings.objectives[unit["objective"]],
        max_epochs=settings.max_epochs or None,
        random_state=unit["seed"],
    ).fit(table.x[split.train], table.y[split.train, 0])
    x, y = table.x[split.test], table.y[split.test, 0]
    crps, depth = model.crps(x, y), np.abs(model.pit(x, y) - 0.5)
    nll = -float(np.mean(model.log_prob(x, y)))
    measured = {
        "nll": nll,
        "against_published": nll - settings.published[unit["dataset"]],
        "rmse": float(np.sqrt(np.mean((model.predict(x) - y) ** 2))),
        "crps": float(np.mean(crps)),
        "largest_crps": float(np.max(crps) / np.ptp(table.y)),
        "coverage50": float(np.mean(depth <= 0.25)),
        "coverage90": float(np.mean(depth <= 0.45)),
    }
    return {
        **{name: rounded(value) for name, value in measured.items()},
        "epochs": model.n_iter_,
        "skipped": model.diagnostics_["skipped_steps"],
    }
