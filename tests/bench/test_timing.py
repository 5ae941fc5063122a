"""Turns, quartiles and slopes."""

import numpy as np
import pytest

from ngem.bench import timing


def test_turns_alternate_and_keep_their_columns():
    taken = []
    turns = [lambda name=name: taken.append(name) or name for name in (1, 2, 3)]
    measured = timing.in_turns(turns, 3)
    assert taken == [1, 2, 3, 3, 2, 1, 1, 2, 3]
    np.testing.assert_array_equal(measured, [[1, 2, 3]] * 3)


def test_quartiles_are_those_of_numpy():
    assert timing.quartiles([5, 1, 3, 2, 4]) == (3, 2, 4)


def test_slope_finds_the_exponent():
    sizes = [2, 4, 8, 16]
    assert timing.slope(sizes, [3.0 * size**1.5 for size in sizes]) == pytest.approx(1.5)
