"""The linear model beside networks, against scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

from ngem.ensemble.linear import fit_linear

PENALTIES = [10.0**power for power in range(-3, 5)]


@pytest.mark.parametrize("noise", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("shape", [(60, 4), (12, 30), (7, 7), (500, 3)], ids=str)
def test_it_is_the_ridge_regression_that_scikit_learn_chooses(shape, noise):
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape) + 3.0
    y = x[:, :2] @ np.array([[1.0, 0.0], [0.5, -2.0]]) + noise * rng.standard_normal((len(x), 2))
    counts = rng.uniform(0.1, 3.0, len(x))
    ours = fit_linear(x, y, counts)
    theirs = RidgeCV(PENALTIES, store_cv_results=True).fit(x, y, counts)
    np.testing.assert_allclose(ours.slope, theirs.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ours.intercept, theirs.intercept_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ours.predict(x), theirs.predict(x), rtol=1e-6, atol=1e-8)
    squares = theirs.cv_results_[..., PENALTIES.index(theirs.alpha_)] / counts[:, None]
    np.testing.assert_allclose(ours.left_out**2, squares, rtol=1e-5, atol=1e-12)


def test_a_constant_feature_and_a_repeated_one_change_nothing():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 2)), rng.standard_normal((40, 1))
    alone = fit_linear(x, y, np.ones(40))
    wider = fit_linear(np.column_stack([x, np.full(40, 7.0)]), y, np.ones(40))
    np.testing.assert_allclose(wider.left_out, alone.left_out, rtol=1e-9)
    np.testing.assert_allclose(wider.slope, [[*alone.slope[0], 0.0]], atol=1e-12)
