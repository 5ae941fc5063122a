"""Widths: densities against scipy, and the best width against a search by scipy."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special, stats

import ngem
from ngem.ensemble import choose_width, has_width, log_densities, narrowed
from ngem.families import DiagonalGaussian, get_family
from ngem.mixture import Mixture


def densities(seed=0, rows=400, members=3, comps=2, size=1.6):
    """Return mixtures of several members, all too wide by a factor, and targets."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(rows, members, comps, 1))
    logits = rng.normal(size=(rows, members, comps))
    scale = rng.uniform(0.2, 0.4, (rows, members, comps, 1))
    each = ngem.gaussian_mixture(*map(jnp.asarray, (logits, mean, size * scale)))
    member, comp = rng.integers(members, size=rows), rng.integers(comps, size=rows)
    at = np.arange(rows), member, comp
    y = mean[at] + scale[at] * rng.standard_normal((rows, 1))
    return each, y


def log_density(each, y, width):
    """Return the log density of each row under the average of its members, by scipy."""
    weights = special.softmax(np.asarray(each.logits), axis=2) / each.logits.shape[1]
    mean, scale = (np.asarray(part)[..., 0] for part in each.components)
    parts = weights * stats.norm.pdf(y[:, None], mean, width * scale)
    return np.log(parts.sum(axis=(1, 2)))


def test_components_keep_their_means_and_lose_width():
    each, _ = densities(rows=5)
    after = narrowed(each, jnp.asarray(0.7))
    np.testing.assert_allclose(after.components.mean, each.components.mean, rtol=1e-12)
    np.testing.assert_allclose(after.components.scale, 0.7 * each.components.scale, rtol=1e-12)
    np.testing.assert_array_equal(after.logits, each.logits)


def test_other_shapes_lose_width_around_their_means():
    family = get_family("logistic").standard
    params = family.from_moments(jnp.asarray([2.0]), jnp.asarray([3.0]))
    mixture = Mixture(jnp.zeros(1), type(params)(*(part[None] for part in params)), family)
    after = narrowed(mixture, jnp.asarray(0.5))
    assert after.mean()[0] == pytest.approx(2.0)
    assert after.variance()[0] == pytest.approx(0.25 * 3.0)


def test_densities_are_those_of_the_average():
    each, y = densities(rows=1500)  # more than one block
    widths = np.array([0.5, 1.0])
    expected = [log_density(each, y, width) for width in widths]
    np.testing.assert_allclose(log_densities(each, y, widths), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("counted", [False, True])
def test_the_width_is_the_best_for_these_rows(counted):
    each, y = densities()
    counts = np.random.default_rng(1).uniform(0, 2, len(y)) if counted else np.ones(len(y))

    def loss(width):
        return -np.average(log_density(each, y, width), weights=counts)

    best = optimize.minimize_scalar(loss, bounds=(0.3, 1.0), method="bounded")
    width = choose_width(each, y, counts)
    assert width.factor == pytest.approx(best.x, abs=3e-3)
    assert width.factor < 0.9
    assert width.gain == pytest.approx(loss(1.0) - best.fun, abs=1e-3)


def test_components_are_never_made_wider():
    each, y = densities(size=0.5)
    assert choose_width(each, y, np.ones(len(y))) == (1.0, 0.0)


def test_a_width_that_has_no_end_stops_at_one():
    each, y = densities(rows=50, members=1, comps=1)
    exact = np.asarray(each.components.mean)[:, 0, 0]
    assert choose_width(each, exact, np.ones(len(y))).factor == pytest.approx(np.exp(-2.0))


def test_counts_have_no_width_to_change():
    assert has_width(DiagonalGaussian())
    assert not has_width(get_family("poisson"))
    assert not has_width(get_family("lognormal"))
