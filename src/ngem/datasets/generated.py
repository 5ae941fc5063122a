"""Data sets that are drawn from a density we know."""

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


class TwoSinusoids(NamedTuple):
    """Features and targets on two crossing sine waves."""

    x: np.ndarray
    y: np.ndarray


def two_sinusoids(
    n_points: int = 2000,
    *,
    weights: tuple[float, float] = (0.5, 0.5),
    noise: float = 0.1,
    seed: int = 0,
) -> TwoSinusoids:
    """Return the paper's second synthetic example (Sec. 4.1).

    x ~ U(0, 4 pi) and y = pi sin(x) or pi sin(x + pi), plus Gaussian noise. The paper's N(0, 0.1)
    is read as a standard deviation of 0.1.
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 4 * np.pi, (n_points, 1))
    first = round(n_points * weights[0])
    sign = np.repeat([1.0, -1.0], [first, n_points - first])[:, None]
    return TwoSinusoids(x, np.pi * sign * np.sin(x) + noise * rng.standard_normal(x.shape))


class InverseSine(NamedTuple):
    """Features and targets on an S-shaped curve: up to three targets for a feature."""

    x: np.ndarray
    y: np.ndarray


def inverse_sine(n_points: int = 1000, *, noise: float = 0.1, seed: int = 0) -> InverseSine:
    """Return Bishop's inverse problem (Mixture Density Networks, 1994).

    y ~ U(0, 1) and x = y + 0.3 sin(2 pi y) + U(-noise, noise). The way back from x to y has
    several answers, and their mean is none of them.
    """
    rng = np.random.default_rng(seed)
    y = rng.uniform(0, 1, (n_points, 1))
    x = y + 0.3 * np.sin(2 * np.pi * y) + rng.uniform(-noise, noise, y.shape)
    return InverseSine(x, y)
