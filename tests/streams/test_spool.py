"""The shuffled copy on disk."""

import errno

import numpy as np
import pytest
from scipy import stats

from ngem.streams import Spool, StreamError, Windows


def epoch(spool, seed, number, skip=0):
    return [window[:, 0] for window in spool.epoch(seed, number, skip)]


def filled(n_rows, size, seed=0, part=37):
    spool = Spool(Windows(n_rows, size), 2)
    rows = np.column_stack([np.arange(n_rows), -np.arange(n_rows)]).astype(np.float32)
    spool.fill((rows[start : start + part] for start in range(0, n_rows, part)), seed)
    return spool


@pytest.mark.parametrize(("n_rows", "size"), [(500, 100), (501, 100), (40, 100), (100, 100)])
def test_an_epoch_has_every_row_once_in_an_order_of_its_own(n_rows, size):
    spool = filled(n_rows, size)
    first, again, other = epoch(spool, 1, 2), epoch(spool, 1, 2), epoch(spool, 1, 3)
    assert sorted(np.concatenate(first)) == sorted(np.concatenate(other)) == list(range(n_rows))
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(again))
    assert not np.array_equal(np.concatenate(first), np.concatenate(other))
    assert [len(window) for window in first] == Windows(n_rows, size).counts.tolist()
    later = epoch(spool, 1, 2, skip=1)
    np.testing.assert_array_equal(np.concatenate([first[0], *later]), np.concatenate(first))
    for rows in spool.epoch(1, 2):
        np.testing.assert_array_equal(rows[:, 0], -rows[:, 1])
    spool.close()


def test_every_window_is_a_uniform_sample_of_sorted_rows():
    counts = np.zeros((10, 3))
    for seed in range(150):
        spool = filled(30, 10, seed, part=7)
        # By blocks of three rows, so that counts are large enough for the test.
        for place, window in enumerate(epoch(spool, seed, 0)):
            counts[:, place] += np.bincount((window // 3).astype(int), minlength=10)
        spool.close()
    assert counts.sum() == 150 * 30
    # Rows are drawn without replacement, which varies less than the test expects.
    assert stats.chisquare(counts.ravel()).pvalue > 1e-3


def test_a_disk_without_room_is_an_error_before_and_while_writing(monkeypatch):
    words = r"must have .* GB free for a shuffled copy of the rows, got .*; name another one in"
    with pytest.raises(StreamError, match=words):
        Spool(Windows(10**15, 10), 2)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    spool = Spool(Windows(50, 10), 2)
    monkeypatch.setattr("ngem.streams.spool.os.pwrite", full)
    with pytest.raises(StreamError, match=words):
        spool.fill([np.zeros((50, 2), np.float32)], 0)
    spool.close()


def test_a_stream_with_other_rows_is_refused():
    for n_rows, word in ((49, "fewer"), (51, "more")):
        spool = Spool(Windows(50, 10), 2)
        with pytest.raises(StreamError, match=f"same rows in every pass, got {word} than 50"):
            spool.fill([np.zeros((n_rows, 2), np.float32)], 0)
        spool.close()
