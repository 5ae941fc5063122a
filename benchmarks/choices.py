"""What each default of the estimator gains on rows that no choice of it has seen.

python benchmarks/choices.py --out docs/results/choices.json [--variants default nll] [--tables ...]

Tables are the UCI sets, without the test rows of their first published split, and those of the
directory `more` in NGEM_DATA_DIR. A fifth of the rows of each is held out, at most 4,000 train.
"""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from variants import differences, read_arguments, run_missing, summary

from ngem import MDNRegressor
from ngem.datasets import load_uci, uci_splits
from ngem.estimator import parameters
from ngem.estimator.prediction import Model

#: Settings to compare with the defaults; a function gives one for so many training rows.
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "nll": {"objective": "nll"},
    "dropout 0": {"dropout": 0.0},
    "dropout 0.1": {"dropout": 0.1},
    "nll, dropout 0": {"objective": "nll", "dropout": 0.0},
    "input_limit None": {"input_limit": None},
    "clip_norm 0.3": {"clip_norm": 0.3},
    "half the patience": {"patience": lambda n_rows: half_patience(n_rows)},
}

#: Target of each table with a header, and columns that are left out.
NAMED = {
    "ames": ("price", ("Order", "PID")),
    "births14": ("weight", ()),
    "cps1988": ("wage", ()),
    "hitters": ("Salary", ()),
    "wage": ("wage", ("logwage",)),
    "weather": ("temp", ("time_hour", "dewp")),
}

#: Tables without a header; the last column is the target.
PLAIN = ("autompg", "keggdirected", "pendulum", "skillcraft", "sml", "stock", "tamielectric")

UCI = (
    "concrete",
    "energy-heating",
    "housing",
    "kin8nm",
    "naval",
    "power-plant",
    "protein",
    "yacht",
)

#: Categories of a column at most; others are left out.
_CATEGORIES = 12

#: Differences up to this many nats count as level.
_LEVEL = 0.01


def half_patience(n_rows: int) -> int:
    """Return half of the epochs that a fit of so many rows waits for an improvement."""
    return max(1, parameters.default_patience(MDNRegressor().get_params(), n_rows) // 2)


def named_table(name: str, directory: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return features and target: medians and indicators for gaps, an indicator per category."""
    target, left_out = NAMED[name]
    table = pl.read_csv(
        directory / f"{name}.csv", null_values=["NA", ""], infer_schema_length=None
    ).drop_nulls([target])
    columns: list[np.ndarray] = []
    for series in table.drop(["rownames", target, *left_out], strict=False):
        if series.dtype.is_numeric() or series.dtype == pl.Boolean:
            values = series.cast(pl.Float64).to_numpy()
            gaps = np.isnan(values)
            columns += [np.where(gaps, np.nanmedian(values), values)]
            columns += [gaps.astype(float)] if gaps.any() else []
        elif series.n_unique() <= _CATEGORIES:
            kinds = series.drop_nulls().unique().sort().to_list()
            columns += [(series == kind).fill_null(False).cast(float).to_numpy() for kind in kinds]
    return np.column_stack(columns), table[target].cast(pl.Float64).to_numpy()


def load(name: str, directory: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the features and the target of a table."""
    if name in NAMED:
        return named_table(name, directory)
    if name in PLAIN:
        rows = np.loadtxt(directory / f"{name}.csv.gz", delimiter=",")
        return rows[:, :-1], rows[:, -1]
    table, rows = load_uci(name), uci_splits(name)[0].train
    return table.x[rows], table.y[rows, 0]


def scores(model: MDNRegressor, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the mean NLL of the model and of parts of it, and other scores of all of it."""
    whole = model.model_
    bare = replace(whole, network=replace(whole.network, guard=None))
    members = range(whole.network.n_members)

    def densities(one: Model) -> np.ndarray:
        return one.log_prob(x, y[:, None])

    each = np.array([densities(bare.member(index)) for index in members])
    pairs = [np.logaddexp(each[i], each[i - 1]) - np.log(2) for i in members]
    depth, crps = np.abs(model.pit(x, y) - 0.5), model.crps(x, y)
    return {
        "dropout": model.diagnostics_["dropout"],
        "nll": -float(densities(whole).mean()),
        "without the guard": -float(densities(bare).mean()),
        "two members, without the guard": -float(np.mean(pairs)),
        "one member, without the guard": -float(each.mean()),
        "crps": float(crps.mean()),
        "largest_crps": float(crps.max() / np.ptp(y)),
        "coverage50": float(np.mean(depth <= 0.25)),
        "coverage90": float(np.mean(depth <= 0.45)),
        "largest_rise": largest_rise(model.history_["train_nll"]),
    }


def largest_rise(train_nll: np.ndarray) -> float:
    """Return by how many nats the train likelihood of a member got worse in one epoch, at most."""
    return float(np.nanmax(np.diff(train_nll, axis=1), initial=0.0))


def run(name: str, variant: str, seed: int, directory: Path, n_rows: int) -> dict[str, Any]:
    """Return the scores of a variant on the rows of a table that it has not seen."""
    x, y = load(name, directory)
    order = np.random.default_rng(1000 + seed).permutation(len(y))[:n_rows]
    test, train = np.split(order, [len(order) // 5])
    started = time.perf_counter()
    settings = {
        key: value(len(train) * 4 // 5) if callable(value) else value
        for key, value in VARIANTS[variant].items()
    }
    model = MDNRegressor(**settings, random_state=seed).fit(x[train], y[train])
    seconds = time.perf_counter() - started
    found = {key: round(value, 4) for key, value in scores(model, x[test], y[test]).items()}
    return {"seconds": round(seconds, 1), **found}


def comparisons(runs: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Return the NLL of parts of the default and of the variants, minus that of the default."""
    default = [run for run in runs if run["variant"] == "default"]
    parts = [key for key in default[0] if "member" in key or "guard" in key]
    return {
        **{part: np.array([run[part] - run["nll"] for run in default]) for part in parts},
        **differences(runs, VARIANTS),
    }


def main() -> None:
    """Run what is missing, one result at a time, and print the summary."""
    directory = Path(os.environ["NGEM_DATA_DIR"]) / "more"
    arguments = read_arguments(__doc__, VARIANTS, [*NAMED, *PLAIN, *UCI])
    runs = run_missing(arguments, lambda *which: run(*which, directory, arguments.rows))
    print(summary("the default", comparisons(runs), _LEVEL))


if __name__ == "__main__":
    main()
