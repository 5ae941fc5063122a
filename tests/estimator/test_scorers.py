"""Scorers in scikit-learn's searches, and the estimator's scores against scipy's."""

import numpy as np
import pytest
import scoringrules
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ngem import crps_scorer, energy_scorer, metrics, nll_scorer

from .common import branches, correlated, fitted, tiny

pytestmark = pytest.mark.trains


def parts_of(model, x):
    """Weights, means and standard deviations of each row, as numbers."""
    mixture = model.predict_distribution(x)
    variance = np.asarray(mixture.component_variance(), float)
    return (
        np.asarray(mixture.weights, float),
        np.asarray(mixture.components.mean, float),
        variance**0.5,
    )


@pytest.mark.parametrize("name", ["one", "two"])
def test_scores_of_the_estimator_are_those_of_its_mixtures(name):
    model = fitted(name)
    x, y = (branches if name == "one" else correlated)(50, seed=7)
    pit, crps = model.pit(x, y), model.crps(x, y)
    assert pit.shape == crps.shape == y.shape
    weights, mean, scale = parts_of(model, x)
    columns = y.reshape(50, -1)
    for column in range(columns.shape[1]):
        at, m, s = columns[:, column], mean[..., column], scale[..., column]
        below = np.sum(weights * stats.norm.cdf(at[:, None], m, s), axis=1)
        np.testing.assert_allclose(pit.reshape(50, -1)[:, column], below, atol=1e-4)
        expected = scoringrules.crps_mixnorm(at, m, s, weights)
        np.testing.assert_allclose(crps.reshape(50, -1)[:, column], expected, rtol=2e-3)


def test_scorers_are_means_and_greater_is_better():
    model, (x, y) = fitted("one"), branches(50, seed=7)
    assert nll_scorer(model, x, y) == pytest.approx(model.log_prob(x, y).mean())
    assert crps_scorer(model, x, y) == pytest.approx(-model.crps(x, y).mean())
    mixture = model.predict_distribution(x)
    assert nll_scorer(model, x, y) == pytest.approx(-metrics.nll(mixture, y).mean(), rel=1e-3)
    weights = np.arange(50.0)
    expected = np.average(model.log_prob(x, y), weights=weights)
    assert nll_scorer(model, x, y, sample_weight=weights) == pytest.approx(expected)
    far = y + 10
    assert nll_scorer(model, x, far) < nll_scorer(model, x, y)
    assert crps_scorer(model, x, far) < crps_scorer(model, x, y)


@pytest.mark.slow
def test_the_energy_scorer_is_crps_in_one_dimension_and_joint_in_more():
    model, (x, y) = fitted("one"), branches(200, seed=7)
    exact = crps_scorer(model, x, y)
    assert energy_scorer(model, x, y) == pytest.approx(exact, rel=0.1)
    model, (x, y) = fitted("two"), correlated(200, seed=7)
    right = energy_scorer(model, x, y)
    assert energy_scorer(model, x, y[::-1]) < right < 0


@pytest.mark.slow
def test_scorers_serve_cross_validation_and_searches():
    x, y = branches()
    assert cross_val_score(tiny(), x, y, cv=2, scoring=nll_scorer).shape == (2,)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), tiny()),
        {"mdnregressor__learning_rate": [1e-7, 3e-2]},
        cv=2,
        scoring={"nll": nll_scorer, "crps": crps_scorer},
        refit="nll",
        error_score="raise",
    )
    search.fit(x, y)
    assert search.best_params_ == {"mdnregressor__learning_rate": 3e-2}
    assert list(search.cv_results_["rank_test_crps"]) == [2, 1]
    inner = search.best_estimator_[-1]
    scaled = search.best_estimator_[0].transform(x)
    assert nll_scorer(search, x, y) == pytest.approx(inner.log_prob(scaled, y).mean())


def test_estimators_without_densities_are_refused():
    x, y = branches()
    with pytest.raises(
        TypeError, match=r"must predict densities.*got LinearRegression.*scale_targ"
    ):
        nll_scorer(LinearRegression().fit(x, y), x, y)
