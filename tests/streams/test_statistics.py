"""What one pass gathers, against numpy and plain counting."""

import collections

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ngem.streams import Counts, Hashed, Moments, Smallest, statistics


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.sampled_from([1e-200, 1.0, 1e9, 1e200]),
)
def test_moments_are_those_of_all_rows(seed, sizes, unit):
    rng = np.random.default_rng(seed)
    rows = unit * (3 + rng.standard_normal((sum(sizes), 3)))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    rows[:, 2] = 7 * unit
    moments = Moments(3)
    for part in np.split(rows, np.cumsum(sizes)[:-1]):
        moments.add(part)
    for index, column in enumerate(rows.T):
        known = column[~np.isnan(column)]
        assert moments.count[index] == len(known)
        assert moments.missing[index] == len(column) - len(known)
        if len(known):
            assert moments.low[index] == known.min()
            assert moments.high[index] == known.max()
            np.testing.assert_allclose(moments.mean[index], known.mean(), rtol=1e-13)
            std = np.std(known / unit) * unit
            np.testing.assert_allclose(moments.std[index], std, rtol=1e-12, atol=1e-14 * unit)


def test_counts_are_exact_while_they_fit():
    values = np.random.default_rng(0).integers(0, 50, 1000).astype(str).astype(object)
    counts = Counts()
    for part in np.split(values, 4):
        counts.add(*np.unique(part, return_counts=True))
    assert counts.counts == collections.Counter(values.tolist())
    assert counts.lost == 0


def test_counts_of_many_values_are_too_low_by_a_bounded_number(monkeypatch):
    monkeypatch.setattr(statistics, "MOST_COUNTED", 20)
    rng = np.random.default_rng(0)
    values = np.where(rng.random(4000) < 0.5, rng.integers(0, 5, 4000), rng.integers(0, 3000, 4000))
    true, counts = collections.Counter(values.astype(str).tolist()), Counts()
    for part in np.split(values.astype(str).astype(object), 40):
        counts.add(*np.unique(part, return_counts=True))
    assert 0 < counts.lost <= 4000 / 20
    assert len(counts.counts) <= 20
    for value, count in true.items():
        found = counts.counts.get(value, 0)
        assert count - counts.lost <= found <= count


@pytest.mark.parametrize("size", [7, 100, 1000])
def test_the_smallest_hashes_are_kept_however_rows_come(size):
    hashes = np.random.default_rng(0).integers(0, 2**63, 1000).astype(np.uint64)
    sample = Smallest(60)
    for start in range(0, 1000, size):
        part = np.arange(start, min(1000, start + size))
        sample.add(Hashed(hashes[part], part, pa.table({"row": part})))
    kept, numbers, rows = sample.rows()
    expected = np.argsort(hashes)[:60]
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(rows["row"].to_numpy(), expected)
    np.testing.assert_array_equal(kept, hashes[expected])
