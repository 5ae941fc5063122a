"""An estimator of the user's own beside ngem's in a stack."""

import jax
import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression

import ngem
from ngem import DensityStack, MDNRegressor
from ngem.estimator.foreign import FoldedRegressor

pytestmark = pytest.mark.trains

TINY = {"hidden_sizes": (4,), "n_components": 2, "max_epochs": 3, "dropout": 0.0}


class Line(BaseEstimator):
    """A straight line with constant noise, written as a user would."""

    def fit(self, X, y):
        self.line_ = LinearRegression().fit(X, y)
        self.noise_ = np.std(y - self.line_.predict(X))
        return self

    def predict_distribution(self, X):
        mean = self.line_.predict(X)[:, None, None]
        return ngem.gaussian_mixture(np.zeros((len(X), 1)), mean, np.full_like(mean, self.noise_))


def line_rows(n_rows=240, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n_rows, 2))
    return x, 100 + 30 * x[:, 0] + 5 * rng.standard_normal(n_rows)


@pytest.fixture(scope="module", name="stack")
def _stack(promotes):
    # The guard beside networks is a line, too.
    kinds = [("network", MDNRegressor(**TINY, guard=False)), ("line", Line())]
    with promotes():
        return DensityStack(kinds, n_members=3, random_state=0).fit(*line_rows())


@pytest.mark.slow
def test_a_line_wins_where_the_truth_is_a_line(stack):
    assert stack.kinds_[1].weight > 0.9
    x, y = line_rows(50, seed=1)
    truth = 100 + 30 * x[:, 0]
    assert np.abs(stack.predict(x) - truth).mean() < 2
    assert stack.log_prob(x, y).mean() > -np.log(5) - 1.6


def test_predictions_are_those_of_the_members():
    """Three lines of three folds: their average is the kind, in the user's units."""
    x, y = line_rows()
    model = FoldedRegressor(Line(), n_members=3, random_state=0).fit(x, y)
    lines = [Line().fit(np.delete(x, rows, axis=0), np.delete(y, rows)) for rows in model.folds_]
    expected = np.mean([line.line_.predict(x[:9]) for line in lines], axis=0)
    np.testing.assert_allclose(model.predict(x[:9]), expected, rtol=1e-5)
    for rows, line in zip(model.folds_, lines, strict=True):
        density = line.predict_distribution(x[rows]).log_prob(y[rows, None])
        np.testing.assert_allclose(model.oof_log_prob_[rows], density, atol=1e-3)


@pytest.mark.slow
def test_a_stack_with_foreign_code_is_not_saved(stack, tmp_path):
    with pytest.raises(ValueError, match="a file holds no code, got 'line'"):
        stack.save(tmp_path / "stack.ngem")
    assert not (tmp_path / "stack.ngem").exists()


class Broken(Line):
    """Returns the wrong thing."""

    def predict_distribution(self, X):
        return self.line_.predict(X)


class Lost(Line):
    """Has learned nothing."""

    def predict_distribution(self, X):
        return jax.tree.map(lambda leaf: leaf * np.nan, super().predict_distribution(X))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Broken(), "must return an ngem.Mixture of Gaussians with 1 rows .* got ndarray"),
        (Lost(), "predict_distribution of Lost must be finite"),
    ],
)
def test_wrong_predictions_are_refused(estimator, message):
    with pytest.raises(ValueError, match=message):
        FoldedRegressor(estimator, n_members=2, random_state=0).fit(*line_rows(20))


def test_rounded_targets_and_other_objects_are_refused():
    x, y = line_rows(20)
    with pytest.raises(ValueError, match="Line must have targets that are known"):
        DensityStack([("line", Line())], n_members=2, resolution=1.0).fit(x, y)
    with pytest.raises(ValueError, match="pairs of a name and an estimator"):
        DensityStack([("line", LinearRegression())], n_members=2).fit(x, y)
