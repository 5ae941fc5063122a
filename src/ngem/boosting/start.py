"""Where boosting starts: one mixture for all rows, fitted by expectation maximization."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._programs import kept
from ..mixture import Mixture
from ..nn import cluster_mixture
from .curvature import Curvature, Outputs, newton

#: Rows to fit to at most, and steps of EM.
_MAX_ROWS, _STEPS = 20_000, 100

#: How far a raw output moves in a step toward the likelihood of intervals, at most; the last step.
_LARGEST_MOVE, _SMALLEST_MOVE = 0.5, 1e-3

#: Smallest standard deviation of a component, in those of the targets.
_LEAST_STD = 0.02


def marginal_start(
    outputs: Outputs,
    y: Float[np.ndarray, "batch dim"],
    weights: Float[np.ndarray, " batch"],
    rng: np.random.Generator,
) -> Float[np.ndarray, " raw"]:
    """Return the raw outputs of a mixture of the targets, whatever the features are.

    EM starts at k-means clusters. Rows with large weights are drawn more often.
    """
    differ = bool(np.any(weights != weights[:1]))
    chance = weights.astype(np.float64) / np.sum(weights, dtype=np.float64) if differ else None
    drawn = rng.choice(len(y), min(len(y), _MAX_ROWS), replace=differ, p=chance)
    y = np.asarray(y[drawn], np.float64)
    mixture = cluster_mixture(y, outputs.n_components, outputs.family, rng)
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), mixture)
    mixture = _climb(single, jnp.asarray(y, jnp.float32))
    return np.asarray(outputs.head.to_raw(mixture), np.float64)


@kept()
def _climb(mixture: Mixture, y: Float[Array, "batch dim"]) -> Mixture:
    """Return the mixture after some steps of EM; for families that are not Gaussian, by moments."""
    least = (_LEAST_STD * jnp.std(y, axis=0)) ** 2 + jnp.finfo(y.dtype).eps

    def step(_: Array, mixture: Mixture) -> Mixture:
        resp = jax.vmap(mixture.responsibilities)(y)
        counts = jnp.sum(resp, axis=0) + 1e-3
        means = (resp.T @ y) / counts[:, None]
        offsets = (y[:, None] - means[None]) ** 2
        variances = jnp.sum(resp[:, :, None] * offsets, axis=0) / counts[:, None] + least[None]
        from_cluster = jax.vmap(mixture.family.from_cluster, in_axes=(None, 1, 0, 0))
        components = from_cluster(y, resp, means, variances)
        return Mixture(jnp.log(counts / jnp.sum(counts)), components, mixture.family)

    return jax.lax.fori_loop(0, _STEPS, step, mixture)


def to_intervals(
    outputs: Outputs,
    curvature: Curvature,
    start: Float[np.ndarray, " raw"],
    ends: Float[np.ndarray, "twice batch"],
    weights: Float[np.ndarray, " batch"],
) -> Float[np.ndarray, " raw"]:
    """Return a start that suits what intervals say of censored targets, whatever the features are.

    A step is that of a leaf with all rows. Moments of values in intervals are far from the truth
    where many targets are censored, and trees would first have to make up for it.

    Args:
        outputs: What raw outputs stand for.
        curvature: How steps are scaled.
        start: Raw outputs that suit the moments.
        ends: Ends of the intervals, rows last.
        weights: How much each row counts.
    """
    raw = np.asarray(start, np.float32)
    for _ in range(_STEPS):
        # One row's outputs for all: the program is the one that the rounds of trees need anyway.
        rows = np.broadcast_to(raw[:, None], (len(raw), ends.shape[1]))
        now = newton(outputs, curvature, *map(jnp.asarray, (rows, ends, weights)))
        grad, total = (np.sum(np.asarray(part), axis=1) for part in (now.grad, now.curvature))
        # The weight of a single component has neither a gradient nor a curvature.
        move = np.divide(grad, total, out=np.zeros_like(grad), where=total > 0)
        if np.max(np.abs(move)) < _SMALLEST_MOVE:
            break
        raw = raw - np.clip(move, -_LARGEST_MOVE, _LARGEST_MOVE)
    return raw.astype(np.float64)
