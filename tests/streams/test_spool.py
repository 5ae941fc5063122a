"""The shuffled copy on disk, and which rows are where in it."""

import errno

import numpy as np
import pytest
from scipy import stats

from ngem.streams import Division, Spool, StreamError, Windows, in_portions, split_among

BATCH = 20


def filled(windows, runs, seed=0, part=37, devices=(1, 0, 1), most=60):
    """A spool of numbered rows, of one process of several."""
    split = split_among(windows, *devices)
    spool, division = Spool(windows, 2, split), Division(windows, runs, most, seed)
    numbers = np.arange(windows.n_rows, dtype=np.float32)
    rows = np.column_stack([numbers, -numbers])
    for run in range(len(runs)):
        start = sum(runs[:run])
        own = rows[start : start + runs[run]]
        parts = (own[start : start + part] for start in range(0, len(own), part))
        read = in_portions(parts, division.sizes(run), windows.n_rows)
        for portion, some in zip(division.portions(run), read, strict=True):
            owned = np.zeros(portion.taken.shape, bool)
            owned[split.groups] = True
            spool.write(portion.permuted(some)[np.repeat(owned, portion.taken.ravel())], portion)
    return spool


def epoch(spool, windows, number, skip=0, seed=1):
    """The rows of each window of an epoch, without those that only fill up."""
    counts = windows.counts[skip:]
    found = list(spool.epoch(seed, number, skip))
    assert [len(window) for window in found] == [windows.size] * len(counts)
    return [window[:count, 0] for window, count in zip(found, counts, strict=True)]


@pytest.mark.parametrize(
    "windows",
    [Windows(500, 100, 20), Windows(501, 100, 20), Windows(40, 100, 20), Windows(100, 100, 100)],
)
@pytest.mark.parametrize("runs", [1, 3])
def test_an_epoch_has_every_row_once_in_an_order_of_its_own(windows, runs):
    n_rows = windows.n_rows
    parts = [n_rows] if runs == 1 else [n_rows // 3, 0, n_rows - n_rows // 3]
    spool = filled(windows, parts)
    first, again, other = (epoch(spool, windows, number) for number in (2, 2, 3))
    assert sorted(np.concatenate(first)) == sorted(np.concatenate(other)) == list(range(n_rows))
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(again))
    assert not np.array_equal(np.concatenate(first), np.concatenate(other))
    later = epoch(spool, windows, 2, skip=1)
    np.testing.assert_array_equal(np.concatenate([first[0], *later]), np.concatenate(first))
    for rows in spool.epoch(1, 2):
        np.testing.assert_array_equal(rows[:, 0], -rows[:, 1])
    spool.close()


@pytest.mark.parametrize("devices", [2, 3, 7])
def test_the_parts_of_a_batch_are_the_batch_of_one_device(devices):
    """Each process has its part of each batch, in the same order, whoever has read the rows."""
    windows = Windows(517, 100, 20)
    runs = [200, 317]
    spool = filled(windows, runs)
    whole = epoch(spool, windows, 4)
    spool.close()
    lanes = split_among(windows, devices, 0, 1).lanes(windows)
    widest = max(np.diff(lanes))
    for first, stop in ((0, 1), (1, devices)):
        spool = filled(windows, runs, devices=(devices, first, stop))
        for window, rows in zip(whole, spool.epoch(1, 4), strict=True):
            batches = rows.reshape(stop - first, -1, widest, 2)[..., 0]
            padded = np.full(windows.size, np.nan)
            padded[: len(window)] = window
            for place, device in enumerate(range(first, stop)):
                own = padded.reshape(-1, windows.batch)[:, lanes[device] : lanes[device + 1]]
                found = batches[place][:, : own.shape[1]]
                np.testing.assert_array_equal(found[~np.isnan(own)], own[~np.isnan(own)])
        spool.close()


def test_more_devices_than_rows_of_a_batch_are_refused():
    with pytest.raises(ValueError, match="at most 64 devices, got 21 devices and 20 rows"):
        split_among(Windows(500, 100, 20), 21, 0, 1)
    with pytest.raises(ValueError, match="at most 64 devices, got 65 devices and 100 rows"):
        split_among(Windows(500, 100, 100), 65, 0, 1)


@pytest.mark.parametrize("runs", [[30], [6, 24]])
@pytest.mark.parametrize("most", [5, 60])
def test_the_first_order_of_sorted_rows_is_uniform(runs, most):
    """Every row is as likely in every place: of windows, of batches and within a batch."""
    counts, windows = np.zeros((10, 10)), Windows(30, 12, 6)
    for seed in range(300):
        spool = filled(windows, runs, seed, part=7, most=most)
        order = np.concatenate(epoch(spool, windows, 0, seed=seed))
        # By blocks of three rows, so that counts are large enough for the test.
        np.add.at(counts, (order.astype(int) // 3, np.arange(30) // 3), 1)
        spool.close()
    assert counts.sum() == 300 * 30
    # Rows are drawn without replacement, which varies less than the test expects.
    assert stats.chisquare(counts.ravel()).pvalue > 1e-3


def test_neighbors_in_a_file_are_neighbors_in_an_order_as_often_as_others():
    windows, near = Windows(30, 12, 6), 0
    for seed in range(400):
        spool = filled(windows, [12, 18], seed, part=7, most=10)
        order = np.concatenate(epoch(spool, windows, 0, seed=seed))
        near += int(np.sum(np.abs(np.diff(order)) == 1))
        spool.close()
    # Each of the 29 pairs is side by side with a probability of 2 / 30.
    assert abs(near / 400 - 29 * 2 / 30) < 4 * np.sqrt(2 / 400)


def test_a_disk_without_room_is_an_error_before_and_while_writing(monkeypatch):
    words = r"must have .* GB free for a shuffled copy of the rows, got .*; name another one in"
    large = Windows(10**13, 10**12, 10**5)
    with pytest.raises(StreamError, match=words):
        Spool(large, 2, split_among(large, 1, 0, 1))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    small, rows = Windows(50, 10, 10), np.zeros((50, 2), np.float32)
    spool = Spool(small, 2, split_among(small, 1, 0, 1))
    monkeypatch.setattr("ngem.streams.spool.os.pwrite", full)
    with pytest.raises(StreamError, match=words):
        spool.write(rows, next(Division(small, [50], 50, 0).portions(0)))
    spool.close()


def test_a_stream_with_other_rows_is_refused():
    for n_rows, word in ((49, "fewer"), (51, "more")):
        with pytest.raises(StreamError, match=f"same rows in every pass, got {word} than 50"):
            list(in_portions([np.zeros((n_rows, 2), np.float32)], [30, 20], 50))
