"""Folds: every row is held out, and all folds have one size."""

import numpy as np
import pytest

from ngem.ensemble import make_folds

SIZES = [(2, 2), (3, 2), (5, 4), (5, 5), (6, 5), (10, 5), (11, 5), (103, 5), (7, 1), (1000, 20)]


def folds(n_rows, n_folds, seed=0):
    return make_folds(n_rows, n_folds, np.random.default_rng(seed))


@pytest.mark.parametrize(("n_rows", "n_folds"), SIZES)
def test_every_row_is_held_out_once_or_twice(n_rows, n_folds):
    held_out = folds(n_rows, n_folds)
    assert held_out.shape == (n_folds, -(-n_rows // n_folds))  # equal sizes, as few as possible
    times = np.bincount(held_out.ravel(), minlength=n_rows)
    assert len(times) == n_rows
    assert times.min() == 1
    assert times.max() == (1 if n_rows % n_folds == 0 else 2)


@pytest.mark.parametrize(("n_rows", "n_folds"), SIZES)
def test_a_fold_holds_out_different_rows_in_ascending_order(n_rows, n_folds):
    held_out = folds(n_rows, n_folds)
    assert np.all(np.diff(held_out, axis=1) > 0)
    if n_folds > 1:
        assert held_out.shape[1] < n_rows  # something is left to train on


def test_folds_follow_the_seed():
    assert np.array_equal(folds(50, 5, seed=3), folds(50, 5, seed=3))
    assert not np.array_equal(folds(50, 5, seed=3), folds(50, 5, seed=4))


def test_folds_do_not_follow_the_order_of_rows():
    """Rows are often sorted: a fold must not be a stretch of them."""
    means = folds(1000, 5).mean(axis=1)
    np.testing.assert_allclose(means, 500, atol=5 * 1000 / np.sqrt(12 * 200))


REPEATED = [(97, 5, 2), (100, 5, 3), (1000, 5, 4), (300, 3, 3), (41, 2, 3), (10, 5, 3)]


@pytest.mark.parametrize(("n_rows", "n_folds", "repeats"), REPEATED)
def test_several_members_hold_each_row_out(n_rows, n_folds, repeats):
    held_out = make_folds(n_rows, n_folds, np.random.default_rng(0), repeats)
    assert len(held_out) == n_folds * repeats
    assert np.all(np.diff(held_out, axis=1) > 0)
    assert np.bincount(held_out.ravel(), minlength=n_rows).min() >= repeats
    assert held_out.shape[1] == pytest.approx(n_rows / n_folds, abs=repeats)


@pytest.mark.parametrize("repeats", [2, 3, 4])
def test_members_that_share_held_out_rows_share_one_block(repeats):
    held_out = make_folds(600, 5, np.random.default_rng(0), repeats)
    for first in range(len(held_out)):
        for second in range(first):
            shared = len(np.intersect1d(held_out[first], held_out[second]))
            assert shared in (0, 600 // (5 * repeats))
