"""Diagnostics of a model whose outputs are known."""

import jax
import numpy as np
import pytest

from ngem.ensemble import GuardFit
from ngem.estimator import diagnostics
from ngem.estimator.diagnostics import diagnose
from ngem.estimator.prediction import Model
from ngem.estimator.preprocessing import Table, fit_inputs, fit_scaling
from ngem.estimator.targets import TargetUnits
from ngem.families import DiagonalGaussian
from ngem.nn import average, mixture_mlp

N_TRAIN = 60


class Known(Model):
    """A model of two members with three components each; the second of the first is dead."""

    def usage(self, x, y):
        resp = np.array([[0.75, 0.0005, 0.2495], [0.5, 0.4, 0.1]])
        entropy = np.where(x[:, :1] > 0, np.log([2.0, 2.0]), np.log([3.0, 3.0]))
        return entropy, np.broadcast_to(resp, (len(x), *resp.shape))


@pytest.fixture(name="train")
def _train():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_TRAIN, 2))
    return Table(x, 100 + 10 * rng.normal(size=(N_TRAIN, 2)), rng.uniform(0.5, 2, len(x)))


def known_model(train):
    network = mixture_mlp(2, 2, n_components=3, hidden_sizes=(4,), key=jax.random.key(0))
    units = fit_inputs(train.x, train.weights), fit_scaling(train.y, train.weights)
    return Known(average([network, network]), *units)


def targets_of(model):
    return TargetUnits(DiagonalGaussian(), model.targets)


def judged(networks=-1.0):
    return GuardFit(None, np.zeros(0), networks, -2.5, -3.0, np.zeros(0))


def test_gains_are_differences_of_mean_log_densities(train):
    model = known_model(train)
    numbers = diagnose(model, targets_of(model), train, judged())
    assert numbers["gain_over_linear"] == pytest.approx(1.5)
    assert numbers["gain_over_gaussian"] == pytest.approx(2.0)
    assert numbers["nll_offset"] == pytest.approx(np.log(model.targets.scale).sum())
    np.testing.assert_allclose(numbers["target_location"], model.targets.location)
    nothing = diagnose(model, targets_of(model), train, judged(float("nan")))
    assert nothing["gain_over_linear"] is None


def test_components_are_counted_on_training_rows(train):
    model = known_model(train)
    numbers = diagnose(model, targets_of(model), train, judged())
    fraction = np.average(train.x[:, 0] > 0, weights=train.weights)
    expected = 2**fraction * 3 ** (1 - fraction)
    assert numbers["effective_components"] == pytest.approx(expected)
    assert numbers["dead_components"] == [1]


def test_long_tables_are_thinned_evenly(train, monkeypatch):
    monkeypatch.setattr(diagnostics, "_ROWS", 20)
    rows = diagnostics._thin(train)
    assert len(rows.x) == 20
    places = [int(np.flatnonzero((train.x == row).all(axis=1))[0]) for row in rows.x]
    assert places[0] == 0
    assert places[-1] == N_TRAIN - 1
    assert set(np.diff(places)) <= {3, 4}
