"""Families on tables whose targets are counts, amounts with zeros, shares, times or directions.

Boosted mixtures of one family against those of Gaussians on the same rows, and the matching
distributions of NGBoost and LightGBMLSS where they have one. The score is the log probability of
what was observed: of a count, or of the values that round to a target where `resolution` says so,
for every method.
"""

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets import table_path
from ..estimator.boosting_regressor import MixtureBoostingRegressor
from ..families import get_family
from .family_peers import PACKAGES, Limits, Rows, log_step, run_peer
from .store import Unit, rounded


@dataclass(frozen=True)
class Settings:
    """Which families are fitted to which tables.

    Attributes:
        tables: By name: "file", "target" (one column or several), "drop" (columns that tell the
            target, or nothing), "family", and if need be "second" (another family), "ngboost" and
            "lightgbmlss" (their distributions), "resolution" (of densities), "event" (a column that
            is 1 where a time is not censored), "shift" (added to the target), "names" (of the
            columns of a file that has none).
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


def units(settings: Settings) -> list[Unit]:
    """Return one unit for each table, method and split."""
    return [
        {"dataset": name, "method": method, "seed": seed}
        for name, table in settings.tables.items()
        for method in _methods(table)
        for seed in range(settings.splits)
    ]


def _methods(table: Mapping[str, Any]) -> list[str]:
    return ["gaussian", *(name for name in ("family", "second", *PACKAGES) if name in table)]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return test scores of one method on one split."""
    table = settings.tables[unit["dataset"]]
    rows = read(table)
    order = np.random.default_rng(unit["seed"]).permutation(len(rows.y))
    train = rows.take(order[: min(settings.train_rows, int(0.7 * len(order)))])
    test = rows.take(order[-min(settings.test_rows, int(0.3 * len(order))) :])
    if unit["method"] in PACKAGES:
        limits = Limits(settings.max_rounds, settings.patience)
        return run_peer(unit["method"], table, train, test, limits, unit["seed"])
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
    # Of intervals, our log densities are mean ones over an interval.
    offset = 0.0 if _is_exact(family) else log_step(table, test.y)
    return {"nll": rounded(-float(np.mean(log_prob + offset))), "rounds": model.n_iter_}


def _is_exact(family: Any) -> bool:
    """Return whether a family takes no intervals, or needs none."""
    return not get_family(family).takes_intervals


def read(table: Mapping[str, Any]) -> Rows:
    """Return the rows of a table; texts become codes, gaps NaN."""
    path = table_path(table["file"])
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", newline="") as file:
        records = list(csv.DictReader(file, table.get("names")))
    targets = table["target"] if isinstance(table["target"], list) else [table["target"]]
    unused = {"rownames", "", *targets, table.get("event"), *table.get("drop", [])}
    names = [name for name in records[0] if name not in unused]
    x = np.column_stack([_codes([record[name] for record in records]) for name in names])
    y = np.column_stack([_codes([record[name] for record in records]) for name in targets])
    y = y + table.get("shift", 0.0)
    known = np.flatnonzero(~np.isnan(y).any(axis=1))
    upper = None
    if "event" in table:
        seen = _codes([record[table["event"]] for record in records])
        upper = np.where(seen == 1, y[:, 0], np.inf)
    return Rows(x, y if len(targets) > 1 else y[:, 0], upper).take(known)


def _codes(texts: list[str]) -> np.ndarray:
    """Return numbers as they are, and other texts by their order; NaN for gaps."""
    gaps = np.array([text in ("", "NA") for text in texts])
    try:
        return np.array([np.nan if text in ("", "NA") else float(text) for text in texts])
    except ValueError:
        codes = np.unique(texts, return_inverse=True)[1].astype(float)
        return np.where(gaps, np.nan, codes)
