"""Scores and calibration against scipy, scoringrules, closed forms and simulation."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scoringrules
from scipy import integrate, special, stats

import ngem
from ngem import metrics
from ngem.families import get_family
from ngem.mixture import Mixture

KEY = jax.random.key(5)
N_ROWS = 60


def random_parts(dim=1, seed=0):
    """Weights, means and one scale per component, equal in all directions."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet([2.0, 2.0, 2.0], N_ROWS)
    return (
        weights,
        2 * rng.normal(size=(N_ROWS, 3, dim)),
        np.exp(0.5 * rng.normal(size=(N_ROWS, 3))),
    )


def build(weights, mean, scale):
    return ngem.gaussian_mixture(
        np.log(weights), mean, np.broadcast_to(scale[..., None], mean.shape)
    )


PARTS = random_parts()
Y = 2 * np.random.default_rng(1).normal(size=N_ROWS)


# Scores


def test_nll_is_minus_the_log_density():
    weights, mean, scale = PARTS
    density = np.sum(weights * stats.norm.pdf(Y[:, None], mean[..., 0], scale), axis=1)
    np.testing.assert_allclose(metrics.nll(build(*PARTS), Y), -np.log(density), rtol=1e-12)
    np.testing.assert_allclose(metrics.nll(build(*PARTS), Y[:, None]), -np.log(density), rtol=1e-12)


def test_one_density_may_serve_all_rows():
    one = ngem.gaussian_mixture([0.0], [[1.0, 2.0]], [[1.0, 3.0]])
    y = np.random.default_rng(0).normal(size=(7, 2))
    expected = -stats.norm.logpdf(y, [1.0, 2.0], [1.0, 3.0]).sum(axis=1)
    np.testing.assert_allclose(metrics.nll(one, y), expected, rtol=1e-12)


def test_crps_is_scoringrules():
    weights, mean, scale = PARTS
    expected = scoringrules.crps_mixnorm(Y, mean[..., 0], scale, weights)
    np.testing.assert_allclose(metrics.crps(build(*PARTS), Y), expected, rtol=1e-9)


def mean_norm(offset, scale):
    """E|Z| for Z ~ N(offset, scale^2 I), from the moments of a noncentral chi distribution."""
    dim, shift = len(offset), np.sum(np.square(offset)) / scale**2

    def tail(r):
        return stats.ncx2.sf(r**2, dim, shift) if shift > 0 else stats.chi2.sf(r**2, dim)

    return scale * integrate.quad(tail, 0, math.sqrt(shift) + 12, limit=200)[0]


def true_energy(weights, mean, scale, y):
    """Return the energy score of one mixture whose components are equal in all directions."""
    error = sum(w * mean_norm(m - y, s) for w, m, s in zip(weights, mean, scale, strict=True))
    pairs = sum(
        weights[i] * weights[j] * mean_norm(mean[i] - mean[j], math.hypot(scale[i], scale[j]))
        for i in range(3)
        for j in range(3)
    )
    return error - 0.5 * pairs


@pytest.mark.parametrize("dim", [1, 3])
def test_the_energy_score_is_unbiased_and_repeatable(dim, monkeypatch):
    parts = [part[0] for part in random_parts(dim, seed=2)]
    y = np.full(dim, 0.7)
    expected = true_energy(*parts, y)
    one = build(*parts)
    if dim == 1:
        assert expected == pytest.approx(metrics.crps(one, y[None])[0], abs=1e-7)
    # Two samples per row are the fewest possible; a biased estimate would be off by a half.
    monkeypatch.setattr(metrics, "_BUDGET", 1000 * 2 * 3 * dim)
    rows = np.tile(y, (4500, 1))
    scores = metrics.energy_score(one, rows, n_samples=2, key=KEY)
    assert scores.shape == (4500,)
    np.testing.assert_array_equal(metrics.energy_score(one, rows, n_samples=2, key=KEY), scores)
    assert not np.allclose(metrics.energy_score(one, rows, n_samples=2), scores)
    assert not np.any(scores[1000:2000] == scores[2000:3000]) or dim == 1  # blocks differ
    error = scores.std() / math.sqrt(len(scores))
    assert abs(scores.mean() - expected) < 4 * error
    assert error < 0.05 * expected


# Intervals


def test_coverage_counts_every_piece_and_no_padding():
    intervals = np.array(
        [[[0, 1], [3, 4]], [[0, 1], [np.nan, np.nan]], [[-np.inf, 0], [2, np.inf]]]
    )
    for y, expected in [([3.5, 1, 5], [1, 1, 1]), ([2, 1.5, 1], [0, 0, 0]), ([0, 0, 0], [1, 1, 1])]:
        np.testing.assert_array_equal(metrics.covered(intervals, y), np.array(expected, bool))
    assert metrics.coverage(intervals, [2, 0.5, 5]) == pytest.approx(2 / 3)
    assert metrics.coverage(intervals[:, 0], [[0.5], [2], [-9]]) == pytest.approx(2 / 3)


def test_the_interval_score_is_that_of_scoringrules_and_lowest_at_the_true_interval():
    y = np.random.default_rng(0).normal(size=4000)
    true = stats.norm.ppf([0.1, 0.9])
    means = []
    for stretch in (0.8, 0.9, 1.0, 1.1, 1.25):
        low, high = (np.full(len(y), end * stretch) for end in true)
        scores = metrics.interval_score(np.stack([low, high], axis=1), y, 0.8)
        np.testing.assert_allclose(
            scores, scoringrules.interval_score(y, low, high, 0.2), rtol=1e-12
        )
        means.append(scores.mean())
    assert np.argmin(means) == 2


def test_the_interval_score_takes_padding_but_no_second_piece():
    padded = np.array([[[0.0, 1.0], [np.nan, np.nan]]])
    assert metrics.interval_score(padded, [2.0], 0.5) == pytest.approx([1 + 4.0])
    with pytest.raises(ValueError, match=r"one interval per row, got 2 in row 1.*equal-tailed"):
        metrics.interval_score([[[0, 1], [np.nan, np.nan]], [[0, 1], [2, 3]]], [0, 0], 0.9)
    with pytest.raises(ValueError, match="below 1"):
        metrics.interval_score(padded, [2.0], 1)


# Calibration


def test_pit_is_the_distribution_function():
    weights, mean, scale = PARTS
    expected = np.sum(weights * stats.norm.cdf(Y[:, None], mean[..., 0], scale), axis=1)
    np.testing.assert_allclose(metrics.pit(build(*PARTS), Y), expected, rtol=1e-12)


@pytest.mark.parametrize(("n", "confidence"), [(1, 0.95), (7, 0.5), (250, 0.95), (100_000, 0.99)])
def test_bands_are_quantiles_of_the_binomial_distribution(n, confidence):
    k = np.arange(n + 1)
    log_choose = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    for p in (1e-3, 0.05, 0.5, 0.93):
        at_most = np.cumsum(np.exp(log_choose + k * np.log(p) + (n - k) * np.log1p(-p)))
        band = metrics.binomial_band(n, p, confidence)
        for count, tail in zip(band, (0.5 - confidence / 2, 0.5 + confidence / 2), strict=True):
            assert at_most[count] > tail - 1e-9
            assert count == 0 or at_most[count - 1] < tail + 1e-9
    assert metrics.binomial_band(n, 0) == (0, 0)
    assert metrics.binomial_band(n, 1) == (n, n)
    assert metrics.binomial_band(n, 0.5, 1) == (0, n)


def test_reliability_counts():
    values = np.random.default_rng(0).beta(2, 2, 500)
    below = metrics.reliability(values, [0.0, 0.25, 1.0])
    np.testing.assert_array_equal(below.observed, [0, np.mean(values <= 0.25), 1])
    assert below.observed[1] < below.lower[1]  # too wide: too little mass in the tails
    central = metrics.reliability(values, kind="central")
    inside = [np.mean((values >= 0.5 - c / 2) & (values <= 0.5 + c / 2)) for c in metrics.LEVELS]
    np.testing.assert_allclose(central.observed, inside, atol=1e-12)
    band = stats.binom.ppf([[0.025], [0.975]], 500, metrics.LEVELS) / 500
    np.testing.assert_allclose([central.lower, central.upper], band, rtol=1e-12)


def test_a_calibrated_model_lies_within_the_band_as_often_as_said():
    rng = np.random.default_rng(3)
    curves = [metrics.reliability(rng.random(300), confidence=0.9) for _ in range(400)]
    inside = np.mean([(c.lower <= c.observed) & (c.observed <= c.upper) for c in curves])
    assert 0.89 < inside < 0.95  # at least 0.9, and counts are integers


def largest_distance(values):
    """The largest distance between the empirical distribution function and the diagonal."""
    values = np.sort(values, axis=-1)
    steps = np.arange(values.shape[-1] + 1) / values.shape[-1]
    return np.max(np.maximum(steps[1:] - values, values - steps[:-1]), axis=-1)


def test_the_uniformity_test_is_exact_for_one_row_and_for_two():
    """P(D > d) is 2 (1 - d) for one row; for two rows it is 2 (1 - d)^2 from d = 1/2 on."""
    for u in (0.01, 0.3, 0.6, 0.95):
        distance = max(u, 1 - u)
        assert metrics.pit_uniformity([u]) == pytest.approx((distance, 2 * (1 - distance)))
    assert metrics.pit_uniformity([0.8, 0.9]) == pytest.approx((0.8, 2 * 0.2**2))
    assert metrics.pit_uniformity([0.1, 0.6]) == pytest.approx((0.4, 1 - 2 * (0.8 - 0.5) ** 2))


@pytest.mark.parametrize("n", [5, 20, 100])
def test_p_values_are_the_frequencies_of_larger_distances(n):
    rng = np.random.default_rng(n)
    by_chance = largest_distance(rng.random((40_000, n)))
    for shape in (0.7, 1.0, 1.3, 2.0):
        values = rng.beta(shape, 1, n)
        distance, p_value = metrics.pit_uniformity(values)
        assert distance == pytest.approx(largest_distance(values), rel=1e-12)
        frequency = np.mean(by_chance >= distance)
        assert p_value == pytest.approx(frequency, abs=4 * math.sqrt(0.25 / 40_000))
    even = metrics.pit_uniformity((np.arange(n) + 0.5) / n)
    assert even.p_value > 0.99
    assert metrics.pit_uniformity(np.full(n, 0.999)).p_value < 1e-3


def test_the_default_levels_are_every_twentieth():
    np.testing.assert_allclose(metrics.LEVELS, np.linspace(0.05, 0.95, 19))


# What is refused


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: metrics.nll(m, Y[:5]), r"y must have shape \(60, 1\), got \(5, 1\).*per row"),
        (lambda m: metrics.nll(m, np.stack([Y, Y], 1)), r"shape \(60, 1\), got \(60, 2\)"),
        (lambda m: metrics.nll(m, 0 * Y / 0), r"y must hold finite numbers, got nan at row 0"),
        (lambda m: metrics.nll(m, 3.0), r"y must have shape \(60, 1\), got \(\)"),
        (lambda m: metrics.energy_score(m, Y, n_samples=1), r"of at least 2, got 1; try 256"),
        (lambda m: metrics.energy_score(m, Y, n_samples=2.5), r"must be a whole number .* got 2.5"),
        (lambda m: metrics.interval_score([[0, 1]], [0.5], [0.9]), "nominal must be one number"),
        (lambda m: metrics.reliability([0.5], [[0.5]]), r"levels must be a number or a sequence"),
        (lambda m: metrics.reliability([0.5], confidence=[0.9]), "confidence must be one number"),
        (
            lambda m: metrics.binomial_band(-1, 0.5),
            "n must be a whole number of at least 0, got -1",
        ),
        (lambda m: metrics.binomial_band(9, 1.5), "p must lie between 0 and 1, got 1.5"),
        (lambda m: metrics.covered([[0, 1]], Y), r"got \(1, 2\) and \(60,\).*one at a time"),
        (lambda m: metrics.reliability([0.5, 1.5]), "pit must lie between 0 and 1"),
        (lambda m: metrics.reliability([0.5], [2.0]), "levels must lie between 0 and 1"),
        (
            lambda m: metrics.reliability([0.5], kind="all"),
            "kind must be one of 'below', 'central'",
        ),
        (lambda m: metrics.pit_uniformity([]), r"with at least one row, got \(0,\)"),
        (lambda m: metrics.pit_uniformity([[0.5]]), r"pit\[:, column\]"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(build(*PARTS))


@pytest.mark.parametrize("y", [Y.astype(str), Y * 1j, Y.astype(object)], ids=lambda y: y.dtype.kind)
def test_targets_that_are_no_real_numbers_are_refused(y):
    """A part of a complex number, or the number that a text spells, would pass for a target."""
    for measure in (metrics.nll, metrics.pit, metrics.crps, metrics.energy_score):
        with pytest.raises(TypeError, match=r"y must hold real numbers, got .*; convert it"):
            measure(build(*PARTS), y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: metrics.energy_score(m, Y, key=7), "key must be a key of JAX's, got int; try"),
        (lambda m: metrics.covered([["a", "b"]], [0.0]), "intervals must hold real numbers, got"),
        (lambda m: metrics.coverage([[0.0, 1.0]], ["a"]), "y must hold real numbers, got list"),
        (lambda m: metrics.pit_uniformity([[1.0], [1.0, 2.0]]), "pit must hold real numbers, got"),
        (lambda m: metrics.binomial_band(9, "a"), "p must hold real numbers, got str"),
    ],
)
def test_what_holds_no_numbers_is_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call(build(*PARTS))


def test_measures_of_one_column_refuse_several():
    mixture = ngem.gaussian_mixture(jnp.zeros((2, 1)), jnp.zeros((2, 1, 2)), jnp.ones((2, 1, 2)))
    for measure in (metrics.crps, metrics.pit):
        with pytest.raises(ValueError, match="one-dimensional mixture, got one over 2"):
            measure(mixture, np.zeros((2, 2)))
    grid = ngem.gaussian_mixture(
        jnp.zeros((2, 3, 1)), jnp.zeros((2, 3, 1, 1)), jnp.ones((2, 3, 1, 1))
    )
    with pytest.raises(ValueError, match=r"one axis of rows, got batch shape \(2, 3\)"):
        metrics.nll(grid, np.zeros((6, 1)))


def test_pit_of_counts_lies_between_both_ends_of_a_step():
    """Between P(Y < y) and P(Y <= y) of scipy, uniformly, and by its seed."""
    family = get_family("poisson")
    mean = jnp.full((400, 1), 2.3)
    components = jax.vmap(lambda one: family.from_moments(one, one))(mean)
    components = jax.tree.map(lambda leaf: leaf[:, None], components)
    mixture = Mixture(jnp.zeros((400, 1)), components, family)
    y = stats.poisson(2.3).rvs(400, random_state=0)
    found, again = (metrics.pit(mixture, y, seed) for seed in (0, 1))
    low, high = stats.poisson(2.3).cdf(y - 1), stats.poisson(2.3).cdf(y)
    assert np.all((found >= low) & (found <= high))
    fraction = (found - low) / (high - low)
    assert stats.kstest(fraction, "uniform").pvalue > 1e-3
    assert not np.any(found == again)
    np.testing.assert_array_equal(metrics.pit(mixture, y), found)
