"""Modes and regions of mixtures of thirty components in single precision, against brute force.

The oracle cuts the line into small cells, sorts them by density and adds up their probabilities. It
is written in numpy and scipy, in double precision.
"""

import functools as ft

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ngem

from .. import oracles

# Thirty components compile for half a minute; `test_mixture.py` has the same laws for a few.
pytestmark = pytest.mark.slow

N_ROWS, N_COMPONENTS, N_MEMBERS = 16, 30, 5
COVERAGES = (0.5, 0.95)


def random(rng):
    shape = (N_ROWS, N_COMPONENTS)
    logits = np.log(rng.dirichlet(np.ones(N_COMPONENTS), N_ROWS))
    return logits, 2 * rng.normal(size=shape), rng.uniform(0.2, 1.5, shape)


def ensemble(rng, noise):
    """Return five copies of one mixture of six components, slightly perturbed."""
    shape = (N_ROWS, N_COMPONENTS // N_MEMBERS)
    parts = (rng.normal(size=shape), 3 * rng.normal(size=shape), 0.5 * rng.normal(size=shape) - 1)
    logits, mean, log_scale = (
        np.concatenate([part + noise * rng.normal(size=shape) for _ in range(N_MEMBERS)], axis=1)
        for part in parts
    )
    return logits, mean, np.exp(log_scale)


def with_wide_components(rng):
    """Return members beside two very wide components, one of them with a weight of 1e-6."""
    logits, mean, scale = ensemble(rng, 0.03)
    logits = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    logits[:, -2:], mean[:, -2:], scale[:, -2:] = np.log([1e-6, 1e-3]), 0.0, [1e3, 100.0]
    return logits, mean, scale


def separate(rng):
    """Return as many modes as components."""
    mean = 12.0 * np.arange(N_COMPONENTS) + rng.normal(size=(N_ROWS, N_COMPONENTS))
    return np.zeros_like(mean), mean, rng.uniform(0.5, 1.5, mean.shape)


def narrow_on_wide(rng):
    """Return spikes of a thousandth of the width of what they stand on."""
    logits, mean, scale = random(rng)
    scale[:, ::5] *= 1e-3
    return logits, mean, scale


CASES = {
    "random": random,
    "equal members": ft.partial(ensemble, noise=0.0),
    "members equal up to rounding": ft.partial(ensemble, noise=1e-6),
    "nearly equal members": ft.partial(ensemble, noise=1e-3),
    "members": ft.partial(ensemble, noise=0.03),
    "wide components": with_wide_components,
    "separate": separate,
    "narrow on wide": narrow_on_wide,
}


@ft.cache
def answers(name):
    """Return the mixtures' parameters, targets, regions, masses of targets, and modes."""
    parts = tuple(np.float32(part) for part in CASES[name](np.random.default_rng(0)))
    logits, mean, scale = parts
    mixture = ngem.gaussian_mixture(logits, mean[..., None], scale[..., None])
    y = mixture.sample(jax.random.key(3))
    regions, masses, modes = _program(mixture, y)
    weights = np.exp(logits.astype(float))
    truth = (weights / weights.sum(1, keepdims=True), mean.astype(float), scale.astype(float))
    assert regions[0].dtype == masses.dtype == modes.dtype == jnp.float32
    arrays = [np.asarray(a, float) for a in (y, jnp.stack(regions), masses, modes)]
    return truth, *arrays


@jax.jit
def _program(mixture, y):
    coverages = (jnp.array(coverage, jnp.float32) for coverage in COVERAGES)
    return [mixture.interval(c) for c in coverages], mixture.region_mass(y), mixture.modes()


def brute_force(truth, n):
    """Return pdf and cdf, and of small cells the middle, width and probability."""
    weights, mean, scale = (part[n] for part in truth)
    tail = stats.norm.ppf(np.geomspace(1e-10, 1e-3, 60))
    steps = np.concatenate([tail, np.linspace(-3.1, 3.1, 1001), -tail])
    edges = np.unique((mean[:, None] + scale[:, None] * steps).ravel())
    pdf, cdf = oracles.gaussian_mixture_1d(weights, mean, scale)
    middle = (edges[1:] + edges[:-1]) / 2
    return pdf, cdf, middle, np.diff(edges), np.diff(cdf(edges))


def resolution(pdf, pieces):
    """Return how far two float32 steps of the ends and of the log density move the probability."""
    ends, eps = pieces.ravel(), np.finfo(np.float32).eps
    shift = 1e-7 * np.abs(ends) + 1e-9
    density = pdf(ends)
    slope = (pdf(ends + shift) - pdf(ends - shift)) / (2 * shift * density)
    by_threshold = eps * np.abs(np.log(density)) / np.abs(slope)
    return 2 * np.sum(density * (np.spacing(np.abs(ends).astype(np.float32)) + by_threshold))


@pytest.mark.parametrize("name", CASES)
def test_regions_are_the_smallest_of_their_probability(name):
    truth, _, regions, _, _ = answers(name)
    assert regions.shape == (2, N_ROWS, N_COMPONENTS, 2)
    for n in range(N_ROWS):
        pdf, cdf, middle, width, mass = brute_force(truth, n)
        order = np.argsort(-pdf(middle))
        for coverage, region in zip(COVERAGES, regions[:, n], strict=True):
            pieces = region[~np.isnan(region[:, 0])]
            assert np.all(np.diff(pieces.ravel()) > 0)
            found = np.diff(cdf(pieces), axis=1).sum()
            assert found == pytest.approx(coverage, abs=1e-5 + resolution(pdf, pieces))
            chosen = order[: np.searchsorted(np.cumsum(mass[order]), coverage) + 1]
            assert np.diff(pieces, axis=1).sum() < 1.002 * width[chosen].sum()


@pytest.mark.parametrize("name", CASES)
def test_region_masses_are_those_of_all_that_is_as_likely(name):
    truth, y, _, masses, _ = answers(name)
    for n in range(N_ROWS):
        pdf, _, middle, _, mass = brute_force(truth, n)
        expected = np.sum(mass[pdf(middle) >= pdf(y[n, 0])])
        assert masses[n] == pytest.approx(expected, abs=3e-3)


@pytest.mark.parametrize("name", CASES)
def test_modes_are_the_peaks_of_the_cells(name):
    truth, _, _, _, modes = answers(name)
    for n in range(N_ROWS):
        pdf, _, middle, _, _ = brute_force(truth, n)
        height, found = pdf(middle), modes[n][~np.isnan(modes[n])]
        own = pdf(found)
        assert np.all(np.diff(own) <= 1e-5 * own[:-1])
        # Every peak of the cells that rises clearly above what is around it is a mode.
        peaks = np.flatnonzero((height[1:-1] > height[:-2]) & (height[1:-1] >= height[2:])) + 1
        clear = [at for at in peaks if _prominence(height, at) > 1e-3]
        assert len(clear) <= len(found) <= N_COMPONENTS
        for at in clear:
            assert np.min(np.abs(own / height[at] - 1)) < 1e-3
    if name == "separate":
        assert not np.any(np.isnan(modes))


def _prominence(height, at):
    """Return by which fraction a peak is above the lowest point on the way to a higher one."""
    higher = np.flatnonzero(height > height[at])
    left, right = higher[higher < at], higher[higher > at]
    passes = [height[left[-1] : at].min()] if left.size else []
    passes += [height[at : right[0] + 1].min()] if right.size else []
    return 1 - max(passes, default=0.0) / height[at]


def test_many_rows_in_blocks_get_the_same_answers(monkeypatch):
    """Also of rows that turn too often for the quick form of the program."""
    monkeypatch.setattr("ngem.mixture.mixture._GRID_BLOCK", 6)
    monkeypatch.setattr("ngem.mixture.turns._FEW", 3)
    rng = np.random.default_rng(0)
    mean, scale = rng.normal(0, 3, (16, 3, 1)), np.exp(rng.normal(size=(16, 3, 1)))
    mixture = ngem.gaussian_mixture(rng.normal(size=(16, 3)), mean, scale)
    coverage, y = jnp.array(0.7), jnp.asarray(rng.normal(size=(16, 1)))
    n_modes = np.sum(~np.isnan(mixture.modes()), axis=1)
    assert set(n_modes) == {1, 2, 3}
    ask = lambda coverage, y: (mixture.interval(coverage), mixture.region_mass(y))  # noqa: E731
    # Traced arguments cannot be split into blocks.
    for found, expected in zip(ask(coverage, y), jax.jit(ask)(coverage, y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_the_derivative_of_a_region_mass_agrees_with_finite_differences():
    mean, scale = jnp.array([[-1.0], [0.5], [2.0]]), jnp.array([[0.5], [1.0], [0.4]])
    mixture = ngem.gaussian_mixture(jnp.array([0.0, 0.3, -0.2]), mean, scale)
    y, step = jnp.array([0.7]), 1e-5
    ask = jax.jit(lambda mixture, y: mixture.region_mass(y))
    found, by_target = jax.jit(jax.grad(ask, argnums=(0, 1)))(mixture, y)
    assert by_target[0] == pytest.approx(
        float(ask(mixture, y + step) - ask(mixture, y - step)) / (2 * step), rel=1e-5
    )
    for k in range(3):
        shift = jnp.zeros((3, 1)).at[k].set(step)
        up, down = (ngem.gaussian_mixture(mixture.logits, mean + s * shift, scale) for s in (1, -1))
        expected = float(ask(up, y) - ask(down, y)) / (2 * step)
        assert found.components.mean[k, 0] == pytest.approx(expected, rel=1e-4, abs=1e-7)
