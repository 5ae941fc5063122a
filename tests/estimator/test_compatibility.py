"""Model files and checkpoints that version 0.1 wrote, and its spellings of parameters."""

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from sklearn.base import clone

from ngem import MDNRegressor
from ngem._files import FileError
from ngem.families import DiagonalGaussian, FullGaussian, Logistic

from ..cases import slow_but

FILES = Path(__file__).parent / "files"
X = np.linspace(-1, 1, 40)[:, None]
Y = np.where(np.arange(40) % 2 == 0, 1.0, -1.0) * X[:, 0] + 0.1 * np.cos(9 * X[:, 0])
SETTINGS = {
    "n_components": 2,
    "n_members": 1,
    "guard": False,
    "hidden_sizes": (3,),
    "max_epochs": 4,
    "power": (0.5, 0.0, 0.5),
    "random_state": 0,
}

# Mean and log density of the first three rows, as version 0.1 printed them.
GAUSSIAN = (
    [-0.17419318985815638, -0.17184889160494946, -0.16943395746069992],
    [-2.0773423837906293, -1.9763997720962934, -1.776518218446391],
)
LOGISTIC = (
    [-0.16589809626152413, -0.16386252724323477, -0.16176164433720783],
    [-1.7938271688705854, -1.5399604963547162, -1.5589078592544965],
)
MODELS = {
    "gaussian": (DiagonalGaussian, "gaussian", "diag", GAUSSIAN),
    "full": (FullGaussian, "gaussian", "full", GAUSSIAN),
    "logistic": (Logistic, "logistic", "diag", LOGISTIC),
}

pytestmark = pytest.mark.trains


@pytest.fixture(autouse=True)
def _single_precision():
    """The precision in which version 0.1 made the figures."""
    with jax.enable_x64(False):
        yield


@pytest.mark.parametrize("name", MODELS)
def test_a_model_file_of_version_0_1_predicts_the_same(name):
    kind, family, covariance, (mean, log_prob) = MODELS[name]
    model = MDNRegressor.load(FILES / f"{name}_0_1.ngem")
    assert isinstance(model.model_.network.family, kind)
    assert (model.family, model.covariance) == (family, covariance)
    np.testing.assert_allclose(model.predict(X[:3]), mean, rtol=1e-5)
    np.testing.assert_allclose(model.log_prob(X[:3], Y[:3]), log_prob, rtol=1e-5)


@pytest.mark.parametrize("name", slow_but(MODELS, "gaussian", "logistic"))
def test_a_fit_ends_where_version_0_1_ended(name):
    _, family, covariance, (mean, _) = MODELS[name]
    model = MDNRegressor(**SETTINGS, family=family, covariance=covariance).fit(X, Y)
    np.testing.assert_allclose(model.predict(X[:3]), mean, rtol=1e-4)


def test_a_checkpoint_of_version_0_1_is_refused(tmp_path):
    """Its run would have trained otherwise: what it continued would be neither run's result."""
    checkpoint = tmp_path / "checkpoint"
    shutil.copy(FILES / "checkpoint_0_1", checkpoint)
    with pytest.raises(FileError, match=r"other values of.*delete the file to start anew"):
        MDNRegressor(**SETTINGS, checkpoint=checkpoint).fit(X, Y)


def test_the_logistic_family_as_a_covariance_warns_and_still_works():
    with pytest.warns(FutureWarning, match="pass family='logistic'"):
        old = MDNRegressor(**SETTINGS, covariance="logistic").fit(X, Y)
    new = MDNRegressor(**SETTINGS, family="logistic").fit(X, Y)
    np.testing.assert_array_equal(old.predict(X), new.predict(X))
    assert clone(new).family == "logistic"


def test_a_covariance_that_the_family_does_not_have_is_refused():
    with pytest.raises(ValueError, match=r"covariance of family 'laplace' must be one of 'diag'"):
        MDNRegressor(family="laplace", covariance="full").fit(X, Y)
