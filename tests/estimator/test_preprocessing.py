"""Preprocessing against scikit-learn's imputer and scaler, and at extremes."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

from ngem.estimator.preprocessing import (
    Table,
    check_numeric,
    check_units,
    fit_inputs,
    fit_scaling,
    no_scaling,
    rounding_step,
    split_rows,
)

RNG = np.random.default_rng(0)
X = RNG.normal([3, -50, 0.1], [1, 20, 1e-3], (200, 3))
WEIGHTS = RNG.uniform(0.1, 3, 200)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_scaling_is_scikit_learns(weights):
    scaling, expected = fit_scaling(X, weights), StandardScaler().fit(X, sample_weight=weights)
    np.testing.assert_allclose(scaling.location, expected.mean_, rtol=1e-12)
    np.testing.assert_allclose(scaling.scale, expected.scale_, rtol=1e-12)
    np.testing.assert_allclose(scaling.forward(X), expected.transform(X), atol=1e-6)
    assert scaling.log_volume == pytest.approx(np.log(expected.scale_).sum())


def test_back_and_forth_keeps_digits():
    """Targets such as 50000 +- 0.01 keep seven digits of their deviation."""
    y = 50_000 + 0.01 * RNG.normal(size=(100, 1))
    scaling = fit_scaling(y)
    back = scaling.backward(scaling.forward(y))
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, y, rtol=0, atol=1e-8)


@pytest.mark.parametrize("unit", [1e-200, 1e-9, 1.0, 1e200])
def test_units_change_nothing(unit):
    np.testing.assert_allclose(
        fit_scaling(unit * X).forward(unit * X), fit_scaling(X).forward(X), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("weights", [None, WEIGHTS[:77]])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e9, 1e20 / 3, -1e200 / 7, 1e308, -1.79e308, 5e-324])
def test_a_constant_column_becomes_zero(value, weights):
    column = np.full((77, 1), value)
    scaling = fit_scaling(column, weights)
    np.testing.assert_array_equal(scaling.location, value)
    np.testing.assert_array_equal(scaling.forward(column), 0.0)
    assert np.isfinite(scaling.scale).all()
    assert scaling.scale == [1.0] or abs(value) > 1e12
    assert fit_inputs(column).fill == value


def test_a_column_that_varies_by_rounding_becomes_nearly_zero():
    value = 1e20 / 3
    column = np.where(np.arange(77) % 2, value, np.nextafter(value, np.inf))[:, None]
    assert np.ptp(column) > 1000
    assert np.abs(fit_scaling(column).forward(column)).max() < 1e-2


def test_columns_of_any_scale_are_standardized():
    """Against scikit-learn's scaler in a scale where that one does not overflow."""
    units = np.array([1e300, 1e-300, 1.0])
    expected = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(fit_scaling(X * units).forward(X * units), expected, atol=1e-5)


def test_values_whose_distance_is_no_double_are_standardized():
    column = np.where(np.arange(100) < 10, 1.7e308, -1.7e308)[:, None]
    expected = StandardScaler().fit_transform(column / 1e308)
    np.testing.assert_allclose(fit_scaling(column).forward(column), expected, rtol=1e-6)


@pytest.mark.parametrize("values", [[1e308, 1e308], [-1e305, 1e305], [1e-308, 2e-308]])
def test_targets_of_impossible_units_are_refused_with_their_column(values):
    y = np.column_stack([[1.0, 2.0], values])
    with pytest.raises(ValueError, match="in column 1; choose another unit for that column"):
        check_units(y)
    check_units(np.column_stack([[1e299, -1e299], [1e-299, -1e-299], [0.0, 0.0]]))


def test_extreme_values_stay_finite():
    scaled = fit_scaling(X).forward(np.array([[1e308, -1e308, 0.0]]))
    np.testing.assert_array_equal(scaled[0, :2], np.array([1e12, -1e12], np.float32))


def test_missing_values_become_medians_with_an_indicator():
    x = X.copy()
    x[::7, 0] = x[3:9, 2] = np.nan
    inputs = fit_inputs(x, scale=False)
    expected = SimpleImputer(strategy="median", add_indicator=True).fit_transform(x)
    np.testing.assert_allclose(inputs.forward(x), expected.astype(np.float32))
    assert inputs.n_columns == expected.shape[1] == 5
    # A column that was complete in training has no indicator later.
    x[0, 1] = np.nan
    np.testing.assert_allclose(inputs.forward(x)[0, 1], np.median(X[:, 1]), rtol=1e-6)


def test_missing_values_are_replaced_before_scaling():
    x = X.copy()
    x[::7, 0] = np.nan
    filled = SimpleImputer(strategy="median").fit_transform(x)
    expected = StandardScaler().fit(filled, sample_weight=WEIGHTS).transform(filled)
    np.testing.assert_allclose(fit_inputs(x, WEIGHTS).forward(x)[:, :3], expected, atol=1e-6)


def test_a_column_without_values_is_filled_with_zeros():
    x = np.stack([X[:, 0], np.full(200, np.nan)], axis=1)
    np.testing.assert_array_equal(fit_inputs(x).forward(x)[:, 1:], [[0.0, 1.0]] * 200)


def test_no_scaling_changes_nothing():
    np.testing.assert_array_equal(no_scaling(3).forward(X), X.astype(np.float32))
    assert no_scaling(3).log_volume == 0


@pytest.mark.parametrize(
    ("n_rows", "fraction", "expected"),
    [(1000, 0.1, 100), (50, 0.1, 10), (24, 0.1, 8), (15, 0.1, 5), (14, 0.1, 0), (10, 1.0, 0)],
)
def test_rows_are_split_without_overlap(n_rows, fraction, expected):
    train, held_out = split_rows(n_rows, fraction, np.random.default_rng(0))
    assert len(held_out) == expected
    np.testing.assert_array_equal(np.sort(np.concatenate([train, held_out])), np.arange(n_rows))
    assert np.all(np.diff(train) > 0)
    assert np.all(np.diff(held_out) > 0)


def test_equal_weights_are_dropped():
    table = Table(X, X[:, :1], np.repeat([1.0, 2.0], 100))
    assert table.take(np.arange(100)).weights is None
    np.testing.assert_array_equal(table.take(np.arange(99, 101)).weights, [1.0, 2.0])


def test_what_is_known_of_targets_are_themselves_or_the_ends_of_intervals():
    ends = np.array([[1.0, 4.0, -np.inf, np.inf], [2.0, 4.0, 3.0, 5.0]])
    table = Table(X[:2], X[:2, :2])
    assert table.given is table.y
    assert table._replace(ends=ends).given is ends
    scaling = fit_scaling(np.array([[0.0, 2.0], [2.0, 6.0]]))  # means 1 and 4, deviations 1 and 2
    expected = [[0.0, 0.0, -1e4, 1e4], [1.0, 0.0, 2.0, 0.5]]
    np.testing.assert_allclose(scaling.forward_ends(ends, 1e4), expected)


COLUMNS = {"a": [1.0, 2.0], "b": ["x", "y"]}


@pytest.mark.parametrize(
    ("table", "place"),
    [
        (pd.DataFrame(COLUMNS), "column 'b'"),
        (pl.DataFrame(COLUMNS), "column 'b'"),
        (pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}), "column 'when'"),
        (pl.DataFrame({"kind": ["u"]}, schema={"kind": pl.Categorical}), "column 'kind'"),
        (np.array([["1", "x"]]), "its values"),
        (np.array([[1.0, "x"]], object), "its values"),
        ([["x"]], "its values"),
    ],
    ids=["pandas", "polars", "dates", "categories", "numpy", "objects", "list"],
)
def test_tables_with_text_categories_or_dates_are_refused(table, place):
    with pytest.raises(ValueError, match=rf"X must hold numbers only, .* in {place}; encode it"):
        check_numeric("X", table, "encode it")


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": [1.0], "b": [True]}),
        pl.DataFrame({"a": [1]}),
        pa.table({"a": [1.0]}),
        np.array([[1, None]], object),
        [[1.0, 2.0]],
    ],
    ids=["pandas", "polars", "pyarrow", "objects", "list"],
)
def test_tables_of_numbers_are_accepted(table):
    check_numeric("X", table, "encode it")


def test_the_largest_target_is_still_one():
    check_units(np.array([[0.0], [1e300]]))
    with pytest.raises(ValueError, match="1e"):
        check_units(np.array([[0.0], [np.nextafter(1e300, np.inf)]]))


def test_few_values_have_no_step_of_rounding():
    """Two values are no scale of steps, however often they repeat."""
    assert rounding_step(np.tile([0.0, 1.0], 50)) is None
    assert rounding_step(np.tile([0.0, 1.0, 2.0], 50)) == 1.0
    assert rounding_step(np.arange(30.0)) is None  # a value for each row
