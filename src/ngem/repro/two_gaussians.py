"""Two-Gaussians (Sec. 4.1, Table 7): a mixture without a network, learned one point at a time.

Settings that the paper leaves open: centers at +-(4, 4), standard deviation 0.7; the scales are
learned directly, not through exp, and start at 2; logits start at 0 and means at N(0, 1).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..datasets import TwoGaussians, two_gaussians
from ..mixture import Mixture, gaussian_mixture
from ..objectives import NGEM, NLL, OBJECTIVES, AbstractObjective
from .store import Unit, rounded

#: A scale that is learned directly could step below zero; it is clipped at this value.
SCALE_FLOOR = 1e-3


@dataclass(frozen=True)
class Settings:
    """Table 7.

    Attributes:
        objectives: Names of objectives.
        learning_rates: Learning rates of SGD.
        seeds: Seeds of initial means and of the order of points.
        epochs: Passes over the points, one point a step.
        n_points: Points in all.
        weights: Weight of the first Gaussian, one run for each.
    """

    objectives: list[str]
    learning_rates: list[float]
    seeds: list[int]
    epochs: int
    n_points: int
    weights: list[float]


def units(settings: Settings) -> list[Unit]:
    """Return one unit for each objective, learning rate and true weight; a unit has all seeds."""
    return [
        {"objective": objective, "learning_rate": rate, "weight": weight}
        for weight in settings.weights
        for rate in settings.learning_rates
        for objective in settings.objectives
    ]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return what all seeds learned."""
    weight = unit["weight"]
    data = two_gaussians(settings.n_points, weights=(weight, 1 - weight))
    trained = train(
        data,
        _objective(unit["objective"]),
        learning_rate=unit["learning_rate"],
        seeds=tuple(settings.seeds),
        epochs=settings.epochs,
    )
    optimum = best_nll(data)
    mean, scale = (np.asarray(part) for part in trained.mixture.components)
    nearest = np.argmin(np.linalg.norm(mean - data.means[0], axis=-1), axis=1)
    weights = np.asarray(trained.mixture.weights)
    return {
        "optimum": rounded(optimum),
        "nll": rounded(trained.nll[:, -1]),
        "entropy": rounded(trained.entropy()),
        "iterations_to_optimum": [
            None if np.isinf(n) else int(n) for n in trained.iterations_to(optimum + 0.1)
        ],
        "learned_weight": rounded(weights[np.arange(len(weights)), nearest]),
        "iterations": trained.iterations[::2].tolist(),
        "curve": rounded(trained.nll[:, ::2]),
        "path": rounded(trained.means[min(1, len(weights) - 1), ::4]),
        "mixture": {
            "weights": rounded(weights),
            "mean": rounded(mean),
            "scale": rounded(scale),
        },
    }


def _objective(name: str) -> AbstractObjective:
    """Return an objective; scales are learned directly here, so they are the coordinates."""
    return NGEM(coordinates="scale") if name == "ngem" else OBJECTIVES[name]


def true_density(data: TwoGaussians) -> Mixture:
    """Return the density that the points are drawn from."""
    scale = np.full_like(data.means, data.scale)
    return gaussian_mixture(np.log(data.weights), data.means, scale)


def best_nll(data: TwoGaussians) -> float:
    """Return the lowest NLL: each component has the moments of its own points."""
    halves = [data.points[data.points[:, 0] * sign > 0] for sign in (-1, 1)]
    mixture = gaussian_mixture(
        np.log([len(half) / len(data.points) for half in halves]),
        np.stack([half.mean(axis=0) for half in halves]),
        np.stack([half.std(axis=0) for half in halves]),
    )
    return float(NLL()(mixture, np.asarray(data.points)))


class Run(NamedTuple):
    """What one objective learned; the leading axis of every array is the seed."""

    iterations: np.ndarray  # (logs,), no seed axis
    nll: np.ndarray  # (seeds, logs), over all points
    means: np.ndarray  # (seeds, logs, comp, 2)
    mixture: Mixture

    def entropy(self) -> np.ndarray:
        """Return the entropy of the learned weights of each seed."""
        return np.asarray(self.mixture.weight_entropy())

    def iterations_to(self, nll: float) -> np.ndarray:
        """Return the iteration after which each seed stays below an NLL, infinity if never."""
        above = self.nll > nll
        last_above = self.nll.shape[1] - 1 - np.argmax(above[:, ::-1], axis=1)
        stays = np.where(above.any(axis=1), last_above + 1, 0)
        return np.append(self.iterations, np.inf)[stays]


def initial_mixture(key: PRNGKeyArray, n_components: int = 2) -> Mixture:
    """Return equal weights, means from N(0, 1) and scales of 2."""
    mean = jax.random.normal(key, (n_components, 2))
    return gaussian_mixture(jnp.zeros_like(mean[:, 0]), mean, jnp.full_like(mean, 2.0))


def train(
    data: TwoGaussians,
    objective: AbstractObjective,
    *,
    learning_rate: float,
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5),
    epochs: int = 50,
    log_every: int = 20,
    on_epoch: Callable[[int], None] = lambda epoch: None,
) -> Run:
    """Return what SGD with batches of one point learns, all seeds in one program."""
    points = jnp.asarray(data.points, float)
    rate = jnp.asarray(learning_rate, points.dtype)
    keys = jax.vmap(jax.random.key)(jnp.array(seeds))
    mixture = jax.vmap(initial_mixture)(keys)
    logs = [_measure(points, mixture)]
    for epoch in range(epochs):
        epoch_keys = jax.vmap(partial(jax.random.fold_in, data=epoch))(keys)
        mixture, log = _epochs(objective, log_every, points, rate, mixture, epoch_keys)
        logs.append(log)
        on_epoch(epoch)
    nll, means = (np.concatenate(part, axis=1) for part in zip(*logs, strict=True))
    return Run(log_every * np.arange(nll.shape[1]), nll, means, mixture)


def _measure(
    points: Float[Array, "batch 2"], mixture: Mixture
) -> tuple[Float[Array, "seed 1"], Float[Array, "seed 1 comp 2"]]:
    nll = jax.vmap(lambda row: NLL()(row, points))(mixture)
    return nll[:, None], mixture.components.mean[:, None]


# The learning rate is an argument, so that all rates share one program.
@partial(jax.jit, static_argnums=(0, 1))
@partial(jax.vmap, in_axes=(None, None, None, None, 0, 0))
def _epochs(
    objective: AbstractObjective,
    log_every: int,
    points: Float[Array, "batch 2"],
    rate: Float[Array, ""],
    mixture: Mixture,
    key: PRNGKeyArray,
) -> tuple[Mixture, tuple[Array, Array]]:
    """Run one epoch of SGD for each seed, one point a step, logging every few steps."""

    def step(mixture: Mixture, point: Array) -> tuple[Mixture, None]:
        grads = jax.grad(objective)(mixture, point[None])
        mixture = jax.tree.map(lambda leaf, grad: leaf - rate * grad, mixture, grads)
        scale = jnp.maximum(mixture.components.scale, SCALE_FLOOR)
        components = mixture.components._replace(scale=scale)
        return Mixture(mixture.logits, components, mixture.family), None

    def chunk(mixture: Mixture, batch: Array) -> tuple[Mixture, tuple[Array, Array]]:
        mixture, _ = jax.lax.scan(step, mixture, batch)
        return mixture, (NLL()(mixture, points), mixture.components.mean)

    shuffled = jax.random.permutation(key, points)
    return jax.lax.scan(chunk, mixture, shuffled.reshape(-1, log_every, 2))
