"""Random fits: scales, outliers, duplicates, families, objectives, optimizers and rates."""

from pathlib import Path
from typing import Any

import numpy as np
from common import Tally, finite

import ngem
from ngem.objectives import OBJECTIVES
from ngem.optimizers import DEFAULT_LEARNING_RATES
from ngem.training import FitError


def random_rows(rng: np.random.Generator, n_rows: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows whose units, outliers and repetitions differ."""
    x = rng.standard_normal((n_rows, 2)) * 10 ** rng.uniform(-9, 9, 2)
    y = rng.standard_normal((n_rows, dim)) + x[:, :1] / np.std(x[:, 0])
    y = y * 10 ** rng.uniform(-9, 9, dim) + rng.choice([0.0, 1.0, 1e6]) * np.std(y)
    if rng.random() < 0.3:
        y[rng.integers(n_rows)] *= 10 ** rng.uniform(2, 8)
    if rng.random() < 0.3:
        x, y = x[np.arange(n_rows) // 3], y[np.arange(n_rows) // 3]
    if rng.random() < 0.1:
        y[:, 0] = y[0, 0]
    if rng.random() < 0.2:
        x[:, 1] = x[0, 1]
    return (x.astype(np.float32) if rng.random() < 0.3 else x), y


def random_settings(rng: np.random.Generator) -> dict[str, Any]:
    """Return settings; a learning rate may be a million times the default."""
    optimizer = str(rng.choice(list(DEFAULT_LEARNING_RATES)))
    factor = 10 ** float(rng.choice([0.0, 0.0, rng.uniform(-3, 6)]))
    return {
        "n_components": int(rng.choice([1, 3])),
        "hidden_sizes": (8,),
        "family": str(rng.choice(["gaussian", "logistic", "laplace"])),
        "objective": str(rng.choice(list(OBJECTIVES))),
        "optimizer": optimizer,
        "learning_rate": DEFAULT_LEARNING_RATES[optimizer] * factor,
        "n_members": int(rng.choice([1, 1, 2])),
        "guard": bool(rng.random() < 0.5),
        "dropout": 0.0,
        "batch_size": 32,
        "max_epochs": 4,
        "random_state": int(rng.integers(100)),
    }


def check(model: Any, x: np.ndarray, y: np.ndarray, work: Path) -> str | None:
    """Return what is wrong with the predictions of a model, or None."""
    one = y.shape[1] == 1
    y = y[:, 0] if one else y
    density = model.log_prob(x, y)
    quantiles = model.predict_quantiles(x, [0.05, 0.5, 0.95])
    fault = finite(
        mean=model.predict(x),
        quantiles=quantiles,
        samples=model.sample(x, 3, random_state=0),
        crps=model.crps(x, y),
        pit=model.pit(x, y),
    )
    if fault:
        return fault
    if np.any(np.isnan(density)) or np.any(density == np.inf):
        return "a log density is NaN or infinite"
    if np.any(np.diff(quantiles, axis=1) < 0):
        return "quantiles fall"
    if np.any(np.asarray(model.crps(x, y)) < 0):
        return "a CRPS is negative"
    pit = np.asarray(model.pit(x, y))
    if np.any((pit < 0) | (pit > 1)):
        return "a PIT is outside [0, 1]"
    model.save(work / "model.ngem")
    again = ngem.load(work / "model.ngem")
    if not np.array_equal(again.predict(x), model.predict(x)):
        return "a saved model predicts other numbers"
    return None


def run(rng: np.random.Generator, count: int, work: Path) -> Tally:
    tally = Tally()
    for _ in range(count):
        # Few shapes: each compiles programs of its own.
        x, y = random_rows(rng, int(rng.choice([40, 120])), int(rng.choice([1, 2])))
        settings = random_settings(rng)

        def one(x: Any = x, y: Any = y, settings: Any = settings) -> str | None:
            model = ngem.MDNRegressor(**settings).fit(x, y[:, 0] if y.shape[1] == 1 else y)
            return check(model, x, y, work)

        scales = f"x {np.std(x, axis=0)}, y {np.std(y, axis=0)}"
        tally.attempt(f"{settings}, {scales}", one, ValueError, FitError)
    return tally
