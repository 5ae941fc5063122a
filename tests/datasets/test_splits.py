"""Random splits partition the rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ngem.datasets import random_split


@given(
    n_rows=st.integers(10, 500),
    seed=st.integers(0, 2**32),
    test=st.floats(0, 0.45),
    validation=st.floats(0, 0.45),
)
def test_every_row_is_in_one_part(n_rows, seed, test, validation):
    split = random_split(n_rows, seed, test=test, validation=validation)
    np.testing.assert_array_equal(np.sort(np.concatenate(split)), np.arange(n_rows))
    assert abs(len(split.test) - n_rows * test) <= 0.5
    assert abs(len(split.validation) - n_rows * validation) <= 0.5


def test_the_seed_alone_says_what_is_tested():
    alone, held_out = random_split(100, 3), random_split(100, 3, validation=0.1)
    np.testing.assert_array_equal(alone.test, held_out.test)
    assert len(alone.validation) == 0
    assert not np.array_equal(alone.test, random_split(100, 4).test)


@pytest.mark.parametrize("fractions", [(1.0, 0.0), (-0.1, 0.0), (0.5, 0.5), (float("nan"), 0.0)])
def test_impossible_fractions_are_refused(fractions):
    with pytest.raises(ValueError, match="test and validation must be fractions from 0"):
        random_split(10, 0, test=fractions[0], validation=fractions[1])


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="n_rows must leave at least one row"):
        random_split(1, 0, test=0.9)
