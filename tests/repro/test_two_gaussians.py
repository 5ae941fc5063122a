"""Two-Gaussians: the paper's headline on its smallest example."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from ngem import datasets
from ngem.objectives import NGEM, NLL, SGEM
from ngem.repro import two_gaussians
from ngem.repro.two_gaussians import best_nll

# Scales are learned as they are here, so that they are their own coordinates.
FULL = NGEM(power=1.0, coordinates="scale")


@pytest.fixture(scope="module", name="data")
def _data():
    return datasets.two_gaussians()


def test_data_are_what_they_claim():
    data = datasets.two_gaussians(4000, weights=(0.8, 0.2), seed=3)
    left = data.points[:, 0] < 0
    assert left.mean() == 0.8
    np.testing.assert_allclose(data.points[left].mean(0), data.means[0], atol=0.1)
    np.testing.assert_allclose(data.points[~left].std(0), data.scale, atol=0.1)


def test_best_nll_is_scikit_learns(data):
    fitted = GaussianMixture(2, covariance_type="diag", reg_covar=0, tol=1e-10).fit(data.points)
    assert best_nll(data) == pytest.approx(-fitted.score(data.points), abs=1e-8)


def test_nll_collapses_where_ngem_does_not(data):
    """Table 1 at learning rate 0.1."""
    runs = {o: two_gaussians.train(data, o, learning_rate=0.1) for o in (NLL(), FULL)}
    nll, ngem = runs.values()
    assert np.all(nll.entropy() < 0.1)
    assert np.all(ngem.entropy() > 0.6)
    assert np.all(ngem.nll[:, -1] < nll.nll[:, -1] - 2)


def test_ngem_needs_a_fraction_of_the_iterations(data):
    """Fig. 4 at learning rate 0.01."""
    bound = best_nll(data) + 0.1
    ngem = two_gaussians.train(data, FULL, learning_rate=0.01, epochs=10)
    nll = two_gaussians.train(data, NLL(), learning_rate=0.01, epochs=10)
    assert np.all(ngem.iterations_to(bound) < 800)
    assert np.all(nll.iterations_to(bound) > 1600)


def test_sgem_and_nll_learn_identical_models(data):
    """Sec. 3.2: the same run under the same seed."""
    runs = [two_gaussians.train(data, o, learning_rate=0.01, epochs=2) for o in (NLL(), SGEM())]
    np.testing.assert_allclose(runs[0].means, runs[1].means, atol=1e-9)


def test_iterations_to_counts_only_what_stays():
    nll = np.array([[5.0, 1.0, 5.0, 1.0], [1.0, 1.0, 1.0, 1.0], [5.0, 5.0, 5.0, 5.0]])
    run = two_gaussians.Run(np.array([0, 10, 20, 30]), nll, np.zeros((3, 4, 2, 2)), None)
    np.testing.assert_array_equal(run.iterations_to(2.0), [30, 0, np.inf])
