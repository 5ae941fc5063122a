"""K-FAC for dense layers (Martens & Grosse 2015): natural gradients from Kronecker factors."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.custom_batching import sequential_vmap
from jaxtyping import Array, Bool, Float, Int, PyTree


class LayerStatistics(NamedTuple):
    """Statistics of one layer, from one backward pass of a sampled log-likelihood.

    Attributes:
        inputs: Inputs of the layer.
        output_grads: Per-sample gradients with respect to the layer's pre-activations, not divided
            by the batch size.
    """

    inputs: Float[Array, "batch fan_in"]
    output_grads: Float[Array, "batch fan_out"]


class Factors(NamedTuple):
    """A = E[a a^T] (with 1 appended to a for a bias) and G = E[g g^T], or their inverses."""

    inputs: Float[Array, "fan_in fan_in"]
    outputs: Float[Array, "fan_out fan_out"]


class KfacState(NamedTuple):
    """Number of steps; factors and damped inverses per layer; velocity per block."""

    step: Int[Array, ""]
    factors: list[Factors]
    inverses: list[Factors]
    velocity: list[Float[Array, "..."]]


def kfac(
    learning_rate: optax.ScalarOrSchedule,
    decay: float = 0.95,
    damping: float = 1e-3,
    kl_clip: float = 1e-4,
    momentum: float = 0.9,
    inverse_frequency: int = 10,
    weight_decay: float = 0.0,
) -> optax.GradientTransformationExtraArgs:
    """Return a K-FAC optimizer for the `eqx.nn.Linear` layers of any pytree.

    V = (G + sqrt(damping)/pi I)^-1 dW (A + pi sqrt(damping) I)^-1 (Martens & Grosse 2015), scaled
    down if lr^2 <V, F V> exceeds `kl_clip`, then momentum. Arrays outside a Linear layer get
    momentum on the plain gradient.

    Call `update(grads, state, params, curvature=...)` with one `LayerStatistics` per Linear, in
    flatten order; `tapped_statistics` computes them. Under `vmap` the inverses are computed for
    one seed at a time, because batched LAPACK calls hang inside `scan` (jax 0.10.2, CPU). They are
    computed only every `inverse_frequency` steps, also if `step` is batched. Call `init` with the
    parameters of one seed.

    Args:
        learning_rate: A number or an optax schedule.
        decay: Decay of the moving averages of the factors, which are debiased.
        damping: Damping of the Fisher matrix, split between the two factors.
        kl_clip: Bound on lr^2 <V, F V>, which is twice the KL divergence of a step. With momentum
            a step may exceed it by a factor of 1 / (1 - momentum)^2. Infinity means no bound.
        momentum: Momentum of the velocity: u <- momentum u + V.
        inverse_frequency: Number of steps between two computations of the inverses.
        weight_decay: Decoupled weight decay, as in AdamW; `update` then needs `params`.

    Returns:
        The transformation.
    """

    @sequential_vmap
    def refresh(due: Bool[Array, ""], factors: list[Factors], old: list[Factors]) -> list[Factors]:
        return lax.cond(due, lambda: [_invert(_damped(f, damping)) for f in factors], lambda: old)

    def init(params: optax.Params) -> KfacState:
        blocks = jax.tree.leaves(params, is_leaf=_is_linear)
        velocity = [jnp.zeros_like(_matrix(block)) for block in blocks]
        zeros = [_zero_factors(v) for v, b in zip(velocity, blocks, strict=True) if _is_linear(b)]
        return KfacState(jnp.zeros((), jnp.int32), zeros, zeros, velocity)

    def update(
        updates: optax.Updates,
        state: KfacState,
        params: optax.Params | None = None,
        *,
        curvature: tuple[LayerStatistics, ...],
        **extra: Any,
    ) -> tuple[optax.Updates, KfacState]:
        del extra
        if weight_decay and params is None:
            raise ValueError(
                "update with weight decay needs the parameters, got params=None; "
                "call update(grads, state, params, curvature=...)."
            )
        blocks, treedef = jax.tree.flatten(updates, is_leaf=_is_linear)
        _check(curvature, [block for block in blocks if _is_linear(block)])
        steps = [_matrix(block) for block in blocks]
        layers = [i for i, block in enumerate(blocks) if _is_linear(block)]
        lr = learning_rate(state.step) if callable(learning_rate) else learning_rate
        lr = jnp.asarray(lr, float)

        factors = [_average(f, s, decay) for f, s in zip(state.factors, curvature, strict=True)]
        current = [_debias(f, decay, state.step) for f in factors]
        inverses = refresh(state.step % inverse_frequency == 0, current, state.inverses)
        natural = [f.outputs @ steps[i] @ f.inputs for i, f in zip(layers, inverses, strict=True)]
        natural = _clip(natural, [_damped(f, damping) for f in current], lr, kl_clip)
        for i, v in zip(layers, natural, strict=True):
            steps[i] = v
        velocity = [momentum * u + v for u, v in zip(state.velocity, steps, strict=True)]

        moved = jax.tree.unflatten(treedef, map(_like, blocks, velocity))
        state = KfacState(state.step + 1, factors, inverses, velocity)
        return _scale(moved, params, lr, weight_decay), state

    return optax.GradientTransformationExtraArgs(init, update)  # pyright: ignore[reportArgumentType]


def tapped_statistics(
    apply_with_taps: Callable[..., tuple[PyTree, tuple[Float[Array, "batch _"], ...]]],
    params: PyTree,
    x: PyTree,
    output_cotangent: PyTree,
) -> tuple[LayerStatistics, ...]:
    """Return every layer's statistics from one backward pass of a vector at the outputs.

    `apply_with_taps(params, x, taps)` adds a tap of shape (batch, out) to each Linear's
    pre-activation, and returns the outputs and the tuple of the layers' inputs. Taps are zero; the
    gradient with respect to a tap is the gradient with respect to the pre-activation.

    Args:
        apply_with_taps: The network, on a batch.
        params: A pytree with the network's Linear layers, in the order of the taps.
        x: A batch of inputs to the network, with leading axis `batch`.
        output_cotangent: A random vector per sample. Its covariance is the Fisher matrix of the
            likelihood in the network's outputs. It is not divided by the batch size.

    Returns:
        The `curvature` argument of K-FAC's `update`.
    """
    layers = [b for b in jax.tree.leaves(params, is_leaf=_is_linear) if _is_linear(b)]
    batch = jax.tree.leaves(x)[0].shape[0]
    taps = tuple(jnp.zeros((batch, len(lin.weight)), lin.weight.dtype) for lin in layers)
    _, pull_back, inputs = jax.vjp(lambda t: apply_with_taps(params, x, t), taps, has_aux=True)
    return tuple(map(LayerStatistics, inputs, *pull_back(output_cotangent)))


def _is_linear(node: Any) -> bool:
    return isinstance(node, eqx.nn.Linear)


def _matrix(block: Any) -> Float[Array, "..."]:
    """Return [W, b] for a Linear layer, and any other array unchanged."""
    if not _is_linear(block):
        return block
    columns = [block.weight] if block.bias is None else [block.weight, block.bias[:, None]]
    return jnp.concatenate(columns, axis=1)


def _like(block: Any, matrix: Float[Array, "..."]) -> Any:
    """Return `matrix` with the structure of `block`; the inverse of `_matrix`."""
    if not _is_linear(block):
        return matrix
    if block.bias is None:
        return eqx.tree_at(lambda lin: lin.weight, block, matrix)
    return eqx.tree_at(lambda lin: (lin.weight, lin.bias), block, (matrix[:, :-1], matrix[:, -1]))


def _zero_factors(matrix: Float[Array, "fan_out fan_in"]) -> Factors:
    """Return factors of zeros for a layer whose weights and bias form `matrix`."""
    return Factors(*(jnp.zeros((n, n), matrix.dtype) for n in reversed(matrix.shape)))


def _average(factors: Factors, seen: LayerStatistics, decay: float) -> Factors:
    """Return the moving averages of A and G, updated with one batch."""
    a, g = seen
    if a.shape[1] < len(factors.inputs):
        a = jnp.concatenate([a, jnp.ones_like(a[:, :1])], axis=1)
    batch = Factors(a.T @ a / len(a), g.T @ g / len(g))
    return jax.tree.map(lambda old, new: decay * old + (1 - decay) * new, factors, batch)


def _debias(factors: Factors, decay: float, step: Int[Array, ""]) -> Factors:
    """Return moving averages corrected for their start at zero."""
    return jax.tree.map(lambda f: f / (1 - decay ** (step + 1).astype(f.dtype)), factors)


def _damped(factors: Factors, damping: float) -> Factors:
    """Return A + pi sqrt(damping) I and G + sqrt(damping)/pi I, factored Tikhonov damping.

    pi^2 = (tr A / dim A) / (tr G / dim G) damps both factors in proportion to their size. The
    product of the two dampings is `damping` for any pi, also for a dead layer with a trace of zero.
    """
    tiny = jnp.finfo(factors.inputs.dtype).tiny
    a, g = (jnp.sqrt(jnp.maximum(jnp.trace(f) / len(f), tiny)) for f in factors)
    shifts = Factors(damping**0.5 * a / g, damping**0.5 * g / a)
    return jax.tree.map(lambda f, d: f + d * jnp.eye(len(f), dtype=f.dtype), factors, shifts)


def _invert(factors: Factors) -> Factors:
    """Return the inverses of two positive definite factors."""

    def inverse(factor: Float[Array, "dim dim"]) -> Float[Array, "dim dim"]:
        values, vectors = jnp.linalg.eigh(factor)
        # Rounding may make an eigenvalue zero or negative; Cholesky would then give NaN.
        floor = jnp.maximum(values[-1] * jnp.finfo(factor.dtype).eps, jnp.finfo(factor.dtype).tiny)
        return (vectors / jnp.maximum(values, floor)[None]) @ vectors.T

    return jax.tree.map(inverse, factors)


def _clip(
    steps: list[Float[Array, "_ _"]], metric: list[Factors], lr: Float[Array, ""], bound: float
) -> list[Float[Array, "_ _"]]:
    """Return the steps scaled so that lr^2 sum <V, G V A> is at most `bound`.

    The metric is the current one; the inverses may be several steps old.
    """
    pairs = zip(steps, metric, strict=True)
    norms = [jnp.sum(v * (f.outputs @ v @ f.inputs)).astype(lr.dtype) for v, f in pairs]
    scale = jnp.minimum(1.0, jnp.sqrt(bound / jnp.maximum(lr**2 * sum(norms), 1e-30)))
    return [scale.astype(v.dtype) * v for v in steps]


def _scale(moved: PyTree, params: PyTree, lr: Float[Array, ""], weight_decay: float) -> PyTree:
    """Return -lr (moved + weight_decay params)."""
    if weight_decay:
        moved = jax.tree.map(lambda u, p: u + weight_decay * p, moved, params)
    return jax.tree.map(lambda u: -lr.astype(u.dtype) * u, moved)


def _check(curvature: tuple[LayerStatistics, ...], layers: list[eqx.nn.Linear]) -> None:
    """Raise unless every layer has one entry of the right widths."""
    if len(curvature) != len(layers):
        raise ValueError(
            f"curvature must have one entry per Linear layer, {len(layers)} here, "
            f"got {len(curvature)}; tapped_statistics returns them in the right order."
        )
    for i, (seen, layer) in enumerate(zip(curvature, layers, strict=True)):
        expected, got = layer.weight.shape[::-1], (seen[0].shape[1], seen[1].shape[1])
        if expected != got:
            raise ValueError(
                f"curvature[{i}] must have inputs and output_grads {expected} wide, got {got}; "
                "pass the layers in the order of the parameters."
            )
