"""Names and order of the columns of predictions."""

import jax
import numpy as np
import pytest

from ngem.estimator.prediction import Model
from ngem.tables import predictions

REGIONS = np.arange(5 * 2 * 3 * 2, dtype=float).reshape(5, 2, 3, 2)


class Predictions(Model):
    """A model of two targets whose predictions say where they belong."""

    def __init__(self):
        pass  # no network is needed

    def mean(self, x, dtype=None):
        return np.arange(2.0) + np.zeros((len(x), 2))

    def quantiles(self, x, q, dtype=None):
        return q[:, None] + np.zeros((len(x), len(q), 2))

    def interval(self, x, coverage, kind, dtype=None):
        return REGIONS[: len(x)]

    def sample(self, x, n_samples, key, dtype=None):
        return np.zeros((len(x), n_samples, 2))


def columns(x, **wanted):
    wanted = {"quantiles": "", "interval": None, "kind": "hdr", "samples": 0, **wanted}
    asked = predictions.read_wanted(**wanted)
    return predictions.prediction_columns(Predictions(), ["a", "b"], x, asked, jax.random.key(0))


def test_columns_are_named_by_target_and_statistic():
    result = columns(np.zeros((5, 3)), quantiles="0.1,0.5", samples=2)
    assert list(result) == [
        *("a_mean", "a_q0.1", "a_q0.5", "a_sample1", "a_sample2"),
        *("b_mean", "b_q0.1", "b_q0.5", "b_sample1", "b_sample2"),
    ]
    np.testing.assert_array_equal(result["b_mean"], np.ones(5))
    np.testing.assert_array_equal(result["a_q0.5"], np.full(5, 0.5))


def test_regions_have_numbered_pieces():
    result = columns(np.zeros((5, 3)), interval=0.9)
    pieces = [f"a_{side}0.9_{piece}" for piece in (1, 2, 3) for side in ("lower", "upper")]
    assert list(result)[1:7] == pieces
    np.testing.assert_array_equal(result["b_upper0.9_2"], REGIONS[:, 1, 1, 1])


def test_a_batch_without_complete_rows_has_the_same_columns():
    some, none = (columns(np.zeros((n, 3)), quantiles="0.5", samples=1) for n in (5, 0))
    assert list(some) == list(none)
    assert all(len(values) == 0 for values in none.values())


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"quantiles": "a"}, "--quantiles must be numbers separated by commas, got 'a'"),
        ({"quantiles": "5"}, "--quantiles must lie between 0 and 1"),
        ({"interval": 90.0}, "--interval must lie between 0 and 1"),
        ({"kind": "a"}, "--kind must be one of"),
    ],
)
def test_bad_options_are_refused(wanted, message):
    with pytest.raises(ValueError, match=message):
        columns(np.zeros((1, 1)), **wanted)
