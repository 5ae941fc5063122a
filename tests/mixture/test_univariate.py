"""Quantiles, modes and highest-density regions against scipy, brute force and finite differences.

Our callables are plain jax.numpy formulas; the oracles are written in numpy and scipy. Every case
but one has the same number of rows and components, so that little is compiled twice.
"""

import functools as ft
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import expit, logit, logsumexp, ndtr, ndtri
from scipy import special, stats
from scipy.optimize import brentq

from ngem.mixture import gaussian_mixture, turns, univariate
from ngem.mixture.curve import Curve

from ..cases import slow_but

# The last ones are for logistic tails, which give way to one another much further out.
BENDS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 13.0, 20.0, 30.0, 45.0, 70.0)
N_ROWS, N_COMPONENTS = 100, 5
EPS = np.finfo(np.float64).eps


# Mixtures


class Rows(NamedTuple):
    """One mixture per row; `family` is scipy's name for its components."""

    family: str
    log_weight: np.ndarray
    location: np.ndarray
    scale: np.ndarray

    def cdf(self, x):
        return self._average("cdf", x)

    def pdf(self, x):
        return self._average("pdf", x)

    def _average(self, name, x):
        """Average a function of the components; x is (rows, points)."""
        component = getattr(getattr(stats, self.family), name)
        values = component(x[..., None], self.location[:, None], self.scale[:, None])
        return np.sum(np.exp(self.log_weight)[:, None] * values, axis=-1)


def _ordinary(seed, family="norm", rows=N_ROWS, comp=N_COMPONENTS):
    rng = np.random.default_rng(seed)
    scale = np.exp(0.5 * rng.normal(size=(rows, comp)))
    weight = rng.dirichlet(np.full(comp, 2.0), size=rows)
    return Rows(family, np.log(weight), 3 * rng.normal(size=(rows, comp)), scale)


def _degenerate(seed, family="norm", rows=N_ROWS, comp=N_COMPONENTS):
    """Scales over nine orders of magnitude, weights over twelve, some means or scales equal."""
    rng = np.random.default_rng(seed)
    location = 3 * rng.normal(size=(rows, comp))
    location = np.where(rng.random((rows, comp)) < 0.2, location[:, :1], location)
    scale = 10 ** rng.uniform(-6, 3, size=(rows, comp))
    scale[::7] = scale[::7, :1]
    weight = 10 ** rng.uniform(-12, 0, size=(rows, comp))
    weight[::5] = 1.0
    return Rows(family, np.log(weight / weight.sum(1, keepdims=True)), location, scale)


def _merging(seed):
    """Pairs about to lose their second mode: equal Gaussians 2 scales apart have just one."""
    rng = np.random.default_rng(seed)
    distance = 2 + 10 ** rng.uniform(-4, 0, N_ROWS) * rng.choice([-1, 1], N_ROWS)
    location = rng.normal(size=(N_ROWS, 1)) + distance[:, None] * np.array([-0.5, 0.5])
    return _switch_off(location, np.ones((N_ROWS, 2)), np.full((N_ROWS, 2), np.log(0.5)))


def _switch_off(location, scale, log_weight, comp=N_COMPONENTS):
    """Fill up with components of no weight."""
    idle = ((0, 0), (0, comp - location.shape[1]))
    location, scale = np.pad(location, idle, "edge"), np.pad(scale, idle, "edge")
    return Rows("norm", np.pad(log_weight, idle, constant_values=-np.inf), location, scale)


CASES = {
    "ordinary": _ordinary(0),
    "degenerate": _degenerate(1),
    "single": _switch_off(*_degenerate(2, comp=1)[2:], np.zeros((N_ROWS, 1))),
    "merging": _merging(3),
    "twenty": _degenerate(4, rows=20, comp=20),
    "logistic": _ordinary(5, "logistic"),
    "degenerate logistic": _degenerate(6, "logistic"),
}


#: Cases that every change runs; the slow ones are variants of these.
SLOW = ("single", "merging", "degenerate logistic", "twenty")
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CASES]


# What we test, for one mixture


def _callables(log_weight, location, scale, logistic):
    """Return log density and distribution function, for x of any rank."""

    def spread(a, x):
        return jnp.broadcast_to(a, (*x.shape, a.shape[-1]))

    def standardize(x):
        return (x[..., None] - spread(location, x)) / spread(scale, x)

    def log_prob(x):
        z = standardize(x)
        gaussian = -0.5 * z**2 - 0.5 * float(np.log(2 * np.pi))
        heavier = -jnp.abs(z) - 2 * jnp.log1p(jnp.exp(-jnp.abs(z)))
        component = jnp.where(logistic, heavier, gaussian)
        return logsumexp(component + spread(log_weight - jnp.log(scale), x), axis=-1)

    def cdf(x):
        z = standardize(x)
        below = jnp.where(logistic, expit(z), ndtr(z))
        return jnp.sum(spread(jnp.exp(log_weight), x) * below, axis=-1)

    return log_prob, cdf


def _grid(location, scale):
    bends = np.unique(np.concatenate([BENDS, np.negative(BENDS)]))
    return jnp.sort((location[:, None] + jnp.outer(scale, jnp.array(bends, scale.dtype))).ravel())


def _quantile(q, log_weight, location, scale, logistic=False):
    _, cdf = _callables(log_weight, location, scale, logistic)
    standard = jnp.where(logistic, logit(q), ndtri(q))
    ends = location[:, None] + jnp.outer(scale, standard)
    return univariate.quantile(cdf, ends.min(0), ends.max(0), q)


def _modes(log_weight, location, scale, logistic=False):
    log_prob, _ = _callables(log_weight, location, scale, logistic)
    return univariate.modes(log_prob, _grid(location, scale), location.size)


def _highest_density(coverage, log_weight, location, scale, logistic=False, ceiling=jnp.inf):
    smooth, cdf = _callables(log_weight, location, scale, logistic)

    def log_prob(x):
        # What rounding does to a flat top, in excess: the slope is right and the height is not.
        return smooth(x) - 1.5 * jax.lax.stop_gradient(jnp.maximum(smooth(x) - ceiling, 0.0))

    grid = _grid(location, scale)
    # One side reaches as far as it must, the other to the end of the grid.
    lower = (location - jnp.where(logistic, 37.0, 9.0).astype(scale.dtype) * scale).min()
    upper = jnp.full_like(lower, jnp.inf)
    return univariate.highest_density(
        Curve(log_prob, cdf, lower, upper), grid, coverage, location.size
    )


@ft.cache
def _compiled(function):
    return jax.jit(jax.vmap(function))


def _over(rows, function, *first, dtype=np.float64):
    """Map a function over the rows; some take an argument before the mixture."""
    arrays = [jnp.array(a, dtype) for a in (*first, *rows[1:])]
    logistic = jnp.full(len(rows.location), rows.family == "logistic")
    return np.asarray(_compiled(function)(*arrays, logistic))


def _over_few(function, *arrays):
    """Map over fewer Gaussian mixtures than a case has, without compiling again."""
    *first, log_weight, location, scale = (np.resize(a, (N_ROWS, *a.shape[1:])) for a in arrays)
    return _over(Rows("norm", log_weight, location, scale), function, *first)[: len(arrays[0])]


# Quantiles


@pytest.mark.parametrize("name", CASES)
def test_quantile_inverts_the_cdf_to_the_last_float(name):
    rows = CASES[name]
    q, x = _levels(len(rows.location)), _over(rows, _quantile, _levels(len(rows.location)))
    error = np.abs(rows.cdf(x) - q)
    representable = 4 * EPS * np.abs(x) * rows.pdf(x)
    assert np.all(error <= 1e-12 + representable)
    assert np.all(error <= 1e-6)


def test_quantile_is_accurate_relative_to_small_probabilities():
    rows = CASES["ordinary"]
    q = 10 ** np.random.default_rng(0).uniform(-200, -1, size=(N_ROWS, 3))
    x = _over(rows, _quantile, q)
    np.testing.assert_allclose(rows.cdf(x), q, rtol=1e-10)


@pytest.mark.parametrize("name", ["ordinary", "degenerate", "logistic"])
def test_quantile_agrees_with_brentq(name):
    rows = CASES[name]
    q = _levels(N_ROWS)
    x = _over(rows, _quantile, q)
    for i in range(0, N_ROWS, 5):
        expected = _quantile_oracle(rows.family, q[i], *(a[i] for a in rows[1:]))
        error = np.abs(x[i] - expected)
        assert np.all(error <= 1e-13 * np.abs(expected) + 1e-13 / rows.pdf(x)[i])


def test_quantile_of_one_component_is_its_own():
    rows, q = CASES["single"], _levels(N_ROWS)
    expected = stats.norm.ppf(q, rows.location[:, :1], rows.scale[:, :1])
    error = np.abs(_over(rows, _quantile, q) - expected)
    assert np.all(error <= 1e-13 * (rows.scale[:, :1] + np.abs(expected)))


def test_quantile_at_and_beyond_the_ends():
    q = np.array([[0.0, 1.0, np.nan], [-0.1, 1.1, 0.5]])
    rows = Rows("norm", *(a[:2] for a in CASES["ordinary"][1:]))
    x = _over_few(_quantile, q, *rows[1:])
    np.testing.assert_array_equal(x[0], [-np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(x[1, :2], [np.nan, np.nan])
    assert rows.cdf(x)[1, 2] == pytest.approx(0.5, abs=1e-14)


@pytest.mark.parametrize("mode", slow_but([jax.jacfwd, jax.jacrev], jax.jacfwd))
def test_quantile_derivatives_agree_with_finite_differences(mode):
    arguments = (np.array([0.03, 0.5, 0.98]), *(a[0] for a in _ordinary(8, comp=3)[1:]))
    ours = jax.jit(mode(_quantile, argnums=(0, 1, 2, 3)))
    derivatives = ours(*(jnp.array(a) for a in arguments))
    for i, derivative in enumerate(derivatives):
        stacks, step = _shifted(arguments, i)
        x = [_quantile_oracle("norm", *row) for row in zip(*stacks, strict=True)]
        expected = _difference(np.array(x), step)
        np.testing.assert_allclose(derivative, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_quantile_derivatives_agree_with_the_implicit_function_theorem():
    rows, q = _ordinary(9, comp=3), 0.2
    weight, location, scale = np.exp(rows.log_weight[0]), rows.location[0], rows.scale[0]
    x = _quantile_oracle("norm", np.array([q]), rows.log_weight[0], location, scale)[0]
    z = (x - location) / scale
    share = weight * stats.norm.pdf(z) / scale
    density, slope = share.sum(), -(share * z / scale).sum()
    # d2x / dm_j dm_k = (d share_k / dm_j - r_k d density / dm_j) / density, along x(m).
    resp, bend = share / density, share * z / scale / density
    moved = np.diag(bend) - np.outer(resp, bend)
    along = -np.outer(bend, resp) - slope / density * np.outer(resp, resp)

    def ours(location, scale, q):
        return _quantile(q[None], jnp.array(rows.log_weight[0]), location, scale)[0]

    @jax.jit
    def derivatives(*args):
        first = jax.grad(ours, argnums=(0, 1, 2))(*args)
        twice_reverse = jax.grad(jax.grad(ours, argnums=2), argnums=2)(*args)
        return first, twice_reverse, jax.hessian(ours)(*args)

    by_theorem = (resp, share * z / density, 1 / density)
    first, second, hessian = derivatives(jnp.array(location), jnp.array(scale), jnp.array(q))
    for derivative, expected in zip(first, by_theorem, strict=True):
        np.testing.assert_allclose(derivative, expected, rtol=1e-10)
    np.testing.assert_allclose(second, -slope / density**3, rtol=1e-9)
    np.testing.assert_allclose(hessian, (moved + along).T, rtol=1e-9, atol=1e-12)


def test_quantile_ends_do_not_poison_other_gradients():
    log_weight, location, scale = (jnp.array(a[0]) for a in _ordinary(10, rows=1, comp=3)[1:])
    # Far enough from zero for the density to vanish there, where left-out elements are evaluated.
    location = location + 1e3
    kept = jnp.array([False, True, False, False, True, False, False])

    @jax.jit
    @ft.partial(jax.grad, argnums=(0, 1))
    def grad(location, q):
        return jnp.sum(jnp.where(kept, _quantile(q, log_weight, location, scale), 0.0))

    expected = grad(location, jnp.array([0.5, 0.2, 0.5, 0.5, 0.7, 0.5, 0.5]))
    poisoned = grad(location, jnp.array([0.0, 0.2, 1.0, jnp.nan, 0.7, -3.0, 9.0]))
    assert np.all(expected[0] > 1e-4)
    np.testing.assert_allclose(poisoned[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(poisoned[1], expected[1], rtol=1e-12)


def test_quantile_broadcasts():
    rows = _ordinary(11, rows=1, comp=3)
    _, cdf = _callables(*(jnp.array(a[0]) for a in rows[1:]), logistic=False)
    q = jnp.linspace(0.1, 0.9, 6).reshape(2, 3)
    x = jax.jit(ft.partial(univariate.quantile, cdf))(jnp.array(-50.0), jnp.array(50.0), q)
    assert x.shape == (2, 3)
    np.testing.assert_allclose(rows.cdf(x.reshape(1, 6)), q.reshape(1, 6), atol=1e-14)


# Modes and critical points


@pytest.mark.parametrize("name", NAMES)
def test_modes_are_those_of_a_dense_grid(name):
    rows = CASES[name]
    found = np.sort(_over(rows, _modes), axis=1)
    for i in range(len(found)):
        left, right, height = (a[::2] for a in _turns_oracle(rows, i))
        visible = height > height.max() - 700
        modes = found[i][np.isfinite(found[i])]
        slack = 4 * EPS * np.abs(modes)
        assert modes.size == visible.sum()
        assert np.all((left[visible] - slack <= modes) & (modes <= right[visible] + slack))


@pytest.mark.parametrize("name", ["ordinary", "degenerate"])
def test_modes_come_highest_first_then_nan(name):
    rows = CASES[name]
    found = _over(rows, _modes)
    height, missing = rows.pdf(found), np.isnan(found)
    assert missing.any()
    assert not missing[:, 0].any()
    assert np.all(np.diff(missing.astype(int), axis=1) >= 0)
    assert np.all((height[:, 1:] <= height[:, :-1] * (1 + 1e-9)) | missing[:, 1:])


SPECIAL = {
    "mean on the grid": ([0.0], [0.7], [2.0], [0.7]),
    "same component thrice": ([-1.0, -2.0, -0.5], [1.25] * 3, [0.5] * 3, [1.25]),
    "same mean": ([-1.0, -1.0], [0.3, 0.3], [1e-6, 1e3], [0.3]),
    "no weight": ([0.0, -np.inf], [0.5, 4.0], [1.0, 1.0], [0.5]),
    "hardly any weight": ([0.0, -1e4], [0.5, 400.0], [1.0, 1.0], [0.5]),
    "no weight, narrow": ([-np.inf, 0.0], [0.5, 4.0], [1e-6, 1.0], [4.0]),
    "far apart": ([-1.0, -0.5], [-1e4, 1e4], [1.0, 1.0], [1e4, -1e4]),
    "three far apart": ([-1.0, -1.5, -0.5], [-99.0, 0.0, 99.0], [1.0] * 3, [99.0, -99.0, 0.0]),
    "a million times narrower": ([-2.5, -0.2], [-1.0, 0.5], [1e-6, 1.0], [-1.0, 0.5]),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_modes_of_special_mixtures(name):
    log_weight, location, scale, expected = (np.array(a)[None] for a in SPECIAL[name])
    modes = _over_few(_modes, *_switch_off(location, scale, log_weight)[1:])
    # A narrow component on the slope s of a broad one peaks about scale^2 s away from its mean.
    np.testing.assert_allclose(modes[:, : expected.size], expected, rtol=1e-12, atol=1e-12)
    assert np.all(np.isnan(modes[:, expected.size :]))


def test_symmetric_mixture_has_symmetric_modes():
    half = np.array([1.005, 1.25, 2.0, 6.0])
    location, one = half[:, None] * [-1.0, 1.0], np.ones((4, 2))
    modes = np.sort(_over_few(_modes, *_switch_off(location, one, np.log(one / 2))[1:]))
    # The density turns where x = h tanh(h x); zero is the antimode.
    expected = [brentq(lambda x, h=h: x - h * np.tanh(h * x), 1e-3, h, xtol=1e-15) for h in half]
    np.testing.assert_allclose(modes[:, 0], np.negative(expected), rtol=1e-8)
    np.testing.assert_allclose(modes[:, 1], expected, rtol=1e-8)


def test_critical_points_are_the_roots_of_the_slope():
    turns = np.array([-2.0, -1.0, 0.5, 0.6, 3.0])
    log_prob = -np.poly1d(turns, r=True).integ()
    # 0.5 and 0.6 share a cell of this grid.
    grid = jnp.array([-5.0, -3.0, -1.5, -0.5, 0.2, 1.4, 2.0, 9.0])

    @jax.jit
    def find(coefficients):
        return univariate.critical_points(lambda x: jnp.polyval(coefficients, x), grid, 7)

    found = find(jnp.array(log_prob.coeffs))
    np.testing.assert_allclose(found, [*turns, np.nan, np.nan], rtol=1e-12)


SHAPES = {
    "flat top": (lambda x: -(jnp.maximum(jnp.abs(x) - 1, 0.0) ** 2), lambda x: abs(x) <= 1),
    "inflection on the grid": (lambda x: 2 * x**3 / 3 - x**4 / 4, lambda x: abs(x - 2) < 1e-12),
    "corner": (lambda x: -jnp.abs(x - 0.3), lambda x: abs(x - 0.3) < 1e-12),
    "falls from the first point": (lambda x: -x, lambda x: x == -4),
    "rises to the last point": (lambda x: x, lambda x: x == 4),
    "not a number": (lambda x: x * jnp.nan, np.isnan),
}


@jax.jit
@jax.vmap
def _modes_of_shape(index):
    shapes = [log_prob for log_prob, _ in SHAPES.values()]
    grid = jnp.arange(-4.0, 5.0)
    return univariate.modes(lambda x: jax.lax.switch(index, shapes, x), grid, 3)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.slow
def test_other_shapes_have_one_mode(name):
    modes = _modes_of_shape(jnp.arange(len(SHAPES)))[list(SHAPES).index(name)]
    assert SHAPES[name][1](float(modes[0]))
    assert np.all(np.isnan(modes[1:]))


BUMPS = (
    np.log([0.25, 0.3, 0.2, 0.15, 0.1]),
    np.array([-4.0, -1.0, 0.3, 3.0, 6.0]),
    np.array([0.5, 0.6, 0.4, 0.7, 0.3]),
)


@pytest.mark.slow
def test_mode_derivatives_agree_with_finite_differences():
    derivatives = jax.jit(jax.jacrev(_modes, argnums=(0, 1, 2)))(*(jnp.array(a) for a in BUMPS))
    for i, derivative in enumerate(derivatives):
        stacks, step = _shifted(BUMPS, i)
        expected = _difference(_over_few(_modes, *stacks), step)
        assert np.isfinite(expected).any()
        np.testing.assert_allclose(
            np.where(np.isnan(expected), np.nan, derivative), expected, rtol=1e-5, atol=1e-8
        )


# Highest-density regions


@pytest.mark.parametrize("name", [*NAMES[:4], *NAMES[5:]])  # not "twenty"
@pytest.mark.slow
def test_highest_density_region_has_the_mass_and_the_shape(name):
    rows = CASES[name]
    n_rows = len(rows.location)
    region = _over(rows, _highest_density, _coverages(n_rows))
    np.testing.assert_allclose(_mass(rows, region), _coverages(n_rows), atol=1e-9)
    height = np.log(rows.pdf(region.reshape(n_rows, -1))).reshape(region.shape)
    for i in range(0, n_rows, 2):
        _check_superlevel(rows, i, region[i], height[i])


def _mass(rows, region):
    """Return the probability of a union of intervals."""
    below = rows.cdf(region.reshape(len(region), -1)).reshape(region.shape)
    return np.nansum(below[..., 1] - below[..., 0], axis=1)


def _check_superlevel(rows, i, region, height, atol=1e-6):
    """Check that the region is where the density on a dense grid is above one threshold."""
    pieces = region[~np.isnan(region[:, 0])]
    threshold = height[~np.isnan(region)]
    assert np.ptp(threshold) < atol
    assert np.all(np.diff(pieces.ravel()) > 0) or pieces.ravel()[0] == pieces.ravel()[-1]
    x, joint, _ = _dense(rows, i)
    density = special.logsumexp(joint, axis=1)
    inside = np.any((pieces[:, 0] <= x[:, None]) & (x[:, None] <= pieces[:, 1]), axis=1)
    assert np.all(density[inside] >= threshold.min() - atol)
    assert np.all(density[~inside] <= threshold.max() + atol)


def test_highest_density_region_of_one_gaussian():
    coverage = np.array([1e-3, 0.3, 0.9, 1 - 1e-9])
    rows = _switch_off(np.full((4, 1), 1.7), np.full((4, 1), 0.3), np.zeros((4, 1)))
    region = _over_few(_highest_density, coverage, *rows[1:])
    half = 0.3 * stats.norm.ppf(0.5 + coverage / 2)
    np.testing.assert_allclose(region[:, 0], np.stack([1.7 - half, 1.7 + half], 1), atol=1e-8)
    assert np.all(np.isnan(region[:, 1:]))


def test_highest_density_region_at_the_ends_of_coverage():
    coverage = np.array([0.0, 1.0, 1 - 1e-12, -0.1, 1.1, np.nan])
    rows = Rows("norm", *(np.tile(a, (6, 1)) for a in BUMPS))
    region, modes = _over_few(_highest_density, coverage, *rows[1:]), _over_few(_modes, *rows[1:])
    np.testing.assert_allclose(region[0, 0], modes[0, [0, 0]], rtol=1e-12)
    np.testing.assert_allclose(_mass(rows, region)[1:3], 1.0, atol=1e-9)
    assert np.all(np.isnan(region[:3, 1:]))
    assert np.all(np.isnan(region[3:]))


@pytest.mark.slow
def test_highest_density_derivatives_agree_with_finite_differences():
    arguments = (np.array(0.8), *BUMPS)
    find = jax.jit(jax.jacrev(_highest_density, argnums=(0, 1, 2, 3)))
    derivatives = find(*(jnp.array(a) for a in arguments))
    for i, derivative in enumerate(derivatives):
        stacks, step = _shifted(arguments, i)
        expected = _difference(_over_few(_highest_density, *stacks), step)
        assert np.isfinite(expected[:3]).all()
        np.testing.assert_allclose(
            np.where(np.isnan(expected), np.nan, derivative), expected, rtol=1e-5, atol=1e-7
        )


# Single precision


@pytest.mark.slow
def test_float32_with_twenty_components_and_with_flat_tops():
    half = np.linspace(1.1, 1.5, 10)[:, None] * [-1.0, 1.0]
    pairs = _switch_off(half, np.ones((10, 2)), np.full((10, 2), np.log(0.5)), comp=20)
    both = zip(_ordinary(13, rows=10, comp=20)[1:], pairs[1:], strict=True)
    rows = Rows("norm", *(np.float64(np.float32(np.concatenate(pair))) for pair in both))
    antimode = np.log(rows.pdf(np.zeros((20, 1)))[:, 0])
    ceiling = np.where(np.arange(20) < 10, np.inf, antimode - 0.1)
    q = np.float64(np.float32(np.clip(_levels(20), 1e-6, 1 - 1e-6)))
    coverage = np.repeat([0.0, 0.6, 0.9, 0.05], [3, 7, 8, 2])

    def blunt(ceiling, coverage, *mixture):
        return _highest_density(coverage, *mixture, ceiling=ceiling)

    x = _over(rows, _quantile, q, dtype=np.float32)
    region = _over(rows, blunt, ceiling, coverage, dtype=np.float32)
    assert x.dtype == region.dtype == np.float32
    x, region = np.float64(x), np.float64(region)
    assert np.all(np.abs(rows.cdf(x) - q) <= 3e-7 + 3e-7 * np.abs(x) * rows.pdf(x))
    # The last two thresholds lie in the flat top: there is no right answer, but there is one.
    assert np.all(np.isfinite(region[:, 0]))
    np.testing.assert_allclose(_mass(rows, region)[:18], coverage[:18], atol=1e-5)
    height = np.log(rows.pdf(region.reshape(20, -1))).reshape(region.shape)
    for i in range(18):
        _check_superlevel(rows, i, region[i], height[i], atol=1e-5)
    # A region without mass is the highest mode.
    best = rows.pdf(_over(rows, _modes))[:3, 0]
    np.testing.assert_allclose(rows.pdf(region[:, 0])[:3, 0], best, rtol=1e-6)


# Oracles

STANDARD = {"norm": (special.ndtr, special.ndtri), "logistic": (special.expit, special.logit)}


def _levels(rows):
    """Return three probabilities for each row, one of them extreme."""
    rng = np.random.default_rng(0)
    tail = 10 ** rng.uniform(-12, -1, rows)
    extreme = np.where(rng.random(rows) < 0.5, tail, 1 - tail)
    return np.stack([rng.random(rows), rng.random(rows), extreme], axis=1)


def _coverages(rows):
    return np.random.default_rng(0).choice([0.05, 0.5, 0.8, 0.95, 0.999], rows)


def _quantile_oracle(family, q, log_weight, location, scale):
    cdf, ppf = STANDARD[family]

    def solve(level):
        ends = location + scale * ppf(level)
        slack = 1e-9 * (scale.max() + np.abs(ends).max())
        bracket = (ends.min() - slack, ends.max() + slack)
        return brentq(excess, *bracket, (level,), xtol=1e-300, rtol=1e-15, maxiter=500)

    def excess(x, level):
        return np.sum(np.exp(log_weight) * cdf((x - location) / scale)) - level

    return np.array([solve(level) for level in q])


def _shifted(arguments, index, step=1e-5):
    """Return arguments stacked over rows, each with one element of one of them moved by a step."""
    at = arguments[index]
    shifts = step * np.concatenate([np.eye(at.size), -np.eye(at.size)]).reshape(-1, *at.shape)
    stacks = [np.broadcast_to(a, (len(shifts), *a.shape)) for a in arguments]
    stacks[index] = at + shifts
    return stacks, step


def _difference(values, step):
    """Return central differences from the rows of `_shifted`, the element moved last."""
    up, down = np.split(values, 2)
    return np.squeeze(np.moveaxis((up - down) / (2 * step), 0, -1))


def _dense(rows, i):
    """Return a grid that resolves every component, and each component's log joint and score."""
    steps = {"norm": np.linspace(-13, 13, 1001), "logistic": np.linspace(-80, 80, 2501)}
    location, scale = rows.location[i], rows.scale[i]
    x = np.unique(location[:, None] + np.outer(scale, steps[rows.family]))
    z = (x[:, None] - location) / scale
    if rows.family == "norm":
        standard, slope = -0.5 * z**2 - 0.5 * np.log(2 * np.pi), -z
    else:
        standard = -np.abs(z) - 2 * np.log1p(np.exp(-np.abs(z)))
        slope = -np.tanh(z / 2)
    return x, standard + rows.log_weight[i] - np.log(scale), slope / scale


def _turns_oracle(rows, i):
    """Return the ends of each dense cell in which the density turns, and its height there."""
    x, joint, slope = _dense(rows, i)
    density = special.logsumexp(joint, axis=1)
    score = np.sum(np.exp(joint - density[:, None]) * slope, axis=1)
    x, density, sign = (a[score != 0] for a in (x, density, np.sign(score)))
    (cell,) = np.nonzero(np.diff(sign))
    return x[cell], x[cell + 1], np.maximum(density[cell], density[cell + 1])


def test_the_row_with_most_turns_decides_how_much_room_there_is():
    """Beside a density with a single mode, one with thirty."""
    means = np.stack([np.zeros(30), 9.0 * np.arange(30)])

    def log_prob(x):
        return jax.nn.logsumexp(-0.5 * (x[:, None] - jnp.asarray(means.T)[None]) ** 2, axis=1)

    grid = jnp.asarray(np.repeat(np.linspace(-5.0, 280.0, 2000)[:, None], 2, axis=1))
    both = turns.survey(log_prob, grid)
    calm = jax.tree.map(lambda leaf: leaf[..., :1], both)
    room = lambda seen: int(turns.with_room_for_turns(seen, 30, jnp.asarray))  # noqa: E731
    assert room(both) >= 59 > room(calm)


def test_the_mass_of_a_region_moves_with_its_density():
    """Of one Gaussian it is erf(|z| / sqrt 2), whose derivatives are known."""

    def mass(mean, scale, y):
        shape = (1, 1)
        return gaussian_mixture(
            jnp.zeros(1), jnp.reshape(mean, shape), jnp.reshape(scale, shape)
        ).region_mass(y[None])

    mean, scale, y = 0.3, 1.7, 1.5
    grads = jax.grad(mass, argnums=(0, 1, 2))(*map(jnp.asarray, (mean, scale, y)))
    z = (y - mean) / scale
    density = 2 * stats.norm.pdf(z) / scale
    np.testing.assert_allclose(grads, [-density, -density * z, density], rtol=1e-5)
