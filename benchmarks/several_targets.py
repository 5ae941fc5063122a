"""What covariance, components and objective gain for several targets, on rows held out of the fit.

python benchmarks/several_targets.py --out docs/results/several_targets.json [--seed 0]
    [--tables arm-6 ...] [--variants "full, K = 20" ...]

Single networks with the guard, at most 1,500 training rows and 1,100 steps. The tables are arms of
2, 4 and 6 joints, energy (both loads), and two of the directory `more` in NGEM_DATA_DIR: storms
(wind, pressure) and tobacco (two shares of expenses).
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from variants import differences, read_arguments, run_missing, summary

from ngem import MDNRegressor
from ngem.datasets import jointed_arm, load_uci, two_link_arm
from ngem.objectives import NGEM, Schedule

#: Settings to compare; the first is the default for several targets.
VARIANTS: dict[str, dict[str, Any]] = {
    "full, K = 20": {"covariance": "full", "n_components": 20},
    "full, K = 20, flattened": {
        "covariance": "full",
        "n_components": 20,
        "objective": NGEM(schedule=Schedule()),
    },
    "full, K = 10": {"covariance": "full", "n_components": 10},
    "full, K = 5": {"covariance": "full", "n_components": 5},
    "diag, K = 20": {"covariance": "diag", "n_components": 20},
    "diag, K = 5": {"covariance": "diag", "n_components": 5},
    "full, K = 20, nll": {"covariance": "full", "n_components": 20, "objective": "nll"},
    "full, K = 5, nll": {"covariance": "full", "n_components": 5, "objective": "nll"},
}

#: Targets and features of the tables with a header.
NAMED = {
    "storms": (["wind", "pressure"], ["year", "month", "day", "hour", "lat", "long", "status"]),
    "tobacco": (
        ["stobacco", "salcohol"],
        ["occupation", "region", "nkids", "nkids2", "nadults", "lnx", "age"],
    ),
}

TABLES = ("arm-2", "arm-4", "arm-6", "energy", *NAMED)

_TRAIN_ROWS, _TEST_ROWS, _STEPS = 1500, 750, 1100

#: Differences up to this many nats count as level.
_LEVEL = 0.02


def named_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features, with an indicator for each category, and targets."""
    targets, features = NAMED[name]
    path = Path(os.environ["NGEM_DATA_DIR"]) / "more" / f"{name}.csv"
    table = pl.read_csv(path, null_values=["NA", ""], infer_schema_length=None)
    table = table.select(*targets, *features).drop_nulls()
    x = table.select(features).to_dummies(pl.selectors.string())
    return x.cast(pl.Float64).to_numpy(), table.select(targets).cast(pl.Float64).to_numpy()


def load(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows of a table, in random order."""
    n_rows = _TRAIN_ROWS + _TEST_ROWS
    if name == "arm-2":
        return two_link_arm(n_rows, seed=seed)[:2]
    if name.startswith("arm"):
        return jointed_arm(n_rows, n_joints=int(name[-1]), seed=seed)
    x, y = load_uci(name)[:2] if name == "energy" else named_table(name)
    order = np.random.default_rng(seed).permutation(len(y))[:n_rows]
    return x[order], y[order]


def run(name: str, variant: str, seed: int) -> dict[str, Any]:
    """Return the NLL of a variant on the last third of the rows."""
    x, y = load(name, seed)
    n_train = 2 * len(y) // 3
    epochs = _STEPS // -(-int(0.9 * n_train) // 128)  # a tenth is held out, batches have 128 rows
    started = time.process_time()
    model = MDNRegressor(n_members=1, max_epochs=epochs, random_state=seed, **VARIANTS[variant])
    model.fit(x[:n_train], y[:n_train])
    return {
        "nll": round(-float(model.log_prob(x[n_train:], y[n_train:]).mean()), 4),
        "train_nll": round(-float(model.log_prob(x[:n_train], y[:n_train]).mean()), 4),
        "effective_components": round(model.diagnostics_["effective_components"], 2),
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def main() -> None:
    """Run what is missing, one result at a time, and print the summary."""
    runs = run_missing(read_arguments(__doc__, VARIANTS, TABLES), run)
    print(summary(next(iter(VARIANTS)), differences(runs, VARIANTS), _LEVEL))


if __name__ == "__main__":
    main()
