"""Laws of the Gaussian with a full covariance, between the ends of the strength."""

import functools as ft

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg

from ngem._defaults import COORDINATE_CHOICES
from ngem.families import DiagonalGaussian, FullGaussian, MeanCholesky

from .. import oracles
from ..cases import FAMILIES, random_params, standard_normal

KEY = jax.random.key(7)


def flat(params):
    """Return the free parameters as a vector: the mean, then the lower triangle."""
    scale = np.asarray(params.scale)
    return np.concatenate([np.asarray(params.mean), scale[np.tril_indices(scale.shape[0])]])


def unflat(vector, dim):
    rows, cols = np.tril_indices(dim)
    scale = jnp.zeros((dim, dim), vector.dtype).at[rows, cols].set(vector[dim:])
    return MeanCholesky(vector[:dim], scale)


def dense_fisher(params):
    """Minus the expected Hessian of the log density: autodiff, averaged by exact quadrature."""
    z, weights = oracles.hermite_points(len(params.mean))
    y = np.asarray(params.mean) + z @ np.asarray(params.scale).T
    return -np.einsum("n,nij->ij", weights, hessians(flat(params), y))


@jax.jit
def hessians(vector, y):
    log_prob = lambda vector, y: FullGaussian().log_prob(unflat(vector, len(y)), y)  # noqa: E731
    return jax.vmap(jax.hessian(log_prob), in_axes=(None, 0))(vector, y)


@ft.partial(jax.jit, static_argnums=(2, 3))
def solve(params, row, power, coordinates):
    grad = unflat(row, len(params.mean))
    return FullGaussian().fisher_solve(params, grad, power, coordinates)


def solve_matrix(params, power, coordinates="scale"):
    """Return what gradients are multiplied by."""
    rows = np.eye(len(flat(params)))
    return np.stack([flat(solve(params, row, power, coordinates)) for row in rows], axis=1)


def test_solve_inverts_the_fisher_information_in_three_dimensions():
    params = random_params(FullGaussian(), 3, KEY)
    identity = dense_fisher(params) @ solve_matrix(params, 1.0)
    np.testing.assert_allclose(identity, np.eye(9), atol=1e-9)


def raw_matrix(params, power, coordinates):
    """Return what gradients of raw outputs are multiplied by, and the slopes of `constrain`."""
    dim = len(params.mean)
    rows, cols = np.tril_indices(dim)
    diagonal = np.where(rows == cols, np.asarray(params.scale)[rows, cols], 1.0)
    jacobian = np.concatenate([np.ones(dim), diagonal])
    return jacobian[:, None] * solve_matrix(params, power, coordinates) / jacobian, jacobian


def test_solve_in_coordinates_of_the_log_scale():
    """There the metric is J F J for the diagonal J, and its power is exact at 0 and 1."""
    params = random_params(FullGaussian(), 3, KEY)
    raw, jacobian = raw_matrix(params, 1.0, "log_scale")
    fisher = dense_fisher(params) * np.outer(jacobian, jacobian)
    np.testing.assert_allclose(raw, np.linalg.inv(fisher), rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(solve_matrix(params, 0.0, "log_scale"), np.eye(9))


@pytest.mark.parametrize("coordinates", ["log_scale", "variance"])
@pytest.mark.parametrize("width", [0.03, 0.3, 3.0])
@pytest.mark.parametrize("power", [0.1, 0.5, 1.0])
def test_no_expected_step_of_raw_outputs_leads_uphill(power, width, coordinates):
    """Symmetric and positive definite in raw outputs, for narrow correlated components too."""
    correlation = np.array([[1.0, 0.8, -0.6], [0.8, 1.0, -0.3], [-0.6, -0.3, 1.0]])
    factor = width * linalg.cholesky(correlation, lower=True)
    raw, _ = raw_matrix(MeanCholesky(jnp.zeros(3), jnp.asarray(factor)), power, coordinates)
    np.testing.assert_allclose(raw, raw.T, rtol=1e-9, atol=1e-12)
    assert np.linalg.eigvalsh(raw).min() > 0


def test_a_schedule_that_has_ended_leaves_gradients_as_they_are():
    params, grad = (random_params(FullGaussian(), 3, jax.random.key(seed)) for seed in (1, 2))
    for coordinates in COORDINATE_CHOICES:
        ended = jax.jit(FullGaussian().fisher_solve, static_argnums=3)(
            params, grad, jnp.zeros(()), coordinates
        )
        jax.tree.map(np.testing.assert_array_equal, ended, grad)


def both_solves(params, grad, coordinates):
    """Return what a diagonal Gaussian makes of a gradient, and the same Gaussian as a full one."""
    wide = [MeanCholesky(p.mean, jnp.diag(p.scale)) for p in (params, grad)]
    return (
        DiagonalGaussian().fisher_solve(params, grad, 0.4, coordinates),
        FullGaussian().fisher_solve(*wide, 0.4, coordinates),
    )


@pytest.mark.parametrize("coordinates", COORDINATE_CHOICES)
def test_coordinates_of_full_and_diagonal_agree_on_diagonal_factors(coordinates):
    params = random_params(DiagonalGaussian(), 3, KEY)
    grad = random_params(DiagonalGaussian(), 3, jax.random.fold_in(KEY, 1))
    expected, solved = jax.jit(both_solves, static_argnums=2)(params, grad, coordinates)
    np.testing.assert_allclose(solved.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(jnp.diagonal(solved.scale), expected.scale, rtol=1e-12)


@pytest.mark.parametrize("power", [0.0, 0.3, 0.5, 1.0])
def test_solve_between_the_ends(power):
    """Symmetric, positive definite, F^-power on diagonal factors, equivariant to rescaling."""
    dim = 3
    params = random_params(FullGaussian(), dim, KEY)
    dense = solve_matrix(params, power)
    np.testing.assert_allclose(dense, dense.T, atol=1e-12)
    assert np.linalg.eigvalsh(dense).min() > 0

    stretch = jnp.array([0.1, 2.0, 30.0])
    scaled = FullGaussian().rescale(params, jnp.zeros(dim), stretch)
    rows = np.concatenate([stretch, stretch[np.tril_indices(dim)[0]]]) ** power
    np.testing.assert_allclose(solve_matrix(scaled, power), rows[:, None] * dense * rows, rtol=1e-9)

    diagonal = MeanCholesky(params.mean, jnp.diag(jnp.array([0.3, 1.0, 5.0])))
    expected = linalg.fractional_matrix_power(dense_fisher(diagonal), -power)
    np.testing.assert_allclose(solve_matrix(diagonal, power), expected, rtol=1e-6, atol=1e-9)


def test_large_covariances_use_the_library_solve():
    dim = 40
    params = random_params(FullGaussian(), dim, KEY)
    params = params._replace(scale=params.scale * 0.1 + jnp.eye(dim))
    y = standard_normal(KEY, (dim,))
    expected = FAMILIES["full"].scipy_logpdf(jax.tree.map(np.asarray, params), y)
    assert jax.jit(FullGaussian().log_prob)(params, y) == pytest.approx(expected, rel=1e-10)
