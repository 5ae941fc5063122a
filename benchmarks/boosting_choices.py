"""What each default of the boosted estimator gains on rows that no choice of it has seen.

python benchmarks/boosting_choices.py --out docs/results/boosting_choices.json [--variants ...]

Tables and held-out rows are those of `benchmarks/choices.py`.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from choices import NAMED, PLAIN, UCI, load

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


def run(name: str, variant: str, seed: int, directory: Path, most: int) -> dict[str, Any]:
    """Return the scores of a variant on the rows of a table that it has not seen."""
    x, y = load(name, directory)
    order = np.random.default_rng(1000 + seed).permutation(len(y))[:most]
    test, train = np.split(order, [len(order) // 5])
    started = time.process_time()
    model = MixtureBoostingRegressor(**VARIANTS[variant], random_state=seed, n_jobs=1)
    model.fit(x[train], y[train])
    return {
        "table": name,
        "variant": variant,
        "seed": seed,
        "cpu_seconds": round(time.process_time() - started, 1),
        "rounds": model.best_round_.tolist(),
        "nll": round(-float(model.log_prob(x[test], y[test]).mean()), 4),
        "crps": round(float(model.crps(x[test], y[test]).mean()), 5),
    }


def main() -> None:
    """Run what is missing, one result at a time, and print how each variant differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--tables", nargs="+", default=[*NAMED, *PLAIN, *UCI])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    directory = Path(os.environ["NGEM_DATA_DIR"]) / "more"
    runs = json.loads(arguments.out.read_text()) if arguments.out.exists() else []
    done = {(run["table"], run["variant"], run["seed"]) for run in runs}
    for name in arguments.tables:
        for variant in arguments.variants:
            if (name, variant, arguments.seed) not in done:
                runs.append(run(name, variant, arguments.seed, directory, arguments.rows))
                arguments.out.write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n")
    default = {run["table"]: run["nll"] for run in runs if run["variant"] == "default"}
    for variant in arguments.variants:
        gaps = [run["nll"] - default[run["table"]] for run in runs if run["variant"] == variant]
        print(f"{variant}: median {np.median(gaps):+.3f} nat over {len(gaps)} tables")


if __name__ == "__main__":
    main()
