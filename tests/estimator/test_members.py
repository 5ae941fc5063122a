"""Several networks on folds, and the guard beside them."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, special, stats

from ngem import ConformalRegressor, MDNRegressor

from ..cases import slow_but

pytestmark = pytest.mark.trains

TINY = {
    "n_components": 2,
    "n_members": 3,
    "hidden_sizes": (16,),
    "batch_size": 16,
    "max_epochs": 60,
    "learning_rate": 2e-2,
    "dropout": 0.0,
    "random_state": 0,
}


def sine(n_rows=121, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n_rows, 1))
    return x, 5 + 3 * (np.sin(3 * x[:, 0]) + 0.1 * rng.standard_normal(n_rows))


@pytest.fixture(scope="module", name="model")
def _model(promotes):
    with promotes():
        return MDNRegressor(**TINY).fit(*sine())


def test_the_density_is_the_mean_of_the_members(model):
    x, y = sine(50, seed=1)
    members = [model.model_.member(index).log_prob(x, y[:, None]) for index in range(3)]
    expected = np.log(np.mean(np.exp(members), axis=0))
    np.testing.assert_allclose(model.log_prob(x, y), expected, rtol=1e-4, atol=1e-4)
    assert not np.allclose(members[0], members[1], atol=0.01)
    mixture = model.predict_distribution(x)
    np.testing.assert_allclose(mixture.log_prob(y[:, None]), expected, rtol=1e-3, atol=1e-3)
    assert mixture.n_components == 3 * 2 + 3


def held_out_log_prob(model, x, y):
    """Return the log of the mean density of each row under the members that held it out."""
    densities = [[] for _ in y]
    for index, rows in enumerate(model.folds_):
        log_prob = model.model_.member(index).log_prob(x[rows], y[rows, None])
        for row, value in zip(rows, log_prob, strict=True):
            densities[row].append(np.exp(value))
    return np.log([np.mean(values) for values in densities])


def test_every_row_is_judged_by_a_member_that_has_not_seen_it(model):
    x, y = sine()
    assert [len(rows) for rows in model.folds_] == [41, 41, 41]
    assert sorted({int(row) for fold in model.folds_ for row in fold}) == list(range(121))
    expected = held_out_log_prob(model, x, y)
    # The same guard for all rows; its linear model leaves out each row in turn.
    np.testing.assert_allclose(model.oof_log_prob_, expected, atol=0.05)
    assert model.oof_log_prob_.mean() == pytest.approx(np.mean(expected), abs=2e-3)
    judged = np.concatenate([rows for rows, _ in model.held_out_models()])
    assert sorted(judged) == list(range(121))  # each row once


def test_rows_without_weight_are_never_held_out():
    x, y = sine()
    weights = (np.arange(121) % 4 > 0).astype(float)
    fitted = MDNRegressor(**{**TINY, "max_epochs": 2}).fit(x, y, weights)
    np.testing.assert_array_equal(np.isnan(fitted.oof_log_prob_), weights == 0)


def test_threads_change_nothing(model, monkeypatch):
    monkeypatch.setattr("ngem.estimator.members.available_cores", lambda: 1)
    again = MDNRegressor(**TINY).fit(*sine())
    np.testing.assert_array_equal(again.oof_log_prob_, model.oof_log_prob_)
    np.testing.assert_array_equal(again.best_epoch_, model.best_epoch_)


def test_members_resume_from_their_checkpoints(model, tmp_path):
    def stop(progress):
        if progress.member == 1 and progress.epoch >= 3:
            raise KeyboardInterrupt

    settings = {**TINY, "checkpoint": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        MDNRegressor(**settings, callbacks=[stop]).fit(*sine())
    resumed = MDNRegressor(**settings).fit(*sine())
    assert {path.name for path in tmp_path.iterdir()} == {"run", "run.1", "run.2"}
    np.testing.assert_array_equal(resumed.oof_log_prob_, model.oof_log_prob_)


def test_a_failure_of_one_member_ends_all():
    seen = []

    def fail(progress):
        seen.append(progress)
        if progress.member == 0:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        MDNRegressor(**{**TINY, "max_epochs": 100_000, "patience": 100_000}, callbacks=[fail]).fit(
            *sine()
        )
    assert max(progress.epoch for progress in seen) < 100_000


def test_densities_widen_outside_the_training_rows(model):
    x = np.array([[0.0], [1.2], [2.0], [10.0], [1e6]])
    mean, outside = model.predict(x, return_outside=True)
    assert outside.tolist() == [False, True, True, True, True]
    y = sine()[1]
    std = np.sqrt(np.asarray(model.predict_distribution(x).variance())[:, 0])
    assert np.all(std[2:] > 2 * std[0])
    # Far away only the marginal density of the targets is left.
    assert std[-1] == pytest.approx(y.std(), rel=0.2)
    assert mean[-1] == pytest.approx(y.mean(), abs=0.1 * y.std())
    assert np.all(np.abs(mean - y.mean()) < 2 * np.ptp(y))


def test_the_guard_bounds_what_an_outlier_costs(model):
    x, y = np.zeros((3, 1)), np.array([5.0, 60.0, 500.0])
    with_guard = model.log_prob(x, y)
    wide = stats.norm(sine()[1].mean(), 4 * sine()[1].std())
    weight = np.exp(float(model.model_.network.guard.log_weights[-1]))
    assert np.all(with_guard >= np.log(weight) + wide.logpdf(y) - 0.5)
    assert with_guard[1] > -40


def test_an_outlier_among_the_rows_is_named_and_changes_little(model):
    x, y = sine()
    spoiled = MDNRegressor(**TINY).fit(x, np.where(np.arange(121) == 17, 60.0, y))
    assert spoiled.diagnostics_["outlier_rows"] == [17]
    new_x, new_y = sine(500, seed=1)
    errors = [np.sqrt(np.mean((m.predict(new_x) - new_y) ** 2)) for m in (model, spoiled)]
    assert errors[1] < 1.5 * errors[0]
    assert model.diagnostics_["outlier_rows"] == []


@pytest.mark.parametrize("n_rows", slow_but([2, 3, 7, 14], 7))
def test_few_rows_are_no_worse_than_one_gaussian(n_rows):
    """The guard carries what the networks cannot know from so few rows."""
    x, y = sine(n_rows)
    fitted = MDNRegressor(**{**TINY, "n_members": 5}).fit(x, y)
    assert np.isfinite(fitted.log_prob(x, y)).all()
    if n_rows < 7:
        return
    new_x, new_y = sine(1000, seed=1)
    gaussian = stats.norm(y.mean(), y.std()).logpdf(new_y).mean()
    assert fitted.log_prob(new_x, new_y).mean() > gaussian - 0.2


def entropies(mixture):
    """Return the entropy of each row's mixture of Gaussians, by integration over a grid."""
    parts = (mixture.weights, *mixture.components)
    weights, mean, scale = (np.asarray(part).reshape(len(parts[0]), -1, 1) for part in parts)
    grid = np.linspace((mean - 8 * scale).min(), (mean + 8 * scale).max(), 20_001)
    density = np.sum(weights * stats.norm.pdf(grid, mean, scale), axis=1)
    return integrate.simpson(special.entr(density), x=grid)


@pytest.mark.slow
def test_uncertainty_has_two_parts(model):
    x = np.array([[0.0], [0.9], [1.3]])
    parts = model.predict_uncertainty(x, n_samples=500)
    assert parts.model_variance[2] > 2 * parts.model_variance[:2].max()  # members disagree outside
    # Inside, the members alone: their average has the sum of both parts.
    bare = replace(model.model_, network=replace(model.model_.network, guard=None))
    mixture = bare.mixture(x[:2])
    total = np.asarray(mixture.variance())[:, 0]
    sums = parts.noise_variance + parts.model_variance, parts.noise_entropy + parts.model_entropy
    np.testing.assert_allclose(sums[0][:2], total, rtol=1e-3)
    np.testing.assert_allclose(sums[1][:2], entropies(mixture), atol=0.1)
    far = model.predict_uncertainty(np.array([[1e6]]), n_samples=500)
    assert far.noise_variance + far.model_variance == pytest.approx(sine()[1].var(), rel=0.1)
    alone = copy.copy(model)
    alone.model_ = model.model_.member(0)
    single = alone.predict_uncertainty(x, n_samples=500)
    np.testing.assert_array_equal(single.model_variance, 0)
    np.testing.assert_allclose(single.model_entropy, 0, atol=1e-5)


def test_without_a_guard_only_networks_predict():
    x, y = sine()
    fitted = MDNRegressor(**{**TINY, "guard": False, "max_epochs": 2}).fit(x, y)
    assert fitted.predict_distribution(x).n_components == 6
    assert fitted.model_.network.guard is None
    np.testing.assert_allclose(fitted.oof_log_prob_, held_out_log_prob(fitted, x, y), atol=1e-5)
    gain = fitted.diagnostics_["gain_over_gaussian"]
    assert gain == pytest.approx(
        fitted.oof_log_prob_.mean() - stats.norm(y.mean(), y.std()).logpdf(y).mean(), abs=0.05
    )


@pytest.mark.slow
def test_held_out_rows_calibrate_regions(model, tmp_path):
    x, y = sine()
    scores = model.held_out_region_mass(x, y)
    rows, member = next(iter(model.held_out_models()))
    only = rows[[np.sum(np.concatenate(model.folds_) == row) == 1 for row in rows]]
    expected = member.region_mass(x[only], y[only, None])[:, 0]
    np.testing.assert_allclose(scores[only], expected, atol=1e-5)
    conformal = ConformalRegressor(model).calibrate_held_out(x, y)
    np.testing.assert_array_equal(conformal.scores_, np.sort(scores))
    assert conformal.mass(0.8) == np.sort(scores)[97]  # 98 = ceil(0.8 (121 + 1))
    model.save(tmp_path / "model")
    loaded = MDNRegressor.load(tmp_path / "model")
    with pytest.raises(ValueError, match="must know which rows it held out"):
        ConformalRegressor(loaded).calibrate_held_out(x, y)
    unaware = MDNRegressor(**{**TINY, "max_epochs": 1, "early_stopping": False}).fit(x, y)
    with pytest.raises(ValueError, match="must have held rows out"):
        ConformalRegressor(unaware).calibrate_held_out(x, y)


@pytest.mark.slow
def test_regions_calibrated_by_held_out_rows_cover():
    """Simulated: on average over data sets, as much as asked, and not much more."""
    settings = {**TINY, "max_epochs": 40}
    covered = []
    for seed in range(10):
        x, y = sine(120, seed=seed)
        model = MDNRegressor(**{**settings, "random_state": seed}).fit(x, y)
        conformal = ConformalRegressor(model).calibrate_held_out(x, y)
        covered.append(conformal.contains(*sine(500, seed=100 + seed), 0.8).mean())
    error = np.std(covered) / np.sqrt(len(covered))
    assert 0.8 - 2 * error - 0.01 <= np.mean(covered) <= 0.9


@pytest.mark.parametrize(
    ("noise", "shape", "expected"), [(1.0, (60, 10), 0.1), (0.01, (120, 2), 0)]
)
@pytest.mark.slow
def test_held_out_rows_of_two_folds_choose_the_dropout(noise, shape, expected):
    """Few noisy rows of many columns need dropout, exact ones do not."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, shape)
    y = np.sin(3 * x[:, 0]) + noise * rng.standard_normal(len(x))
    settings = {**TINY, "hidden_sizes": (32,), "max_epochs": 80, "patience": 80}
    fits = {p: MDNRegressor(**{**settings, "dropout": p}).fit(x, y) for p in (0.0, 0.1)}
    losses = {
        p: fit.history_["validation_nll"][[0, 1], fit.best_epoch_[:2]].mean()
        for p, fit in fits.items()
    }
    chosen = MDNRegressor(**{**settings, "dropout": "auto"}).fit(x, y)
    assert chosen.diagnostics_["dropout"] == min(losses, key=losses.__getitem__) == expected
    np.testing.assert_array_equal(chosen.oof_log_prob_, fits[expected].oof_log_prob_)


@pytest.mark.slow
def test_nothing_chooses_the_dropout_without_held_out_rows_or_for_one_network():
    for settings in ({"early_stopping": False}, {"n_members": 1}):
        fitted = MDNRegressor(**{**TINY, "max_epochs": 1, "dropout": "auto", **settings})
        assert fitted.fit(*sine()).diagnostics_["dropout"] == 0.0
