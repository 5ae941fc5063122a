"""All six optimizers at their default learning rates on energy efficiency with both targets.

    NGEM_DATA_DIR=... python benchmarks/optimizers_on_energy.py

Reads uci/energy/ENB2012_data.csv below NGEM_DATA_DIR. 80/20 split by seed, default estimator. Test
likelihoods are in units of the standardized targets; one Gaussian without features has 2.84.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

from ngem import MDNRegressor
from ngem.optimizers import DEFAULT_LEARNING_RATES


def load(directory: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the eight features and both targets."""
    table = np.loadtxt(Path(directory) / "uci/energy/ENB2012_data.csv", delimiter=",")
    return table[:, :8], table[:, 8:]


def measure(optimizer: str, x: np.ndarray, y: np.ndarray, seed: int) -> dict[str, float]:
    """Return test likelihood, error and time of one fit."""
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = order[: int(0.8 * len(x))], order[int(0.8 * len(x)) :]
    started = time.perf_counter()
    model = MDNRegressor(optimizer=optimizer, random_state=seed).fit(x[train], y[train])
    seconds = time.perf_counter() - started
    jacobian = np.log(y[train].std(axis=0)).sum()
    error = (model.predict(x[test]) - y[test]) / y[train].std(axis=0)
    return {
        "nll": float(-model.log_prob(x[test], y[test]).mean() - jacobian),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "seconds": seconds,
    }


def main() -> None:
    """Print one row per optimizer and write all runs as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/optimizers_on_energy.json"))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if "NGEM_DATA_DIR" not in os.environ:
        raise SystemExit("Set NGEM_DATA_DIR to a directory that holds uci/energy/ENB2012_data.csv.")
    x, y = load(os.environ["NGEM_DATA_DIR"])
    results = {}
    for name in DEFAULT_LEARNING_RATES:
        runs = [measure(name, x, y, seed) for seed in range(arguments.seeds)]
        results[name] = runs
        nll, rmse, seconds = (np.array([run[key] for run in runs]) for key in runs[0])
        print(
            f"{name:6s} test NLL {nll.mean():6.2f} ± {nll.std():.2f}, RMSE {rmse.mean():.3f} "
            f"(standardized), {np.median(seconds):.1f} s",
            flush=True,
        )
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
