"""Trees of many rows: the same bits as LightGBM's own evaluation."""

import lightgbm
import numpy as np
import pytest

from ngem.boosting import Evaluator, Forest, parse_trees, suits

N_RAW = 3


def table(rng: np.random.Generator, *, rows: int, gaps: bool, categories: bool = False):
    """Return features with repeated and tiny values, and classes that depend on them."""
    x = rng.standard_normal((rows, 5))
    x[:, 1] = np.round(x[:, 1])
    x[:, 2] *= 10.0 ** rng.integers(-37, 3, rows)
    if gaps:
        x[rng.random(x.shape) < 0.2] = np.nan
    if categories:
        x[:, 3] = rng.integers(0, 40, rows)
    score = np.nan_to_num(x[:, 0]) + (np.nan_to_num(x[:, 1]) > 0) * np.isnan(x[:, 4])
    return x, np.digitize(score + np.sin(7 * x[:, 3]).clip(-1, 1), [-0.5, 0.5])


def grow(x, y, *, leaves: int, categories: bool = False, rounds: int = 7) -> Forest:
    """Return trees that LightGBM grew, with three in a round."""
    settings = {
        "objective": "multiclass",
        "num_class": N_RAW,
        "num_leaves": leaves,
        "verbosity": -1,
        "num_threads": 1,
        "min_data_in_leaf": 5,
    }
    data = lightgbm.Dataset(x, y, categorical_feature=[3] if categories else [])
    booster = lightgbm.train(settings, data, rounds)
    trees = parse_trees(booster.model_to_string())
    return Forest(np.array([0.5, -1.0, 2.0]), trees, x.shape[1])


def with_extremes(x: np.ndarray) -> np.ndarray:
    """Return rows with values that no training row has."""
    more = x[:50].copy()
    more[:10] = np.nan
    more[10:20] = 1e300
    more[20:30] = -1e300
    more[30:40] = 1e-36
    return np.concatenate([x, more])


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("leaves", [2, 32, 33, 64])
def test_many_rows_have_the_bits_of_lightgbm(leaves, gaps):
    rng = np.random.default_rng(leaves)
    x, y = table(rng, rows=1500, gaps=gaps)
    forest = grow(x, y, leaves=leaves)
    x = with_extremes(x)
    assert len(x) > 1024
    assert forest.evaluator is not None
    expected = forest.booster.predict(x, raw_score=True) + forest.start
    np.testing.assert_array_equal(forest.raw(x), expected.astype(np.float32))
    np.testing.assert_array_equal(forest.raw(x[:5]), forest.raw(x)[:5])


def test_rows_in_single_precision_are_compared_in_double():
    rng = np.random.default_rng(0)
    x, y = table(rng, rows=800, gaps=True)
    forest, single = grow(x, y, leaves=31), x.astype(np.float32)
    expected = forest.booster.predict(single, raw_score=True) + forest.start
    np.testing.assert_array_equal(forest.raw(single), expected.astype(np.float32))


@pytest.mark.parametrize(("leaves", "categories"), [(31, True), (65, False)])
def test_other_trees_are_evaluated_by_lightgbm_a_few_at_a_time(leaves, categories):
    rng = np.random.default_rng(1)
    x, y = table(rng, rows=1500, gaps=True, categories=categories)
    forest = grow(x, y, leaves=leaves, categories=categories)
    assert not suits(forest.trees)
    assert forest.evaluator is None
    expected = forest.booster.predict(x, raw_score=True) + forest.start
    np.testing.assert_allclose(forest.raw(x), expected, rtol=1e-6, atol=1e-6)


def test_gaps_that_are_read_as_zero_are_known_and_zeros_that_are_gaps_are_not():
    rng = np.random.default_rng(2)
    x, y = table(rng, rows=800, gaps=False)
    trees = grow(x, y, leaves=8).trees
    assert suits(trees)
    assert not suits(trees._replace(decision_type=np.full_like(trees.decision_type, 4)))


def test_trees_of_one_leaf_are_constants():
    rng = np.random.default_rng(3)
    x, _ = table(rng, rows=100, gaps=False)
    forest = grow(x, np.arange(100) % 3, leaves=2, rounds=1)
    trees = forest.trees
    single = trees._replace(
        num_leaves=np.ones_like(trees.num_leaves),
        **{
            name: getattr(trees, name)[:0]
            for name in ("split_feature", "threshold", "decision_type", "left_child", "right_child")
        },
        leaf_value=np.array([1.0, -2.0, 3.0]),
    )
    np.testing.assert_array_equal(Evaluator(single, N_RAW)(x), np.tile([1.0, -2.0, 3.0], (100, 1)))
