"""Which rows are among those of a fit: equal rows always, other rows hardly ever."""

import numpy as np

from ngem.tables.fingerprint import Overlap, fingerprint, overlap, row_hashes

RNG = np.random.default_rng(0)


def rows(count):
    return RNG.normal(size=(count, 3)), RNG.normal(size=(count, 1))


def test_hashes_depend_on_values_and_their_columns_only():
    x, y = rows(1000)
    hashes = row_hashes(x, y)
    assert len(np.unique(hashes)) == 1000
    np.testing.assert_array_equal(row_hashes(x[::-1], y[::-1]), hashes[::-1])
    assert not np.any(row_hashes(x[:, ::-1], y) == hashes)
    zeros = np.array([[0.0, np.nan], [-0.0, -np.nan]])
    assert len(np.unique(row_hashes(zeros, zeros))) == 1
    # Uniform: as many in each eighth of the range, within five standard errors.
    counts = np.bincount((hashes >> np.uint64(61)).astype(int), minlength=8)
    assert np.all(np.abs(counts - 125) < 5 * np.sqrt(125))


def test_equal_rows_are_found_and_others_are_not():
    for count in (50, 20_000):  # a fingerprint of all rows, and of some
        x, y = rows(count)
        known = fingerprint(x, y)
        assert len(known) < 12_000
        assert overlap(known, x, y).fraction == 1
        other = rows(count)
        assert overlap(known, *other).fraction == 0
        both = [np.concatenate(pair) for pair in zip((x, y), other, strict=True)]
        half = overlap(known, *both)
        assert half.compared >= min(count, 1000)
        assert abs(half.fraction - 0.5) < 5 * 0.5 / np.sqrt(half.compared)


def test_without_a_fingerprint_nothing_is_known():
    assert overlap("", *rows(3)).fraction is None
    assert (Overlap(2, 1) + Overlap(2, 2)).fraction == 0.75
