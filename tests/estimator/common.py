"""What tests of estimators share: rows, a tiny network, scikit-learn's checks."""

import functools
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from ngem import MDNRegressor

#: One network by itself; `test_members.py` is about several and about the guard.
TINY = {
    "n_components": 2,
    "n_members": 1,
    "guard": False,
    "hidden_sizes": (8,),
    "max_epochs": 40,
    "learning_rate": 3e-2,
}


def tiny(**settings):
    return MDNRegressor(**{**TINY, "random_state": 0, **settings})


def branches(n_rows=120, seed=0):
    """A target that is either the first of two features or its negative."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 2, (n_rows, 2))
    return x, rng.choice([-1, 1], n_rows) * x[:, 0] + 0.1 * rng.standard_normal(n_rows)


def correlated(n_rows=120, seed=0):
    """Two targets whose noise is correlated, in units of 1e3 and 1e-3."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n_rows, 2))
    noise = rng.standard_normal((n_rows, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    return x, (x + 0.3 * noise) * np.array([1e3, 1e-3]) + np.array([5e4, 0.0])


def mixed_table(n_rows=150, seed=0):
    """Numbers, text, categories, dates, true and false, with gaps; each of them matters."""
    rng = np.random.default_rng(seed)
    start, days = pd.Timestamp("2024-01-01"), rng.integers(0, 99, n_rows)
    table = pd.DataFrame(
        {
            "size": rng.uniform(0, 1, n_rows),
            "place": rng.choice(["north", "south", "west"], n_rows),
            "grade": pd.Categorical(rng.choice(["a", "b"], n_rows)),
            "when": start + pd.to_timedelta(days, "D"),
            "wet": rng.random(n_rows) < 0.5,
        }
    )
    y = table["size"] + 2 * (table["place"] == "north") - (table["grade"] == "a") + table["wet"]
    y = y + days / 30 + 0.1 * rng.standard_normal(n_rows)
    table.loc[::11, "size"] = np.nan
    table.loc[5::13, "place"] = None
    return table, y.rename("price")


@functools.cache
def fitted(name):
    cases = {"one": (tiny(), branches()), "two": (tiny(covariance="full"), correlated())}
    return cases[name][0].fit(*cases[name][1])


#: Checks that compile a program for a table of another shape and ask what other tests ask too.
SLOW_CHECKS = {
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_positive_only_tag_during_fit",
    "check_regressors_int",
    "check_regressors_no_decision_function",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
}


def scikit_learn_checks(estimator, expected_failures):
    """Return scikit-learn's checks of an estimator as parameters of a test.

    A check that is expected to fail must do so: if it passes, the test fails.
    """
    cases = []
    with warnings.catch_warnings():
        # Our estimators have scikit-learn's interface, not its base class; see `interface.py`.
        warnings.filterwarnings("ignore", message=".*does not inherit from `sklearn.base.Base")
        checks = list(estimator_checks_generator(estimator))
    for model, check in checks:
        name = check.func.__name__
        marks = [pytest.mark.slow] if name in SLOW_CHECKS else []
        if name in expected_failures:
            marks.append(pytest.mark.xfail(reason=expected_failures[name], strict=True))
        cases.append(pytest.param(model, check, marks=marks, id=name))
    return cases
