"""Two-Gaussians (Sec. 4.1, Table 7): a mixture without a network, learned one point at a time.

Settings that the paper leaves open: centres at +-(4, 4), standard deviation 0.7; the scales are
learned as they are, not through exp, and start at 2; logits start at 0 and means at N(0, 1).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import LocationScale
from ..datasets import TwoGaussians
from ..mixture import Mixture
from ..objectives import NLL, AbstractObjective

#: Learned directly, a scale could step below zero; it is held at or above this.
SCALE_FLOOR = 1e-3


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
        """Return when each seed first came to a likelihood to stay, infinity if it never did."""
        above = self.nll > nll
        last_above = self.nll.shape[1] - 1 - np.argmax(above[:, ::-1], axis=1)
        stays = np.where(above.any(axis=1), last_above + 1, 0)
        return np.append(self.iterations, np.inf)[stays]


def initial_mixture(key: PRNGKeyArray, n_components: int = 2) -> Mixture:
    """Return equal weights, means from N(0, 1) and wide scales."""
    mean = jax.random.normal(key, (n_components, 2))
    return Mixture(jnp.zeros_like(mean[:, 0]), LocationScale(mean, jnp.full_like(mean, 2.0)))


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
    optimizer = optax.sgd(learning_rate)
    keys = jax.vmap(jax.random.key)(jnp.array(seeds))
    mixture = jax.vmap(initial_mixture)(keys)
    arrays: Any = mixture  # a pytree, which optax's annotations do not see
    state = jax.vmap(optimizer.init)(arrays)
    run_epoch = jax.jit(jax.vmap(partial(_epoch, objective, optimizer, log_every, points)))
    logs = [_measure(points, mixture)]
    for epoch in range(epochs):
        epoch_keys = jax.vmap(partial(jax.random.fold_in, data=epoch))(keys)
        (mixture, state), log = run_epoch(mixture, state, epoch_keys)
        logs.append(log)
        on_epoch(epoch)
    nll, means = (np.concatenate(part, axis=1) for part in zip(*logs, strict=True))
    return Run(log_every * np.arange(nll.shape[1]), nll, means, mixture)


def _measure(
    points: Float[Array, "batch 2"], mixture: Mixture
) -> tuple[Float[Array, "seed 1"], Float[Array, "seed 1 comp 2"]]:
    nll = jax.vmap(lambda row: NLL()(row, points))(mixture)
    return nll[:, None], mixture.components.mean[:, None]


def _epoch(objective, optimizer, log_every, points, mixture, state, key):
    """Visit every point once in random order, logging every few steps."""

    def step(carry, point):
        mixture, state = carry
        grads = jax.grad(objective)(mixture, point[None])
        updates, state = optimizer.update(grads, state)
        mixture = jax.tree.map(jnp.add, mixture, updates)
        scale = jnp.maximum(mixture.components.scale, SCALE_FLOOR)
        components = mixture.components._replace(scale=scale)
        return (Mixture(mixture.logits, components, mixture.family), state), None

    def chunk(carry, batch):
        (mixture, state), _ = jax.lax.scan(step, carry, batch)
        return (mixture, state), (NLL()(mixture, points), mixture.components.mean)

    shuffled = jax.random.permutation(key, points)
    return jax.lax.scan(chunk, (mixture, state), shuffled.reshape(-1, log_every, 2))
