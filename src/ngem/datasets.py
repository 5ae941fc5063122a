"""Data sets, as numpy arrays."""

from typing import NamedTuple

import numpy as np


class TwoGaussians(NamedTuple):
    """Points from two Gaussians in the plane and the density they come from."""

    points: np.ndarray
    weights: np.ndarray
    means: np.ndarray
    scale: float


def two_gaussians(
    n_points: int = 200, *, weights: tuple[float, float] = (0.5, 0.5), seed: int = 0
) -> TwoGaussians:
    """Return the paper's first synthetic example (Sec. 4.1): two well-separated Gaussians.

    Centres at +-(4, 4) with standard deviation 0.7, which the paper does not state. Each Gaussian
    gives exactly its share of the points.
    """
    rng = np.random.default_rng(seed)
    means = np.array([[-4.0, -4.0], [4.0, 4.0]])
    first = round(n_points * weights[0])
    label = np.repeat([0, 1], [first, n_points - first])
    points = means[label] + 0.7 * rng.standard_normal((n_points, 2))
    return TwoGaussians(points, np.array(weights), means, 0.7)
