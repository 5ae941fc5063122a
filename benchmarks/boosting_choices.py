"""What each default of the boosted estimator gains on rows that no choice of it has seen.

python benchmarks/boosting_choices.py --out docs/results/boosting_choices.json [--variants ...]
python benchmarks/boosting_choices.py --out docs/results/boosting_choices_many_rows.json \\
    --rows 20000 --variants "5 or 3 components, scale_rate=0.05" defaults [--tables ...]

Tables and held-out rows are those of `benchmarks/choices.py`. Everything is compared with the
former defaults: five components, and scales at a tenth of the rate. The second call asks whether
the last choice, that of the rate of weights, holds with more rows.
"""

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import boosting_trials as trials
import numpy as np
from choices import NAMED, PLAIN, UCI, load
from variants import differences, read_arguments, run_missing, summary

from ngem import MixtureBoostingRegressor


class Variant(NamedTuple):
    """Settings of the estimator, and a change of the engine.

    Attributes:
        settings: Differences to the former defaults.
        change: The change, or none.
        is_standardized: Whether features have mean zero and standard deviation one, which matters
            for lines in leaves.
    """

    settings: dict[str, Any]
    change: Callable[[], AbstractContextManager] = nullcontext
    is_standardized: bool = False


#: The defaults that all variants are compared with.
FORMER = {"n_components": 5, "weight_rate": 0.1, "scale_rate": 0.1}

VARIANTS: dict[str, Variant] = {
    "former defaults": Variant({}),
    "defaults": Variant({"n_components": None, "weight_rate": None, "scale_rate": 0.05}),
    "5 or 3 components, scale_rate=0.05": Variant({"n_components": None, "scale_rate": 0.05}),
    "scale_rate=0.05": Variant({"scale_rate": 0.05}),
    "scale_rate=0.2": Variant({"scale_rate": 0.2}),
    "5 or 3 components, by two folds": Variant({"n_components": None}),
    "n_components=1": Variant({"n_components": 1}),
    "n_components=3": Variant({"n_components": 3}),
    "n_components=10": Variant({"n_components": 10}),
    "weight_rate=0.3": Variant({"weight_rate": 0.3}),
    "weight_rate=0.05": Variant({"weight_rate": 0.05}),
    "weight_rate=1, scale_rate=1": Variant({"weight_rate": 1.0, "scale_rate": 1.0}),
    "learning_rate=0.05": Variant({"learning_rate": 0.05}),
    "min_rows_in_leaf=5": Variant({"min_rows_in_leaf": 5}),
    "min_rows_in_leaf=10": Variant({"min_rows_in_leaf": 10}),
    "min_rows_in_leaf=10, scale_rate=0.05": Variant({"min_rows_in_leaf": 10, "scale_rate": 0.05}),
    "num_leaves=15": Variant({"num_leaves": 15}),
    "l2=1": Variant({"l2": 1.0}),
    "damping=0.01": Variant({"damping": 0.01}),
    "all rows and columns": Variant({"row_fraction": 1.0, "column_fraction": 1.0}),
    'curvature="fisher"': Variant({"curvature": "fisher"}),
    'curvature="hessian"': Variant({"curvature": "hessian"}),
    'curvature="scaled"': Variant({"curvature": "scaled"}),
    'curvature="none"': Variant({"curvature": "none"}),
    "guard=False": Variant({"guard": False}),
    "linear leaves": Variant({}, lambda: trials.linear_leaves(0.01)),
    "linear leaves with a penalty": Variant({}, lambda: trials.linear_leaves(1.0), True),
    "bounded steps of scales": Variant({}, trials.bounded_scale_steps),
    "flattening over 50 rounds": Variant({}, lambda: trials.falling_flattening(50)),
    "strength falls over 100 rounds": Variant({}, lambda: trials.falling_strength(100, 0.5)),
    "a ceiling of scales": Variant({}, lambda: trials.scale_ceiling(1.0, 5)),
    "a start near the mean": Variant({}, lambda: trials.narrow_start(0.2, 5)),
    "trees for all means and scales": Variant({}, lambda: trials.common_trees(5)),
}

#: Differences up to this many nats count as level.
_LEVEL = 0.01


def run(name: str, variant: str, seed: int, directory: Path, n_rows: int) -> dict[str, Any]:
    """Return the scores of a variant on the fifth of so many rows that it has not seen."""
    x, y = load(name, directory)
    order = np.random.default_rng(1000 + seed).permutation(len(y))[:n_rows]
    test, train = np.split(order, [len(order) // 5])
    settings, change, is_standardized = VARIANTS[variant]
    if is_standardized:
        x = (x - x[train].mean(axis=0)) / (x[train].std(axis=0) + 1e-12)
    started = time.process_time()
    with change():
        model = MixtureBoostingRegressor(**{**FORMER, **settings}, random_state=seed, n_jobs=1)
        model.fit(x[train], y[train])
        seconds = time.process_time() - started
        nll = -float(model.log_prob(x[test], y[test]).mean())
        crps = float(model.crps(x[test], y[test]).mean())
    return {
        "cpu_seconds": round(seconds, 1),
        "components": model.n_components_,
        "weight_rate": model.weight_rate_,
        "rounds": model.best_round_.tolist(),
        "nll": round(nll, 4),
        "crps": round(crps, 5),
    }


def main() -> None:
    """Run what is missing, one result at a time, and print the summary."""
    directory = Path(os.environ["NGEM_DATA_DIR"]) / "more"
    arguments = read_arguments(__doc__, VARIANTS, [*NAMED, *PLAIN, *UCI])
    runs = run_missing(arguments, lambda *which: run(*which, directory, arguments.rows))
    print(summary("the former defaults", differences(runs, VARIANTS), _LEVEL))


if __name__ == "__main__":
    main()
