"""Conformal regions: the guarantee by simulation, for right and wrong models, and for networks.

The simulation needs no network: a pool of rows with their mixtures stands for a fitted model.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import ngem
from ngem import ConformalRegressor, DensityStack, _files, metrics
from ngem.estimator.conformal import conformal_quantile

from .common import branches, correlated, fitted, tiny

N_POOL, N_CALIBRATION = 1200, 99


class Pool:
    """A model of rows that are known by their number, with masses computed once."""

    n_outputs_ = 1

    def __init__(self, mixture, y):
        self.mixture = mixture
        self.masses = np.asarray(mixture.region_mass(jnp.asarray(y[:, None])))

    def log_prob(self, X, y):
        raise NotImplementedError

    def region_mass(self, X, y):
        return self.masses[X]

    def predict(self, X):
        return np.asarray(self.mixture.mean())[X, 0]

    def predict_interval(self, X, coverage):
        return np.asarray(self.mixture.interval(coverage))[X]


@functools.cache
def truth():
    """Two branches whose distance, weights and widths depend on x, and a draw from each row."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, N_POOL)
    parts = (
        np.stack([x, 0 * x], axis=1),
        np.stack([x, -2 * x], axis=1)[..., None],
        np.exp(np.stack([0.5 * x - 1, -0.3 * x], axis=1))[..., None],
    )
    y = np.asarray(ngem.gaussian_mixture(*parts).sample(jax.random.key(1)))[:, 0]
    return parts, y


@functools.cache
def pool(name):
    (logits, mean, scale), y = truth()
    wrong = {
        "right": (logits, mean, scale),
        "too narrow": (logits, mean, 0.5 * scale),
        "too wide": (logits, mean, 3 * scale),
        "shifted, weights swapped": (-2 * logits, mean + 0.3, 0.8 * scale),
    }
    return Pool(ngem.gaussian_mixture(*wrong[name]), y), y


# The guarantee


@pytest.mark.parametrize("name", ["right", "too narrow", "too wide", "shifted, weights swapped"])
def test_coverage_over_calibration_sets_is_the_beta_distribution(name):
    """Given a calibration set, coverage is Beta(k, n + 1 - k) with k = ceil((n + 1) c)."""
    model, y = pool(name)
    rng = np.random.default_rng(5)
    coverages = []
    for _ in range(300):
        rows = rng.permutation(N_POOL)
        known, new = rows[:N_CALIBRATION], rows[N_CALIBRATION:]
        conformal = ConformalRegressor(model).calibrate(known, y[known])
        coverages.append(conformal.contains(new, y[new], 0.9).mean())
    expected = stats.beta(90, 10)
    error = expected.std() / np.sqrt(len(coverages))
    assert abs(np.mean(coverages) - 0.9) < 4 * error
    within = np.mean((coverages > expected.ppf(0.05)) & (coverages < expected.ppf(0.95)))
    assert 0.83 < within < 0.96
    assert stats.kstest(coverages, expected.cdf).pvalue > 1e-3
    # Without recalibration only the right model would have passed.
    plain = np.mean(model.masses <= 0.9)
    assert (abs(plain - 0.9) < 0.02) == (name == "right")


@pytest.mark.parametrize("name", ["right", "too narrow"])
@pytest.mark.slow
def test_intervals_hold_what_the_region_contains(name):
    model, y = pool(name)
    rows = np.arange(N_POOL)
    conformal = ConformalRegressor(model).calibrate(rows[:500], y[:500])
    region = conformal.predict_interval(rows, 0.8)
    assert region.shape == (N_POOL, 2, 2)
    inside = metrics.covered(region, y)
    near = np.abs(model.masses - conformal.mass(0.8)) < 1e-5
    np.testing.assert_array_equal(inside[~near], conformal.contains(rows, y, 0.8)[~near])
    assert np.all(inside[near])
    # Rows 500 on are new; their count given the calibration set is beta-binomial.
    low, high = stats.betabinom.ppf([1e-4, 1 - 1e-4], N_POOL - 500, 401, 100)
    assert low <= inside[500:].sum() <= high
    mass = conformal.mass(0.8)
    assert abs(mass - 0.8) < 0.06 if name == "right" else mass > 0.95


def test_region_mass_is_uniform_for_the_right_model_only():
    assert stats.kstest(pool("right")[0].masses, "uniform").pvalue > 0.01
    assert stats.kstest(pool("too narrow")[0].masses, "uniform").pvalue < 1e-6


def test_a_hopeless_model_gets_the_whole_line_and_a_warning():
    model, y = pool("right")
    hopeless = Pool.__new__(Pool)
    hopeless.mixture, hopeless.masses = model.mixture, np.where(np.arange(N_POOL) % 2, 1.0, 0.3)
    conformal = ConformalRegressor(hopeless).calibrate(np.arange(N_POOL), y)
    with pytest.warns(UserWarning, match="far too confident"):
        region = conformal.predict_interval(np.arange(3), 0.9)
    np.testing.assert_array_equal(region, np.broadcast_to([-np.inf, np.inf], (3, 1, 2)))
    with pytest.warns(UserWarning, match="far too confident"):
        assert conformal.contains(np.arange(N_POOL), y, 0.9).all()


def test_few_calibration_rows_still_suffice_on_average():
    """With 10 rows the rank that forgets the new row, ceil(10 c), would cover 0.82 at c = 0.9."""
    model, y = pool("too narrow")
    rng = np.random.default_rng(6)
    covered = []
    for _ in range(2000):
        *known, new = rng.choice(N_POOL, 11, replace=False)
        conformal = ConformalRegressor(model).calibrate(known, y[known])
        covered.append(model.masses[new] <= conformal.mass(0.9))
    assert np.mean(covered) == pytest.approx(10 / 11, abs=4 * 0.0064)


# The quantile


@pytest.mark.parametrize(
    ("n", "coverage", "rank"),
    [(9, 0.9, 9), (99, 0.9, 90), (100, 0.9, 91), (19, 0.5, 10), (4, 0, 1)],
)
def test_the_quantile_counts_the_new_row_too(n, coverage, rank):
    scores = np.random.default_rng(0).permutation(np.arange(1, n + 1) / n)
    assert conformal_quantile(scores, coverage) == rank / n


def test_too_few_rows_for_a_coverage_are_refused():
    with pytest.raises(ValueError, match=r"at most n / \(n \+ 1\) = 0.8889 with n = 8.*got 0.9"):
        conformal_quantile(np.linspace(0, 1, 8), 0.9)
    with pytest.raises(ValueError, match="at most"):
        conformal_quantile(np.linspace(0, 1, 1000), 1)
    with pytest.raises(ValueError, match="between 0 and 1, got 90"):
        conformal_quantile(np.linspace(0, 1, 8), 90)
    with pytest.raises(ValueError, match=r"coverage must be one number, got .*\(2,\)"):
        conformal_quantile(np.linspace(0, 1, 8), [0.5, 0.9])


# Networks


def within_beta_binomial(hits, n_calibration, coverage):
    rank = int(np.ceil((n_calibration + 1) * coverage - 1e-9))
    law = stats.betabinom(len(hits), rank, n_calibration + 1 - rank)
    return law.ppf(1e-4) <= hits.sum() <= law.ppf(1 - 1e-4)


@pytest.mark.slow
@pytest.mark.trains
def test_a_fitted_network_is_recalibrated():
    model = fitted("one")
    known, new = branches(256, seed=1), branches(256, seed=2)
    conformal = ConformalRegressor(model).calibrate(*known)
    region = conformal.predict_interval(new[0], 0.8)
    assert region.shape == (256, 2, 2)
    inside = metrics.covered(region, new[1])
    assert within_beta_binomial(inside, 256, 0.8)
    assert np.mean(inside != conformal.contains(*new, 0.8)) < 0.01
    # The mass is the smallest coverage at which the model's own region holds the target.
    masses = model.region_mass(*new)
    for shift, holds in ((-1e-3, False), (1e-3, True)):
        row = int(np.argmin(np.abs(masses - 0.6)))
        own = model.predict_interval(new[0][row : row + 1], masses[row] + shift)
        assert metrics.covered(own, new[1][row : row + 1])[0] == holds
    piped = make_pipeline(FunctionTransformer(lambda x: x), model)
    same = ConformalRegressor(piped).calibrate(*known).predict_interval(new[0], 0.8)
    np.testing.assert_array_equal(same, region)


@pytest.mark.slow
@pytest.mark.trains
def test_several_targets_are_tested_together():
    model = fitted("two")
    known, new = correlated(199, seed=1), correlated(256, seed=2)
    conformal = ConformalRegressor(model, n_samples=200).calibrate(*known)
    assert within_beta_binomial(conformal.contains(*new, 0.8), 199, 0.8)
    np.testing.assert_array_equal(conformal.contains(*new), conformal.contains(*new))
    with pytest.raises(ValueError, match=r"one target column, got 2.*contains"):
        conformal.predict_interval(new[0])


@pytest.mark.trains
@pytest.mark.slow
def test_the_sampled_mass_is_that_of_scipys_mixture():
    model = fitted("two")
    x, y = (part[:4] for part in correlated(8, seed=3))
    masses = model.joint_region_mass(x, y, 4000, random_state=0)
    mixture = model.predict_distribution(x)
    weights, mean, factor = map(np.asarray, (mixture.weights, *mixture.components))
    # The mass does not depend on units; in these units scipy takes no covariance for singular.
    units = np.array([1e3, 1e-3])
    mean, factor, y = mean / units, factor / units[:, None], y / units
    rng = np.random.default_rng(0)
    for n in range(4):
        parts = [
            stats.multivariate_normal(m, f @ f.T) for m, f in zip(mean[n], factor[n], strict=True)
        ]

        def pdf(at, n=n, parts=parts):
            return sum(w * part.pdf(at) for w, part in zip(weights[n], parts, strict=True))

        picks = rng.binomial(4000, weights[n, 0])
        draws = np.concatenate([parts[0].rvs(picks, rng), parts[1].rvs(4000 - picks, rng)])
        assert masses[n] == pytest.approx(np.mean(pdf(draws) >= pdf(y[n])), abs=0.045)


def test_new_rows_and_calibration_rows_get_different_samples():
    """Scores of the same draws would depend on each other."""
    drawn = []

    class Joint:
        n_outputs_ = 2
        log_prob = None

        def joint_region_mass(self, X, y, n_samples, random_state):
            drawn.append(random_state.uniform(size=n_samples))
            return np.linspace(0, 0.7, len(X))

        def held_out_region_mass(self, X, y, n_samples, random_state):
            return self.joint_region_mass(X, y, n_samples, random_state)

    rows, y = np.zeros((9, 1)), np.zeros((9, 2))
    conformal = ConformalRegressor(Joint(), n_samples=5).calibrate(rows, y)
    conformal.contains(rows, y, 0.5)
    conformal.calibrate_held_out(rows, y)
    ConformalRegressor(Joint(), n_samples=5, random_state=1).calibrate(rows, y)
    np.testing.assert_array_equal(conformal.contains(rows, y), conformal.contains(rows, y, 0.9))
    assert not set(drawn[0]) & set(drawn[1])
    assert not set(drawn[0]) & set(drawn[3])
    np.testing.assert_array_equal(drawn[0], drawn[2])  # a seed repeats itself


# What is refused


def test_a_model_must_be_calibrated_first_and_again_after_a_fit():
    model, y = pool("right")
    rows = np.arange(50)
    with pytest.raises(ValueError, match=r"calibrated first.*calibrate\(X, y\)"):
        ConformalRegressor(model).predict_interval(rows)
    refitted = Pool.__new__(Pool)
    refitted.__dict__.update(model.__dict__, model_="first")
    conformal = ConformalRegressor(refitted).calibrate(rows, y[:50])
    refitted.model_ = "second"
    for call in (
        lambda: conformal.predict_interval(rows),
        lambda: conformal.contains(rows, y[:50]),
    ):
        with pytest.raises(ValueError, match="got one that was fitted again"):
            call()


@pytest.mark.trains
@pytest.mark.slow
def test_it_is_an_estimator_of_scikit_learn():
    x, y = branches()
    model = ConformalRegressor(tiny(max_epochs=5, n_members=2), n_samples=7)
    assert clone(model).get_params()["model__max_epochs"] == 5
    assert repr(model).startswith("ConformalRegressor(model=MDNRegressor(")
    with pytest.raises(ValueError, match="must be calibrated first"):
        model.predict_interval(x)
    model.fit(x, y)
    assert not hasattr(model.model, "model_")  # a copy is fitted
    np.testing.assert_array_equal(model.predict(x), model.model_.predict(x))
    assert model.predict(x, quantiles=[0.1]).shape == (len(x), 1)
    assert model.contains(x, y, 0.9).mean() > 0.8
    assert cross_val_score(model, x, y, cv=2).shape == (2,)


@pytest.mark.trains
@pytest.mark.parametrize("kind", ["network", "stack"])
@pytest.mark.slow
def test_it_is_saved_with_its_model(kind, tmp_path):
    x, y = branches()
    network = tiny(max_epochs=2, n_members=2, dropout=0.0)
    model = network if kind == "network" else DensityStack([("a", network)], n_members=2)
    calibrated = ConformalRegressor(model, n_samples=9, random_state=3).fit(x, y)
    calibrated.save(tmp_path / "model")
    for loaded in (ngem.load(tmp_path / "model"), ConformalRegressor.load(tmp_path / "model")):
        np.testing.assert_array_equal(loaded.scores_, calibrated.scores_)
        assert (loaded.n_samples, loaded.random_state) == (9, 3)
        expected = calibrated.predict_interval(x, 0.8)
        np.testing.assert_array_equal(loaded.predict_interval(x, 0.8), expected)


@pytest.mark.trains
@pytest.mark.slow
def test_hostile_files_are_refused(tmp_path):
    path = tmp_path / "model"
    x, y = branches()
    calibrated = ConformalRegressor(fitted("one")).calibrate(x, y)
    calibrated.save(path)
    kind = {"kind": "ngem.ConformalRegressor", "version": 1}
    arrays, header = _files.read(path, **kind)
    for change in (
        {"n_samples": 0},
        {"n_samples": 10**12},
        {"random_state": -1},
        {"kind": "eval"},
        {"kind": ["ngem.MDNRegressor"]},
        {"model": {}},
        {"more": 1},
    ):
        _files.write(path, arrays, {**header, **change}, **kind)
        with pytest.raises(_files.FileError):
            ngem.load(path)
    for scores in (np.array([0.5, 0.1]), np.array([2.0]), np.zeros(0), np.array([np.nan])):
        _files.write(path, {**arrays, "scores": scores}, header, **kind)
        with pytest.raises(_files.FileError):
            ngem.load(path)
    wrapped = ConformalRegressor(make_pipeline(FunctionTransformer(), fitted("one")))
    wrapped.calibrate(x, y)
    with pytest.raises(ValueError, match="an estimator of ngem, got a model of type Pipeline"):
        wrapped.save(path)


def test_a_model_without_densities_is_refused():
    with pytest.raises(TypeError, match=r"must predict densities.*got FunctionTransformer"):
        ConformalRegressor(FunctionTransformer()).calibrate([[1.0]], [1.0])


class Recorded:
    """A model that records which mass it is asked for; every row has the same score."""

    n_outputs_ = 1
    log_prob = None

    def __init__(self, score):
        self.score, self.asked = score, []

    def region_mass(self, X, y):
        return np.full(len(X), self.score)

    def predict(self, X):
        return np.zeros(len(X))

    def predict_interval(self, X, coverage):
        self.asked.append(coverage)
        return np.zeros((len(X), 1, 2))


def test_regions_hold_the_targets_on_their_boundary():
    """A little more mass than the score, so that rounding excludes no row; and hardly more."""
    model, rows = Recorded(0.6), np.zeros((20, 1))
    conformal = ConformalRegressor(model).calibrate(rows, rows[:, 0])
    conformal.predict_interval(rows, 0.5)
    assert 0.6 < model.asked[0] < 0.6 + 1e-5
    assert conformal.contains(rows, rows[:, 0], 0.5).all()


def test_the_default_coverage_is_nine_tenths():
    rng = np.random.default_rng(0)
    conformal = ConformalRegressor(Recorded(0.5))
    conformal.scores_ = np.sort(rng.uniform(size=99))
    assert conformal.mass() == conformal.scores_[89]
