"""How much worse than one Gaussian for all rows the estimator is when rows are few.

python benchmarks/few_rows.py --out docs/results/few_rows.json

Five generated tasks with three features, of which only the first matters (in one of them none).
The Gaussian has the mean and the standard deviation of the training targets.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy import stats

from ngem import MDNRegressor

SIZES = (5, 10, 14, 20, 50)
SEEDS = range(5)


def draw(task: str, n_rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return features and target of a task."""
    x, noise = rng.normal(size=(n_rows, 3)), rng.normal(size=n_rows)
    sign = np.where(rng.random(n_rows) < 0.5, 1, -1)
    targets = {
        "linear": x[:, 0] + 0.3 * noise,
        "sine": np.sin(3 * x[:, 0]) + 0.1 * noise,
        "noise": noise,
        "two branches": sign * (1 + 0.5 * x[:, 0]) + 0.1 * noise,
        "log-normal": np.exp(noise + 0.5 * x[:, 0]),
    }
    return x, targets[task]


def excess(task: str, n_rows: int, seed: int) -> float:
    """Return the test NLL of the estimator minus that of one Gaussian, in nats."""
    rng = np.random.default_rng(100 * seed + n_rows)
    (x, y), (x_test, y_test) = draw(task, n_rows, rng), draw(task, 1000, rng)
    model = MDNRegressor(random_state=seed).fit(x, y)
    gaussian = stats.norm(y.mean(), y.std()).logpdf(y_test)
    return float(np.mean(gaussian - model.log_prob(x_test, y_test)))


def main() -> None:
    """Print the mean excess for each task and size, and write that of each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    runs = []
    for task in ("linear", "sine", "noise", "two branches", "log-normal"):
        for n_rows in SIZES:
            values = [round(excess(task, n_rows, seed), 3) for seed in SEEDS]
            runs.append({"task": task, "rows": n_rows, "excess": values})
            print(f"{task}, {n_rows} rows: {np.mean(values):+.2f}", flush=True)
            out.write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n")


if __name__ == "__main__":
    main()
