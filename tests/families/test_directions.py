"""Laws of directions, against scipy, quadrature over the circle and autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, linalg, stats

from ngem.families import Direction, VonMises, get_family
from ngem.mixture import Mixture

from ..cases import slow_but
from .test_laws import vector

FAMILY = VonMises()
KEY = jax.random.key(3)


def direction(k, degrees):
    return Direction(*(jnp.array([k * f(np.radians(degrees))]) for f in (np.cos, np.sin)))


def law(k):
    return stats.vonmises(k)


@pytest.mark.parametrize("k", slow_but([0.0, 0.4, 5.0, 49.0, 51.0, 2000.0], 5.0))
def test_density_cdf_and_information_are_those_of_scipy_and_autodiff(k):
    params = direction(k, 310.0)
    y = np.linspace(0, 359, 25)
    log_prob = jax.jit(jax.vmap(FAMILY.log_prob, in_axes=(None, 0)))
    expected = law(max(k, 1e-10)).logpdf(np.radians(y - 310)) + np.log(np.pi / 180)
    np.testing.assert_allclose(log_prob(params, jnp.asarray(y[:, None])), expected, rtol=1e-9)
    cdf = jax.jit(jax.vmap(FAMILY.cdf, in_axes=(None, 0)))(params, jnp.asarray(y[:, None]))
    density = lambda t: law(max(k, 1e-10)).pdf(np.radians(t - 310)) * np.pi / 180  # noqa: E731
    middle = np.clip([300, 305, 309, 310, 311, 315, 320], 0, y[-1])
    expected = integrate.quad(density, 0, y[-1], points=middle, limit=200)[0]
    np.testing.assert_allclose(cdf[-1], expected, atol=1e-8)
    assert np.all(np.diff(cdf) >= -1e-12)
    # The mean of squares of scores over the circle is exact by the trapezoidal rule.
    raw = jnp.concatenate(params)
    points = np.arange(0, 360, 0.02)
    scores = jax.vmap(jax.grad(lambda r, y: FAMILY.log_prob(FAMILY.constrain(r, 1), y)), (None, 0))
    each = np.asarray(scores(raw, jnp.asarray(points[:, None])))
    weights = np.exp(np.asarray(log_prob(params, jnp.asarray(points[:, None])))) * 0.02
    fisher = np.einsum("n,ni,nj->ij", weights, each, each)
    np.testing.assert_allclose(FAMILY.raw_fisher_diagonal(params), np.diag(fisher), rtol=1e-6)
    grad = Direction(jnp.array([0.3]), jnp.array([-1.2]))
    for power in (0.0, 0.5, 1.0):
        solved = FAMILY.fisher_solve(params, grad, power)
        expected = linalg.fractional_matrix_power(fisher, -power) @ vector(grad)
        np.testing.assert_allclose(vector(solved), expected, rtol=2e-6)


@pytest.mark.slow
def test_moments_quantiles_and_samples():
    mean, variance = jnp.array([350.0]), jnp.array([40.0**2])
    params = FAMILY.from_moments(mean, variance)
    np.testing.assert_allclose(FAMILY.mean(params), mean, rtol=1e-9)
    np.testing.assert_allclose(FAMILY.variance(params), variance, rtol=1e-8)
    draws = np.asarray(
        jax.jit(jax.vmap(FAMILY.sample, (None, 0)))(params, jax.random.split(KEY, 5000))
    )
    assert draws.min() >= 0
    assert draws.max() <= 360
    wrapped = FAMILY.difference(draws, 350.0)
    assert abs(wrapped.mean()) < 5 * 40 / np.sqrt(5000)
    assert wrapped.std() == pytest.approx(40, rel=0.05)
    for q in (0.01, 0.5, 0.97):
        x = FAMILY.quantile(params, jnp.asarray(q))
        assert FAMILY.cdf(params, x[None]) == pytest.approx(q, abs=1e-9)


@pytest.mark.slow
def test_an_arc_may_reach_over_the_cut():
    params = direction(6.0, 358.0)
    ends = jnp.array([[-5.0, 5.0], [355.0, 365.0], [0.0, 360.0], [100.0, 110.0]])
    found = jnp.exp(jax.vmap(FAMILY.log_likelihood, in_axes=(None, 0))(params, ends))
    radians = np.radians(np.asarray(ends) - 358)
    expected = [integrate.quad(law(6.0).pdf, a, b)[0] for a, b in radians]
    np.testing.assert_allclose(found, expected, rtol=2e-3)
    np.testing.assert_allclose(found[:3], expected[:3], rtol=1e-8)


@pytest.mark.slow
def test_means_of_mixtures_go_around_the_circle():
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), direction(5, 350), direction(5, 20))
    mixture = Mixture(jnp.zeros(2), params, FAMILY)
    np.testing.assert_allclose(mixture.mean(), [5.0], rtol=1e-9)
    inside = np.asarray(mixture.interval(0.9))
    inside = inside[~np.isnan(inside[:, 0])]
    mass = sum(float(mixture.cdf(b[None])) - float(mixture.cdf(a[None])) for a, b in inside)
    assert len(inside) == 2  # one piece on either side of the cut
    assert mass == pytest.approx(0.9, abs=1e-4)


def test_a_start_from_rows_ignores_the_cut():
    y = jnp.asarray(np.mod(np.random.default_rng(0).normal(0, 20, (4000, 1)), 360))
    start = FAMILY.from_cluster(y, jnp.ones(4000), jnp.zeros(1), jnp.ones(1))
    assert FAMILY.difference(FAMILY.mean(start), 0.0)[0] == pytest.approx(0, abs=2)
    assert jnp.sqrt(FAMILY.variance(start))[0] == pytest.approx(20, rel=0.05)


def test_other_units_and_their_errors():
    family = get_family("von-mises(24, -12)")
    assert float(family.mean(direction(2.0, 90.0))[0]) == pytest.approx(6.0)
    with pytest.raises(ValueError, match=r"y must be from -12 to 12 .*got 13"):
        family.check_targets(np.array([[13.0]]))
    with pytest.raises(ValueError, match="family 'von-mises' must have a period"):
        get_family("von-mises(0)")


def test_the_crps_is_the_integral_of_the_squared_distribution_function():
    """On the circle cut open, from densities of scipy's alone, integrated cell by cell."""
    family = get_family("von-mises(360)")
    k, angle, weights = np.array([0.3, 5.0, 400.0]), np.array([1.0, 6.2, 3.0]), [0.2, 0.5, 0.3]
    ends = (k * np.cos(angle), k * np.sin(angle))
    params = Direction(*(jnp.asarray(part)[:, None] for part in ends))
    mixture = Mixture(jnp.log(jnp.array(weights)), params, family)
    cells = np.linspace(0.0, 2 * np.pi, 3601)
    nodes, node_weights = np.polynomial.legendre.leggauss(3)
    at = cells[:-1, None] + (1 + nodes) / 2 * np.diff(cells)[:, None]
    each = zip(weights, k, angle, strict=True)
    density = sum(weight * stats.vonmises(a, b).pdf(at) for weight, a, b in each)
    mass = density @ (node_weights / 2) * np.diff(cells)
    below = np.concatenate([[0.0], np.cumsum(mass)])
    for y in (10.0, 180.0, 359.0):
        jump = np.argmin(np.abs(np.rad2deg(cells) - y))
        left, right = below[: jump + 1] ** 2, (1 - below[jump:]) ** 2
        expected = integrate.simpson(left, dx=0.1) + integrate.simpson(right, dx=0.1)
        assert float(mixture.crps(jnp.array([y]))) == pytest.approx(expected, rel=1e-6)
