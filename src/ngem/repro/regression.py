"""Regression on UCI sets (Sec. 4.4, Tables 5 and 10): optimizers and objectives compared."""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import training
from ..datasets import load_uci, random_split
from ..mixture import Mixture
from ..nn import MixtureNetwork, apply, mixture_mlp
from ..objectives import OBJECTIVES
from .store import Unit, rounded


@dataclass(frozen=True)
class Settings:
    """Table 10, and settings that it leaves open.

    Attributes:
        datasets: Names of UCI sets, each with its learning rate, epochs and batch size.
        optimizers: Names of optimizers, each with all of `objectives`.
        objectives: Names of objectives for mixtures.
        single: Names of objectives for one Gaussian, with Adam.
        n_components: Components of a mixture.
        seeds: Seeds of split, network and batches.
        test_fraction: Fraction of rows to test on.
        separate: Whether weights and Gaussians have separate networks.
        epochs_at_most: Largest number of epochs, for short budgets.
    """

    datasets: dict[str, dict[str, Any]]
    optimizers: list[str]
    objectives: list[str]
    single: list[str]
    n_components: int
    seeds: list[int]
    test_fraction: float
    separate: bool
    epochs_at_most: int


class SplitData(NamedTuple):
    """Features and targets of one split, each column scaled to [0, 1] by its training rows."""

    train: training.Data
    test: training.Data


def units(settings: Settings) -> list[Unit]:
    """Return one unit for each set, optimizer, objective and seed."""
    methods = [(o, objective) for o in settings.optimizers for objective in settings.objectives]
    methods += [("adam", objective) for objective in settings.single]
    return [
        {"dataset": name, "optimizer": optimizer, "objective": objective, "seed": seed}
        for name in settings.datasets
        for optimizer, objective in methods
        for seed in settings.seeds
    ]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return test scores and train NLL at the end of training, or the reason for divergence."""
    rows = scaled_rows(unit["dataset"], unit["seed"], settings.test_fraction)
    single = unit["objective"] in settings.single
    network = make_network(
        rows,
        unit["seed"],
        n_components=1 if single else settings.n_components,
        separate=settings.separate and not single,
    )
    chosen = settings.datasets[unit["dataset"]]
    try:
        fitted = fit(
            network,
            rows,
            objective=unit["objective"],
            optimizer=unit["optimizer"],
            batch_size=chosen["batch_size"],
            learning_rate=chosen["learning_rate"],
            epochs=min(chosen["epochs"], settings.epochs_at_most),
            seed=unit["seed"],
        )
    except training.FitError as error:
        return {"diverged": str(error)[:200]}
    mixture = apply(fitted.network, rows.test.x)
    return {
        "train_nll": rounded(float(training.mean_nll(fitted.network, rows.train))),
        **{name: rounded(value) for name, value in scores(mixture, rows.test.y).items()},
        "skipped": fitted.skipped,
    }


def make_network(
    rows: SplitData, seed: int, *, n_components: int, separate: bool
) -> MixtureNetwork:
    """Return a network of Table 10: two hidden layers of 128."""
    return mixture_mlp(
        rows.train.x.shape[1],
        rows.train.y.shape[1],
        key=jax.random.key(seed),
        n_components=n_components,
        separate=separate,
    )


def fit(
    network: MixtureNetwork,
    rows: SplitData,
    *,
    objective: str,
    optimizer: str = "adam",
    batch_size: int,
    learning_rate: float,
    epochs: int,
    seed: int = 1,
) -> training.FitResult:
    """Return the network trained at a constant learning rate to the last epoch."""
    plan = training.Plan(
        objective=OBJECTIVES[objective],
        optimizer=optimizer,
        batch_size=batch_size,
        learning_rate_schedule="constant",
    )
    return training.fit(
        network,
        rows.train,
        plan,
        key=jax.random.key(seed),
        max_epochs=epochs,
        learning_rate=learning_rate,
    )


@cache
def scaled_rows(name: str, seed: int, test_fraction: float) -> SplitData:
    """Return a random split with every column scaled to [0, 1] by the range of training rows."""
    table = load_uci(name)
    split = random_split(len(table.x), seed, test=test_fraction)
    parts = []
    for values in (table.x, table.y):
        low, high = values[split.train].min(axis=0), values[split.train].max(axis=0)
        parts.append((values - low) / np.where(high > low, high - low, 1.0))
    x, y = (jnp.asarray(part, jnp.float32) for part in parts)
    return SplitData(*(training.Data(x[rows], y[rows]) for rows in (split.train, split.test)))


def scores(mixture: Mixture, y: Float[Array, "batch dim"]) -> dict[str, float]:
    """Return scores of predictions; scores of a single column are averaged over columns."""
    error = mixture.mean() - y
    squared = jnp.mean((mixture.components.mean - y[:, None]) ** 2, axis=-1)
    covered = []
    for d in range(mixture.dim):
        low, high = (mixture.marginal(d).quantile(q) for q in (0.05, 0.95))
        covered.append(jnp.mean((y[:, d] >= low) & (y[:, d] <= high)))
    return {
        "nll": float(-jnp.mean(mixture.log_prob(y))),
        # As in the paper: each row takes the component nearest to its target.
        "nearest_rmse": float(jnp.mean(jnp.sqrt(jnp.min(squared, axis=1)))),
        "rmse": float(jnp.sqrt(jnp.mean(error**2))),
        "crps": mean_crps(mixture, y),
        "coverage90": float(np.mean(covered)),
    }


def mean_crps(mixture: Mixture, y: Float[Array, "batch dim"]) -> float:
    """Return the CRPS of each target column, averaged over rows and columns."""
    columns = [mixture.marginal(d).crps(y[:, d : d + 1]) for d in range(mixture.dim)]
    return float(np.mean([jnp.mean(column) for column in columns]))
