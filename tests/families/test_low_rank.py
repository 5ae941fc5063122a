"""Laws of the Gaussian whose covariance is a diagonal plus a few factors."""

import functools as ft
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import linalg, stats

from ngem._defaults import COORDINATE_CHOICES
from ngem.families import DiagonalGaussian, LocationScale, LowRankGaussian, MeanFactors, get_family

from .. import oracles
from ..cases import low_rank_covariance, random_params, random_raw, slow_but, standard_normal

KEY = jax.random.key(7)
DIM, RANK = 3, 1
FAMILY = LowRankGaussian(rank=RANK)

#: Where means, scales and factors stand in a vector of all parameters.
MEAN, SCALE, FACTORS = slice(0, 3), slice(3, 6), slice(6, None)


@jax.jit
def scores(vector, y):
    _, unravel = ravel_pytree(FAMILY.constrain(vector, DIM))
    log_prob = lambda vector, y: FAMILY.log_prob(unravel(vector), y)  # noqa: E731
    return jax.vmap(jax.grad(log_prob), in_axes=(None, 0))(vector, y)


def dense_fisher(params):
    """E[score score^T] in all parameters: autodiff, averaged by exact quadrature."""
    z, weights = oracles.hermite_points(DIM)
    y = np.asarray(params.mean) + z @ np.linalg.cholesky(covariance(params)).T
    each = scores(ravel_pytree(params)[0], jnp.asarray(y))
    return np.einsum("n,ni,nj->ij", weights, each, each)


def covariance(params):
    return low_rank_covariance(jax.tree.map(np.asarray, params))


@ft.partial(jax.jit, static_argnums=(1, 2))
def solve_matrix(params, power, coordinates="scale"):
    """Return what gradients are multiplied by."""
    vector, unravel = ravel_pytree(params)
    solve = lambda row: FAMILY.fisher_solve(params, unravel(row), power, coordinates)  # noqa: E731
    return jax.vmap(lambda row: ravel_pytree(solve(row))[0])(jnp.eye(len(vector))).T


def test_solve_inverts_the_information_of_the_mean():
    """Exactly, and the mean has no information in common with the other parameters."""
    params = random_params(FAMILY, DIM, KEY)
    fisher, solve = dense_fisher(params), np.asarray(solve_matrix(params, 1.0))
    np.testing.assert_allclose(fisher[MEAN, MEAN] @ solve[MEAN, MEAN], np.eye(DIM), atol=1e-9)
    np.testing.assert_allclose(fisher[MEAN, 3:], 0, atol=1e-10)
    np.testing.assert_allclose(solve[MEAN, MEAN], covariance(params), rtol=1e-10)


@pytest.mark.parametrize("stretch", [0.1, 1.0, 10.0])
def test_the_metric_bounds_the_information_of_factors_and_scales(stretch):
    """At most twice the metric for factors, at most the metric for scales; and it is not loose."""
    params = random_params(FAMILY, DIM, KEY)
    params = params._replace(factors=stretch * params.factors)
    fisher, metric = dense_fisher(params), np.linalg.inv(solve_matrix(params, 1.0))
    for block, most in ((FACTORS, 2.0), (SCALE, 1.0)):
        ratios = linalg.eigh(fisher[block, block], metric[block, block], eigvals_only=True)
        assert ratios.min() > -1e-9
        assert ratios.max() < most + 1e-9
    if stretch == 10:
        ratios = linalg.eigh(fisher[FACTORS, FACTORS], metric[FACTORS, FACTORS], eigvals_only=True)
        assert ratios.max() > 1.9
    if stretch == 0.1:
        ratios = linalg.eigh(fisher[SCALE, SCALE], metric[SCALE, SCALE], eigvals_only=True)
        assert ratios.min() > 0.9


@pytest.mark.parametrize(
    ("power", "coordinates"),
    slow_but([*itertools.product((0.0, 0.3, 0.5, 1.0), COORDINATE_CHOICES)], (0.5, "variance")),
)
def test_solve_between_the_ends(power, coordinates):
    """Symmetric and positive definite in raw outputs; without factors that of a diagonal one."""
    params = random_params(FAMILY, DIM, KEY)
    dense = np.asarray(solve_matrix(params, power, coordinates))
    slopes = np.concatenate([np.ones(3), params.scale, np.ones(3 * RANK)])
    raw = slopes[:, None] * dense / slopes
    np.testing.assert_allclose(raw, raw.T, atol=1e-12)
    assert np.linalg.eigvalsh(raw).min() > 0
    narrow = params._replace(factors=jnp.zeros_like(params.factors))
    grad = random_params(FAMILY, DIM, jax.random.fold_in(KEY, 1))
    solved = FAMILY.fisher_solve(narrow, grad, power, coordinates)
    parts = [LocationScale(*each[:2]) for each in (narrow, grad)]
    diagonal = DiagonalGaussian().fisher_solve(*parts, power, coordinates)
    for one, other in zip(solved, diagonal, strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_solve_is_equivariant_to_units():
    params, stretch = random_params(FAMILY, DIM, KEY), jnp.array([0.1, 2.0, 30.0])
    scaled = FAMILY.rescale(params, jnp.zeros(DIM), stretch)
    rows = np.concatenate([stretch, stretch, np.repeat(stretch, RANK)]) ** 0.5
    dense = np.asarray(solve_matrix(params, 0.5))
    np.testing.assert_allclose(solve_matrix(scaled, 0.5), rows[:, None] * dense * rows, rtol=1e-9)


def test_densities_of_many_targets_are_those_of_scipy():
    family, dim = get_family("gaussian", "low-rank(3)"), 60
    params = random_params(family, dim, KEY)
    y = standard_normal(KEY, (dim,))
    expected = stats.multivariate_normal(params.mean, covariance(params)).logpdf(y)
    assert jax.jit(family.log_prob)(params, y) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("width", slow_but([1e-6, 1e-3, 1e6], 1e-3))
def test_factors_far_larger_than_scales_keep_their_digits_in_single_precision(width):
    """Density and gradient are finite, and right where a double can tell, for equal factors too."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(20, 2))
    factors[:, 1] = factors[:, 0] * (1 + 1e-7)  # I + V^T V is singular in single precision
    scale = np.full(20, width)
    y = factors @ [0.5, 0.1] + width * rng.normal(size=20)
    values = MeanFactors(np.zeros(20), scale, factors)
    family = LowRankGaussian(rank=2)
    value = jax.jit(jax.value_and_grad(family.log_prob))
    narrow, grads = value(*jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), (values, y)))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))
    assert np.isfinite(narrow)
    if width > 1e-5:
        expected, _ = value(*jax.tree.map(jnp.asarray, (values, y)))
        assert narrow == pytest.approx(float(expected), rel=0.05, abs=2.0)


@pytest.mark.slow
def test_turned_factors_are_the_same_density():
    family = LowRankGaussian(rank=2)
    params, y = random_params(family, DIM, KEY), standard_normal(KEY, (DIM,))
    turned = params._replace(factors=params.factors @ jnp.array([[0.6, -0.8], [0.8, 0.6]]))
    densities = [jax.jit(family.log_prob)(each, y) for each in (params, turned)]
    np.testing.assert_allclose(*densities, rtol=1e-12)


@pytest.mark.slow
def test_samples_have_the_covariance_that_is_stated():
    params = random_params(FAMILY, DIM, KEY)
    draws = jax.jit(jax.vmap(FAMILY.sample, in_axes=(None, 0)))(
        params, jax.random.split(KEY, 50_000)
    )
    deviation = np.sqrt(np.diag(covariance(params)))
    error = np.abs(np.cov(np.asarray(draws).T) - covariance(params))
    assert (error / np.outer(deviation, deviation)).max() < 9 / np.sqrt(50_000)


def test_the_number_of_factors_is_an_option():
    assert get_family("gaussian", "low-rank(2)") == LowRankGaussian(rank=2)
    assert get_family("gaussian", "low-rank(rank=2)").num_raw(5) == 20
    assert random_raw(get_family("gaussian", "low-rank"), 2, KEY).shape == (12,)
    for wrong in ("low-rank(0)", "low-rank(2.5)", "low-rank(100)"):
        with pytest.raises(ValueError, match=r"rank of covariance 'low-rank' must be a whole"):
            get_family("gaussian", wrong)
    with pytest.raises(ValueError, match=r"covariance 'low-rank' must have numbers rank, got 'x'"):
        get_family("gaussian", "low-rank(x)")
    with pytest.raises(ValueError, match=r"covariance 'full' must have no options"):
        get_family("gaussian", "full(2)")
