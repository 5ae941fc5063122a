"""Mixtures of every family in one dimension, against scipy's distributions of the components."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, optimize, special

from ngem.mixture import Mixture

from ..cases import FAMILIES, random_params, slow_but

LOGITS = np.array([0.4, -0.3])
PARAMS = {"mean": np.array([[0.2], [1.1]]), "scale": np.array([[0.5], [0.3]])}


def two_components(case):
    """Return parameters with these locations and scales; shapes, if there are some, differ."""
    drawn = random_params(case.family, 1, jax.random.key(0), (2,))
    return jax.tree.map(np.asarray, drawn)._replace(**PARAMS)


class Oracle:
    """The mixture of scipy's distributions of two components."""

    def __init__(self, case):
        self.weights = special.softmax(LOGITS)
        params = two_components(case)
        self.laws = [case.scipy_1d(jax.tree.map(lambda leaf, k=k: leaf[k], params)) for k in (0, 1)]

    def cdf(self, x):
        return sum(w * law.cdf(x) for w, law in zip(self.weights, self.laws, strict=True))

    def pdf(self, x):
        return sum(w * law.pdf(x) for w, law in zip(self.weights, self.laws, strict=True))

    def ppf(self, q):
        ends = [law.ppf(q) for law in self.laws]
        return optimize.brentq(lambda x: self.cdf(x) - q, min(ends), max(ends), xtol=1e-13)

    def crps(self, y):
        low, high = (f(law.ppf(q) for law in self.laws) for f, q in ((min, 1e-7), (max, 1 - 1e-7)))
        below = integrate.quad(lambda x: self.cdf(x) ** 2, low, y, limit=200)[0]
        above = integrate.quad(lambda x: (1 - self.cdf(x)) ** 2, y, max(high, y), limit=200)[0]
        return below + above


GAUSSIAN = [name for name, case in FAMILIES.items() if case.family.names[0] == "gaussian"]
ONE_DIMENSIONAL = [name for name in FAMILIES if name not in (*GAUSSIAN, "laplace")]


def make_mixture(name):
    components = jax.tree.map(jnp.asarray, two_components(FAMILIES[name]))
    return Mixture(jnp.asarray(LOGITS), components, FAMILIES[name].family)


@pytest.mark.parametrize("name", slow_but(ONE_DIMENSIONAL, "lognormal"))
def test_quantiles_and_scores_are_those_of_scipy(name):
    oracle, mixture = Oracle(FAMILIES[name]), make_mixture(name)
    median = oracle.ppf(0.5)
    for q in (0.05, 0.9):
        assert mixture.quantile(q) == pytest.approx(oracle.ppf(q), rel=1e-8)
    score = jax.jit(lambda y: mixture.crps(y))
    for y in (median, oracle.ppf(0.02), oracle.ppf(0.999)):
        assert score(jnp.array([y])) == pytest.approx(oracle.crps(y), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", ONE_DIMENSIONAL)
@pytest.mark.slow
def test_regions_are_those_of_scipy(name):
    oracle, mixture = Oracle(FAMILIES[name]), make_mixture(name)
    region = np.asarray(mixture.interval(0.8))
    region = region[~np.isnan(region[:, 0])]
    assert np.sum(np.diff(oracle.cdf(region), axis=1)) == pytest.approx(0.8, abs=1e-6)
    # All ends have the same density: no smaller region has the same probability.
    np.testing.assert_allclose(oracle.pdf(region), oracle.pdf(region[0, 0]), rtol=1e-5)


@pytest.mark.parametrize("name", ["lognormal", "logitnormal"])
def test_targets_outside_have_no_probability(name):
    mixture = make_mixture(name)
    assert mixture.log_prob(jnp.array([-0.5])) == -jnp.inf
    assert mixture.cdf(jnp.array([-0.5])) == 0
    end = jax.grad(lambda m: m.log_prob(jnp.array([0.3])))(mixture)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(end))
    if name == "logitnormal":
        assert mixture.cdf(jnp.array([1.5])) == 1
