"""Families on tables whose targets are counts, amounts with zeros, shares, times or directions.

Boosted mixtures of one family against those of Gaussians on the same rows, and NGBoost's matching
distribution where it has one. The score is the log probability of what was observed: of a count, or
of the values that round to a target where `resolution` says so, for every method.
"""

import csv
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ..datasets import table_path
from ..estimator.boosting_regressor import MixtureBoostingRegressor
from ..families import get_family
from .store import Unit, rounded

_ABSENT = "ngboost is not installed; try pip install 'ngem[peers]'."


@dataclass(frozen=True)
class Settings:
    """Which families are fitted to which tables.

    Attributes:
        tables: By name: "file", "target", "drop" (columns that tell the target, or nothing),
            "family", and if need be "second" (another family), "ngboost" (its distribution),
            "resolution" (of densities), "event" (a column that is 1 where a time is not censored).
        splits: Random splits of each table.
        train_rows: Training rows at most.
        test_rows: Test rows at most.
        n_components: Components of each mixture.
        n_members: Models that are averaged.
        max_rounds: Rounds at most.
        patience: Rounds without improvement before stopping.
    """

    tables: dict[str, dict[str, Any]]
    splits: int
    train_rows: int
    test_rows: int
    n_components: int
    n_members: int
    max_rounds: int
    patience: int


class Rows(NamedTuple):
    """Features, targets and upper ends of censored targets."""

    x: np.ndarray
    y: np.ndarray
    upper: np.ndarray | None

    def take(self, index: np.ndarray) -> "Rows":
        """Return some of the rows."""
        upper = None if self.upper is None else self.upper[index]
        return Rows(self.x[index], self.y[index], upper)

    @property
    def ends(self) -> dict[str, Any]:
        """What estimators are told of censored targets."""
        return {} if self.upper is None else {"upper": self.upper}


def units(settings: Settings) -> list[Unit]:
    """Return one unit for each table, method and split."""
    return [
        {"dataset": name, "method": method, "seed": seed}
        for name, table in settings.tables.items()
        for method in _methods(table)
        for seed in range(settings.splits)
    ]


def _methods(table: Mapping[str, Any]) -> list[str]:
    return ["gaussian", *(name for name in ("family", "second", "ngboost") if name in table)]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return test scores of one method on one split."""
    table = settings.tables[unit["dataset"]]
    rows = read(table)
    order = np.random.default_rng(unit["seed"]).permutation(len(rows.y))
    train = rows.take(order[: min(settings.train_rows, int(0.7 * len(order)))])
    test = rows.take(order[-min(settings.test_rows, int(0.3 * len(order))) :])
    if unit["method"] == "ngboost":
        return _run_ngboost(settings, table, train, test, unit["seed"])
    family = "gaussian" if unit["method"] == "gaussian" else table[unit["method"]]
    model = MixtureBoostingRegressor(
        settings.n_components,
        n_members=settings.n_members,
        family=family,
        resolution=None if _is_exact(family) else table.get("resolution"),
        max_rounds=settings.max_rounds,
        patience=settings.patience,
        validation_fraction=0.2,
        random_state=unit["seed"],
        n_jobs=1,
    ).fit(train.x, train.y, **train.ends)
    log_prob = model.log_prob(test.x, test.y, **test.ends)
    if get_family(family).is_discrete or "resolution" not in table:
        offset = 0.0
    else:
        offset = float(np.log(table["resolution"]))
    return {
        "nll": rounded(-float(np.mean(log_prob)) - offset),
        "rounds": model.n_iter_,
    }


def _is_exact(family: str) -> bool:
    """Return whether a family takes no intervals, or needs none."""
    return not get_family(family).takes_intervals


def _run_ngboost(
    settings: Settings, table: Mapping[str, Any], train: Rows, test: Rows, seed: int
) -> dict[str, Any]:
    """Return the score of NGBoost with the same rows held out for stopping."""
    if importlib.util.find_spec("ngboost") is None:
        return {"absent": _ABSENT}
    order = np.random.default_rng(seed).permutation(len(train.y))
    stop, rest = np.split(order, [len(order) // 5])
    # Its trees take no gaps.
    middle = np.nanmedian(train.x, axis=0)
    fill = lambda x: np.where(np.isnan(x), middle, x)  # noqa: E731
    model = import_module("ngboost").NGBRegressor(
        Dist=getattr(import_module("ngboost.distns"), table["ngboost"]),
        n_estimators=settings.max_rounds * 2,
        learning_rate=0.05,
        random_state=seed,
        verbose=False,
    )
    model.fit(
        fill(train.x[rest]),
        train.y[rest],
        X_val=fill(train.x[stop]),
        Y_val=train.y[stop],
        early_stopping_rounds=settings.patience,
    )
    best = int(np.argmin(model.evals_result["val"]["LOGSCORE"])) + 1
    law = model.pred_dist(fill(test.x), max_iter=best)
    is_mass = hasattr(law.dist, "logpmf")
    log_prob = law.dist.logpmf if is_mass else law.dist.logpdf
    offset = 0.0 if is_mass or "resolution" not in table else float(np.log(table["resolution"]))
    return {"nll": rounded(-float(np.mean(log_prob(test.y))) - offset), "rounds": best}


def read(table: Mapping[str, Any]) -> Rows:
    """Return the rows of a table; texts become codes, gaps NaN."""
    with table_path(table["file"]).open(newline="") as file:
        records = list(csv.DictReader(file))
    unused = {"rownames", "", table["target"], table.get("event"), *table.get("drop", [])}
    names = [name for name in records[0] if name not in unused]
    x = np.column_stack([_codes([record[name] for record in records]) for name in names])
    y = _codes([record[table["target"]] for record in records])
    upper = None
    if "event" in table:
        seen = _codes([record[table["event"]] for record in records])
        upper = np.where(seen == 1, y, np.inf)
    return Rows(x, y, upper).take(np.flatnonzero(~np.isnan(y)))


def _codes(texts: list[str]) -> np.ndarray:
    """Return numbers as they are, and other texts by their order; NaN for gaps."""
    gaps = np.array([text in ("", "NA") for text in texts])
    try:
        return np.array([np.nan if text in ("", "NA") else float(text) for text in texts])
    except ValueError:
        codes = np.unique(texts, return_inverse=True)[1].astype(float)
        return np.where(gaps, np.nan, codes)
