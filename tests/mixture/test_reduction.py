"""Fewer components: moments stay, the bound holds, and nothing is lost where nothing differs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from ngem.mixture import Mixture, gaussian_mixture

from ..cases import FAMILIES, random_mixture

KEY = jax.random.key(5)


@pytest.fixture(scope="module")
def mixture():
    return random_mixture(FAMILIES["diag"].family, KEY, batch=(3,), comp=7, dim=1)


@pytest.fixture(scope="module")
def reduced(mixture):
    return mixture.reduce(3)


def scipy_density(mixture, row):
    """Return the density of a row as a function, by scipy."""
    weights = np.asarray(mixture.weights)[row]
    means, scales = (np.asarray(leaf)[row, :, 0] for leaf in mixture.components)
    law = stats.norm(means, scales)
    return lambda y: weights @ law.pdf(y)


def test_the_loss_is_at_most_its_bound(mixture, reduced):
    few, bound = reduced
    assert few.n_components == 3
    for row in range(3):
        before, after = scipy_density(mixture, row), scipy_density(few, row)
        lost, _ = integrate.quad(
            lambda y, p=before, q=after: p(y) * np.log(p(y) / q(y)), -15, 15, limit=200
        )
        assert 0 < lost <= bound[row] < 1


def test_moments_stay(mixture, reduced):
    few, _ = reduced
    np.testing.assert_allclose(few.mean(), mixture.mean(), rtol=1e-12)
    np.testing.assert_allclose(few.variance(), mixture.variance(), rtol=1e-12)
    np.testing.assert_allclose(few.weights.sum(axis=-1), 1, rtol=1e-12)


def test_the_bound_of_one_gaussian_is_the_sum_of_divergences():
    """sum_i weight_i KL(f_i, g) = (log det of g - sum_i weight_i log det of f_i) / 2."""
    mixture = random_mixture(FAMILIES["diag"].family, KEY, comp=5, dim=2)
    _, bound = mixture.reduce(1)
    together = np.log(np.asarray(mixture.variance())).sum()
    apart = np.asarray(mixture.weights) @ np.log(np.asarray(mixture.component_variance())).sum(-1)
    assert bound == pytest.approx(0.5 * (together - apart), rel=1e-12)


def test_equal_components_merge_first_and_at_no_cost():
    means = jnp.array([0.0, 4.0, 0.0, 4.0])[:, None]
    mixture = gaussian_mixture(jnp.log(jnp.array([0.1, 0.2, 0.3, 0.4])), means, jnp.ones((4, 1)))
    few, bound = mixture.reduce(2)
    assert bound == pytest.approx(0, abs=1e-15)
    assert sorted(np.asarray(few.weights)) == pytest.approx([0.4, 0.6])
    y = jnp.linspace(-3, 7, 11)[:, None]
    np.testing.assert_allclose(few.log_prob(y), mixture.log_prob(y), rtol=1e-12)


def test_no_fewer_than_asked_for_leaves_all(mixture):
    same, bound = mixture.reduce(7)
    assert same is mixture
    assert not bound.any()


def test_under_jit_it_is_the_same(mixture, reduced):
    few, bound = jax.jit(lambda mixture: Mixture.reduce(mixture, 3))(mixture)
    np.testing.assert_allclose(bound, reduced[1], rtol=1e-12)
    np.testing.assert_allclose(few.mean(), reduced[0].mean(), rtol=1e-12)


@pytest.mark.parametrize("wrong", [0, 2.0, True])
def test_a_wrong_number_is_refused(mixture, wrong):
    with pytest.raises(ValueError, match="n_components must be a whole number from 1 on, got"):
        mixture.reduce(wrong)


def test_other_families_say_that_they_cannot(mixture):
    other = Mixture(mixture.logits, mixture.components, FAMILIES["logistic"].family)
    with pytest.raises(NotImplementedError, match="components can be merged if"):
        other.reduce(2)
