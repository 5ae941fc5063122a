"""One training step: loss of a batch, its gradient, and the update of the parameters."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._programs import kept
from ..distributed.mesh import added_up
from ..nn import MixtureNetwork, apply, output_gradient, tapped
from ..objectives import NLL, AbstractObjective
from ..objectives.layout import rows_go_last
from ..optimizers import tapped_statistics
from .data import Data
from .plan import Hyper, Plan
from .state import NOISE, State, as_vector, make_optimizer


class Run(NamedTuple):
    """What does not change during a fit.

    Attributes:
        static: The network without its parameters.
        plan: How to train.
        data: Rows to learn from.
        validation: Rows for early stopping, or None.
        hyper: The numbers of this run.
        mesh: The devices over which each batch is spread, or None for one device.
    """

    static: Any
    plan: Plan
    data: Data
    validation: Data | None
    hyper: Hyper
    mesh: Mesh | None = None

    def network(self, params: Any) -> MixtureNetwork:
        """Return the network with these parameters."""
        return eqx.combine(params, self.static)


@runtime_checkable
class AbstractBatches(Protocol):
    """The batches of an epoch, or of a part of it.

    Attributes:
        n_batches: Batches per epoch.
        is_divided: Whether each device of a mesh has its own rows only, not all.
    """

    @property
    def n_batches(self) -> Any: ...

    @property
    def is_divided(self) -> bool: ...

    def mass(self, batch: Data | None, number: Int[Array, ""]) -> Float[Array, ""]:
        """Return the sum of the weights of a batch."""
        ...

    def take(self, data: Data, number: Int[Array, ""]) -> Data:
        """Return a batch."""
        ...

    def take_part(
        self, data: Data, number: Int[Array, ""], part: Int[Array, ""], parts: int
    ) -> Data:
        """Return the part of a batch that belongs to a device, with weights."""
        ...


def take_step(
    run: Run, batches: AbstractBatches, state: State, number: Int[Array, ""]
) -> tuple[State, tuple[Float[Array, ""], Float[Array, ""]]]:
    """Return the state after one batch, and the batch's summed loss and summed weights.

    A step whose loss or gradient is not finite is skipped and counted.
    """
    is_whole = run.mesh is None or not batches.is_divided
    batch = batches.take(run.data, number) if is_whole else None
    step = _Step(
        batch,
        batches.mass(batch, number).astype(run.data.y.dtype),
        state.step.astype(run.data.y.dtype),
        run.hyper.max_epochs * batches.n_batches,
        state.random_key(NOISE, state.step),
        state.annealed,
    )
    if run.mesh is None:
        value, grads = jax.value_and_grad(partial(_mean_loss, run, step))(state.params)
    else:
        value, grads = _gradient_on_mesh(run, run.mesh, batches, step, number, state.params)
    grads, is_sound = _clip(run.plan, as_vector(run.plan, grads)[0])
    is_sound &= jnp.isfinite(value)
    moving = (state.params, state.optimizer, state.average)
    # A branch: a choice element by element would keep a copy of everything.
    params, optimizer, average = jax.lax.cond(
        is_sound, partial(_update, run, step, grads), lambda same: same, moving
    )
    state = state._replace(
        params=params,
        optimizer=optimizer,
        average=average,
        step=state.step + 1,
        skipped=state.skipped + ~is_sound,
        skipped_in_a_row=jnp.where(is_sound, 0, state.skipped_in_a_row + 1),
    )
    mass = step.mass
    return state, (jnp.where(is_sound, value * mass, 0.0), jnp.where(is_sound, mass, 0.0))


class _Step(NamedTuple):
    """What belongs to one step: its rows, its place in training and its randomness.

    The rows are None where each device of a mesh has some of them.
    """

    batch: Data | None
    mass: Float[Array, ""]
    number: Float[Array, ""]
    n_steps: Int[Array, ""]
    key: PRNGKeyArray
    annealed: Bool[Array, ""]

    @property
    def progress(self) -> Float[Array, ""]:
        """The fraction of training that lies behind."""
        return self.number / self.n_steps.astype(self.number.dtype)


def _mean_loss(run: Run, step: _Step, params: Any) -> Float[Array, ""]:
    assert step.batch is not None, "one device has all rows"
    weights, power = step.batch.weights, run.hyper.power_at(step.progress, step.annealed)
    losses = row_losses(run.network(params), run.plan.objective, step.batch, power, step.key)
    if weights is None:
        return jnp.mean(losses)
    return jnp.sum(weights * losses) / jnp.maximum(step.mass, jnp.finfo(losses.dtype).tiny)


def _gradient_on_mesh(
    run: Run, mesh: Mesh, batches: AbstractBatches, step: _Step, number: Int[Array, ""], params: Any
) -> tuple[Float[Array, ""], Any]:
    """Return a batch's mean loss and its gradient; each device computes those of its rows."""
    power = run.hyper.power_at(step.progress, step.annealed)
    objective, parts = run.plan.objective, mesh.size

    def of_part(part: Int[Array, ""], given: tuple, own: Any) -> tuple[Float[Array, ""], Any]:
        params, static, data, batches, number, power, key = given
        rows = batches.take_part(own if data is None else data, number, part, parts)
        key = jax.random.fold_in(key, part)  # each device drops other units

        def total(params: Any) -> Float[Array, ""]:
            losses = row_losses(eqx.combine(params, static), objective, rows, power, key)
            assert rows.weights is not None, "a part of a batch has weights"
            return jnp.sum(rows.weights * losses)

        value, grads = jax.value_and_grad(total)(params)
        return value, as_vector(run.plan, grads)[0]

    whole, own = (None, run.data) if batches.is_divided else (run.data, None)
    given = (params, run.static, whole, batches, number, power, step.key)
    value, grads = added_up(mesh, of_part, given, own)
    mass = jnp.maximum(step.mass, jnp.finfo(value.dtype).tiny)
    undo = as_vector(run.plan, params)[1]
    return value / mass, jax.tree.map(lambda leaf: leaf / mass, undo(grads))


def row_losses(
    network: MixtureNetwork,
    objective: AbstractObjective,
    data: Data,
    power: Float[Array, ""] | None = None,
    key: PRNGKeyArray | None = None,
) -> Float[Array, " batch"]:
    """Return the loss of each row; `ngem.objectives.layout` says which axis holds the rows."""
    go_last = rows_go_last(
        network.family, data.y.shape[:1], n_components=network.n_components, dim=network.dim
    )
    if go_last and network.takes_rows and data.condition is None:
        logits, components = network.outputs(data.x.T, key)
        return objective.loss(network.family, logits, components, data.y.T, power)
    return objective.losses(apply(network, data.x, key), data.y, power, data.condition)


def mean_nll(network: MixtureNetwork, data: Data) -> Float[Array, ""]:
    """Return the mean negative log-likelihood of the rows, weighted if they have weights."""
    return _mean(row_losses(network, NLL(), data), data)


def stopping_loss(network: MixtureNetwork, data: Data, tail: float) -> Float[Array, ""]:
    """Return the mean negative log-likelihood of held-out rows, with a light tail.

    The density is mixed with a little of a standard Cauchy density, so that what one row can say is
    bounded: a single outlier among the held-out rows must not end the training. Targets are taken
    to be of the order of one, as standardized targets are.
    """
    if not tail:
        return mean_nll(network, data)
    losses = row_losses(network, NLL(), data)
    far = _log_cauchy(data.y, network.dim)
    mixed = jnp.logaddexp(math.log1p(-tail) - losses, math.log(tail) + far)
    return _mean(-mixed, data)


def _log_cauchy(y: Float[Array, "batch given"], dim: int) -> Float[Array, " batch"]:
    """Return the log density of targets, or the log probability of the intervals that hold them."""
    density = -(jnp.log1p(y[:, :dim] ** 2) + math.log(math.pi))
    if y.shape[1] == dim:
        return jnp.sum(density, axis=-1)
    lower, upper = jnp.split(y, 2, axis=1)
    mass = jnp.where(lower == upper, 1.0, (jnp.arctan(upper) - jnp.arctan(lower)) / math.pi)
    least = jnp.finfo(y.dtype).tiny
    return jnp.sum(jnp.where(lower == upper, density, jnp.log(jnp.maximum(mass, least))), axis=-1)


def _mean(losses: Float[Array, " batch"], data: Data) -> Float[Array, ""]:
    return jnp.mean(losses) if data.weights is None else jnp.average(losses, weights=data.weights)


@kept()
def row_nll(network: MixtureNetwork, data: Data) -> Float[Array, " batch"]:
    """Return the negative log-likelihood of each row."""
    return row_losses(network, NLL(), data)


def _clip(plan: Plan, grads: Any) -> tuple[Any, Bool[Array, ""]]:
    """Return the gradients, at most `clip_norm` long, and whether they are finite."""
    is_sound = all_leaves(_has_finite_squares, grads)
    if plan.clip_norm is None:
        return grads, is_sound
    clipped, _ = optax.clip_by_global_norm(plan.clip_norm).update(grads, optax.EmptyState())
    return clipped, is_sound & jnp.isfinite(optax.tree.norm(grads))


def _update(
    run: Run, step: _Step, grads: Any, moving: tuple[Any, Any, Any]
) -> tuple[Any, Any, Any]:
    """Return parameters, optimizer state and moving average after a step."""
    params, optimizer_state, average = moving
    network = run.network(params)
    rate = run.hyper.learning_rate * run.plan.rate_factor(step.progress)
    optimizer: Any = make_optimizer(run.plan, rate, network)
    extra = {}
    if run.plan.optimizer_spec.needs_curvature:
        assert step.batch is not None, "`fit_stream` refuses these optimizers on a mesh"
        extra["curvature"] = _curvature(network, step.batch.rows, step.key)
    updates, optimizer_state = optimizer.update(grads, optimizer_state, params, **extra)
    decay = rate * run.hyper.weight_decay
    undo = as_vector(run.plan, params)[1]
    params = jax.tree.map(
        lambda p, u: p + u - (decay * p if p.ndim > 1 else 0.0), params, undo(updates)
    )
    if run.plan.ema is not None:
        average = _moving_average(run.plan.ema, step.number, average, params)
    return params, optimizer_state, average


def _moving_average(ema: float, step: Float[Array, ""], average: Any, params: Any) -> Any:
    # Early on the average is over few steps, so that it does not keep the start.
    decay = jnp.minimum(ema, (1 + step) / (10 + step))
    return jax.tree.map(lambda a, p: decay * a + (1 - decay) * p, average, params)


def _curvature(
    network: MixtureNetwork, x: Float[Array, "batch features"], key: PRNGKeyArray
) -> Any:
    """Return what K-FAC needs: gradients of a complete-data log-likelihood sampled from the model.

    Their second moment is the complete-data Fisher information of Proposition 4.
    """
    raw = jax.vmap(network.body)(x)
    keys = jax.random.split(jax.random.fold_in(key, 1), len(x))
    cotangent = jax.vmap(partial(output_gradient, network))(raw, keys)
    return tapped_statistics(tapped, network, x, cotangent)


def all_leaves(test: Callable[[Array], Bool[Array, ""]], tree: Any) -> Bool[Array, ""]:
    """Return whether a test holds for every leaf."""
    results = [test(leaf) for leaf in jax.tree.leaves(tree)]
    return jnp.all(jnp.stack(results)) if results else jnp.ones((), bool)


def _has_finite_squares(leaf: Float[Array, "..."]) -> Bool[Array, ""]:
    """Return whether numbers and their squares, which Adam keeps, are finite, in one product."""
    return jnp.isfinite(jnp.vdot(leaf, leaf))
