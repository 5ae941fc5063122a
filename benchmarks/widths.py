"""How wide a stack should be: what held-out rows choose, and what new rows would have chosen.

python benchmarks/widths.py --out docs/results/widths.json [--tables concrete]

Tables and new rows are those of `choices.py`, with at most 2,000 training rows. Stacks of quality
"good" have one to three members of each kind that hold a row out. They are scored on rows that no
fit has seen, as they are, with the width that they were learned with, and with the best width for
these rows.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from choices import load
from variants import differences, read_arguments, run_missing, summary

from ngem import DensityStack
from ngem.estimator.prediction import Model

TABLES = ("autompg", "concrete", "energy-heating", "housing", "stock", "yacht")

#: Members of each kind that hold a row out.
VARIANTS: dict[str, dict[str, Any]] = {
    "three members": {"n_repeats": 3},
    "two members": {"n_repeats": 2},
    "one member": {"n_repeats": 1},
}

#: Widths to look for the best one among.
_WIDTHS = np.linspace(0.4, 1.2, 33)

#: Rows to use at most, a fifth of them for scoring.
_ROWS = 2500

#: Differences up to this many nats count as level.
_LEVEL = 0.005


def run(table: str, variant: str, seed: int) -> dict[str, Any]:
    """Return the scores of a stack on new rows at three widths."""
    x, y = load(table, Path(os.environ["NGEM_DATA_DIR"]) / "more")
    order = np.random.default_rng(1000 + seed).permutation(len(y))[:_ROWS]
    new, old = np.split(order, [len(order) // 5])
    stack = DensityStack(random_state=seed, **VARIANTS[variant]).fit(x[old], y[old])
    model, inputs = stack.model_.encoded(x[new])
    known = y[new, None]
    losses = [nll(at_width(model, width), inputs, known) for width in _WIDTHS]
    best = int(np.argmin(losses))
    learned = at_width(model, 1.0)
    return {
        "width": round(stack.width_, 3),
        "best_width": round(float(_WIDTHS[best]), 3),
        "held_out_nll": round(stack.diagnostics_["oof_nll"], 4),
        "gain_on_held_out_rows": round(stack.diagnostics_["gain_of_width"], 4),
        **scores(model, inputs, known),
        "as_learned": scores(learned, inputs, known),
        "nll_at_best_width": round(losses[best], 4),
    }


def at_width(model: Model, width: float) -> Model:
    """Return a stack with another factor of its components' scales."""
    return replace(model, network=model.network.at_width(width))


def nll(model: Model, x: np.ndarray, y: np.ndarray) -> float:
    """Return the mean negative log density of some rows."""
    return -float(np.mean(model.log_prob(x, y)))


def scores(model: Model, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return NLL, CRPS, and how many targets lie in central intervals."""
    depth = np.abs(model.pit(x, y) - 0.5)
    return {
        "nll": round(nll(model, x, y), 4),
        "crps": round(float(np.mean(model.crps(x, y))), 5),
        **{
            f"coverage{level}": round(float(np.mean(depth <= level / 200)), 3) for level in (50, 90)
        },
    }


def main() -> None:
    """Run what is missing, then say what widths and members change."""
    arguments = read_arguments(__doc__, VARIANTS, TABLES)
    runs = run_missing(arguments, run)
    names = dict.fromkeys(one["variant"] for one in runs)
    widths = {
        f"{name}: as learned": np.array(
            [one["as_learned"]["nll"] - one["nll"] for one in runs if one["variant"] == name]
        )
        for name in names
    }
    print(summary("NLL of new rows, minus that with the width", widths, _LEVEL))
    print(summary("NLL of new rows, minus that of three", differences(runs, VARIANTS), _LEVEL))


if __name__ == "__main__":
    main()
