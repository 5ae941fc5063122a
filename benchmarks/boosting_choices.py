"""What each default of the boosted estimator gains on rows that no choice of it has seen.

python benchmarks/boosting_choices.py --out docs/results/boosting_choices.json [--variants ...]

Tables and held-out rows are those of `benchmarks/choices.py`.
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from choices import NAMED, PLAIN, UCI, load
from variants import differences, read_arguments, run_missing, summary

from ngem import MixtureBoostingRegressor

#: Settings to compare with the defaults.
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "fisher": {"curvature": "fisher"},
    "hessian": {"curvature": "hessian"},
    "scaled": {"curvature": "scaled"},
    "none": {"curvature": "none"},
    "equal rates": {"weight_rate": 1.0, "scale_rate": 1.0},
    "half the rate": {"learning_rate": 0.05, "weight_rate": 0.2, "scale_rate": 0.2},
    "scales at a twentieth": {"weight_rate": 0.05, "scale_rate": 0.05},
    "all rows and columns": {"row_fraction": 1.0, "column_fraction": 1.0},
    "half the rows and columns": {"row_fraction": 0.5, "column_fraction": 0.5},
    "leaves of five rows": {"min_rows_in_leaf": 5},
    "15 leaves": {"num_leaves": 15},
    "l2 of one row": {"l2": 1.0},
    "damping 0.01": {"damping": 0.01},
    "3 components": {"n_components": 3},
    "10 components": {"n_components": 10},
    "without the guard": {"guard": False},
}

#: Rows of a table at most, a fifth of which is held out.
_ROWS = 5000

#: Differences up to this many nats count as level.
_LEVEL = 0.01


def run(name: str, variant: str, seed: int, directory: Path) -> dict[str, Any]:
    """Return the scores of a variant on the rows of a table that it has not seen."""
    x, y = load(name, directory)
    order = np.random.default_rng(1000 + seed).permutation(len(y))[:_ROWS]
    test, train = np.split(order, [len(order) // 5])
    started = time.process_time()
    model = MixtureBoostingRegressor(**VARIANTS[variant], random_state=seed, n_jobs=1)
    model.fit(x[train], y[train])
    return {
        "cpu_seconds": round(time.process_time() - started, 1),
        "rounds": model.best_round_.tolist(),
        "nll": round(-float(model.log_prob(x[test], y[test]).mean()), 4),
        "crps": round(float(model.crps(x[test], y[test]).mean()), 5),
    }


def main() -> None:
    """Run what is missing, one result at a time, and print the summary."""
    directory = Path(os.environ["NGEM_DATA_DIR"]) / "more"
    arguments = read_arguments(__doc__, VARIANTS, [*NAMED, *PLAIN, *UCI])
    runs = run_missing(arguments, lambda *which: run(*which, directory))
    print(summary("the default", differences(runs, VARIANTS), _LEVEL))


if __name__ == "__main__":
    main()
