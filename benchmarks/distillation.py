"""What a network loses and saves that has learned the densities of a stack.

python benchmarks/distillation.py --out docs/results/distillation.json [--tables concrete]

Tables and new rows are those of `choices.py`, with at most 2,000 training rows. A stack of quality
"good" learns from the training rows, and networks learn from the stack. All are scored on rows that
none has seen. The time of a prediction is that of the mean and the log density of 2,000 rows, as a
part of the stack's, in turns.
"""

import os
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from choices import load
from variants import differences, read_arguments, run_missing, summary

from ngem import DensityStack
from ngem.estimator.distill import distill

TABLES = ("concrete", "energy-heating", "housing", "kin8nm", "power-plant", "stock")

#: The stack itself, and settings of networks that learn from it.
VARIANTS: dict[str, dict[str, Any]] = {
    "stack": {},
    "default": {},
    "with bins": {"n_bins": 16},
    "without bins": {"n_bins": None},
    "300,000 rows": {"n_rows": 300_000},
    "one corner": {"n_corners": 1},
    "two corners": {"n_corners": 2},
    "five corners": {"n_corners": 5},
    "10 draws": {"n_draws": 10, "batch_size": 512},
    "2 x 512": {"hidden_sizes": (512, 512)},
    "2 x 512, 300,000 rows": {"hidden_sizes": (512, 512), "n_rows": 300_000},
}

#: Rows to use at most, a fifth of them for scoring.
_ROWS = 2500

#: Rows that are predicted in turns, and how often.
_TIMED, _TURNS = 2000, 5

#: Differences up to this many nats count as level.
_LEVEL = 0.02


class Case(NamedTuple):
    """A table and the stack that has learned it."""

    x: np.ndarray
    y: np.ndarray
    new_x: np.ndarray
    new_y: np.ndarray
    stack: DensityStack
    seconds: float


@cache
def fitted(table: str, seed: int) -> Case:
    """Return the rows of a table, and a stack fitted to them."""
    x, y = load(table, Path(os.environ["NGEM_DATA_DIR"]) / "more")
    order = np.random.default_rng(1000 + seed).permutation(len(y))[:_ROWS]
    new, old = np.split(order, [len(order) // 5])
    begin = time.perf_counter()
    stack = DensityStack(random_state=seed).fit(x[old], y[old])
    return Case(x[old], y[old], x[new], y[new], stack, time.perf_counter() - begin)


def run(table: str, variant: str, seed: int) -> dict[str, Any]:
    """Return the scores of one model, and the time of a prediction as a part of the stack's."""
    case = fitted(table, seed)
    begin = time.perf_counter()
    model, seconds = case.stack, case.seconds
    if variant != "stack":
        model = distill(case.stack, case.x, random_state=seed, **VARIANTS[variant])
        seconds = time.perf_counter() - begin
    return {
        "nll": round(float(-np.mean(model.log_prob(case.new_x, case.new_y))), 4),
        "crps": round(float(np.mean(model.crps(case.new_x, case.new_y))), 4),
        "components": int(model.model_.network.n_components),
        "seconds": round(seconds, 1),
        "relative_time": round(relative_time(model, case), 4),
    }


def relative_time(model: Any, case: Case) -> float:
    """Return the time of predictions by a model, divided by that of the stack."""
    rows = np.arange(_TIMED) % len(case.x)
    times: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(_TURNS + 1):  # the first turn compiles
        for side, one in enumerate((model, case.stack)):
            begin = time.perf_counter()
            one.predict(case.x[rows])
            one.log_prob(case.x[rows], case.y[rows])
            times[side].append(time.perf_counter() - begin)
    ours, theirs = (float(np.median(times[side][1:])) for side in (0, 1))
    return ours / theirs


def main() -> None:
    """Run what is missing, then say what networks lose."""
    arguments = read_arguments(__doc__, VARIANTS, TABLES)
    runs = run_missing(arguments, run)
    print(summary("NLL of new rows, minus that of the stack", differences(runs, VARIANTS), _LEVEL))


if __name__ == "__main__":
    main()
