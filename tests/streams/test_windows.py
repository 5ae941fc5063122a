"""Hashes, the order of an epoch, and reading ahead."""

import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from ngem.streams import Piece, Prefetched, Stream, hash_rows, source


def hashes_of(stream):
    parts = [(block.table["y"].to_numpy(), stream.hashes(block)) for block in stream.in_order()]
    return dict(
        zip(*(np.concatenate(part).tolist() for part in zip(*parts, strict=True)), strict=True)
    )


def write(path, group, n_rows=500):
    numbers = np.arange(n_rows)
    rows = pa.table({"a": numbers % 7, "k": (numbers % 50).astype(str), "y": numbers * 1.0})
    path.parent.mkdir(exist_ok=True)
    pq.write_table(rows, path, row_group_size=group)


def test_hashes_do_not_depend_on_directory_or_row_groups(tmp_path):
    write(tmp_path / "one" / "a.parquet", 100)
    write(tmp_path / "two" / "b.parquet", 37)
    first = hashes_of(Stream(tmp_path / "one" / "a.parquet", "y"))
    assert first == hashes_of(Stream(tmp_path / "two" / "b.parquet", "y"))
    assert len(set(first.values())) == 500


def test_hashes_are_the_same_for_ever():
    # A split that changed with a version would let a model be judged by rows that it has seen.
    found = hash_rows(Piece(name="year=2024/0.parquet", start=10), 5, 2)
    assert found.tolist() == [2799005061961624727, 18286137154495703568]
    assert hash_rows(Piece(), 0, 3, [[1, 1.0, "1"]]).tolist() == 3 * [1246191534582349513]


def test_hashes_are_uniform_and_unlike_their_neighbors():
    found = hash_rows(Piece(name="x"), 0, 20_000) / 2.0**64
    assert stats.kstest(found, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 0.03


def test_rows_of_one_key_have_one_hash(tmp_path):
    write(tmp_path / "a" / "a.parquet", 100)
    found = hashes_of(Stream(tmp_path / "a" / "a.parquet", "y", key="k"))
    assert len({found[float(row)] for row in range(0, 500, 50)}) == 1
    assert len(set(found.values())) == 50


def orders(path, seed, epoch):
    return [block.table["y"].to_numpy() for block in Stream(path, "y").shuffled(seed, epoch)]


def test_an_epoch_visits_every_row_once_in_an_order_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BLOCK", 10)
    write(tmp_path / "a" / "a.parquet", 100)
    path = tmp_path / "a" / "a.parquet"
    first, again, other = orders(path, 1, 2), orders(path, 1, 2), orders(path, 1, 3)
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(again))
    assert sorted(np.concatenate(first)) == sorted(np.concatenate(other)) == list(range(500))
    assert not np.array_equal(np.concatenate(first), np.concatenate(other))
    # Five row groups are open together, so that the first fifth of the blocks has some of each.
    assert len({int(block[0]) // 100 for block in first[:20]}) == 5


def test_reading_ahead_overlaps_with_what_uses_it():
    read = [threading.Event() for _ in range(3)]

    def items():
        for index, event in enumerate(read):
            event.set()
            yield index

    with Prefetched(items()) as ahead:
        for index in ahead:
            # The next item is read although this one is still in use.
            assert read[min(index + 1, 2)].wait(10)


def test_reading_ahead_measures_waiting_and_passes_errors_on():
    def fails():
        time.sleep(0.05)
        yield 1
        raise OSError("no disk")

    with Prefetched(fails()) as ahead:
        steps = iter(ahead)
        assert next(steps) == 1
        assert ahead.waited > 0.03
        with pytest.raises(OSError, match="no disk"):
            next(steps)


def test_reading_ahead_ends_with_its_user():
    closed = threading.Event()

    def endless():
        try:
            while True:
                yield 1
        finally:
            closed.set()

    with Prefetched(endless()) as ahead:
        next(iter(ahead))
    assert closed.wait(1)
