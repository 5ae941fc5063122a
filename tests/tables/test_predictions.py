"""Names and order of the columns of predictions."""

import itertools
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from ngem.estimator.prediction import Model
from ngem.tables import predictions

REGIONS = np.arange(5 * 2 * 3 * 2, dtype=float).reshape(5, 2, 3, 2)


class Predictions(Model):
    """A model of two targets whose predictions say where they belong."""

    def __init__(self, guard, n_components):
        network = SimpleNamespace(member_components=n_components, is_guarded=guard is not None)
        object.__setattr__(self, "network", network)

    def encoded(self, x):
        return self, x

    def mean(self, x):
        return np.arange(2.0) + np.zeros((len(x), 2))

    def std(self, x):
        return np.arange(3.0, 5.0) + np.zeros((len(x), 2))

    def cdf(self, x, y):
        return 1 / (1 + np.exp(-y))

    def quantiles(self, x, q):
        return q[:, None] + np.zeros((len(x), len(q), 2))

    def interval(self, x, coverage, kind):
        return REGIONS[: len(x)]

    def sample(self, x, n_samples, key):
        return np.zeros((len(x), n_samples, 2))

    def distance(self, x):
        return np.maximum(x[:, 0] - 1, 0)


def columns(x, guard="a guard", n_components=3, **wanted):
    wanted = {"quantiles": "", "interval": None, "kind": "hdr", "samples": 0, **wanted}
    asked = predictions.read_wanted(**wanted)
    model, key = Predictions(guard, n_components), jax.random.key(0)
    return predictions.prediction_columns(model, ["a", "b"], x, asked, key)


def test_columns_are_named_by_target_and_statistic():
    result = columns(np.zeros((5, 3)), quantiles="0.1,0.5", samples=2, above="-1,2.5")
    names = "mean", "sd", "q0.1", "q0.5", "above-1", "above2.5", "sample1", "sample2"
    expected = [f"{target}_{name}" for target in "ab" for name in names]
    assert list(result) == [*expected, "outside"]
    np.testing.assert_array_equal(result["b_mean"], np.ones(5))
    np.testing.assert_array_equal(result["b_sd"], np.full(5, 4.0))
    np.testing.assert_allclose(result["a_above2.5"], 1 / (1 + np.exp(2.5)))
    np.testing.assert_array_equal(result["a_q0.5"], np.full(5, 0.5))


def test_regions_have_numbered_pieces():
    result = columns(np.zeros((5, 3)), interval=0.9)
    pieces = [f"a_{side}0.9_{piece}" for piece in (1, 2, 3) for side in ("lower", "upper")]
    assert list(result)[2:8] == pieces
    np.testing.assert_array_equal(result["b_upper0.9_2"], REGIONS[:, 1, 1, 1])


def test_regions_have_at_most_as_many_pieces_as_one_network_has_components():
    result = columns(np.zeros((5, 3)), interval=0.9, n_components=2)
    ends = [f"b_{side}0.9_{piece}" for piece in (1, 2) for side in ("lower", "upper")]
    assert [name for name in result if name.startswith("b_")] == ["b_mean", "b_sd", *ends]
    # All gaps are equal, so the first one stays.
    expected = REGIONS[:, 1].reshape(5, 6)[:, [0, 1, 2, 5]]
    np.testing.assert_array_equal(np.stack([result[name] for name in ends], axis=1), expected)


def test_rows_with_a_feature_outside_the_range_are_marked_once():
    result = columns(np.array([[0.0, 9.0], [2.0, 0.0]]))
    assert result["outside"].tolist() == [False, True]
    assert result["outside"].dtype == bool
    assert "outside" not in columns(np.zeros((2, 2)), guard=None)  # an older model


def random_regions(n_rows, pieces, seed):
    """Return regions of 1 to all pieces, ascending, NaN where there are no more."""
    rng = np.random.default_rng(seed)
    regions = np.sort(rng.normal(size=(n_rows, 2, 2 * pieces))).reshape(n_rows, 2, pieces, 2)
    counts = rng.integers(1, pieces + 1, size=(n_rows, 2, 1))
    regions[np.arange(pieces) >= counts] = np.nan
    return regions


def joined_one_by_one(region, most):
    """Join the two pieces with the smallest gap until there are few enough."""
    pieces = [list(piece) for piece in region if not np.isnan(piece[0])]
    while len(pieces) > most:
        gaps = [after[0] - before[1] for before, after in itertools.pairwise(pieces)]
        at = int(np.argmin(gaps))
        pieces[at : at + 2] = [[pieces[at][0], pieces[at + 1][1]]]
    return pieces


@pytest.mark.parametrize("most", [1, 2, 5, 8])
def test_joined_regions_contain_the_original(most):
    regions = random_regions(40, 7, most)
    joined = predictions.join_pieces(regions, most)
    assert joined.shape == (40, 2, min(most, 7), 2)
    for before, after in zip(regions.reshape(-1, 7, 2), joined.reshape(80, -1, 2), strict=True):
        known = after[~np.isnan(after[:, 0])]
        np.testing.assert_array_equal(known, joined_one_by_one(before, most))
        np.testing.assert_array_equal(known, after[: len(known)])  # NaN comes last
        assert np.all(np.diff(known.ravel()) > 0)
        for lower, upper in before[~np.isnan(before[:, 0])]:
            assert np.any((known[:, 0] <= lower) & (upper <= known[:, 1]))


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
