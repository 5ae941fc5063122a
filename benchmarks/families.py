"""Families against Gaussians on tables whose targets are positive, bounded, counted or censored.

    NGEM_DATA_DIR=... python benchmarks/families.py

Boosted mixtures of three components on the same splits, 1,000 training rows and up to 1,000 test
rows each. The families were chosen before the first run; after two runs that were stopped, the list
was cut to one per table, for time. The result is docs/results/families.json.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ngem import MixtureBoostingRegressor

_RESULT = Path(__file__).parents[1] / "docs/results/families.json"
_SPLITS, _TRAIN, _TEST = 2, 1000, 1000


class Table(NamedTuple):
    """A table and the families to try on it.

    Attributes:
        file: Its file.
        target: Column of targets.
        families: Families besides the Gaussian.
        drop: Columns that are no features: numbers of rows, and other accounts of the target.
        keep: Which targets are used; None for all.
        resolution: Step of counts.
        event: Column that is 0 where a time is censored.
        has_zeros: Whether zeros are taken as values below the smallest other one.
    """

    file: str
    target: str
    families: tuple[str, ...]
    drop: tuple[str, ...] = ()
    keep: Callable[[np.ndarray], np.ndarray] | None = None
    resolution: float | None = None
    event: str | None = None
    has_zeros: bool = False


def _positive(y: np.ndarray) -> np.ndarray:
    return y > 0


_TABLES = {
    "wages (cps1988)": Table("cps1988.csv", "wage", ("lognormal",)),
    "house prices (ames)": Table("ames.csv", "price", ("lognormal",), drop=("Order", "PID")),
    "medical expenses above 0 (medexp)": Table("medexp.csv", "med", ("lognormal",), keep=_positive),
    "medical expenses with zeros (medexp)": Table(
        "medexp.csv", "med", ("lognormal",), has_zeros=True
    ),
    "days in hospital (medpar)": Table(
        "medpar.csv", "los", ("lognormal",), drop=("provnum",), resolution=1.0
    ),
    "visits to a doctor (nmes1988)": Table(
        "nmes1988.csv",
        "visits",
        ("lognormal",),
        drop=("nvisits", "ovisits", "novisits"),
        resolution=1.0,
    ),
    "share of alcohol above 0 (tobacco)": Table(
        "tobacco.csv", "salcohol", ("logitnormal",), drop=("stobacco",), keep=_positive
    ),
    "censored times to recurrence (rotterdam)": Table(
        "rotterdam.csv",
        "rtime",
        ("weibull",),
        drop=("pid", "dtime", "death"),
        event="recur",
    ),
}


def read(table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return features, targets and the upper ends of censored targets."""
    path = Path(os.environ["NGEM_DATA_DIR"]) / "more" / table.file
    frame = pl.read_csv(path, infer_schema_length=None, null_values=["NA", ""])
    y = frame[table.target].to_numpy().astype(float)
    seen = None if table.event is None else frame[table.event].to_numpy() == 1
    unused = ["rownames", table.target, *table.drop, *([table.event] if table.event else [])]
    features = frame.drop(unused).with_columns(pl.col(pl.String).cast(pl.Categorical).to_physical())
    x = features.cast(pl.Float64).to_numpy()
    kept = np.ones(len(y), bool) if table.keep is None else table.keep(y)
    if table.has_zeros:
        least = y[y > 0].min()
        return x, np.where(y > 0, y, -np.inf), np.where(y > 0, y, least)
    upper = None if seen is None else np.where(seen, y, np.inf)
    return x[kept], y[kept], None if upper is None else upper[kept]


def score(table: Table, family: str, split: int) -> dict[str, float]:
    """Return test scores of one family on one split."""
    x, y, upper = read(table)
    order = np.random.default_rng(split).permutation(len(y))
    train, test = order[: min(_TRAIN, int(0.7 * len(y)))], order[-min(_TEST, int(0.3 * len(y))) :]
    model = MixtureBoostingRegressor(
        3,
        n_members=2,
        family=family,
        resolution=table.resolution,
        max_rounds=300,
        patience=20,
        random_state=split,
        n_jobs=1,
    )
    of = lambda rows: {} if upper is None else {"upper": upper[rows]}  # noqa: E731
    model.fit(x[train], y[train], **of(train))
    low = model.predict_quantiles(x[test], 0.05)
    return {
        "nll": -float(model.log_prob(x[test], y[test], **of(test)).mean()),
        "impossible_quantiles": float(np.mean(low < -0.5 * (table.resolution or 0.0))),
    }


def main() -> None:
    """Run all tables and write the result."""
    # What is there already is kept: a run can be continued.
    result: dict[str, Any] = json.loads(_RESULT.read_text()) if _RESULT.exists() else {}
    for name, table in _TABLES.items():
        if name in result:
            continue
        result[name] = {}
        for family in ("gaussian", *table.families):
            runs = [score(table, family, split) for split in range(_SPLITS)]
            result[name][family] = {key: [run[key] for run in runs] for key in runs[0]}
            means = {key: float(np.mean(value)) for key, value in result[name][family].items()}
            print(f"{name:42} {family:12}", means, flush=True)
        _RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
