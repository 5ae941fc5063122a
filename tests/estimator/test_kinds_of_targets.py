"""Estimators of counts, of amounts with zeros and of directions, and family="auto"."""

import numpy as np
import pytest

from ngem import MDNRegressor, MixtureBoostingRegressor
from ngem.estimator.automatic import choose_candidates
from ngem.metrics import pit_uniformity

pytestmark = pytest.mark.trains

RNG = np.random.default_rng(8)
X = RNG.uniform(-1, 1, (900, 2))
COUNTS = RNG.poisson(np.exp(0.5 + X[:, 0])).astype(float)
AMOUNTS = np.where(
    RNG.random(900) < 1 / (1 + np.exp(-2 * X[:, 0])), 0.0, 40 * RNG.lognormal(X[:, 1], 0.4)
)
DEGREES = np.mod(np.degrees(3 * X[:, 0]) + RNG.normal(0, 15, 900), 360)
TARGETS = {
    "poisson": COUNTS,
    "negative-binomial": COUNTS,
    "zero-inflated lognormal": AMOUNTS,
    "von-mises(360)": DEGREES,
}
QUICK = {"n_members": 1, "random_state": 0}
TREES = {"max_rounds": 120, "patience": 15, "n_components": 1, **QUICK}


def truth(family, x):
    """Mean log probability under the distribution that made the targets, in nats."""
    from scipy import stats

    if family in ("poisson", "negative-binomial"):
        return stats.poisson(np.exp(0.5 + x[:, 0])).logpmf(COUNTS[600:]).mean()
    if family == "von-mises(360)":
        offset = (DEGREES[600:] - np.degrees(3 * x[:, 0]) + 180) % 360 - 180
        return stats.norm(0, 15).logpdf(offset).mean()
    at, y = 1 / (1 + np.exp(-2 * x[:, 0])), AMOUNTS[600:]
    law = stats.lognorm(0.4, scale=40 * np.exp(x[:, 1]))
    return np.where(y == 0, np.log(at), np.log(1 - at) + law.logpdf(np.maximum(y, 1e-9))).mean()


@pytest.mark.slow
@pytest.mark.parametrize("family", TARGETS)
def test_boosted_mixtures_come_near_the_truth(family, tmp_path):
    """Log density, calibration, model file and predictions that are possible targets."""
    y = TARGETS[family]
    model = MixtureBoostingRegressor(family=family, **TREES).fit(X[:600], y[:600])
    log_prob = model.log_prob(X[600:], y[600:])
    assert truth(family, X[600:]) - log_prob.mean() < 0.25
    assert pit_uniformity(model.pit(X[600:], y[600:])).p_value > 1e-4
    model.save(tmp_path / "model.ngem")
    loaded = MixtureBoostingRegressor.load(tmp_path / "model.ngem")
    np.testing.assert_array_equal(loaded.log_prob(X[600:], y[600:]), log_prob)
    for values in (model.sample(X[:5], 3, random_state=0), model.predict_quantiles(X[:5], [0.1])):
        model.model_.network.family.check_targets(np.ravel(values)[:, None])
    assert np.isfinite(model.crps(X[600:620], y[600:620])).all()
    assert np.isfinite(model.predict_interval(X[600:602])[:, 0]).all()


def test_a_censored_count_counts_by_its_probability():
    """At least n: 1 - P(Y <= n - 1), which is also what training sees."""
    model = MDNRegressor(2, family="poisson", max_epochs=3, hidden_sizes=(8,), **QUICK)
    upper = np.where(COUNTS >= 3, np.inf, COUNTS)
    model.fit(X[:200], COUNTS[:200], upper=upper[:200])
    expected = np.log1p(-np.diagonal(model.cdf(X[:50], COUNTS[:50] - 1)))
    at_least = model.log_prob(X[:50], COUNTS[:50], upper=np.full(50, np.inf))
    some = COUNTS[:50] > 0
    np.testing.assert_allclose(at_least[some], expected[some], rtol=1e-4)
    np.testing.assert_allclose(at_least[~some], 0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["negative-binomial", "zero-inflated lognormal"])
def test_networks_come_near_the_truth(family):
    y = TARGETS[family]
    model = MDNRegressor(2, family=family, max_epochs=150, hidden_sizes=(32,), **QUICK)
    model.fit(X[:600], y[:600])
    assert truth(family, X[600:]) - model.log_prob(X[600:], y[600:]).mean() < 0.25
    np.testing.assert_allclose(model.predict(X[600:]).mean(), y[600:].mean(), rtol=0.3)


@pytest.mark.slow
def test_the_density_of_amounts_has_units_and_the_probability_of_zero_has_none():
    """Cents instead of euros: the log density of amounts is lower by log(100), that of zeros not.

    Both are those of held-out rows and of predictions.
    """
    fitted = [
        MixtureBoostingRegressor(
            family="zero-inflated lognormal", max_rounds=2, n_components=1, guard=False, **QUICK
        ).fit(X[:200], unit * AMOUNTS[:200])
        for unit in (1.0, 100.0)
    ]
    expected = np.where(AMOUNTS[:200] == 0, 0.0, np.log(100))
    one, other = (
        model.log_prob(X[:200], unit * AMOUNTS[:200])
        for model, unit in zip(fitted, (1.0, 100.0), strict=True)
    )
    np.testing.assert_allclose(one - other, expected, atol=1e-4)
    known = ~np.isnan(fitted[0].oof_log_prob_)
    np.testing.assert_allclose(
        (fitted[0].oof_log_prob_ - fitted[1].oof_log_prob_)[known], expected[known], atol=1e-4
    )


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (MixtureBoostingRegressor, {**TREES, "max_rounds": 40}),
        pytest.param(MDNRegressor, {"max_epochs": 60, **QUICK}, marks=pytest.mark.slow),
    ],
)
def test_each_column_may_have_a_family_of_its_own(kind, settings, tmp_path):
    """A mixed table: amounts with zeros, counts; known by name, and saved with the model."""
    pandas = pytest.importorskip("pandas")
    features = pandas.DataFrame(X, columns=["a", "b"])
    targets = pandas.DataFrame({"loss": AMOUNTS, "visits": COUNTS})
    families = {"visits": "poisson", "loss": "zero-inflated gamma"}
    model = kind(family=families, **settings).fit(features[:600], targets[:600])
    features, targets = features[600:620], targets[600:620]
    assert [one.partition(":")[0] for one in model.family_] == ["gamma + 0", "poisson"]
    quantiles = model.predict_quantiles(features, [0.05, 0.5, 0.95])
    assert np.all(quantiles >= 0)
    assert np.all(quantiles[..., 1] == np.round(quantiles[..., 1]))
    mixture = model.predict_distribution(features)
    assert mixture.marginal(0).family.atoms == (0.0,)
    assert mixture.marginal(1).family.is_discrete
    parts = [mixture.marginal(d).log_prob(targets.to_numpy()[:, [d]]) for d in range(2)]
    joint = mixture.log_prob(targets.to_numpy())
    np.testing.assert_allclose(model.log_prob(features, targets), joint, atol=1e-3)
    assert np.isfinite(np.array(parts)).all()
    pit = model.pit(features, targets)
    assert pit.shape == (20, 2)
    assert pit.min() >= 0
    assert pit.max() <= 1
    for column in range(2):
        alone = mixture.marginal(column).crps(targets.to_numpy()[:, [column]])
        np.testing.assert_allclose(model.crps(features, targets)[:, column], alone, rtol=1e-3)
    model.save(tmp_path / "model.ngem")
    again = kind.load(tmp_path / "model.ngem")
    np.testing.assert_array_equal(
        again.log_prob(features, targets), model.log_prob(features, targets)
    )
    assert again.get_params()["family"] == model.family_


def test_candidates_know_the_names_of_targets():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"wind_dir": DEGREES})
    assert choose_candidates(X, frame, has_intervals=False).families == ("von-mises(360)",)
    assert choose_candidates(X, frame["wind_dir"], has_intervals=False).families[0] != "gaussian"
    two = np.column_stack([COUNTS, AMOUNTS])
    each = ("negative-binomial", "lognormal + 0")
    assert choose_candidates(X, two, has_intervals=False).families == (each, "gaussian")
    assert "poisson" not in choose_candidates(X, COUNTS, has_intervals=True).families


@pytest.mark.slow
def test_auto_chooses_by_held_out_rows_and_says_why(tmp_path):
    model = MixtureBoostingRegressor(family="auto", **TREES).fit(X, COUNTS)
    assert model.family == "auto"
    assert model.family_ in ("poisson", "negative-binomial")
    assert "all values are whole numbers" in model.family_reason_
    assert "held-out rows is the best" in model.family_reason_
    model.save(tmp_path / "model.ngem")
    assert MixtureBoostingRegressor.load(tmp_path / "model.ngem").family == model.family_
