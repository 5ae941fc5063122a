"""Stacks of predictors: their densities against numpy, their weights against what was promised."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from ngem.ensemble import Part, StackPredictor, stack
from ngem.nn import average, mixture_mlp

KEY = jax.random.key(5)
WEIGHTS = np.array([0.7, 0.3])
LOCATION, SCALE = np.array([2.0, -1.0]), np.array([0.5, 3.0])
X, Y = np.array([0.3, -0.8, 0.1, 0.9, -0.4]), np.array([0.4, -2.0])


def members(n_inputs, n_components, n_members=2):
    keys = jax.random.split(jax.random.fold_in(KEY, n_inputs), n_members)
    settings = {"n_components": n_components, "hidden_sizes": (4,)}
    networks = [mixture_mlp(n_inputs, 2, key=key, **settings) for key in keys]
    return average(
        [
            jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_array(leaf) else leaf, network)
            for network in networks
        ]
    )


@pytest.fixture(scope="module", name="predictor")
def _predictor():
    """Two kinds: one reads two inputs and has three components, the other three and two."""
    first, second = members(2, 3), members(3, 2)
    zero, one = jnp.zeros(2), jnp.ones(2)
    parts = (
        Part(first, zero, one, 2),
        Part(second, jnp.asarray(LOCATION), jnp.asarray(SCALE), 3),
    )
    return StackPredictor(parts, jnp.log(jnp.asarray(WEIGHTS)))


def density(mixture, location=0.0, scale=1.0):
    """Return the density of location + scale * (what the mixture describes) at Y, by scipy."""
    weights = special.softmax(np.asarray(mixture.logits))
    means = location + scale * np.asarray(mixture.components.mean)
    stds = scale * np.asarray(mixture.components.scale)
    return weights @ np.prod(stats.norm.pdf(Y, means, stds), axis=1)


def of_each(predictor):
    """Return the density of each member at Y in the units of the stack, by scipy."""
    first, second = (part.predictor for part in predictor.parts)
    densities = [density(first.subset([index])(jnp.asarray(X[:2]))) for index in range(2)]
    for index in range(2):
        mixture = second.subset([index])(jnp.asarray(X[2:]))
        densities.append(density(mixture, LOCATION, SCALE))
    return np.array(densities)


def test_the_density_is_the_weighted_mean_of_the_parts(predictor):
    mixture = eqx.filter_jit(predictor)(jnp.asarray(X))
    expected = np.repeat(WEIGHTS / 2, 2) @ of_each(predictor)
    assert np.exp(mixture.log_prob(jnp.asarray(Y))) == pytest.approx(expected, rel=1e-12)
    assert mixture.n_components == predictor.n_components == 2 * 3 + 2 * 2


def test_each_member_has_its_own_density(predictor):
    mixtures = eqx.filter_jit(predictor.each)(jnp.asarray(X))
    assert mixtures.logits.shape == (4, 3)
    densities = np.exp(mixtures.log_prob(jnp.broadcast_to(jnp.asarray(Y), (4, 2))))
    np.testing.assert_allclose(densities, of_each(predictor), rtol=1e-12)
    np.testing.assert_allclose(predictor.member_weights, [0.35, 0.35, 0.15, 0.15])


def test_members_of_one_fold_are_a_stack(predictor):
    mixture = eqx.filter_jit(predictor.subset([1]))(jnp.asarray(X))
    expected = WEIGHTS @ of_each(predictor)[[1, 3]]
    assert np.exp(mixture.log_prob(jnp.asarray(Y))) == pytest.approx(expected, rel=1e-12)


def test_a_stack_is_at_least_as_good_as_its_best_kind():
    rng = np.random.default_rng(0)
    for seed in range(20):
        log_density = rng.normal(size=(50, 4)) * rng.uniform(0.1, 3) + rng.normal(size=4)
        counts = rng.uniform(0.5, 2, 50) if seed % 2 else np.ones(50)
        stacked = stack(log_density, counts)
        joint = special.logsumexp(log_density, b=stacked.weights, axis=1)
        np.testing.assert_allclose(stacked.log_density, joint, rtol=1e-12)
        assert counts @ joint >= (counts @ log_density).max() - 1e-9
        assert stacked.weights.sum() == pytest.approx(1)


def test_kinds_with_hardly_any_weight_are_dropped():
    rng = np.random.default_rng(1)
    good = rng.normal(size=(200, 2))
    bad = good.min(axis=1, keepdims=True) - 1.0
    stacked = stack(np.hstack([good, bad]))
    assert stacked.weights[2] == 0
    np.testing.assert_allclose(stacked.weights[:2], stack(good).weights, atol=1e-6)
