"""Mixtures against scipy, scoringrules, sampling and brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scoringrules
from scipy import integrate, stats

import ngem
from ngem.families import DiagonalGaussian, FullGaussian, Laplace, LocationScale, Logistic
from ngem.mixture import Mixture
from ngem.mixture.blocks import over_blocks

from .. import oracles
from ..cases import families_but_slow, random_mixture, slow_but

KEY = jax.random.key(21)


def random_rows(n_rows, comp, *, seed=0):
    """Weights, means and scales of one-dimensional mixtures, many of them nearly degenerate."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, rng.choice([0.1, 2, 10], (n_rows, 1)), (n_rows, comp))
    mean = rng.normal(0, rng.choice([0.01, 1, 100], (n_rows, 1)), (n_rows, comp))
    scale = np.exp(rng.normal(0, rng.choice([0.1, 1, 3], (n_rows, 1)), (n_rows, comp)))
    coincident = rng.random(n_rows) < 0.1
    mean[coincident] = mean[coincident][:, :1]
    return logits, mean, scale


def rows_mixture(n_rows=1500, comp=4, seed=0):
    logits, mean, scale = random_rows(n_rows, comp, seed=seed)
    weights = np.exp(logits - logits.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    return ngem.gaussian_mixture(logits, mean[..., None], scale[..., None]), (weights, mean, scale)


def row(truth, n):
    return oracles.gaussian_mixture_1d(*(part[n] for part in truth))


def test_rows_are_chosen_by_number():
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(4, 3)), rng.normal(size=(4, 3, 1)), np.exp(rng.normal(size=(4, 3, 1)))
    mixture, y = ngem.gaussian_mixture(*parts), jnp.zeros((4, 1))
    assert len(mixture) == 4
    for rows in (2, -1, slice(1, 3), jnp.array([3, 0])):
        expected = ngem.gaussian_mixture(*(np.asarray(part)[rows] for part in parts))
        chosen = mixture[rows]
        np.testing.assert_array_equal(chosen.logits, expected.logits)
        np.testing.assert_array_equal(chosen.log_prob(y[rows]), mixture.log_prob(y)[rows])
    assert [one.batch_shape for one in mixture] == [()] * 4
    with pytest.raises(IndexError, match="rows must be below 4, got 4"):
        mixture[4]
    with pytest.raises(IndexError, match="a single mixture has no rows"):
        mixture[0][0]
    with pytest.raises(TypeError, match="no len"):
        len(mixture[0])


def test_densities_and_deviations_are_those_of_logs_and_variances():
    rng = np.random.default_rng(1)
    mixture = ngem.gaussian_mixture(
        rng.normal(size=(5, 2)), rng.normal(size=(5, 2, 2)), np.exp(rng.normal(size=(5, 2, 2)))
    )
    y = jnp.asarray(rng.normal(size=(5, 2)))
    np.testing.assert_allclose(mixture.pdf(y), np.exp(mixture.log_prob(y)))
    np.testing.assert_allclose(mixture.std() ** 2, mixture.variance())


@families_but_slow("full", "logistic")
def test_log_prob_and_responsibilities_equal_scipys(case):
    mixture = random_mixture(case.family, KEY, batch=(6,), comp=3, dim=case.dim)
    y = np.asarray(mixture.sample(KEY))
    ask = jax.jit(lambda m, y: (m.log_prob(y), m.responsibilities(y), m.weights))
    log_prob, responsibilities, weights = map(np.asarray, ask(mixture, y))
    for n in range(6):
        parts = [
            jax.tree.map(lambda leaf, i=(n, k): np.asarray(leaf)[i], mixture.components)
            for k in range(3)
        ]
        logs = [case.scipy_logpdf(part, y[n]) for part in parts]
        total = oracles.mixture_logpdf(weights[n], logs)
        assert log_prob[n] == pytest.approx(total, rel=1e-12)
        expected = weights[n] * np.exp(np.array(logs) - total)
        np.testing.assert_allclose(responsibilities[n], expected, rtol=1e-9)


def test_weights_survive_far_from_every_component():
    """Where densities round to the same huge number, responsibilities are the weights."""
    logits = jnp.log(jnp.array([0.7, 0.2, 0.1], jnp.float32))
    mixture = ngem.gaussian_mixture(
        logits, jnp.zeros((3, 1), jnp.float32), jnp.ones((3, 1), jnp.float32)
    )
    far = jnp.full((1,), 1e8, jnp.float32)
    np.testing.assert_allclose(mixture.responsibilities(far), [0.7, 0.2, 0.1], rtol=1e-6)


@families_but_slow("full", "laplace")
def test_moments_are_those_of_samples(case):
    mixture = random_mixture(case.family, KEY, batch=(2,), comp=3, dim=2)
    draws = np.asarray(mixture.sample(KEY, (100_000,)))
    assert draws.shape == (100_000, 2, 2)
    ask = jax.jit(lambda m: (m.mean(), m.variance(), m.covariance()))
    rows = zip(*map(np.asarray, ask(mixture)), strict=True)
    for n, (mean, variance, covariance) in enumerate(rows):
        spread = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose(variance, np.diag(covariance), rtol=1e-10)
        assert np.all(np.abs(draws[:, n].mean(0) - mean) < 5 * spread / np.sqrt(1e5))
        error = np.abs(np.cov(draws[:, n].T) - covariance) / np.outer(spread, spread)
        assert error.max() < 0.03


def test_samples_follow_the_distribution():
    mixture, truth = rows_mixture(4)
    draws = np.asarray(mixture.sample(KEY, (20_000,)))[..., 0]
    for n in range(4):
        assert stats.kstest(draws[:, n], row(truth, n)[1]).pvalue > 1e-4


@families_but_slow("full")
def test_marginals_are_the_distribution_of_the_columns(case):
    mixture = random_mixture(case.family, KEY, comp=3, dim=3)
    draws = np.asarray(mixture.sample(KEY, (20_000,)))
    for dim in range(3):
        marginal = mixture.marginal(dim)
        cdf = lambda x, marginal=marginal: np.asarray(marginal.cdf(jnp.asarray(x)[:, None]))  # noqa: E731
        assert stats.kstest(draws[:, dim], cdf).pvalue > 1e-4
    pair = mixture.marginal((2, 0))
    expected = np.asarray(mixture.covariance())[np.ix_([2, 0], [2, 0])]
    np.testing.assert_allclose(pair.covariance(), expected, rtol=1e-10)
    np.testing.assert_allclose(mixture.marginal(-1).mean(), mixture.mean()[2:], rtol=1e-12)


def test_weight_entropy():
    mixture, (weights, _, _) = rows_mixture(50)
    np.testing.assert_allclose(mixture.weight_entropy(), stats.entropy(weights, axis=1), atol=1e-12)


def test_a_cdf_is_never_above_one():
    """In single precision weights may add up to a little more."""
    logits = jnp.asarray(np.random.default_rng(0).normal(size=(500, 5)), jnp.float32)
    scale = jnp.ones((500, 5, 1), jnp.float32)
    mixture = ngem.gaussian_mixture(logits, 0 * scale, scale)
    assert jnp.any(jnp.sum(mixture.weights, axis=-1) > 1)
    assert jnp.all(mixture.cdf(jnp.full((500, 1), 100.0, jnp.float32)) <= 1)


def test_cdf_equals_scipys():
    mixture, truth = rows_mixture()
    y = np.random.default_rng(1).normal(0, 10, len(truth[0]))
    expected = [row(truth, n)[1](y[n]) for n in range(len(y))]
    np.testing.assert_allclose(mixture.cdf(jnp.asarray(y)[:, None]), expected, atol=1e-14)


@pytest.mark.parametrize("comp", slow_but([1, 4, 20], 20))
def test_quantile_inverts_the_cdf(comp):
    """Correct to 1e-6 in probability wherever floats can tell, by scipy's distribution function."""
    mixture, truth = rows_mixture(1500, comp)
    for q in (1e-6, 0.05, 0.5, 0.95, 1 - 1e-6):
        x = np.asarray(mixture.quantile(q))
        below = np.array([row(truth, n)[1](x[n]) for n in range(len(x))])
        np.testing.assert_allclose(below, q, atol=1e-9)


def test_quantile_in_single_precision():
    mixture, truth = rows_mixture(300)
    mixture = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), mixture)
    x = np.asarray(mixture.quantile(jnp.array(0.9, jnp.float32)), float)
    for n in range(300):
        pdf, cdf = row(truth, n)
        # One float32 step of x moves the probability by its density times the step.
        step = np.spacing(np.float32(abs(x[n]))) * pdf(x[n])
        assert abs(cdf(x[n]) - 0.9) < 2e-6 + 4 * step


@pytest.mark.slow
def test_levels_are_a_further_axis_of_quantiles():
    """Every row is asked for every level, whatever their numbers are; scipy's cdf inverts them."""
    mixture, truth = rows_mixture(3)
    levels = np.array([[0.1, 0.2, 0.5], [0.6, 0.9, 0.99]])
    for q in (levels[0], levels, levels[:, 0], jnp.asarray(levels[0]), [0.1, 0.2, 0.5]):
        found = np.asarray(mixture.quantile(q))
        assert found.shape == (3, *np.shape(q))
        for n in range(3):
            np.testing.assert_allclose(row(truth, n)[1](found[n]), q, atol=1e-9)
    assert mixture.quantile(0.5).shape == (3,)
    first = jax.tree.map(lambda leaf: leaf[0], mixture)
    assert first.quantile(levels).shape == (2, 3)
    paired = jax.vmap(Mixture.quantile)(mixture, jnp.asarray(levels[0]))
    np.testing.assert_allclose(
        paired, np.diagonal(np.asarray(mixture.quantile(levels[0]))), rtol=1e-12
    )


@pytest.mark.slow
def test_quantiles_of_many_levels_are_those_of_one_at_a_time(monkeypatch):
    """In parts where rows or levels are many: memory does not grow with their product."""
    mixture, _ = rows_mixture(n_rows=20)
    levels = np.linspace(0.01, 0.99, 7)
    expected = np.stack([np.asarray(mixture.quantile(level)) for level in levels], axis=-1)
    monkeypatch.setattr("ngem.mixture.mixture._BLOCK", 60)  # three levels at a time, then one
    jax.clear_caches()
    np.testing.assert_allclose(mixture.quantile(levels), expected, rtol=1e-12)
    monkeypatch.setattr("ngem.mixture.mixture._BLOCK", 16)  # rows in blocks
    np.testing.assert_allclose(mixture.quantile(levels), expected, rtol=1e-12)


def test_quantiles_are_differentiable():
    mixture, truth = rows_mixture(3)
    pdf, _ = row(truth, 0)
    first = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[0]), mixture)
    ask = jax.jit(jax.value_and_grad(Mixture.quantile, argnums=(0, 1)))
    x, (gradient, slope) = ask(first, jnp.array(0.3))
    assert slope == pytest.approx(1 / pdf(float(x)), rel=1e-8)
    # dx/dmean_k = responsibility of component k at x, since the cdf moves by its share.
    resp = first.responsibilities(x[None])
    np.testing.assert_allclose(gradient.components.mean[:, 0], resp, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("comp", [1, 4, 20])
def test_crps_equals_scoringrules(comp):
    mixture, (weights, mean, scale) = rows_mixture(1500, comp)
    y = np.random.default_rng(2).normal(0, 10, 1500)
    expected = scoringrules.crps_mixnorm(y, mean, scale, weights)
    np.testing.assert_allclose(
        mixture.crps(jnp.asarray(y)[:, None]), expected, rtol=1e-8, atol=1e-9
    )


def test_crps_is_never_negative_where_faint_components_are_far_away():
    """In single precision, where the difference of two expectations is rounding alone."""
    logits, mean, scale, y = oracles.far_and_faint()
    found = ngem.gaussian_mixture(logits, mean[..., None], scale[..., None]).crps(y)
    assert found.dtype == jnp.float32
    assert np.all(found >= 0)
    np.testing.assert_allclose(found, oracles.crps_of(logits, mean, scale, y), rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("family", [DiagonalGaussian(), FullGaussian(), Laplace()])
def test_crps_of_huge_and_tiny_scales_is_finite(family):
    """It is in the units of y, whatever they are: squares and cubes of them must not overflow."""
    mixture = random_mixture(family, KEY, batch=(5,), comp=3, dim=1)
    mixture = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), mixture)
    y = jnp.zeros(5, jnp.float32)
    for unit in (1e-30, 1e30):
        components = jax.tree.map(lambda leaf, unit=unit: leaf * unit, mixture.components)
        scaled = Mixture(mixture.logits, components, family)
        np.testing.assert_allclose(scaled.crps(y) / unit, mixture.crps(y), rtol=1e-4)


@pytest.mark.slow
def test_very_many_rows_go_in_blocks_and_get_the_same_answers(monkeypatch):
    mixture, _ = rows_mixture(n_rows=50)
    y = jax.random.normal(KEY, (50, 1))
    ask = lambda mixture, y: (mixture.cdf(y), mixture.crps(y), mixture.quantile(0.3))  # noqa: E731
    in_one_piece = jax.jit(ask)(mixture, y)
    sizes = []

    def watched(work, rows, size):
        sizes.append((rows, size))
        return over_blocks(work, rows, size)

    monkeypatch.setattr("ngem.mixture.mixture.over_blocks", watched)
    monkeypatch.setattr("ngem.mixture.mixture._BLOCK", 16)
    for found, expected in zip(ask(mixture, y), in_one_piece, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert sizes == [(50, 16)] * 3
    assert mixture.quantile(jnp.full((2,), 0.3)).shape == (50, 2)
    assert mixture.cdf(jnp.zeros((50, 50, 1))).shape == (50, 50)


def test_answers_take_the_widest_precision():
    """Densities in single precision may be asked about targets in double."""
    mixture, _ = rows_mixture(n_rows=5)
    narrow = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), mixture)
    y = jnp.zeros((5, 1), jnp.float64)
    with jax.numpy_dtype_promotion("standard"):
        for ask in (Mixture.cdf, Mixture.crps):
            assert ask(narrow, y).dtype == jnp.float64
            np.testing.assert_allclose(ask(narrow, y), ask(mixture, y), rtol=1e-4, atol=1e-5)


def test_crps_broadcasts_and_works_for_full_covariances():
    mixture = random_mixture(FullGaussian(), KEY, comp=3, dim=2).marginal(0)
    y = jnp.linspace(-2, 2, 7)[:, None]
    variance = np.asarray(
        mixture.family.variance(jax.tree.map(lambda leaf: leaf[0], mixture.components))
    )
    assert variance.shape == (1,)
    scale = np.asarray(mixture.components.scale)[:, 0, 0]
    expected = scoringrules.crps_mixnorm(
        np.asarray(y)[:, 0],
        np.tile(mixture.components.mean[:, 0], (7, 1)),
        np.tile(scale, (7, 1)),
        np.tile(mixture.weights, (7, 1)),
    )
    np.testing.assert_allclose(mixture.crps(y), expected, rtol=1e-9)


def brute_modes(weights, mean, scale):
    """Peaks of the density on a very fine grid that follows every component."""
    grid = np.unique((mean[:, None] + scale[:, None] * np.linspace(-9, 9, 4001)).ravel())
    pdf, _ = oracles.gaussian_mixture_1d(weights, mean, scale)
    height = pdf(grid)
    inner = (height[1:-1] > height[:-2]) & (height[1:-1] >= height[2:])
    spacing = (grid[2:] - grid[:-2])[inner]
    return grid[1:-1][inner], height[1:-1][inner], spacing


@pytest.mark.slow  # `test_univariate.py` finds the modes of many rows in every change
def test_modes_equal_brute_force():
    mixture, truth = rows_mixture(400, 4, seed=3)
    found = np.asarray(jax.jit(lambda m: m.modes())(mixture))
    assert found.shape == (400, 4)
    missed = 0
    for n in range(400):
        weights, mean, scale = (part[n] for part in truth)
        where, height, spacing = brute_modes(weights, mean, scale)
        ours = found[n][~np.isnan(found[n])]
        pdf, _ = row(truth, n)
        assert np.all(np.diff(pdf(ours)) <= 1e-12 * pdf(ours[:-1]))  # highest first
        for x, h, gap in zip(where, height, spacing, strict=True):
            # Bumps that rounding makes or that no one could see are not counted.
            near = np.abs(ours - x).min() < 2 * gap + 1e-9 * abs(x)
            missed += not near and h > 1e-9 * height.max()
        assert len(ours) <= 4
    assert missed == 0


def test_interval_equal_tailed():
    mixture, truth = rows_mixture(200)
    interval = np.asarray(mixture.interval(0.9, kind="equal-tailed"))
    assert interval.shape == (200, 1, 2)
    for n in range(200):
        np.testing.assert_allclose(row(truth, n)[1](interval[n, 0]), [0.05, 0.95], atol=1e-9)


@pytest.mark.parametrize("coverage", slow_but([0.5, 0.95], 0.5))
def test_highest_density_region(coverage):
    """It has the probability asked for, every end has the same density, and inside is denser."""
    mixture, truth = rows_mixture(300, 3, seed=4)
    region = np.asarray(mixture.interval(coverage))
    assert region.shape == (300, 3, 2)
    several = 0
    for n in range(300):
        pdf, cdf = row(truth, n)
        pieces = region[n][~np.isnan(region[n][:, 0])]
        several += len(pieces) > 1
        assert np.all(np.diff(pieces.ravel()) > 0)
        assert np.diff(cdf(pieces), axis=1).sum() == pytest.approx(coverage, abs=1e-6)
        ends = pdf(pieces.ravel())
        np.testing.assert_allclose(ends, ends[0], rtol=1e-4)
        inside = np.concatenate([np.linspace(a, b, 200) for a, b in pieces])
        assert np.all(pdf(inside) >= ends.min() * (1 - 1e-4))
        grid = np.linspace(*mixture_range(truth, n), 2000)
        outside = ~np.any((grid[:, None] >= pieces[:, 0]) & (grid[:, None] <= pieces[:, 1]), axis=1)
        assert np.all(pdf(grid[outside]) <= ends.max() * (1 + 1e-4))
    assert several > 20


def mixture_range(truth, n):
    _, mean, scale = (part[n] for part in truth)
    return (mean - 9 * scale).min(), (mean + 9 * scale).max()


def mass_of_the_likelier(truth, weights, mean, scale, y):
    """Return P(p(Y) >= p(y)) by brute force: cells between close quantiles of every component."""
    levels = np.concatenate([np.geomspace(1e-12, 1e-3, 100), np.linspace(1e-3, 0.5, 1000)[1:]])
    reach = stats.norm.ppf(levels)
    cells = np.sort((mean[:, None] + scale[:, None] * np.concatenate([reach, -reach])).ravel())
    pdf, cdf = truth
    likely = pdf((cells[1:] + cells[:-1]) / 2) >= pdf(y)
    return np.sum(np.diff(cdf(cells))[likely])


def test_region_mass_is_that_of_all_that_is_as_likely():
    mixture, truth = rows_mixture(n_rows=60, comp=4, seed=3)
    y = np.array(mixture.sample(KEY))
    y[::9] = truth[1][::9, :1]  # at a component's mean, nearly a mode where it stands alone
    # One Gaussian, from its mode to where nothing is left of it.
    single = slice(56, 60)
    components = jax.tree.map(lambda leaf: leaf.at[single].set(1.0), mixture.components)
    mixture = Mixture(mixture.logits, components, mixture.family)
    y[single, 0] = 1 + np.array([0.0, -1.0, 2.0, 1e3])
    found = np.asarray(mixture.region_mass(jnp.asarray(y)))
    for n in range(56):
        parts = [part[n] for part in truth]
        expected = mass_of_the_likelier(row(truth, n), *parts, y[n, 0])
        assert found[n] == pytest.approx(expected, abs=2e-3)
    expected = 2 * stats.norm.cdf([0, 1, 2, 1e3]) - 1
    np.testing.assert_allclose(found[single], expected, atol=1e-8)


@pytest.mark.slow  # the regions of one row; those of many rows run in every change
def test_a_two_bump_density_has_two_intervals_in_single_precision():
    mixture = ngem.gaussian_mixture(np.zeros((1, 2)), [[[-5.0], [5.0]]], np.ones((1, 2, 1)))
    mixture = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), mixture)
    half = stats.norm.ppf(0.95)
    expected = [[[-5 - half, -5 + half], [5 - half, 5 + half]]]
    region, modes = jax.jit(lambda m: (m.interval(0.9), m.modes()))(mixture)
    np.testing.assert_allclose(region, expected, atol=1e-4)
    np.testing.assert_allclose(np.sort(modes), [[-5, 5]], atol=1e-5)
    with pytest.raises(ValueError, match="coverage must lie between"):
        mixture.interval(1.1)


def logistic_cdf(mixture, x):
    """Return scipy's distribution function of each row, at points (row, point)."""
    weights, mean, scale = map(np.asarray, (mixture.weights, *mixture.components))
    below = stats.logistic.cdf(x[..., None], mean[:, None, :, 0], scale[:, None, :, 0])
    return np.sum(weights[:, None] * below, axis=-1)


@pytest.mark.slow  # every change finds modes and regions of logistic rows in `test_univariate.py`
def test_logistic_mixtures_have_modes_and_regions():
    mixture = random_mixture(Logistic(), KEY, batch=(3,), comp=2, dim=1)
    region, modes = map(np.asarray, jax.jit(lambda m: (m.interval(0.9), m.modes()))(mixture))
    assert region.shape == (3, 2, 2)
    assert np.all(np.isfinite(modes[:, 0]))
    below = logistic_cdf(mixture, region.reshape(3, 4)).reshape(region.shape)
    np.testing.assert_allclose(np.nansum(np.diff(below), axis=(1, 2)), 0.9, atol=1e-8)


def test_logistic_mixtures_have_quantiles_and_no_mean_distances():
    mixture = random_mixture(Logistic(), KEY, batch=(3,), comp=2, dim=1)
    x = mixture.quantile(0.2)
    np.testing.assert_allclose(logistic_cdf(mixture, np.asarray(x)[:, None]), 0.2, atol=1e-10)
    with pytest.raises(NotImplementedError, match=r"E\|Y - Y'\| has no closed form for Logistic"):
        Logistic().mean_distance(mixture.components, x[0])


def laplace_mixture():
    """Return a mixture whose components have kinks, and scipy's density and distribution."""
    weights, mean, scale = np.array([0.7, 0.3]), np.array([-2.0, 3.0]), np.array([0.5, 1.2])
    mixture = Mixture(jnp.log(weights), LocationScale(mean[:, None], scale[:, None]), Laplace())
    components = stats.laplace(mean, scale)
    pdf, cdf = (
        lambda x, f=f: np.sum(weights * f(np.asarray(x)[..., None]), axis=-1)
        for f in (components.pdf, components.cdf)
    )
    return mixture, pdf, cdf


@pytest.mark.slow  # every change finds the modes, where the kinks matter, and Gaussian regions
def test_laplace_mixtures_have_regions():
    mixture, pdf, cdf = laplace_mixture()
    region = np.asarray(mixture.interval(0.8))
    region = region[~np.isnan(region[:, 0])]
    mass = sum(cdf(high) - cdf(low) for low, high in region)
    assert mass == pytest.approx(0.8, abs=1e-6)
    heights = pdf(region.ravel())
    np.testing.assert_allclose(heights, heights[0], rtol=1e-5)
    assert mixture.region_mass(jnp.asarray(region[0, :1])) == pytest.approx(0.8, abs=1e-5)


@pytest.mark.slow
def test_laplace_mixtures_have_sharp_modes_and_a_crps():
    """Against scipy's density; one mode is at each distant center."""
    mixture, _, cdf = laplace_mixture()
    np.testing.assert_allclose(jax.jit(Mixture.modes)(mixture), [-2, 3], atol=1e-6)
    y = 0.4
    square = lambda x, above: (cdf(x) - above) ** 2  # noqa: E731
    below, _ = integrate.quad(square, -60, y, args=(0,), points=[-2.0], limit=200)
    beyond, _ = integrate.quad(square, y, 80, args=(1,), points=[3.0], limit=200)
    assert mixture.crps(jnp.array([y])) == pytest.approx(below + beyond, rel=1e-7)


def test_univariate_functions_refuse_more_dimensions():
    mixture = random_mixture(DiagonalGaussian(), KEY, dim=2)
    for call in (
        lambda: mixture.cdf(jnp.zeros((1,))),
        lambda: mixture.quantile(0.5),
        lambda: mixture.crps(jnp.zeros((1,))),
        mixture.modes,
        lambda: mixture.interval(0.5),
        lambda: mixture.region_mass(jnp.zeros((1,))),
    ):
        with pytest.raises(ValueError, match=r"over 2 dimensions; take a marginal first"):
            call()


def test_bad_arguments_are_refused():
    mixture = random_mixture(DiagonalGaussian(), KEY, dim=1)
    with pytest.raises(ValueError, match="q must lie between 0 and 1, got 95"):
        mixture.quantile(95.0)
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        mixture.interval(-0.1)
    for kind in ("hdr", "equal-tailed"):
        with pytest.raises(ValueError, match=r"coverage must be one number, got shape \(2,\)"):
            mixture.interval([0.5, 0.9], kind)
    with pytest.raises(TypeError, match="q must hold real floating-point numbers, got str"):
        mixture.quantile("half")
    with pytest.raises(ValueError, match="kind must be one of 'hdr', 'equal-tailed', got 'hpd'"):
        mixture.interval(0.9, kind="hpd")
    with pytest.raises(ValueError, match="column indices below 1, got 1"):
        mixture.marginal(1)
    for key in (3, "key", [0, 1], jnp.zeros(2), jax.random.split(KEY)):
        with pytest.raises(TypeError, match=r"key must be a key of JAX's, got .*; try"):
            mixture.sample(key)
    for shape in (3, (2.0,), "ab", (-1,), None, np.zeros((0, 1), int)):
        with pytest.raises(TypeError, match=r"shape must be a sequence of sizes, got .*; for 10"):
            mixture.sample(KEY, shape)


ROW_FUNCTIONS = {
    "log_prob": lambda mixture, y: mixture.log_prob(y),
    "responsibilities": lambda mixture, y: mixture.responsibilities(y),
    "log_mass": lambda mixture, y: mixture.log_mass(y, np.asarray(y) + 1.0),
    "cdf": lambda mixture, y: mixture.cdf(y),
    "crps": lambda mixture, y: mixture.crps(y),
    "region_mass": lambda mixture, y: mixture.region_mass(y),
}
#: Regions take long to compile, and their answers and errors have tests of their own.
QUICK_FIRST = slow_but(ROW_FUNCTIONS, *(name for name in ROW_FUNCTIONS if name != "region_mass"))
UNIVARIATE = ("cdf", "crps", "region_mass")
CHECKED = {**ROW_FUNCTIONS, "nll": lambda mixture, y: ngem.get_objective("nll")(mixture, y)}

# The mean of each row is a number of its own, so that a target of another row would show.
THREE_ROWS = ngem.gaussian_mixture(
    np.zeros((3, 1)), [[[0.0]], [[1.0]], [[2.0]]], np.ones((3, 1, 1))
)
THREE_PAIRS = ngem.gaussian_mixture(
    np.zeros((3, 1)), [[[0.0, 0.0]], [[1.0, 5.0]], [[2.0, 9.0]]], np.ones((3, 1, 2))
)


@pytest.mark.parametrize("name", QUICK_FIRST)
def test_targets_of_one_column_may_lack_its_axis(name):
    ask, y = ROW_FUNCTIONS[name], np.array([0.0, 1.0, 2.0])
    expected = np.asarray(ask(THREE_ROWS, y[:, None]))
    # The first row by itself: all rows are equal, each at its own target.
    alone = jax.tree.map(lambda leaf: leaf[0], THREE_ROWS)
    for found in (ask(THREE_ROWS, y), ask(THREE_ROWS, y.tolist())):
        np.testing.assert_array_equal(found, expected)
    for of_row in expected:
        np.testing.assert_allclose(of_row, ask(alone, np.zeros(1)), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(ask(alone, 0.0), ask(alone, np.zeros(1)))


def test_a_cdf_takes_each_rows_own_target():
    np.testing.assert_allclose(THREE_ROWS.cdf(np.array([0.0, 1.0, 2.0])), 0.5, rtol=1e-12)


@pytest.mark.parametrize("name", QUICK_FIRST)
def test_several_targets_per_row_come_first(name):
    """As draws do: the same as one call for each of them."""
    y = np.random.default_rng(0).normal(size=(2, 4, 3, 1))
    ask = ROW_FUNCTIONS[name]
    expected = [[np.asarray(ask(THREE_ROWS, y[i, j])) for j in range(4)] for i in range(2)]
    found = np.asarray(ask(THREE_ROWS, y))
    np.testing.assert_allclose(found.reshape(np.shape(expected)), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((4,), "one target per row"),
        ((1,), "one target per row"),
        ((1, 1), "one target per row"),
        ((4, 1), "one target per row"),
        ((3, 1, 1), "one target per row"),
        ((2, 3), r"pass y\[\.\.\., None\]|pass lower\[\.\.\., None\]"),
        ((3, 2), "one target per row"),
        ((), "one target per row"),
    ],
)
def test_targets_that_would_be_repeated_are_refused(name, shape, hint):
    with pytest.raises(ValueError, match=rf"must have shape \(3, 1\), got \(.*{hint}"):
        CHECKED[name](THREE_ROWS, np.zeros(shape))


@pytest.mark.parametrize("name", [name for name in CHECKED if name not in UNIVARIATE])
@pytest.mark.parametrize("shape", [(3,), (2,), (3, 1), (3, 3), (1, 2), (4, 2), (3, 1, 2)])
def test_targets_of_other_columns_are_refused(name, shape):
    with pytest.raises(ValueError, match=r"must have shape \(3, 2\), got "):
        CHECKED[name](THREE_PAIRS, np.zeros(shape))


@pytest.mark.parametrize("name", [name for name in CHECKED if name != "log_mass"])
@pytest.mark.parametrize("y", [None, "abc", [[0.0], [1.0, 2.0]], object(), np.zeros(3, complex)])
def test_targets_that_are_no_numbers_are_refused(name, y):
    with pytest.raises(TypeError, match="y must hold real floating-point numbers, got"):
        CHECKED[name](THREE_ROWS, y)


def test_whole_numbers_are_targets():
    y = np.array([0, 1, 2])
    np.testing.assert_array_equal(THREE_ROWS.log_prob(y), THREE_ROWS.log_prob(y.astype(float)))


def test_ends_of_intervals_have_one_shape():
    with pytest.raises(ValueError, match=r"lower and upper must have one shape, got \(3, 1\) and"):
        THREE_ROWS.log_mass(np.zeros(3), np.zeros((2, 3, 1)))


def test_a_mixture_is_one_pytree():
    mixture = random_mixture(DiagonalGaussian(), KEY, batch=(4,), comp=3, dim=2)
    assert len(jax.tree.leaves(mixture)) == 3
    assert (mixture.batch_shape, mixture.n_components, mixture.dim) == ((4,), 3, 2)
    y = mixture.sample(KEY)
    mapped = jax.vmap(lambda m, y: m.log_prob(y))(mixture, y)
    np.testing.assert_allclose(jax.jit(Mixture.log_prob)(mixture, y), mapped, rtol=1e-12)


@pytest.mark.slow
def test_the_region_of_nan_has_no_mass_and_changes_no_other_row():
    mixture = ngem.gaussian_mixture(jnp.zeros((3, 1)), jnp.zeros((3, 1, 1)), jnp.ones((3, 1, 1)))
    found = np.asarray(mixture.region_mass(jnp.array([0.5, jnp.nan, jnp.inf])))
    expected = [2 * stats.norm.cdf(0.5) - 1, np.nan, 1.0]
    np.testing.assert_allclose(found, expected, atol=1e-6)
