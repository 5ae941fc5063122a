"""Roots against brentq, and what happens when there is none to find."""

import functools as ft

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from ngem.mixture.roots import find_root, newton_root

LOWER, UPPER = -1.37, 2.0

FUNCTIONS = {
    "line": (lambda x: 3 * x - 1, lambda x: 3 * x - 1),
    "falling": (lambda x: jnp.cos(x + 1), lambda x: np.cos(x + 1)),
    "exponential": (lambda x: jnp.exp(60 * x) - 400.0, lambda x: np.exp(60 * x) - 400.0),
    "saturated": (lambda x: jnp.arctan(1e9 * (x - 0.7)), lambda x: np.arctan(1e9 * (x - 0.7))),
    "infinite slope": (lambda x: jnp.cbrt(x - 0.1), lambda x: np.cbrt(x - 0.1)),
    "flat": (lambda x: (x - 0.3) ** 9, lambda x: (x - 0.3) ** 9),
    "step": (lambda x: jnp.sign(x - 0.3), lambda x: np.sign(x - 0.3)),
    "underflowing product": (
        lambda x: 1e8 * float(jnp.finfo(x.dtype).tiny) * (x - 0.4),
        lambda x: 1e-200 * (x - 0.4),
    ),
    "infinite ends": (
        lambda x: jnp.tan(jnp.clip(x, -1, 1) * jnp.pi / 2) * jnp.where(jnp.abs(x) < 1, 1, jnp.inf),
        lambda x: np.sign(x) * np.minimum(1e300, np.abs(np.tan(np.clip(x, -1, 1) * np.pi / 2))),
    ),
}


@ft.cache
def _roots(dtype):
    """Solve for the roots of all functions at once: compiling them one by one takes long."""
    functions = [ours for ours, _ in FUNCTIONS.values()]

    def one(index, lower, upper):
        return find_root(lambda x: jax.lax.switch(index, functions, x), lower, upper)

    ends = (jnp.full(len(functions), end, dtype) for end in (LOWER, UPPER))
    roots = jax.jit(jax.vmap(one))(jnp.arange(len(functions)), *ends)
    return dict(zip(FUNCTIONS, roots, strict=True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_agrees_with_brentq(name):
    expected = brentq(FUNCTIONS[name][1], LOWER, UPPER, xtol=1e-15, maxiter=500)
    # brentq itself is slow on the ninth power and stops short of its root.
    tolerance = 1e-12 if name == "flat" else 1e-15
    assert float(_roots(jnp.float64)[name]) == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_changes_sign_between_neighboring_floats(name):
    f, x = FUNCTIONS[name][0], _roots(jnp.float32)[name]
    assert x.dtype == jnp.float32
    gap = 4 * jnp.finfo(x.dtype).eps * jnp.abs(x) + 1e-30
    assert np.sign(f(x - gap)) * np.sign(f(x + gap)) <= 0


def _solve(f, lower, upper, **options):
    return jax.jit(lambda a, b: find_root(f, a, b, **options))(lower, upper)


@settings(max_examples=50, deadline=None)
@given(
    root=st.floats(-1e3, 1e3),
    left=st.floats(0, 1e6),
    right=st.floats(0, 1e6),
    power=st.floats(0.2, 5),
)
def test_finds_any_root_of_a_monotone_function(root, left, right, power):
    x = float(_monotone_root(*(jnp.array(v) for v in (root, left, right, power))))
    # Closer to its root than 1e-60, the fifth power underflows.
    assert root - left - 1e-60 <= x <= root + right + 1e-60
    assert abs(x - root) <= 4e-16 * abs(root) + 1e-14 * (left + right) + 1e-60


@jax.jit
def _monotone_root(root, left, right, power):
    def f(x):
        return jnp.sign(x - root) * jnp.abs(x - root) ** power

    return find_root(f, root - left, root + right)


def test_is_faster_than_bisection_on_smooth_functions():
    x = _solve(lambda x: jnp.exp(x) - 2, jnp.array(-3.0), jnp.array(5.0), max_iters=12)
    assert float(x) == pytest.approx(np.log(2), abs=1e-13)


def test_never_leaves_the_bracket():
    rng = np.random.default_rng(0)
    root = jnp.array(rng.normal(size=500))
    lower, upper = root - jnp.array(rng.exponential(size=500)), root + 1e-3

    def f(x):
        return jnp.where((x < lower) | (x > upper), jnp.nan, jnp.expm1(50 * (x - root)))

    np.testing.assert_allclose(_solve(f, lower, upper), root, rtol=1e-14, atol=1e-16)


def test_either_end_may_be_the_larger():
    x = _solve(lambda x: x**2 - 2, jnp.array([0.0, 3.0]), jnp.array([3.0, 0.0]))
    np.testing.assert_allclose(x, np.sqrt([2.0, 2.0]), rtol=4e-16)


def test_without_a_change_of_sign_returns_the_better_end():
    lower, upper = jnp.array([1.0, -4.0, 2.0]), jnp.array([3.0, -2.0, 2.0])
    np.testing.assert_array_equal(_solve(lambda x: x, lower, upper), [1.0, -2.0, 2.0])


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 3.0), (-3.0, 0.0)])
def test_a_root_at_an_end_is_returned_exactly(lower, upper):
    assert float(_solve(jnp.sin, jnp.array(lower), jnp.array(upper))) == 0.0


@pytest.mark.parametrize("point", [0.7, 0.0, np.inf, -np.inf])
def test_equal_ends_are_returned(point):
    x = _solve(lambda x: x - 0.2, jnp.array(point), jnp.array(point))
    assert float(x) == point


BAD = {
    "NaN end": (np.nan, 1.0),
    "NaN ends": (np.nan, np.nan),
    "infinite end": (-np.inf, 1.0),
    "infinite ends": (-np.inf, np.inf),
    "overflowing width": (-1.7e308, 1.7e308),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("f", [lambda x: x - 0.2, jnp.tanh, lambda x: x * jnp.nan])
def test_bad_brackets_end_and_leave_other_elements_alone(f):
    lower, upper = np.array([*BAD.values(), (0.1, 0.3)]).T
    x = _solve(f, jnp.array(lower), jnp.array(upper))
    alone = _solve(f, jnp.array([0.1]), jnp.array([0.3]))
    np.testing.assert_array_equal(x[-1:], alone)
    assert np.all(np.isnan(x) | ((lower <= x) & (x <= upper)))


def test_nan_inside_the_bracket_gives_nan():
    x = _solve(lambda x: jnp.where(x == 0.5, jnp.nan, x - 0.2), jnp.array(0.0), jnp.array(1.0))
    assert np.isnan(x)


def test_max_iters_bounds_the_work():
    x = _solve(lambda x: jnp.sign(x - 0.3), jnp.array(0.0), jnp.array(1.0), max_iters=10)
    assert 1e-5 < abs(float(x) - 0.3) < 2e-3


def test_atol_stops_early():
    f = lambda x: x**3 - 2  # noqa: E731
    x = _solve(f, jnp.array(0.0), jnp.array(2.0), atol=1e-2)
    assert 1e-12 < abs(float(f(x))) <= 1e-2


def test_rank_and_vmap_change_nothing():
    target = jnp.linspace(-0.9, 0.9, 24)
    shaped = target.reshape(2, 3, 4)

    def one(t):
        return find_root(lambda x: jnp.tanh(x) - t, jnp.array(-5.0), jnp.array(3.0))

    whole = _solve(lambda x: jnp.tanh(x) - shaped, jnp.full_like(shaped, -5.0), jnp.array(3.0))
    np.testing.assert_allclose(whole.ravel(), np.arctanh(target), rtol=2e-15, atol=1e-16)
    np.testing.assert_allclose(jax.jit(jax.vmap(one))(target), whole.ravel(), rtol=4e-16)


def test_can_be_held_constant_inside_a_gradient():
    def loss(scale):
        frozen = jax.lax.stop_gradient(scale)
        x = find_root(lambda x: frozen * x - 1, jnp.array(0.0), jnp.array(9.0))
        return scale * x

    assert float(jax.jit(jax.grad(loss))(jnp.array(2.0))) == 0.5


# With a derivative

SLOPES = {
    "exponential": (lambda x: jnp.exp(60 * x) - 400.0, True),
    "falling": (lambda x: jnp.cos(x + 1), False),
    "saturated": (lambda x: jnp.arctan(1e9 * (x - 0.7)), True),
    "infinite slope": (lambda x: jnp.cbrt(x - 0.1), True),
    "flat": (lambda x: (x - 0.3) ** 9, True),
}


def _newton(f, start, lower, upper, rises, tolerance=0.0):
    def with_slope(x):
        value, slope = jax.jvp(f, (x,), (jnp.ones_like(x),))
        return value, slope, jnp.full_like(x, tolerance)

    return jax.jit(lambda *ends: newton_root(with_slope, *ends, jnp.full(start.shape, rises)))(
        start, lower, upper
    )


@pytest.mark.parametrize("name", SLOPES)
def test_newton_agrees_with_brentq_from_any_start(name):
    f, rises = SLOPES[name]
    start = jnp.linspace(-1.0, 1.9, 7)
    ends = (jnp.full(7, LOWER), jnp.full(7, UPPER))
    expected = brentq(FUNCTIONS[name][1], LOWER, UPPER, xtol=1e-15, maxiter=500)
    tolerance = 1e-9 if name == "flat" else 1e-14
    np.testing.assert_allclose(_newton(f, start, *ends, rises), expected, atol=tolerance)


def test_newton_takes_one_more_step_within_the_tolerance():
    ends = (jnp.array([0.0]), jnp.array([2.0]))
    x = _newton(lambda x: x**2 - 2, jnp.array([1.42]), *ends, True, tolerance=0.1)
    assert 1e-9 < abs(float(x[0]) - np.sqrt(2)) < 2e-5


@pytest.mark.timeout(60)
def test_newton_ends_without_a_bracket_or_a_number():
    start, nan = jnp.array([0.5, 0.5, 0.4]), jnp.nan
    lower, upper = jnp.array([0.5, nan, 0.0]), jnp.array([0.5, 1.0, 1.0])
    x = _newton(lambda x: jnp.where(x == 0.4, jnp.nan, x - 0.2), start, lower, upper, True)
    np.testing.assert_array_equal(x, start)
