"""Pools: rows with the members that have not seen them."""

import numpy as np
import pytest

from ngem.ensemble import make_folds
from ngem.estimator.pools import find_pools


@pytest.mark.parametrize(("n_rows", "repeats"), [(100, 1), (103, 1), (100, 2), (97, 3)])
def test_every_row_comes_once_with_members_that_held_it_out(n_rows, repeats):
    folds = list(make_folds(n_rows, 5, np.random.default_rng(0), repeats))
    seen = []
    for rows, members in find_pools(folds, repeats).groups():
        assert len(set(members)) == repeats
        for member in members:
            assert np.isin(rows, folds[member]).all()
        seen += rows.tolist()
    assert sorted(seen) == list(range(n_rows))


def test_rows_of_too_few_members_are_left_out():
    folds = [np.array([0, 2]), np.array([2, 3])]
    pools = find_pools(folds, 2)
    assert pools.rows.tolist() == [2]
    assert pools.members.tolist() == [[0, 1]]


def test_without_held_out_rows_there_are_none():
    assert not list(find_pools([np.empty(0, int)] * 2, 1).groups())
