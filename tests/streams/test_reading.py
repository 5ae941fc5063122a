"""Reading ahead."""

import threading
import time

import numpy as np
import pytest

from ngem.streams import Piece, Prefetched
from ngem.streams.reading import make_runs


@pytest.mark.parametrize("sizes", [[5], [1000, 1, 1], [7] * 64, list(range(1, 500)), [10**9, 3]])
def test_runs_hold_all_pieces_in_order_and_about_as_many_rows(sizes):
    pieces = [Piece("file", "", group, rows=rows) for group, rows in enumerate(sizes)]
    runs = make_runs(pieces)
    assert [piece for run in runs for piece in run.pieces] == pieces
    assert len(runs) <= 64
    rows = np.array([sum(piece.rows or 0 for piece in run.pieces) for run in runs])
    assert [run.start for run in runs] == (np.cumsum(rows) - rows).tolist()
    assert rows.max() <= sum(sizes) / 64 + max(sizes)


def test_batches_of_unknown_length_are_one_run():
    assert len(make_runs([Piece()])) == 1


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
