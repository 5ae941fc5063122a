"""Fixed points with other covariances: the averaged gradient vanishes at scikit-learn's optimum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from ngem.families import LocationScale, MeanCholesky, MeanFactors, get_family
from ngem.mixture import Mixture
from ngem.nn import MixtureNetwork
from ngem.objectives import OBJECTIVES

from ..cases import slow_but


def spherical(fitted):
    scale = np.sqrt(fitted.covariances_)[:, None] * np.ones((1, 2))
    return LocationScale(jnp.asarray(fitted.means_), jnp.asarray(scale))


def tied(fitted):
    factor = np.tile(np.linalg.cholesky(fitted.covariances_), (3, 1, 1))
    return MeanCholesky(jnp.asarray(fitted.means_), jnp.asarray(factor))


def low_rank(fitted):
    """Return a factor that holds the covariance of both targets, and what is left as scales."""
    covariance = fitted.covariances_
    first = np.sqrt(0.5 * covariance[:, 0, 0])
    factors = np.stack([first, covariance[:, 0, 1] / first], axis=1)
    scale = np.sqrt(covariance[:, [0, 1], [0, 1]] - factors**2)
    return MeanFactors(*map(jnp.asarray, (fitted.means_, scale, factors[..., None])))


CASES = [("spherical", spherical), ("tied", tied), ("low-rank(1)", low_rank)]


@pytest.mark.parametrize(("covariance", "params"), slow_but(CASES, CASES[2]))
def test_fixed_points_are_those_of_the_likelihood(covariance, params):
    """Weights near 0.8, 0.15 and 0.05; in raw outputs, some of which components share."""
    rng = np.random.default_rng(5)
    turn = np.array([[1.0, 0.0], [0.6, 0.8]])
    points = np.concatenate(
        [
            c + s * rng.normal(size=(n, 2)) @ turn.T
            for c, s, n in ((-4, 1, 1600), (0, 0.6, 300), (5, 1.2, 100))
        ]
    )
    kind = "full" if covariance.startswith("low-rank") else covariance
    fitted = GaussianMixture(
        3,
        covariance_type=kind,
        means_init=[[-4, -4], [0, 0], [5, 5]],
        tol=1e-15,
        max_iter=20_000,
        reg_covar=0.0,
    ).fit(points)
    assert np.all(np.abs(np.sort(fitted.weights_) - [0.05, 0.15, 0.8]) < 0.04)
    family = get_family("gaussian", covariance, scale_floor=0.0)
    head = MixtureNetwork(lambda raw: raw, 3, 2, family)
    raw = head.to_raw(Mixture(jnp.log(jnp.asarray(fitted.weights_)), params(fitted), family))
    for name in ("nll", "ngem"):
        loss = lambda raw, name=name: OBJECTIVES[name](head(raw), points)  # noqa: E731
        np.testing.assert_allclose(jax.jit(jax.grad(loss))(raw), 0, atol=1e-6)
    moved = jax.jit(jax.grad(loss))(raw + 0.1)
    assert np.abs(moved[3:]).max() > 1e-2
