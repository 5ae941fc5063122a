"""Nine UCI sets on their published splits with early stopping, to compare with other work."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .. import training
from ..datasets import load_uci, random_split, uci_splits
from ..datasets.uci import SOURCES
from ..estimator.preprocessing import fit_scaling
from ..nn import apply, mixture_mlp
from ..objectives import OBJECTIVES
from .regression import scores
from .store import Unit, rounded


@dataclass(frozen=True)
class Settings:
    """How every set is fitted.

    Attributes:
        datasets: Names of UCI sets with one target.
        objectives: Names of objectives; "beta-nll" has one Gaussian, as its authors use it.
        learning_rates: Learning rates of Adam; validation rows choose one for each objective.
        n_components: Components of a mixture.
        splits: Largest number of published splits to use.
        max_epochs: Largest number of epochs.
        steps_at_most: Largest number of steps, which means fewer epochs on large sets.
        patience: Epochs without improvement before stopping.
        batch_size: Rows per step.
    """

    datasets: list[str]
    objectives: list[str]
    learning_rates: list[float]
    n_components: int
    splits: int
    max_epochs: int
    steps_at_most: int
    patience: int
    batch_size: int


def units(settings: Settings) -> list[Unit]:
    """Return one unit for each set, objective and split."""
    return [
        {"dataset": name, "objective": objective, "seed": split}
        for name in settings.datasets
        for split in range(min(settings.splits, SOURCES[name].splits))
        for objective in settings.objectives
    ]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return test scores of the learning rate and epoch that validation rows chose.

    Columns are standardized by training rows; likelihood, RMSE and CRPS are in the set's units.
    """
    table, split = load_uci(unit["dataset"]), uci_splits(unit["dataset"])[unit["seed"]]
    targets = fit_scaling(table.y[split.train])
    x, y = fit_scaling(table.x[split.train]).forward(table.x), targets.forward(table.y)
    inner = random_split(len(split.train), unit["seed"], test=0.1)
    data, validation, test = (
        training.Data(jnp.asarray(x[rows]), jnp.asarray(y[rows]))
        for rows in (split.train[inner.train], split.train[inner.test], split.test)
    )
    steps = -(-len(data.y) // settings.batch_size)
    epochs = max(1, min(settings.max_epochs, settings.steps_at_most // steps))
    best: training.FitResult | None = None
    chosen = settings.learning_rates[0]
    for rate in settings.learning_rates:
        fitted = training.fit(
            mixture_mlp(
                x.shape[1],
                1,
                key=jax.random.key(unit["seed"]),
                n_components=1 if unit["objective"] == "beta-nll" else settings.n_components,
            ),
            data,
            training.Plan(
                objective=OBJECTIVES[unit["objective"]],
                batch_size=settings.batch_size,
                patience=settings.patience,
            ),
            key=jax.random.key(unit["seed"]),
            validation=validation,
            max_epochs=epochs,
            learning_rate=rate,
        )
        if best is None or float(fitted.state.best_loss) < float(best.state.best_loss):
            best, chosen = fitted, rate
    assert best is not None
    measured = scores(apply(best.network, test.x), test.y)
    measured["nll"] += targets.log_volume
    for name in ("nearest_rmse", "rmse", "crps"):
        measured[name] *= float(targets.scale[0])
    return {
        **{name: rounded(value) for name, value in measured.items()},
        "learning_rate": chosen,
        "best_epoch": best.best_epoch,
        "skipped": best.skipped,
    }
