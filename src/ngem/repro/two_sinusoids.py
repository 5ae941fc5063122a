"""Two-Sinusoids (Sec. 4.1, Table 8): a mixture density network on two crossing sine waves.

Settings that the paper leaves open: the noise's standard deviation is 0.1, the scale is exp of a
raw output, and the learning rate is constant. Settings say whether features and targets
are standardized and whether weights and Gaussians have separate networks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import training
from ..datasets import Sample, two_sinusoids
from ..mixture import Mixture
from ..nn import apply, mixture_mlp
from ..objectives import OBJECTIVES, AbstractObjective
from .store import Unit, rounded

HIDDEN_SIZES = (128, 128, 128, 128)


def curve_stride(epochs: int) -> int:
    """Return how many epochs lie between two points of a stored curve."""
    return max(1, epochs // 250)


@dataclass(frozen=True)
class Settings:
    """Table 8, and settings that it leaves open.

    Attributes:
        objectives: Names of objectives.
        learning_rates: Learning rates of Adam.
        seeds: Seeds of networks and batches.
        epochs: Passes over the points.
        n_points: Points in all.
        weights: Weight of the first sine wave, one run for each.
        standardise: Whether x and y have mean 0 and standard deviation 1. Saved results have this
            spelling.
        separate: Whether weights and Gaussians have separate networks.
    """

    objectives: list[str]
    learning_rates: list[float]
    seeds: list[int]
    epochs: int
    n_points: int
    weights: list[float]
    standardise: bool
    separate: bool


def units(settings: Settings) -> list[Unit]:
    """Return one unit for each objective, learning rate, true weight and seed."""
    return [
        {"objective": objective, "learning_rate": rate, "weight": weight, "seed": seed}
        for weight in settings.weights
        for rate in settings.learning_rates
        for seed in settings.seeds
        for objective in settings.objectives
    ]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return what one seed learned, and for the first two seeds the components along x."""
    weight = unit["weight"]
    data = two_sinusoids(settings.n_points, weights=(weight, 1 - weight))
    trained = train(
        data,
        OBJECTIVES[unit["objective"]],
        learning_rate=unit["learning_rate"],
        seeds=[unit["seed"]],
        max_epochs=settings.epochs,
        standardized=settings.standardise,
        separate=settings.separate,
    )
    result = {
        "nll": rounded(trained.nll()[0]),
        "entropy": rounded(trained.entropy()[0]),
        "learned_weight": rounded(_first_weight(data, trained)),
        "curve": rounded(trained.results[0].history.train[:: curve_stride(settings.epochs)]),
        "skipped": trained.results[0].skipped,
    }
    if unit["seed"] in settings.seeds[:2]:
        grid = np.linspace(trained.x.min(), trained.x.max(), 200)
        mixture = trained.predict(0, jnp.asarray(grid[:, None], trained.x.dtype))
        result["bands"] = {
            "x": rounded(grid),
            "weights": rounded(np.asarray(mixture.weights)),
            "mean": rounded(np.asarray(mixture.components.mean)),
            "scale": rounded(np.asarray(mixture.components.scale)),
        }
    return result


def _first_weight(data: Sample, trained: "Run") -> float:
    """Return the mean weight of the component nearest to the first wave, where waves are apart.

    The nearest component may change where the waves cross.
    """
    mixture = trained.predict(0)
    first = np.pi * np.sin(data.x)
    shift, scale = (data.y.mean(), data.y.std()) if trained.standardized else (0.0, 1.0)
    distance = np.abs(np.asarray(mixture.components.mean)[..., 0] - (first - shift) / scale)
    weights = np.asarray(mixture.weights)[np.arange(len(first)), distance.argmin(axis=1)]
    return float(weights[np.abs(np.sin(data.x[:, 0])) > 0.3].mean())


class Run(NamedTuple):
    """What one objective learned, one entry per seed."""

    results: list[training.FitResult]
    x: Float[Array, "batch 1"]
    y: Float[Array, "batch 1"]
    standardized: bool

    def nll(self) -> np.ndarray:
        """Return each seed's negative log-likelihood over all points."""
        return np.array(
            [-float(self.predict(s).log_prob(self.y).mean()) for s in range(self.seeds)]
        )

    def entropy(self) -> np.ndarray:
        """Return the mean entropy of each seed's weights."""
        return np.array([float(self.predict(s).weight_entropy().mean()) for s in range(self.seeds)])

    @property
    def seeds(self) -> int:
        """Number of runs."""
        return len(self.results)

    def predict(self, seed: int, x: Float[Array, "rows 1"] | None = None) -> Mixture:
        """Return the mixtures of one seed, at the training points unless others are given."""
        return apply(self.results[seed].network, self.x if x is None else x)


def train(
    data: Sample,
    objective: AbstractObjective,
    *,
    learning_rate: float = 1e-3,
    seeds: Sequence[int] = (1, 2, 3, 4, 5),
    max_epochs: int = 1000,
    standardized: bool = True,
    separate: bool = False,
    **settings: Any,
) -> Run:
    """Return what Adam with batches of 128 learns with K = 2 and four hidden layers of 128."""
    prepare = standardize if standardized else np.asarray
    x, y = (jnp.asarray(prepare(values), float) for values in data)
    keys = [jax.random.key(seed) for seed in seeds]
    networks = [
        mixture_mlp(1, 1, key=key, n_components=2, hidden_sizes=HIDDEN_SIZES, separate=separate)
        for key in keys
    ]
    plan = training.Plan(objective=objective, learning_rate_schedule="constant")
    results = training.fit_many(
        networks,
        training.Data(x, y),
        plan,
        keys=keys,
        learning_rates=[learning_rate] * len(keys),
        max_epochs=max_epochs,
        **settings,
    )
    return Run(results, x, y, standardized)


def standardize(values: np.ndarray) -> np.ndarray:
    """Return values with mean 0 and standard deviation 1 in each column."""
    return (values - values.mean(axis=0)) / values.std(axis=0)
