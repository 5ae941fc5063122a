"""A linear model whose penalty is chosen by errors of rows that are left out, in closed form."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

#: Penalties of squared slopes to choose from.
_PENALTIES = tuple(10.0**power for power in range(-3, 5))


class Linear(NamedTuple):
    """A linear model of several targets.

    Attributes:
        slope: What one more of a feature adds to each target.
        intercept: Targets where all features are zero.
        left_out: Error of each row under the model that is fitted to all others.
    """

    slope: Float[np.ndarray, "dim features"]
    intercept: Float[np.ndarray, " dim"]
    left_out: Float[np.ndarray, "batch dim"]

    def predict(self, x: Float[np.ndarray, "batch features"]) -> Float[np.ndarray, "batch dim"]:
        """Return the targets of rows."""
        return x @ self.slope.T + self.intercept


def fit_linear(
    x: Float[np.ndarray, "batch features"],
    y: Float[np.ndarray, "batch dim"],
    counts: Float[np.ndarray, " batch"],
) -> Linear:
    """Return ridge regression with the penalty that has the smallest errors of rows left out.

    The intercept is not penalized. One singular value decomposition serves all penalties: with
    leverage h_i, the error of row i under a model without it is its residual / (1 - h_i).

    Args:
        x: Features.
        y: Targets.
        counts: How much each row counts, more than zero.
    """
    root = np.sqrt(counts)[:, None]
    center, mean = (np.average(part, axis=0, weights=counts) for part in (x, y))
    left, singular, right = np.linalg.svd(root * (x - center), full_matrices=False)
    targets = root * (y - mean)
    seen = left.T @ targets
    # Differences from a fit without penalty: with as many features as rows nothing else is left.
    residual = targets - left @ seen
    freedom = 1.0 - np.sum(left**2, axis=1) - counts / counts.sum()

    def errors(penalty: float) -> Float[np.ndarray, "batch dim"]:
        shrunk = penalty / (singular**2 + penalty)
        numerator = residual + left @ (shrunk[:, None] * seen)
        return numerator / (freedom + left**2 @ shrunk)[:, None] / root

    each = [errors(penalty) for penalty in _PENALTIES]
    best = int(np.argmin([counts @ np.sum(error**2, axis=1) for error in each]))
    kept = singular / (singular**2 + _PENALTIES[best])
    slope = (right.T @ (kept[:, None] * seen)).T
    return Linear(slope, mean - slope @ center, each[best])
