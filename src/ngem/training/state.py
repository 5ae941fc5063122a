"""What a run is, and what it ends with."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._programs import kept
from ..nn import MixtureNetwork, hidden_matrices
from .plan import Plan

#: Up to this many parameters, one vector of all is cheaper than an array for each layer.
_SMALL_NETWORK = 100_000

#: Streams of randomness within a run: the order of rows, and what is drawn in a step.
ORDER, NOISE = 0, 1


class State(NamedTuple):
    """All that a run is: what is needed to continue as if nothing had happened."""

    params: Any
    optimizer: Any
    average: Any
    best: Any
    best_loss: Float[Array, ""]
    best_epoch: Int[Array, ""]
    key: PRNGKeyArray
    epoch: Int[Array, ""]
    step: Int[Array, ""]
    skipped: Int[Array, ""]
    skipped_in_a_row: Int[Array, ""]
    done: Bool[Array, ""]
    annealed: Bool[Array, ""]

    def random_key(self, stream: int, count: Int[Array, ""]) -> PRNGKeyArray:
        """Return the key of an epoch or of a step in one of the streams."""
        return jax.random.fold_in(self.key, 2 * count + stream)


class History(NamedTuple):
    """Mean negative log-likelihood of each epoch: while training, and on validation data."""

    train: np.ndarray
    validation: np.ndarray


class Place(NamedTuple):
    """Where a run is within an epoch, so that a checkpoint can hold it.

    Attributes:
        window: Windows of the epoch that lie behind.
        total: Sum of the losses of their rows.
        mass: Sum of their weights.
    """

    window: int = 0
    total: float = 0.0
    mass: float = 0.0


class Progress(NamedTuple):
    """What a callback receives after an epoch."""

    epoch: int
    max_epochs: int
    train_nll: float
    validation_nll: float
    best_nll: float
    skipped: int
    seconds: float
    member: int = 0


class FitResult(NamedTuple):
    """What a fit ends with."""

    network: MixtureNetwork
    history: History
    best_epoch: int
    skipped: int
    state: State


class FitError(RuntimeError):
    """A fit that could not go on; `result` holds the last good parameters."""

    def __init__(self, message: str, result: FitResult):
        super().__init__(message)
        self.result = result

    def __reduce__(self) -> tuple[type["FitError"], tuple[str, FitResult]]:
        # Without this a worker process could not pass its error to the process that waits for it.
        return type(self), (str(self), self.result)


@kept()
def initial_state(network: MixtureNetwork, plan: Plan, key: PRNGKeyArray) -> State:
    """Return the state before the first epoch.

    One program: a first fit would wait longer for one program per array.
    """
    params = eqx.filter(network, eqx.is_inexact_array)
    optimizer = make_optimizer(plan, jnp.zeros(()), network)
    zero = jnp.zeros((), jnp.int32)
    state = State(
        params=params,
        optimizer=optimizer.init(as_vector(plan, params)[0]),
        average=None if plan.ema is None else params,
        best=params,
        best_loss=jnp.array(jnp.inf, dtype_of(params)),
        best_epoch=zero,
        key=key,
        epoch=zero,
        step=zero,
        skipped=zero,
        skipped_in_a_row=zero,
        done=jnp.zeros((), bool),
        annealed=jnp.zeros((), bool),
    )
    # Copies, because every buffer is donated once.
    return jax.tree.map(jnp.copy, state)


def make_optimizer(
    plan: Plan, rate: Float[Array, ""], network: MixtureNetwork
) -> optax.GradientTransformation:
    """Return the plan's optimizer for a network."""
    return plan.optimizer_spec.make(rate, hidden_matrices(network))


def as_vector(plan: Plan, tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return a pytree like the parameters as one vector, and the function that undoes it.

    Small networks have many small arrays. Each costs a step's time, and much more to compile. Large
    networks stay as they are, and so do those whose optimizer looks at matrices.
    """
    size = sum(leaf.size for leaf in jax.tree.leaves(tree))
    if plan.optimizer_spec.is_elementwise and 0 < size <= _SMALL_NETWORK:
        return ravel_pytree(tree)
    return tree, lambda same: same


def dtype_of(params: Any) -> Any:
    """Return the precision of a run; single for a network without parameters."""
    leaves = jax.tree.leaves(params)
    return leaves[0].dtype if leaves else jnp.float32
