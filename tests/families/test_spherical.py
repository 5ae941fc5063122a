"""Laws of the Gaussian with one scale for all coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg

from ngem.families import SphericalGaussian

from ..cases import FAMILIES, random_params, random_raw, slow_but

KEY = jax.random.key(7)
FAMILY, CASE = SphericalGaussian(), FAMILIES["spherical"]


@pytest.mark.parametrize("power", slow_but([0.5, 1.0], 0.5))
def test_the_gradient_of_the_one_scale_is_divided_by_its_own_information(power):
    """F^-power in (mean, scale), with F from autodiff and quadrature in raw outputs."""
    dim = 2
    raw = random_raw(FAMILY, dim, KEY)
    params, to_params = jax.vjp(lambda raw: FAMILY.constrain(raw, dim), raw)
    grad = random_params(FAMILY, dim, jax.random.fold_in(KEY, 1))
    slopes = np.append(np.ones(dim), params.scale[0] - FAMILY.scale_floor)
    fisher = CASE.raw_fisher(raw, dim) / np.outer(slopes, slopes)
    one = to_params(grad)[0] / slopes
    expected = slopes * (linalg.fractional_matrix_power(fisher, -power) @ one)
    solved = FAMILY.fisher_solve(params, grad, power)
    np.testing.assert_allclose(to_params(solved)[0], expected, rtol=1e-6)
    each = jax.tree.map(lambda leaf: leaf[None], (params, grad))
    together = FAMILY.fisher_solve_each(*each, power, "scale")
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[0], b), together, solved)


def test_raw_outputs_of_different_scales_have_their_mean_variance():
    params = FAMILY.from_moments(jnp.zeros(2), jnp.array([1.0, 7.0]))
    scales = FAMILY.constrain(FAMILY.unconstrain(params), 2).scale
    np.testing.assert_allclose(scales, [2.0, 2.0], rtol=1e-12)
