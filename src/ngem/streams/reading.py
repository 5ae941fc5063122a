"""The rows of a stream in order, and reading ahead."""

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .source import AbstractSource, Piece

#: Runs of a source. They are what processes divide among them, so that a result does not depend on
#: the number of processes.
_MOST_RUNS = 64


class Run(NamedTuple):
    """Pieces that one process reads, one after another.

    Attributes:
        pieces: The pieces.
        start: Number of the first row in the stream, from 0.
    """

    pieces: Sequence[Piece]
    start: int


class Block(NamedTuple):
    """Rows that were read together.

    Attributes:
        piece: The piece that holds them.
        start: Number of the first of them within the piece.
        number: Number of the first of them in the stream.
        table: The rows, an Arrow table.
    """

    piece: Piece
    start: int
    number: int
    table: Any


def make_runs(pieces: Sequence[Piece]) -> list[Run]:
    """Return the pieces of a source as at most 64 runs of about as many rows."""
    if any(piece.rows is None for piece in pieces):
        return [Run(pieces, 0)]
    rows = np.array([piece.rows for piece in pieces])
    starts = np.cumsum(rows) - rows
    # By the middle row of each piece, in equal parts of all rows.
    part = (2 * starts + rows) * _MOST_RUNS // (2 * rows.sum())
    firsts = np.unique(part, return_index=True)[1].tolist()
    ends = [*firsts[1:], len(rows)]
    return [
        Run(pieces[first:end], int(starts[first])) for first, end in zip(firsts, ends, strict=True)
    ]


def in_order(source: AbstractSource, columns: Sequence[str], run: Run) -> Iterator[Block]:
    """Yield the rows of a run, piece by piece."""
    number = run.start
    for piece in run.pieces:
        start = 0
        for table in source.read(piece, columns):
            yield Block(piece, start, number, table)
            start, number = start + table.num_rows, number + table.num_rows


class Prefetched:
    """Reads ahead in a thread: the next item is prepared while the last one is used.

    Only one item waits, and none is begun before it is taken, because items are large.

    Args:
        items: What to read. It runs in the thread.

    Attributes:
        waited: Seconds that the user of the items has waited for them.
    """

    def __init__(self, items: Iterator[Any]):
        self._items = items
        self._queue: queue.Queue = queue.Queue(1)
        self._taken = threading.Semaphore(1)
        self._stopped = threading.Event()
        self.waited = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True, name="ngem stream")
        self._thread.start()

    def _run(self) -> None:
        try:
            while self._may_begin():
                item = next(self._items, None)
                self._queue.put((item, None))
                if item is None:
                    return
                del item  # or it would stay until the next one is read
        except BaseException as error:  # passed on to who reads
            self._queue.put((None, error))
        finally:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()

    def _may_begin(self) -> bool:
        """Wait until the last item was taken; return whether another one is wanted."""
        self._taken.acquire()
        return not self._stopped.is_set()

    def __iter__(self) -> Iterator[Any]:
        while True:
            began = time.perf_counter()
            item, error = self._queue.get()
            self._taken.release()
            self.waited += time.perf_counter() - began
            if error is not None:
                raise error
            if item is None:
                return
            yield item
            del item

    def __enter__(self) -> "Prefetched":
        return self

    def __exit__(self, *error: object) -> None:
        """End the thread; it closes what it reads."""
        self._stopped.set()
        self._taken.release()
        self._thread.join()
