"""Probabilities of intervals: against scipy, far in the tails and for short intervals."""

import functools as ft
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from ngem.families import FullGaussian, LocationScale
from ngem.mixture import gaussian_mixture
from ngem.objectives import NGEM, NLL

from ..cases import FAMILIES, slow_but

INDEPENDENT = [
    name
    for name, case in FAMILIES.items()
    if case.standard and case.family.has_boxes and name != "spherical"
]

#: Families whose shape is learned, or whose tails differ.
SKEWED = ["logit-beta", "beta", "inverse-gaussian", "asymmetric-laplace"]

#: Lower and upper ends in units of the scale.
ENDS = [
    *((-1.0, 0.5), (-0.1, 0.1), (2.0, 2.3), (-30.0, -29.0), (29.0, 30.0), (8.0, 8.0005)),
    *((0.3, 0.3 + 1e-6), (-60.0, 60.0), (-np.inf, -1.0), (1.5, np.inf), (-np.inf, np.inf)),
]


def true_log_mass(law, a, b):
    """log(F(b) - F(a)) from scipy's logarithms, in the tail where they are exact."""
    if a + b > 0:
        a, b = -b, -a
    if b - a < 1e-3:
        return law.logpdf((a + b) / 2) + np.log(b - a)
    return law.logcdf(b) + np.log(-np.expm1(law.logcdf(a) - law.logcdf(b)))


@pytest.mark.parametrize("name", INDEPENDENT)
def test_the_mass_of_an_interval_is_that_of_scipy(name):
    case = FAMILIES[name]
    params = LocationScale(jnp.array([3.0]), jnp.array([0.5]))
    lower, upper = 3 + 0.5 * np.array(ENDS).T[..., None]
    ask = jax.jit(jax.vmap(case.family.log_mass, in_axes=(None, 0, 0)))
    log_mass = ask(params, jnp.asarray(lower), jnp.asarray(upper))
    expected = [true_log_mass(case.standard(), *ends) for ends in ENDS]
    np.testing.assert_allclose(log_mass, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_single_precision_keeps_short_and_far_intervals(name):
    case = FAMILIES[name]
    params = LocationScale(jnp.zeros(1, jnp.float32), jnp.ones(1, jnp.float32))
    finite = np.array(
        [ends for ends in ENDS if np.isfinite(ends).all() and ends[1] - ends[0] > 1e-4]
    )
    lower, upper = jnp.asarray(finite.T[..., None], jnp.float32)
    ask = jax.jit(jax.vmap(case.family.log_mass, in_axes=(None, 0, 0)))
    log_mass = ask(params, jnp.asarray(lower), jnp.asarray(upper))
    widths = np.asarray(upper - lower, float).ravel()
    expected = [
        true_log_mass(case.standard(), a, a + width)
        for (a, _), width in zip(finite, widths, strict=True)
    ]
    np.testing.assert_allclose(log_mass, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_gradients_of_finite_intervals_are_those_of_differences(name):
    family = FAMILIES[name].family
    ends = [ends for ends in ENDS if np.isfinite(ends).all() and ends[1] - ends[0] < 50]
    lower, upper = jnp.array(ends).T[..., None]

    @jax.jit
    @ft.partial(jax.vmap, in_axes=(None, 0, 0))
    @jax.value_and_grad
    def ask(at, lower, upper):
        return family.log_mass(LocationScale(at[:1], at[1:]), lower, upper)

    at, step = np.array([0.05, 1.1]), 1e-4
    _, grads = ask(jnp.asarray(at), lower, upper)
    for place, moved in enumerate(step * np.eye(2)):
        up, down = (ask(jnp.asarray(at + sign * moved), lower, upper)[0] for sign in (1, -1))
        np.testing.assert_allclose(grads[:, place], (up - down) / (2 * step), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("name", slow_but(SKEWED, "logit-beta"))
def test_skewed_families_have_the_masses_of_scipy_and_their_derivatives(name):
    case = FAMILIES[name]
    raw = np.linspace(0.3, -0.4, case.family.num_raw(1))
    points = case.targets(np.array([-9.0, -3.0, -0.5, 0.4, 2.0, 4.0]))
    ends = np.array([*itertools.pairwise(points), (points[1], points[4])])

    def log_mass(raw, lower, upper):
        return case.family.log_mass(case.family.constrain(raw, 1), lower[None], upper[None])

    def true(raw):
        law = case.scipy_1d(jax.tree.map(np.asarray, case.family.constrain(jnp.asarray(raw), 1)))
        return np.log(law.cdf(ends[:, 1]) - law.cdf(ends[:, 0]))

    ask = jax.jit(jax.vmap(jax.value_and_grad(log_mass), in_axes=(None, 0, 0)))
    found, grads = ask(jnp.asarray(raw), *jnp.asarray(ends.T))
    np.testing.assert_allclose(found, true(raw), rtol=1e-7)
    for place, move in enumerate(1e-5 * np.eye(len(raw))):
        slope = (true(raw + move) - true(raw - move)) / 2e-5
        np.testing.assert_allclose(grads[:, place], slope, rtol=2e-5, atol=2e-5)


def test_coordinates_multiply_and_components_add():
    logits, mean = np.array([0.2, -0.4]), np.array([[0.0, 1.0], [2.0, -1.0]])
    scale = np.array([[0.5, 1.0], [1.5, 0.3]])
    mixture = gaussian_mixture(logits, mean, scale)
    lower, upper = np.array([-0.3, 0.2]), np.array([0.9, 1.1])
    laws = stats.norm(mean, scale)
    boxes = np.prod(laws.cdf(upper) - laws.cdf(lower), axis=1)
    expected = np.log(special.softmax(logits) @ boxes)
    np.testing.assert_allclose(mixture.log_mass(lower, upper), expected, rtol=1e-6)


def test_a_full_covariance_is_refused():
    params = FullGaussian().from_moments(jnp.zeros(2), jnp.ones(2))
    with pytest.raises(NotImplementedError, match="covariance='diag'"):
        FullGaussian().log_mass(params, -jnp.ones(2), jnp.ones(2))


@pytest.mark.parametrize("name", INDEPENDENT)
def test_each_coordinate_counts_by_what_is_known_of_it(name):
    """Known, in an interval, above a bound, missing: a density, two probabilities and one."""
    case = FAMILIES[name]
    law, scale = case.standard(), np.array([0.5, 2.0, 1.0, 3.0])
    params = LocationScale(jnp.array([1.0, -1.0, 0.5, 0.0]), jnp.asarray(scale))
    lower = jnp.array([1.2, -3.0, 1.0, -1e4])
    upper = jnp.array([1.2, 0.0, 1e4, 1e4])
    known = law.logpdf(0.2 / 0.5) - np.log(0.5)
    expected = known + true_log_mass(law, -1.0, 0.5) + law.logsf(0.5)
    found = case.family.log_likelihood(params, jnp.concatenate([lower, upper]))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(
        case.family.log_likelihood(params, lower), case.family.log_prob(params, lower)
    )


@pytest.mark.parametrize("name", slow_but(INDEPENDENT, "diag"))
def test_gradients_are_finite_in_single_precision_whatever_is_known(name):
    """Scales near their floor, targets far out, intervals without an end."""
    family = FAMILIES[name].family
    y = [(1e3, 1e3), (-1e3, 1e4), (5.0, 1e4), (-1e4, -5.0), (-1e4, 1e4), (0.1, 0.1001)]
    ends = jnp.asarray(np.array(y).T.reshape(-1), jnp.float32)
    for scale in (1e-3, 1.0, 1e3):
        params = LocationScale(jnp.zeros(6, jnp.float32), jnp.full(6, scale, jnp.float32))
        grads = jax.grad(family.log_likelihood)(params, ends)
        assert all(jnp.isfinite(leaf).all() for leaf in grads)


@pytest.mark.slow
def test_responsibilities_are_those_of_probabilities():
    """The gradient of the logits is weight - responsibility, by equation (15) with masses."""
    logits, mean, scale = np.array([0.3, -0.2]), np.array([0.0, 2.0]), np.array([1.0, 0.5])
    family = FAMILIES["diag"].family
    components = LocationScale(jnp.asarray(mean[:, None]), jnp.asarray(scale[:, None]))
    ends = jnp.array([1.0, 2.5])
    for objective in (NLL(), NGEM()):
        grad = jax.grad(lambda at, o=objective: o.loss(family, at, components, ends))(
            jnp.asarray(logits)
        )
        weights, laws = special.softmax(logits), stats.norm(mean, scale)
        joint = weights * (laws.cdf(2.5) - laws.cdf(1.0))
        np.testing.assert_allclose(grad, weights - joint / joint.sum(), rtol=1e-5)
