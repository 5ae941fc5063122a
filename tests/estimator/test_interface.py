"""scikit-learn's interface without its base classes: what searches, pipelines and notebooks use."""

import subprocess
import sys

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_regressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from ngem import ConformalRegressor, DensityStack, MDNRegressor, MixtureBoostingRegressor
from ngem.estimator.interface import Regressor, read_features, read_numbers
from ngem.estimator.seeds import read_state


class Line(Regressor):
    """A line with a slope that is given, and what scikit-learn hands on."""

    def __init__(self, slope=1.0, *, inner=None):
        self.slope = slope
        self.inner = inner

    def fit(self, X, y, sample_weight=None):
        self.weights_ = sample_weight
        read_features(self, X, reset=True)
        return self

    def predict(self, X, offset=0.0):
        return self.slope * np.asarray(X)[:, 0] + offset


class Same(RegressorMixin, BaseEstimator):
    """The same parameters on scikit-learn's base classes."""

    def __init__(self, slope=1.0, *, inner=None):
        self.slope = slope
        self.inner = inner

    def fit(self, X, y, sample_weight=None):
        return self

    def predict(self, X, offset=0.0):
        return self.slope * np.asarray(X)[:, 0] + offset


ESTIMATORS = [
    MDNRegressor(n_components=3, hidden_sizes=(4, 4)),
    MixtureBoostingRegressor(max_rounds=3),
    DensityStack(kinds=("network",)),
    ConformalRegressor(MDNRegressor(power=0.25)),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_every_estimator_clones_and_is_a_regressor(estimator):
    copy = clone(estimator)
    assert repr(copy) == repr(estimator) != f"{type(estimator).__name__}()"
    assert repr(copy.get_params()) == repr(estimator.get_params())
    assert is_regressor(estimator)
    assert get_tags(estimator).target_tags.required
    assert type(estimator).__name__ in estimator._repr_mimebundle_()["text/html"]


def test_parameters_are_those_of_scikit_learn_s_base_class():
    for deep in (True, False):
        ours, theirs = (kind(2.0, inner=Ridge(3.0)).get_params(deep=deep) for kind in (Line, Same))
        assert list(map(str, sorted(ours.items()))) == list(map(str, sorted(theirs.items())))
    line = Line(inner=Ridge()).set_params(slope=4.0, inner__alpha=5.0)
    assert (line.slope, line.inner.alpha) == (4.0, 5.0)
    line.set_params(inner__alpha=7.0, inner=Ridge(6.0))  # the object first, then what is inside
    assert line.inner.alpha == 7.0
    with pytest.raises(ValueError, match=r"must be among inner, slope, got 'slop'; check"):
        line.set_params(slop=1.0)


def test_scores_and_tags_are_those_of_scikit_learn_s_classes():
    rng = np.random.default_rng(0)
    x, y, weight = rng.standard_normal((20, 1)), rng.standard_normal(20), rng.uniform(1, 2, 20)
    assert Line(0.3).score(x, y, weight) == Same(0.3).score(x, y, weight)
    assert get_tags(Line()) == get_tags(Same())


def test_arguments_are_routed_as_asked():
    rng = np.random.default_rng(0)
    x, y, weight = rng.standard_normal((20, 1)), rng.standard_normal(20), np.ones(20)
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        chain = make_pipeline(scaler, Line().set_fit_request(sample_weight=True))
        chain.fit(x, y, sample_weight=weight)
        np.testing.assert_array_equal(chain[-1].weights_, weight)
        search = GridSearchCV(
            clone(chain[-1]).set_score_request(sample_weight=True), {"slope": [1.0, 2.0]}
        )
        search.fit(x, y, sample_weight=weight)
        assert len(search.best_estimator_.weights_) == 20
        ours, theirs = Line().get_metadata_routing(), Same().get_metadata_routing()
        for method in ("fit", "predict", "score"):
            assert getattr(ours, method).requests == getattr(theirs, method).requests
        moved = Line().set_predict_request(offset="shift").get_metadata_routing()
        assert moved.predict.requests == {"offset": "shift"}


def test_an_estimator_that_is_not_fitted_says_so():
    model = MDNRegressor()
    with pytest.raises(sklearn.exceptions.NotFittedError, match=r"got one.*call fit\(X, y\)"):
        model.predict([[1.0]])
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(model)


@pytest.mark.parametrize("seed", [0, 7, np.int64(7), np.random.RandomState(3)], ids=str)
def test_seeds_are_read_as_scikit_learn_reads_them(seed):
    if isinstance(seed, np.random.RandomState):
        assert read_state(seed) is seed
    else:
        theirs = sklearn.utils.check_random_state(seed).randint(99, size=9)
        np.testing.assert_array_equal(read_state(seed).randint(99, size=9), theirs)
    assert read_state(None) is sklearn.utils.check_random_state(None)


@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "u1", "f2", "?", "O"])
def test_arrays_of_numbers_are_read_as_scikit_learn_reads_them(kind):
    """Plain arrays take a short way without scikit-learn, others its own."""
    values = (np.arange(12).reshape(4, 3) % 5).astype(kind)
    line = Line().fit(values, None)
    expected = sklearn.utils.check_array(values, dtype=[np.float64, np.float32])
    read = read_features(line, values, reset=False)
    np.testing.assert_array_equal(read, expected)
    assert read.dtype == expected.dtype
    assert read_numbers("y", values[:, 0]).dtype == np.float64


@pytest.mark.parametrize("values", [np.ones((0, 3)), np.ones((3, 0)), np.ones((2, 2, 2))], ids=str)
def test_arrays_that_are_no_table_are_refused_as_scikit_learn_refuses_them(values):
    with pytest.raises(ValueError, match=r"minimum of 1|dim 3"):
        read_features(Line(), values, reset=True)


def test_a_fit_and_predictions_of_arrays_do_without_scikit_learn():
    """It takes a second to import."""
    code = """
import sys
import numpy as np
import ngem
x = np.linspace(-1, 1, 40)[:, None]
model = ngem.MDNRegressor(2, n_members=2, hidden_sizes=(4,), max_epochs=2, random_state=0)
model.fit(x, x[:, 0], sample_weight=np.ones(40))
model.predict(x), model.predict_quantiles(x, [0.1, 0.9]), model.sample(x), model.log_prob(x, x)
print(sorted({"sklearn", "scipy.stats", "pandas", "polars"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
