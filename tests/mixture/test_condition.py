"""Conditional mixtures: the density of all columns is that of some times that of the others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ngem.mixture import gaussian_mixture

from ..cases import FAMILIES, random_mixture, slow_but

KEY = jax.random.key(3)


@pytest.mark.parametrize(
    "name", slow_but(["full", "diag", "low-rank", "tied", "spherical"], "full", "low-rank")
)
@pytest.mark.parametrize("dims", [(1,), (2, 0)])
def test_joint_density_is_marginal_times_conditional(name, dims):
    mixture = random_mixture(FAMILIES[name].family, KEY, batch=(2,), comp=3, dim=3)
    y = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3)))
    given, rest = list(dims), [d for d in range(3) if d not in dims]
    conditional = mixture.condition_on(dims, y[:, given])
    parts = mixture.marginal(dims).log_prob(y[:, given]) + conditional.log_prob(y[:, rest])
    np.testing.assert_allclose(parts, mixture.log_prob(y), rtol=1e-10)


def test_one_gaussian_is_that_of_the_textbook():
    mean, covariance = np.array([1.0, -1.0]), np.array([[2.0, 0.9], [0.9, 1.0]])
    mixture = gaussian_mixture(
        jnp.zeros(1), jnp.asarray(mean[None]), jnp.asarray(np.linalg.cholesky(covariance)[None])
    )
    law = mixture.condition_on(1, jnp.array([0.5]))
    expected = stats.norm(1 + 0.9 * 1.5, np.sqrt(2 - 0.81))
    assert law.cdf(jnp.array([2.0])) == pytest.approx(expected.cdf(2.0), rel=1e-10)


def test_columns_that_cannot_be_given_are_refused():
    mixture = random_mixture(FAMILIES["diag"].family, KEY, batch=(2,), dim=2)
    for dims in (2, -3, (), "01", 0.5, None, [0.0], np.zeros((1, 1), int), np.array("x")):
        for call in (mixture.marginal, lambda dims: mixture.condition_on(dims, jnp.zeros(2))):
            with pytest.raises(ValueError, match=r"dims must be column indices below 2, got"):
                call(dims)
    with pytest.raises(ValueError, match=r"dims must be different columns, fewer than all 2"):
        mixture.condition_on((0, 1), jnp.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"y must have one value for each row, shape \(2, 1\)"):
        mixture.condition_on(0, jnp.zeros((3, 2, 1)))
