"""Data sets that are drawn from known densities."""

from typing import NamedTuple

import numpy as np


class Sample(NamedTuple):
    """Features and targets."""

    x: np.ndarray
    y: np.ndarray


#: Earlier names of `Sample`.
TwoSinusoids = Sample
InverseSine = Sample


class Regression(NamedTuple):
    """Features and targets, and the mean log density of the targets under the true density."""

    x: np.ndarray
    y: np.ndarray
    true_log_density: float


class TwoGaussians(NamedTuple):
    """Points from two Gaussians in the plane, and the parameters of their density."""

    points: np.ndarray
    weights: np.ndarray
    means: np.ndarray
    scale: float


def two_gaussians(
    n_points: int = 200, *, weights: tuple[float, float] = (0.5, 0.5), seed: int = 0
) -> TwoGaussians:
    """Return the paper's first synthetic example (Sec. 4.1): two well-separated Gaussians.

    Centers at +-(4, 4) with standard deviation 0.7, which the paper does not state. Each Gaussian
    gives exactly its weight times the number of points.
    """
    rng = np.random.default_rng(seed)
    means = np.array([[-4.0, -4.0], [4.0, 4.0]])
    first = round(n_points * weights[0])
    label = np.repeat([0, 1], [first, n_points - first])
    points = means[label] + 0.7 * rng.standard_normal((n_points, 2))
    return TwoGaussians(points, np.array(weights), means, 0.7)


def two_sinusoids(
    n_points: int = 2000,
    *,
    weights: tuple[float, float] = (0.5, 0.5),
    noise: float = 0.1,
    seed: int = 0,
) -> Sample:
    """Return the paper's second synthetic example (Sec. 4.1).

    x ~ U(0, 4 pi) and y = pi sin(x) or pi sin(x + pi), plus Gaussian noise. The paper's N(0, 0.1)
    is read as a standard deviation of 0.1.
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 4 * np.pi, (n_points, 1))
    first = round(n_points * weights[0])
    sign = np.repeat([1.0, -1.0], [first, n_points - first])[:, None]
    return Sample(x, np.pi * sign * np.sin(x) + noise * rng.standard_normal(x.shape))


def inverse_sine(n_points: int = 1000, *, noise: float = 0.1, seed: int = 0) -> Sample:
    """Return Bishop's inverse problem (Mixture Density Networks, 1994).

    y ~ U(0, 1) and x = y + 0.3 sin(2 pi y) + U(-noise, noise). The inverse has up to three
    answers y for one x, and their mean is not one of them.
    """
    rng = np.random.default_rng(seed)
    y = rng.uniform(0, 1, (n_points, 1))
    x = y + 0.3 * np.sin(2 * np.pi * y) + rng.uniform(-noise, noise, y.shape)
    return Sample(x, y)


def signed_sine(
    n_points: int = 1000, *, weight: float = 0.5, noise: float = 0.1, seed: int = 0
) -> Regression:
    """Return y = sin 2x with probability `weight`, else -sin 2x, plus noise; x ~ U(-3, 3)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, (n_points, 1))
    sign = np.where(rng.random((n_points, 1)) < weight, 1.0, -1.0)
    y = sign * np.sin(2 * x) + noise * rng.standard_normal(x.shape)
    branches = [
        np.log(w) + _log_normal(y, branch * np.sin(2 * x), noise)
        for w, branch in ((weight, 1), (1 - weight, -1))
    ]
    return Regression(x, y, float(np.mean(np.logaddexp(*branches))))


def changing_noise(n_points: int = 1000, *, seed: int = 0) -> Regression:
    """Return a wave whose noise grows from 0.02 to 0.5 along x: one mode, heteroscedastic."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, (n_points, 1))
    scale = 0.02 + 0.48 * (x + 3) / 6
    y = np.sin(2 * x) + scale * rng.standard_normal(x.shape)
    return Regression(x, y, float(np.mean(_log_normal(y, np.sin(2 * x), scale))))


def two_link_arm(n_points: int = 2000, *, noise: float = 0.05, seed: int = 0) -> Regression:
    """Return hand positions of an arm with two links of length 1, and its two joint angles.

    The elbow bends either way with equal probability, so each position has two answers. Angles have
    Gaussian noise.
    """
    rng = np.random.default_rng(seed)
    shoulder = rng.uniform(-np.pi / 4, np.pi / 4, n_points)
    elbow = rng.uniform(np.pi / 6, 5 * np.pi / 6, n_points)
    # (shoulder, elbow) and (shoulder + elbow, -elbow) reach the same position.
    solutions = np.stack([[shoulder, elbow], [shoulder + elbow, -elbow]])
    picked = rng.integers(2, size=n_points)
    x = np.stack(
        [np.cos(shoulder) + np.cos(shoulder + elbow), np.sin(shoulder) + np.sin(shoulder + elbow)],
        axis=-1,
    )
    angles = np.moveaxis(solutions, -1, 0)
    y = angles[np.arange(n_points), picked] + noise * rng.standard_normal((n_points, 2))
    joint = _log_normal(y[:, None], angles, noise).sum(axis=-1) + np.log(0.5)
    return Regression(x, y, float(np.mean(np.logaddexp(joint[:, 0], joint[:, 1]))))


def jointed_arm(
    n_points: int = 2000, *, n_joints: int = 6, noise: float = 0.05, seed: int = 0
) -> Sample:
    """Return noisy hand positions of an arm in the plane, and the angles of its joints.

    Links have equal lengths, 3 together, and angles are uniform between a quarter turn either way.
    Two numbers do not determine more than two angles: the answers for one position fill a thin,
    curved set on which the angles are strongly correlated.
    """
    rng = np.random.default_rng(seed)
    angles = rng.uniform(-np.pi / 2, np.pi / 2, (n_points, n_joints))
    along = np.cumsum(angles, axis=1)
    hand = 3 * np.stack([np.cos(along).mean(axis=1), np.sin(along).mean(axis=1)], axis=-1)
    return Sample(hand + noise * rng.standard_normal(hand.shape), angles)


def switching_maps(
    n_points: int = 2000, *, dim: int = 20, noise: float = 0.1, seed: int = 0
) -> Regression:
    """Return targets of many columns from one of three linear maps, with probabilities from x."""
    fixed = np.random.default_rng(2602)  # the maps are the task, the same for every draw
    maps, gates = fixed.standard_normal((3, 2, dim)), fixed.standard_normal((2, 3))
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_points, 2))
    logits = x @ gates
    log_weights = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    picked = (log_weights + rng.gumbel(size=logits.shape)).argmax(axis=1)
    means = np.einsum("ni,kid->nkd", x, maps)
    y = means[np.arange(n_points), picked] + noise * rng.standard_normal((n_points, dim))
    joint = log_weights + _log_normal(y[:, None], means, noise).sum(axis=-1)
    return Regression(x, y, float(np.mean(np.logaddexp.reduce(joint, axis=1))))


def _log_normal(y: np.ndarray, mean: np.ndarray, scale: np.ndarray | float) -> np.ndarray:
    return -0.5 * ((y - mean) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
