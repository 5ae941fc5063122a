"""Weights of densities that maximize the log score of held-out rows."""

import numpy as np
from jaxtyping import Float

#: Steps of EM at most, and the change of all weights at which it ends.
_STEPS, _TOLERANCE = 1000, 1e-7


def stacking_weights(
    log_density: Float[np.ndarray, "batch kind"],
    prior: Float[np.ndarray, " kind"],
    row_weights: Float[np.ndarray, " batch"] | None = None,
) -> Float[np.ndarray, " kind"]:
    """Return the weights w that maximize sum_i log sum_k w_k p_ik + sum_k prior_k log w_k.

    The problem is concave, and EM climbs in every step: w_k becomes the mean responsibility of
    kind k, with `prior_k` rows added that only kind k explains.

    Args:
        log_density: Log density of each held-out row under each kind.
        prior: Rows added to each kind; not all zero if there are no rows.
        row_weights: How much each row counts.
    """
    counts = np.ones(len(log_density)) if row_weights is None else row_weights
    largest = np.max(log_density, axis=1, keepdims=True, initial=-np.inf)
    density = np.exp(log_density - np.where(np.isfinite(largest), largest, 0.0))
    total = counts.sum() + prior.sum()
    weights = np.full(len(prior), 1 / len(prior))
    for _ in range(_STEPS):
        joint = density * weights
        resp = joint / np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        new = (counts @ resp + prior) / total
        new /= new.sum()
        moved, weights = np.max(np.abs(new - weights)), new
        if moved < _TOLERANCE:
            break
    return weights
