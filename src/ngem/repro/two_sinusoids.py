"""Two-Sinusoids (Sec. 4.1, Table 8): a mixture density network on two crossing sine waves.

Settings that the paper leaves open: features and targets are standardised, one network gives
weights and Gaussians, the scale is exp of a raw output, and the learning rate is constant.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import training
from ..datasets import TwoSinusoids
from ..mixture import Mixture
from ..nn import mixture_mlp
from ..objectives import AbstractObjective


class Run(NamedTuple):
    """What one objective learned, one entry per seed; targets are standardised."""

    results: list[training.FitResult]
    x: Float[Array, "batch 1"]
    y: Float[Array, "batch 1"]

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
        return training.apply(self.results[seed].network, self.x if x is None else x)


def train(
    data: TwoSinusoids,
    objective: AbstractObjective,
    *,
    learning_rate: float = 1e-3,
    seeds: Sequence[int] = (1, 2, 3, 4, 5),
    max_epochs: int = 1000,
    **settings: Any,
) -> Run:
    """Return what Adam with batches of 128 learns with K = 2 and four hidden layers of 128."""
    x, y = (jnp.asarray(standardise(values), float) for values in data)
    keys = [jax.random.key(seed) for seed in seeds]
    networks = [
        mixture_mlp(1, 1, key=key, n_components=2, hidden_sizes=(128, 128, 128, 128))
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
    return Run(results, x, y)


def standardise(values: np.ndarray) -> np.ndarray:
    """Return values with mean 0 and standard deviation 1 in each column."""
    return (values - values.mean(axis=0)) / values.std(axis=0)
