"""What each default of the estimator gains on rows that no choice of it has seen.

python benchmarks/choices.py --out docs/results/choices.json [--variants default nll] [--tables ...]

Tables are the UCI sets, without the test rows of their first published split, and those of the
directory `more` in NGEM_DATA_DIR. A fifth of the rows of each is held out, at most 4,000 train.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ngem import MDNRegressor
from ngem.datasets import load_uci, uci_splits
from ngem.estimator.prediction import Model

#: Settings to compare with the defaults.
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "nll": {"objective": "nll"},
    "dropout 0": {"dropout": 0.0},
    "dropout 0.1": {"dropout": 0.1},
    "nll, dropout 0": {"objective": "nll", "dropout": 0.0},
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
    }


def run(name: str, variant: str, seed: int, directory: Path) -> dict[str, Any]:
    """Return the scores of a variant on the rows of a table that it has not seen."""
    x, y = load(name, directory)
    order = np.random.default_rng(1000 + seed).permutation(len(y))[:5000]
    test, train = np.split(order, [len(order) // 5])
    started = time.perf_counter()
    model = MDNRegressor(**VARIANTS[variant], random_state=seed).fit(x[train], y[train])
    seconds = time.perf_counter() - started
    found = {key: round(value, 4) for key, value in scores(model, x[test], y[test]).items()}
    return {"table": name, "variant": variant, "seed": seed, "seconds": round(seconds, 1), **found}


def comparisons(runs: list[dict[str, Any]]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield what is compared, and its NLL minus that of the default for each table."""
    default = {run["table"]: run for run in runs if run["variant"] == "default"}
    for part in [key for key in next(iter(default.values())) if "member" in key or "guard" in key]:
        yield part, np.array([run[part] - run["nll"] for run in default.values()])
    for variant in list(VARIANTS)[1:]:
        others = [run for run in runs if run["variant"] == variant and run["table"] in default]
        if others:
            yield variant, np.array([run["nll"] - default[run["table"]]["nll"] for run in others])


def summary(runs: list[dict[str, Any]]) -> str:
    """Return a table in Markdown: how each variant differs from the default."""
    lines = [
        "| against the default | better | level | worse | median, nat |",
        "|---|---|---|---|---|",
    ]
    for name, gain in comparisons(runs):
        counts = (gain < -_LEVEL).sum(), (abs(gain) <= _LEVEL).sum(), (gain > _LEVEL).sum()
        lines.append(f"| {name} | {' | '.join(map(str, counts))} | {np.median(gain):+.3f} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, one result at a time, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--tables", nargs="+", default=[*NAMED, *PLAIN, *UCI])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    directory = Path(os.environ["NGEM_DATA_DIR"]) / "more"
    runs = json.loads(arguments.out.read_text()) if arguments.out.exists() else []
    done = {(run["table"], run["variant"], run["seed"]) for run in runs}
    for variant in arguments.variants:
        for name in arguments.tables:
            if (name, variant, arguments.seed) not in done:
                runs.append(run(name, variant, arguments.seed, directory))
                arguments.out.write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n")
    print(summary(runs))


if __name__ == "__main__":
    main()
