"""Whether networks gain by the mean target of each category, beside an input for each of them.

python benchmarks/target_statistics.py --out docs/results/target_statistics.json [--tables ames]

Tables have one column of many categories: 28 to some thousands of them. The statistic of a
category is the mean target of its rows, shrunken to that of all rows by empirical Bayes. Training
rows read it from the four fifths that they are not in, new rows from all training rows. All are
scored on a fifth of the rows that no fit has seen, at most 1,000.
"""

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from variants import differences, read_arguments, run_missing, summary

from ngem import MDNRegressor
from ngem.ensemble import make_folds


class Source(NamedTuple):
    """A table: its target, its column of many categories, and columns that are left out."""

    file: str
    target: str
    category: str
    left_out: tuple[str, ...] = ()


SOURCES = {
    "ames": Source("ames", "price", "Neighborhood", ("Order", "PID")),
    "medpar": Source("medpar", "los", "provnum"),
    "storms, name": Source("storms", "wind", "name", ("status", "category", "year")),
    "storms, year": Source("storms", "wind", "year", ("status", "category", "name")),
    "rwm5yr, person": Source("rwm5yr", "hhninc", "id"),
    "weather, day": Source("weather", "temp", "date", ("time_hour", "dewp", "month", "day")),
    "cps1988, cell": Source("cps1988", "wage", "cell", ("education", "region")),
}

#: Inputs that stand for a category.
VARIANTS: dict[str, tuple[bool, bool]] = {
    "one input for each": (True, False),
    "and the statistic": (True, True),
    "the statistic alone": (False, True),
    "without the column": (False, False),
}

_ROWS, _FOLDS = 5000, 5

#: Differences up to this many nats count as level.
_LEVEL = 0.01


def load(name: str, directory: Path) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Return features other than the category, the category and the target."""
    source = SOURCES[name]
    table = pl.read_csv(
        directory / f"{source.file}.csv", null_values=["NA", ""], infer_schema_length=None
    ).drop_nulls([source.target])
    if source.category == "date":
        table = table.with_columns(date=pl.format("{}-{}", "month", "day"))
    if source.category == "cell":
        table = table.with_columns(cell=pl.format("{}-{}", "education", "region"))
    left_out = ["rownames", source.target, source.category, *source.left_out]
    features = table.drop(left_out, strict=False)
    category = table[source.category].cast(pl.String).to_numpy()
    return features, category, table[source.target].cast(pl.Float64).to_numpy()


def statistic(category: np.ndarray, y: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Return the shrunken mean target of each category that is asked for.

    Of the variance of targets, the part between categories is estimated by the method of moments.
    """
    names, code, counts = np.unique(category, return_inverse=True, return_counts=True)
    means = np.bincount(code, y) / counts
    within = np.sum((y - means[code]) ** 2) / max(1, len(y) - len(names))
    excess = np.sum(counts * (means - y.mean()) ** 2) - (len(names) - 1) * within
    between = excess / (len(y) - np.sum(counts**2) / len(y))
    weight = np.zeros(len(names)) if between <= 0 else counts / (counts + within / between)
    shrunken = y.mean() + weight * (means - y.mean())
    place = np.minimum(np.searchsorted(names, asked), len(names) - 1)
    return np.where(names[place] == asked, shrunken[place], y.mean())


def of_training_rows(category: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Return the statistic of each row from the folds that it is not in."""
    result = np.empty(len(y))
    for rows in make_folds(len(y), _FOLDS, np.random.default_rng(seed)):
        rest = np.setdiff1d(np.arange(len(y)), rows)
        result[rows] = statistic(category[rest], y[rest], category[rows])
    return result


def run(name: str, variant: str, seed: int, directory: Path) -> dict[str, Any]:
    """Return the scores of a variant on rows that it has not seen."""
    features, category, y = load(name, directory)
    order = np.random.default_rng(1000 + seed).permutation(len(y))[:_ROWS]
    new, old = np.split(order, [len(order) // 5])
    has_inputs, has_statistic = VARIANTS[variant]

    def inputs(rows: np.ndarray, values: np.ndarray) -> pl.DataFrame:
        more = {"the category": category[rows]} if has_inputs else {}
        more |= {"the statistic": values} if has_statistic else {}
        return features[rows].with_columns(**{key: pl.Series(more[key]) for key in more})

    started = time.process_time()
    train = inputs(old, of_training_rows(category[old], y[old], seed))
    test = inputs(new, statistic(category[old], y[old], category[new]))
    model = MDNRegressor(missing="impute", random_state=seed).fit(train, y[old])
    return {
        "categories": len(np.unique(category[old])),
        "rows": len(old),
        "cpu_seconds": round(time.process_time() - started, 1),
        "held_out_nll": round(-float(np.nanmean(model.oof_log_prob_)), 4),
        "nll": round(-float(model.log_prob(test, y[new]).mean()), 4),
        "crps": round(float(model.crps(test, y[new]).mean()), 5),
    }


def main() -> None:
    """Run what is missing, one result at a time, and print the summary."""
    directory = Path(os.environ["NGEM_DATA_DIR"]) / "more"
    arguments = read_arguments(__doc__, VARIANTS, SOURCES)
    runs = run_missing(arguments, lambda *which: run(*which, directory))
    print(summary("one input for each category", differences(runs, VARIANTS), _LEVEL))


if __name__ == "__main__":
    main()
