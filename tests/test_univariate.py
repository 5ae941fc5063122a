"""Quantiles, modes and highest-density regions against scipy, brute force and finite differences.

Our callables are plain jax.numpy formulas; the oracles are written in numpy and scipy. Every case
has the same number of rows and components, so that each function is compiled once per family.
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

from ngem import univariate

BENDS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 13.0)
N_ROWS, N_COMPONENTS = 400, 5
EPS = np.finfo(np.float64).eps


# Mixtures


class Rows(NamedTuple):
    """One mixture per row; `family` is scipy's name for its components."""

    family: str
    log_weight: np.ndarray
    location: np.ndarray
    scale: np.ndarray

    def row(self, i):
        return tuple(jnp.array(a[i]) for a in self[1:])

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


def _switch_off(location, scale, log_weight):
    """Fill up with components of no weight."""
    idle = ((0, 0), (0, N_COMPONENTS - location.shape[1]))
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


# What we test, for one mixture


def _callables(family, log_weight, location, scale):
    """Return log density and distribution function, for x of any rank."""

    def spread(a, x):
        return jnp.broadcast_to(a, (*x.shape, a.shape[-1]))

    def standardise(x):
        return (x[..., None] - spread(location, x)) / spread(scale, x)

    def log_prob(x):
        z = standardise(x)
        if family == "norm":
            component = -0.5 * z**2 - 0.5 * float(np.log(2 * np.pi))
        else:
            component = -jnp.abs(z) - 2 * jnp.log1p(jnp.exp(-jnp.abs(z)))
        return logsumexp(component + spread(log_weight - jnp.log(scale), x), axis=-1)

    def cdf(x):
        below = (ndtr if family == "norm" else expit)(standardise(x))
        return jnp.sum(spread(jnp.exp(log_weight), x) * below, axis=-1)

    return log_prob, cdf


def _grid(location, scale):
    bends = np.unique(np.concatenate([BENDS, np.negative(BENDS)]))
    return jnp.sort((location[:, None] + jnp.outer(scale, jnp.array(bends, scale.dtype))).ravel())


def _quantile(family, log_weight, location, scale, q):
    _, cdf = _callables(family, log_weight, location, scale)
    standard = (ndtri if family == "norm" else logit)(q)
    ends = location[:, None] + jnp.outer(scale, standard)
    return univariate.quantile(cdf, ends.min(0), ends.max(0), q)


def _modes(family, *arrays):
    log_prob, _ = _callables(family, *arrays)
    return univariate.modes(log_prob, _grid(*arrays[1:]), arrays[1].size)


def _critical_points(family, *arrays):
    log_prob, _ = _callables(family, *arrays)
    return univariate.critical_points(log_prob, _grid(*arrays[1:]), 2 * arrays[1].size - 1)


def _highest_density(family, log_weight, location, scale, coverage):
    log_prob, cdf = _callables(family, log_weight, location, scale)
    reach = {"norm": 9, "logistic": 37}[family]
    lower, upper = (location - reach * scale).min(), (location + reach * scale).max()
    grid = _grid(location, scale)
    return univariate.highest_density(log_prob, cdf, grid, lower, upper, coverage, location.size)


@ft.cache
def _compiled(function, family):
    return jax.jit(jax.vmap(ft.partial(function, family)))


def _over(rows, function, *extra, dtype=np.float64):
    arrays = [jnp.array(a, dtype) for a in (*rows[1:], *extra)]
    return np.asarray(_compiled(function, rows.family)(*arrays))


def _over_few(function, *arrays):
    """Map over fewer Gaussian mixtures than a case has, without compiling again."""
    full = [np.resize(a, (N_ROWS, *np.shape(a)[1:])) for a in arrays]
    return _over(Rows("norm", *full[:3]), function, *full[3:])[: len(arrays[0])]


# Quantiles


@pytest.mark.parametrize("name", CASES)
def test_quantile_inverts_the_cdf_to_the_last_float(name):
    rows = CASES[name]
    q = _levels(len(rows.location))
    x = _over(rows, _quantile, q)
    error = np.abs(rows.cdf(x) - q)
    representable = 4 * EPS * np.abs(x) * rows.pdf(x)
    assert np.all(error <= 1e-12 + representable)
    assert np.all(error <= 1e-6)


def test_quantile_is_accurate_relative_to_small_probabilities():
    rows = CASES["ordinary"]
    q = 10 ** np.random.default_rng(0).uniform(-200, -1, size=(N_ROWS, 3))
    np.testing.assert_allclose(rows.cdf(_over(rows, _quantile, q)), q, rtol=1e-10)


@pytest.mark.parametrize("name", ["ordinary", "degenerate", "logistic"])
def test_quantile_agrees_with_brentq(name):
    rows = CASES[name]
    q = _levels(N_ROWS)
    x, density = _over(rows, _quantile, q)[:, 0], rows.pdf(_over(rows, _quantile, q))[:, 0]
    for i in range(0, N_ROWS, 20):
        expected = _quantile_oracle(rows.family, *(a[i] for a in rows[1:]), q[i, 0])
        assert x[i] == pytest.approx(expected, rel=1e-13, abs=1e-13 / density[i])


def test_quantile_of_one_component_is_its_own():
    rows, q = CASES["single"], _levels(N_ROWS)
    expected = stats.norm.ppf(q, rows.location[:, :1], rows.scale[:, :1])
    atol = 1e-13 * rows.scale[:, :1]
    assert np.all(np.abs(_over(rows, _quantile, q) - expected) <= atol + 1e-13 * np.abs(expected))


def test_quantile_at_and_beyond_the_ends():
    q = np.tile([0.0, 1.0, np.nan, -0.1, 1.1, 0.5], N_ROWS // 2).reshape(N_ROWS, 3)
    x = _over(CASES["ordinary"], _quantile, q)
    np.testing.assert_array_equal(x[::2], np.tile([-np.inf, np.inf, np.nan], (N_ROWS // 2, 1)))
    assert np.all(np.isnan(x[1::2, :2]))
    assert np.all(np.isfinite(x[1::2, 2]))


@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_quantile_derivatives_agree_with_finite_differences(mode):
    q = np.array([0.03, 0.5, 0.98])
    arguments = (*(a[0] for a in _ordinary(8, comp=3)[1:]), q)
    ours = jax.jit(mode(ft.partial(_quantile, "norm"), argnums=(0, 1, 2, 3)))
    derivatives = ours(*(jnp.array(a) for a in arguments))
    for i, derivative in enumerate(derivatives):
        stacks, step = _shifted(arguments, i)
        x = [[_quantile_oracle("norm", *p, level) for level in ps] for *p, ps in zip(*stacks)]
        expected = _difference(np.array(x), step)
        np.testing.assert_allclose(derivative, expected, rtol=1e-6, atol=1e-7)


def test_quantile_derivatives_agree_with_the_implicit_function_theorem():
    rows, q = _ordinary(9, comp=3), 0.2
    weight, location, scale = np.exp(rows.log_weight[0]), rows.location[0], rows.scale[0]
    x = _quantile_oracle("norm", rows.log_weight[0], location, scale, q)
    z = (x - location) / scale
    share = weight * stats.norm.pdf(z) / scale
    density, slope = share.sum(), -(share * z / scale).sum()
    # d2x / dm_j dm_k = (d share_k / dm_j - r_k d density / dm_j) / density, along x(m).
    resp, bend = share / density, share * z / scale / density
    moved = np.diag(bend) - np.outer(resp, bend)
    along = -np.outer(bend, resp) - slope / density * np.outer(resp, resp)

    def ours(location, scale, q):
        return _quantile("norm", jnp.array(rows.log_weight[0]), location, scale, q[None])[0]

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
    log_weight, location, scale = _ordinary(10, comp=3).row(0)

    def total(location, q):
        x = _quantile("norm", log_weight, location, scale, q)
        return jnp.sum(jnp.where(jnp.isfinite(x), x, 0.0))

    grad = jax.jit(jax.grad(total, argnums=(0, 1)))
    inside = grad(location, jnp.array([0.2, 0.7]))
    every = grad(location, jnp.array([0.0, 0.2, 1.0, jnp.nan, 0.7, -3.0, 9.0]))
    np.testing.assert_allclose(every[0], inside[0], rtol=1e-12)
    np.testing.assert_allclose(every[1][jnp.array([1, 4])], inside[1], rtol=1e-12)
    np.testing.assert_array_equal(every[1][jnp.array([0, 2, 3, 5, 6])], 0.0)


def test_quantile_broadcasts_without_jit():
    rows = _ordinary(11, rows=1, comp=3)
    _, cdf = _callables("norm", *rows.row(0))
    q = jnp.linspace(0.1, 0.9, 6).reshape(2, 3)
    x = univariate.quantile(cdf, jnp.array(-50.0), jnp.array(50.0), q)
    assert x.shape == (2, 3)
    np.testing.assert_allclose(rows.cdf(x.reshape(1, 6)), q.reshape(1, 6), atol=1e-14)


# Modes and critical points


@pytest.mark.parametrize("name", CASES)
def test_modes_are_those_of_a_dense_grid(name):
    rows = CASES[name]
    found = np.sort(_over(rows, _modes), axis=1)
    for i in range(len(found)):
        left, right, height = (a[::2] for a in _turns_oracle(rows, i))
        visible = height > height.max() - 700
        _check_between(left[visible], right[visible], found[i])


@pytest.mark.parametrize("name", ["ordinary", "degenerate"])
def test_critical_points_are_those_of_a_dense_grid(name):
    rows = CASES[name]
    found = _over(rows, _critical_points)
    for i in range(0, len(found), 2):
        left, right, _ = _turns_oracle(rows, i)
        _check_between(left, right, found[i])


def _check_between(left, right, found):
    found = found[np.isfinite(found)]
    slack = 4 * EPS * np.abs(found)
    assert found.size == left.size
    assert np.all((left - slack <= found) & (found <= right + slack))


@pytest.mark.parametrize("name", ["ordinary", "degenerate"])
def test_modes_come_highest_first_then_nan(name):
    rows = CASES[name]
    found = _over(rows, _modes)
    height, missing = np.log(rows.pdf(np.nan_to_num(found))), np.isnan(found)
    assert missing.any()
    assert not missing[:, 0].any()
    assert np.all(np.diff(missing.astype(int), axis=1) >= 0)
    assert np.all((np.diff(height, axis=1) <= 1e-9) | missing[:, 1:])


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


SHAPES = {
    "flat top": (lambda x: -(jnp.maximum(jnp.abs(x) - 1, 0.0) ** 2), lambda x: abs(x) <= 1),
    "inflection on the grid": (lambda x: 2 * x**3 / 3 - x**4 / 4, lambda x: abs(x - 2) < 1e-12),
    "corner": (lambda x: -jnp.abs(x - 0.3), lambda x: abs(x - 0.3) < 1e-12),
    "falls from the first point": (lambda x: -x, lambda x: x == -4),
    "rises to the last point": (lambda x: x, lambda x: x == 4),
    "not a number": (lambda x: x * jnp.nan, np.isnan),
}


@pytest.mark.parametrize("name", SHAPES)
def test_other_shapes_have_one_mode(name):
    log_prob, expected = SHAPES[name]
    modes = jax.jit(lambda grid: univariate.modes(log_prob, grid, 3))(jnp.arange(-4.0, 5.0))
    assert expected(float(modes[0]))
    assert np.all(np.isnan(modes[1:]))


BUMPS = (
    np.log([0.25, 0.3, 0.2, 0.15, 0.1]),
    np.array([-4.0, -1.0, 0.3, 3.0, 6.0]),
    np.array([0.5, 0.6, 0.4, 0.7, 0.3]),
)


def test_mode_derivatives_agree_with_finite_differences():
    find = ft.partial(_modes, "norm")
    derivatives = jax.jit(jax.jacrev(find, argnums=(0, 1, 2)))(*(jnp.array(a) for a in BUMPS))
    for i, derivative in enumerate(derivatives):
        stacks, step = _shifted(BUMPS, i)
        expected = _difference(_over_few(_modes, *stacks), step)
        assert np.isfinite(expected).any()
        np.testing.assert_allclose(
            np.where(np.isnan(expected), np.nan, derivative), expected, rtol=1e-5, atol=1e-8
        )


# Highest-density regions


@pytest.mark.parametrize("name", CASES)
def test_highest_density_region_has_the_mass_and_the_shape(name):
    rows = CASES[name]
    n_rows = len(rows.location)
    coverage = np.random.default_rng(0).choice([0.05, 0.5, 0.8, 0.95, 0.999], n_rows)
    region = _over(rows, _highest_density, coverage)
    np.testing.assert_allclose(_mass(rows, region), coverage, atol=1e-9)
    height = np.log(rows.pdf(region.reshape(n_rows, -1))).reshape(region.shape)
    for i in range(0, n_rows, 4):
        _check_superlevel(rows, i, region[i], height[i])


def _mass(rows, region):
    """Return the probability of a union of intervals."""
    below = rows.cdf(region.reshape(len(region), -1)).reshape(region.shape)
    return np.nansum(below[..., 1] - below[..., 0], axis=1)


def _check_superlevel(rows, i, region, height):
    """Check that the region is where the density on a dense grid is above one threshold."""
    pieces = region[~np.isnan(region[:, 0])]
    threshold = height[~np.isnan(region)]
    assert np.ptp(threshold) < 1e-6
    assert np.all(np.diff(pieces.ravel()) > 0)
    x, joint, _ = _dense(rows, i)
    density = special.logsumexp(joint, axis=1)
    inside = np.any((pieces[:, 0] <= x[:, None]) & (x[:, None] <= pieces[:, 1]), axis=1)
    assert np.all(density[inside] >= threshold.min() - 1e-6)
    assert np.all(density[~inside] <= threshold.max() + 1e-6)


def test_highest_density_region_of_one_gaussian():
    coverage = np.array([1e-3, 0.3, 0.9, 1 - 1e-9])
    rows = _switch_off(np.full((4, 1), 1.7), np.full((4, 1), 0.3), np.zeros((4, 1)))
    region = _over_few(_highest_density, *rows[1:], coverage)
    half = 0.3 * stats.norm.ppf(0.5 + coverage / 2)
    np.testing.assert_allclose(region[:, 0], np.stack([1.7 - half, 1.7 + half], 1), atol=1e-8)
    assert np.all(np.isnan(region[:, 1:]))


def test_highest_density_region_at_the_ends_of_coverage():
    coverage = np.array([0.0, 1.0, 1 - 1e-12, -0.1, 1.1, np.nan])
    rows = Rows("norm", *(np.tile(a, (6, 1)) for a in BUMPS))
    region = _over_few(_highest_density, *rows[1:], coverage)
    mode = _over_few(_modes, *rows[1:])[0, 0]
    np.testing.assert_allclose(region[0, 0], [mode, mode], rtol=1e-12)
    np.testing.assert_allclose(_mass(rows, region)[1:3], 1.0, atol=1e-9)
    assert np.all(np.isnan(region[:3, 1:]))
    assert np.all(np.isnan(region[3:]))


def test_highest_density_derivatives_agree_with_finite_differences():
    arguments = (*BUMPS, np.array(0.8))
    find = jax.jit(jax.jacrev(ft.partial(_highest_density, "norm"), argnums=(1, 2, 3)))
    derivatives = find(*(jnp.array(a) for a in arguments))
    for i, derivative in enumerate(derivatives, start=1):
        stacks, step = _shifted(arguments, i)
        expected = _difference(_over_few(_highest_density, *stacks), step)
        assert np.isfinite(expected[:3]).all()
        np.testing.assert_allclose(
            np.where(np.isnan(expected), np.nan, derivative), expected, rtol=1e-5, atol=1e-7
        )


# Single precision


def test_float32_stays_float32_and_accurate():
    rows = Rows("norm", *(np.float64(np.float32(a)) for a in _ordinary(13)[1:]))
    q = np.float64(np.float32(np.clip(_levels(N_ROWS), 1e-6, 1 - 1e-6)))
    x = _over(rows, _quantile, q, dtype=np.float32)
    modes = _over(rows, _modes, dtype=np.float32)
    region = _over(rows, _highest_density, np.full(N_ROWS, 0.9), dtype=np.float32)
    assert {x.dtype, modes.dtype, region.dtype} == {np.dtype(np.float32)}
    x, modes, region = (np.float64(a) for a in (x, modes, region))
    assert np.all(np.abs(rows.cdf(x) - q) <= 3e-7 + 3e-7 * np.abs(x) * rows.pdf(x))
    best = rows.pdf(_over(rows, _modes))[:, 0]
    np.testing.assert_allclose(rows.pdf(modes)[:, 0], best, rtol=1e-6)
    np.testing.assert_allclose(_mass(rows, region), 0.9, atol=5e-5)


# Oracles


def _levels(rows):
    """Return three probabilities for each row, one of them extreme."""
    rng = np.random.default_rng(0)
    tail = 10 ** rng.uniform(-12, -1, rows)
    extreme = np.where(rng.random(rows) < 0.5, tail, 1 - tail)
    return np.stack([rng.random(rows), rng.random(rows), extreme], axis=1)


def _quantile_oracle(family, log_weight, location, scale, q):
    cdf, ppf = {"norm": (special.ndtr, special.ndtri), "logistic": (special.expit, special.logit)}[
        family
    ]
    ends = location + scale * ppf(q)
    slack = 1e-9 * (scale.max() + np.abs(ends).max())

    def f(x):
        return np.sum(np.exp(log_weight) * cdf((x - location) / scale)) - q

    return brentq(f, ends.min() - slack, ends.max() + slack, xtol=1e-300, rtol=1e-15, maxiter=500)


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


def _dense(rows, i, points=2001):
    """Return a grid that resolves every component, and each component's log joint and score."""
    reach = {"norm": 13, "logistic": 80}[rows.family]
    location, scale = rows.location[i], rows.scale[i]
    x = np.unique((location[:, None] + np.outer(scale, np.linspace(-reach, reach, points))))
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
