"""SOAP: Adam in the eigenbasis of Shampoo's preconditioner (Vyas et al. 2024)."""

import functools as ft
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.custom_batching import sequential_vmap
from jaxtyping import Array, Float, Int

Factor = Float[Array, "dim dim"]
#: A matrix for the left side and one for the right; None for a side that is not rotated.
Sides = tuple[Float[Array, "rows rows"] | None, Float[Array, "cols cols"] | None]


class Rotated(NamedTuple):
    """State of one array: second moment in rotated space, Shampoo's factors, their eigenbases."""

    square: Float[Array, "..."]
    factors: Sides
    bases: Sides


class SoapState(NamedTuple):
    """Number of gradients so far; momentum and rotated state per array, in flatten order."""

    step: Int[Array, ""]
    means: list[Float[Array, "..."]]
    rotated: list[Rotated]


def soap(
    learning_rate: optax.ScalarOrSchedule,
    b1: float = 0.95,
    b2: float = 0.95,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    precondition_frequency: int = 10,
    max_precond_dim: int = 1024,
) -> optax.GradientTransformation:
    """Return the SOAP optimizer of Vyas et al. (2024).

    W <- W - lr (Q_L N Q_R^T + weight_decay W), where N is Adam's step on Q_L^T G Q_R.

    Args:
        learning_rate: A number or an optax schedule.
        b1: Decay of the momentum.
        b2: Decay of the second moment and of Shampoo's factors.
        eps: Added to the root of the second moment, as in Adam.
        weight_decay: Decoupled weight decay, as in AdamW; `update` then needs `params`.
        precondition_frequency: Number of steps between two updates of the eigenbases.
        max_precond_dim: Longer sides are not rotated; 0 gives exactly Adam.

    Returns:
        The transformation. See `scale_by_soap` for the first step and for `vmap`.
    """
    return optax.chain(
        scale_by_soap(b1, b2, eps, precondition_frequency, max_precond_dim),
        optax.add_decayed_weights(weight_decay) if weight_decay else optax.identity(),
        optax.scale_by_learning_rate(learning_rate),
    )


def scale_by_soap(
    b1: float = 0.95,
    b2: float = 0.95,
    eps: float = 1e-8,
    precondition_frequency: int = 10,
    max_precond_dim: int = 1024,
) -> optax.GradientTransformation:
    """Rescale gradients by SOAP; this is `soap` without learning rate and weight decay.

    Matrices are rotated; every other array gets plain Adam. As in the authors' code, the first
    gradient of a matrix only sets its eigenbases, and the first update is zero. The reason: a
    gradient rotated by its own singular vectors is diagonal, and Adam would scale the rounding
    errors off the diagonal up to full steps.

    Under `vmap` the LAPACK calls run for one seed at a time, because batched calls hang inside
    `scan` (jax 0.10.2, CPU). The update of the eigenbases stays conditional also if `step` is
    batched. Call `init` with the parameters of one seed, also under `vmap`.

    Args:
        b1: Decay of the momentum.
        b2: Decay of the second moment and of Shampoo's factors.
        eps: Added to the root of the second moment.
        precondition_frequency: Number of steps between two updates of the eigenbases.
        max_precond_dim: Longer sides are not rotated.

    Returns:
        The transformation.
    """

    def init(params: optax.Params) -> SoapState:
        leaves = jax.tree.leaves(params)
        rotated = [_init_rotated(p, max_precond_dim) for p in leaves]
        return SoapState(jnp.zeros((), jnp.int32), [jnp.zeros_like(p) for p in leaves], rotated)

    def update(
        updates: optax.Updates, state: SoapState, params: optax.Params | None = None
    ) -> tuple[optax.Updates, SoapState]:
        del params
        step, means, rotated = state
        grads, treedef = jax.tree.flatten(updates)
        leaf_step = ft.partial(_step, step=step, b1=b1, b2=b2, eps=eps)
        moved = list(map(leaf_step, grads, means, rotated))
        due = (step % precondition_frequency == 0).astype(jnp.int32)
        rotated = _refresh(jnp.where(step == 0, 2, due), [new for _, _, new in moved])
        state = SoapState(step + 1, [mean for _, mean, _ in moved], rotated)
        return jax.tree.unflatten(treedef, [direction for direction, _, _ in moved]), state

    return optax.GradientTransformation(init, update)  # pyright: ignore[reportArgumentType]


def _init_rotated(param: Float[Array, "..."], max_precond_dim: int) -> Rotated:
    """Return zero moment and factors, and identity bases for the sides to rotate."""

    def eye(axis: int) -> Factor | None:
        rotates = param.ndim == 2 and param.shape[axis] <= max_precond_dim
        return jnp.eye(param.shape[axis], dtype=param.dtype) if rotates else None

    bases = (eye(0), eye(1))
    return Rotated(jnp.zeros_like(param), jax.tree.map(jnp.zeros_like, bases), bases)


def _step(
    grad: Float[Array, "..."],
    mean: Float[Array, "..."],
    rotated: Rotated,
    *,
    step: Int[Array, ""],
    b1: float,
    b2: float,
    eps: float,
) -> tuple[Float[Array, "..."], Float[Array, "..."], Rotated]:
    """Return Adam's direction, computed in rotated space, and the updated averages."""
    square, factors, bases = rotated
    factors = _average_factors(grad, factors, b2)
    steps = (step + 1).astype(grad.dtype)
    if jax.tree.leaves(bases):  # the first gradient only sets the bases
        grad = jnp.where(step == 0, jnp.zeros_like(grad), grad)
        steps = jnp.maximum(steps - 1, 1)
    mean = (1 - b1) * grad + b1 * mean
    square = (1 - b2) * _rotate(grad, bases) ** 2 + b2 * square
    scale = jnp.sqrt(square / (1 - b2**steps)) + eps
    direction = _rotate(mean / (1 - b1**steps), bases) / scale
    return _rotate_back(direction, bases), mean, Rotated(square, factors, bases)


def _rotate(x: Float[Array, "..."], bases: Sides) -> Float[Array, "..."]:
    """Return Q_L^T X Q_R."""
    left, right = bases
    x = x if left is None else left.T @ x
    return x if right is None else x @ right


def _rotate_back(x: Float[Array, "..."], bases: Sides) -> Float[Array, "..."]:
    """Return Q_L X Q_R^T."""
    left, right = bases
    return _rotate(x, (None if left is None else left.T, None if right is None else right.T))


def _average_factors(grad: Float[Array, "..."], factors: Sides, b2: float) -> Sides:
    """Return the updated averages of G G^T and G^T G, unchanged if a product overflows."""

    def average(factor: Factor | None, g: Float[Array, "..."]) -> Factor | None:
        if factor is None:
            return None
        product = g @ g.T
        moved = b2 * factor + (1 - b2) * product
        return jnp.where(jnp.isfinite(product).all(), moved, factor)

    return average(factors[0], grad), average(factors[1], grad.T)


@sequential_vmap
def _refresh(phase: Int[Array, ""], rotated: list[Rotated]) -> list[Rotated]:
    """Keep (phase 0), update (1) or initialize (2) all eigenbases."""

    def each(change: Callable[[Rotated], Rotated]) -> Callable[[list[Rotated]], list[Rotated]]:
        return lambda leaves: [change(leaf) for leaf in leaves]

    return lax.switch(phase, [lambda leaves: leaves, each(_power_step), each(_start)], rotated)


def _start(leaf: Rotated) -> Rotated:
    """Return the state with the eigenvectors of its factors, largest eigenvalue first."""
    bases = jax.tree.map(lambda f: jnp.linalg.eigh(f)[1][:, ::-1], leaf.factors)
    return leaf._replace(bases=bases)


def _power_step(leaf: Rotated) -> Rotated:
    """Return the state after one power iteration, Q <- QR(F Q).

    Columns, and the second moment with them, are first sorted by estimated eigenvalue, because
    power iteration converges in that order.
    """
    square, factors, bases = leaf[0], leaf[1], list(leaf[2])
    for axis, (factor, basis) in enumerate(zip(factors, bases, strict=True)):
        if factor is not None and basis is not None:
            product = factor @ basis
            order = jnp.argsort(-jnp.sum(basis * product, axis=0))
            square = jnp.take(square, order, axis=axis)
            bases[axis] = jnp.linalg.qr(product[:, order])[0]
    return Rotated(square, factors, (bases[0], bases[1]))
