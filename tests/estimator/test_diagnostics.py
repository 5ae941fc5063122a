"""Diagnostics against scipy and scikit-learn, for a model whose outputs are known."""

import jax
import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression

from ngem.estimator import diagnostics
from ngem.estimator.diagnostics import diagnose
from ngem.estimator.prediction import Model
from ngem.estimator.preprocessing import Table, fit_inputs, fit_scaling
from ngem.nn import mixture_mlp

N_TRAIN, N_HELD_OUT = 60, 40


class Known(Model):
    """A model with three components, the second of which is dead, and a log density of -1."""

    def facts(self, x, y):
        resp = np.tile([0.75, 0.0005, 0.2495], (len(x), 1))
        entropy = np.where(x[:, 0] > 0, np.log(2.0), np.log(3.0))
        return entropy, resp, np.full(len(x), -1.0)


@pytest.fixture(name="tables")
def _tables():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_TRAIN + N_HELD_OUT, 2))
    y = x @ rng.normal(size=(2, 2)) + rng.normal(size=(len(x), 2)) @ np.array([[1.0, 0.5], [0, 1]])
    table = Table(x, 100 + 10 * y, rng.uniform(0.5, 2, len(x)))
    return table.take(np.arange(N_TRAIN)), table.take(np.arange(N_TRAIN, len(x)))


def known_model(train):
    network = mixture_mlp(2, 2, n_components=3, hidden_sizes=(4,), key=jax.random.key(0))
    return Known(network, fit_inputs(train.x, train.weights), fit_scaling(train.y, train.weights))


def mean_log_density(x_train, x_new, train, new):
    """Mean log density of new rows under a weighted linear model with Gaussian noise."""
    line = LinearRegression().fit(x_train, train.y, train.weights)
    residuals = train.y - line.predict(x_train)
    covariance = np.cov(residuals.T, ddof=0, aweights=train.weights)
    noise = stats.multivariate_normal(cov=covariance)
    return np.average(noise.logpdf(new.y - line.predict(x_new)), weights=new.weights)


def test_gains_are_differences_of_mean_log_densities(tables):
    train, held_out = tables
    model = known_model(train)
    # The known log density is in standardized units, like those of the network.
    scaled = [Table(t.x, model.targets.forward(t.y).astype(float), t.weights) for t in tables]
    numbers = diagnose(model, train, held_out)
    linear = mean_log_density(train.x, held_out.x, *scaled)
    constant = mean_log_density(0 * train.x, 0 * held_out.x, *scaled)
    assert numbers["gain_over_linear"] == pytest.approx(-1 - linear, abs=1e-5)
    assert numbers["gain_over_gaussian"] == pytest.approx(-1 - constant, abs=1e-5)
    assert numbers["gain_rows"] == "validation"
    assert linear > constant
    assert numbers["nll_offset"] == pytest.approx(np.log(model.targets.scale).sum())
    np.testing.assert_allclose(numbers["target_location"], model.targets.location)


def test_components_are_counted_on_training_rows(tables):
    train, held_out = tables
    numbers = diagnose(known_model(train), train, held_out)
    fraction = np.average(train.x[:, 0] > 0, weights=train.weights)
    expected = 2**fraction * 3 ** (1 - fraction)
    assert numbers["effective_components"] == pytest.approx(expected)
    assert numbers["dead_components"] == [1]
    assert diagnose(known_model(train), train, None)["gain_rows"] == "training"


def test_a_linear_model_needs_rows(tables):
    few = tables[0].take(np.arange(6))  # two features and an intercept: seven rows are needed
    numbers = diagnose(known_model(few), few, None)
    assert numbers["gain_over_linear"] is None
    assert np.isfinite(numbers["gain_over_gaussian"])


def test_long_tables_are_thinned_evenly(tables, monkeypatch):
    monkeypatch.setattr(diagnostics, "_ROWS", 20)
    rows = diagnostics._thin(tables[0])
    assert len(rows.x) == 20
    places = [int(np.flatnonzero((tables[0].x == row).all(axis=1))[0]) for row in rows.x]
    assert places[0] == 0
    assert places[-1] == N_TRAIN - 1
    assert set(np.diff(places)) <= {3, 4}
