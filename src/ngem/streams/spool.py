"""A shuffled copy of a stream on disk: each window of it is a uniform sample of all rows."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .source import StreamError

#: Places from which numpy can draw without replacement.
_MOST_PLACES = 10**9


class Windows(NamedTuple):
    """How many rows each window of an epoch has: all as many, but for the last.

    Attributes:
        n_rows: Rows of an epoch.
        size: Rows of a window.
    """

    n_rows: int
    size: int

    @property
    def counts(self) -> np.ndarray:
        """Rows of each window."""
        full, rest = divmod(self.n_rows, self.size)
        return np.array([self.size] * full + [rest] * (rest > 0), np.int64)


class Spool:
    """Rows of single precision in a temporary file, divided at random among windows.

    Every division of the rows into windows of these sizes is equally likely. With the order within
    each window, the first epoch has a uniformly random order. The file has no name, so nothing is
    left of it when the process ends, however it ends.

    Args:
        windows: Rows of the windows.
        width: Numbers of a row.
    """

    def __init__(self, windows: Windows, width: int):
        self._windows, self._width = windows, width
        need, where = 4 * width * windows.n_rows, tempfile.gettempdir()
        free = shutil.disk_usage(where).free
        if need > free:
            raise StreamError(_full(where, need, f"{free / 1e9:.1f} GB"))
        self._file = tempfile.TemporaryFile(prefix="ngem-", buffering=0)  # noqa: SIM115

    def fill(self, parts: Iterable[Float[np.ndarray, "batch width"]], seed: int) -> None:
        """Write all rows, each to a random window.

        Args:
            parts: The rows, some at a time.
            seed: Seed of the division.
        """
        rng, counts = np.random.default_rng(seed), self._windows.counts
        starts, left = np.cumsum(counts) - counts, counts.copy()
        for rows in parts:
            if len(rows) > left.sum():
                raise StreamError(_other_rows("more", self._windows.n_rows))
            taken = _draw(rng, left, len(rows))
            places = starts + counts - left
            rows = rng.permutation(rows)
            for window in np.flatnonzero(taken):
                some, rows = rows[: taken[window]], rows[taken[window] :]
                self._write(some, int(places[window]))
            left -= taken
        if left.any():
            raise StreamError(_other_rows("fewer", self._windows.n_rows))

    def _write(self, rows: np.ndarray, place: int) -> None:
        data = np.ascontiguousarray(rows, np.float32).data.cast("B")
        offset = 4 * self._width * place
        try:
            while data:
                written = os.pwrite(self._file.fileno(), data, offset)
                data, offset = data[written:], offset + written
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            need = 4 * self._width * self._windows.n_rows
            raise StreamError(_full(tempfile.gettempdir(), need, "a full disk")) from error

    def epoch(self, seed: int, epoch: int, skip: int = 0) -> Iterator[np.ndarray]:
        """Yield the windows of an epoch, in an order of windows and rows of its own.

        Args:
            seed: Seed of the order.
            epoch: Number of the epoch.
            skip: Windows at the start to leave out.
        """
        counts = self._windows.counts
        starts = np.cumsum(counts) - counts
        # The last one, which is shorter, stays last.
        order = np.random.default_rng([seed, epoch]).permutation(len(counts) - 1)
        for place, window in enumerate([*order.tolist(), len(counts) - 1]):
            if place >= skip:
                rng = np.random.default_rng([seed, epoch, place])
                yield self._read(int(starts[window]), int(counts[window]), rng)

    def _read(self, start: int, count: int, rng: np.random.Generator) -> np.ndarray:
        rows = np.empty((count, self._width), np.float32)
        data, offset = rows.data.cast("B"), 4 * self._width * start
        while data:
            got = os.preadv(self._file.fileno(), [data], offset)
            if not got:
                raise StreamError("the temporary file must hold all rows, got fewer; start again.")
            data, offset = data[got:], offset + got
        # As one item per row: numpy shuffles those fast.
        rng.shuffle(rows.view(np.dtype((np.void, 4 * self._width)))[:, 0])
        return rows

    def close(self) -> None:
        """Free the disk."""
        self._file.close()


def _draw(rng: np.random.Generator, left: np.ndarray, count: int) -> np.ndarray:
    """Return how many of some rows go to each window, if all places left are equally likely."""
    if left.sum() < _MOST_PLACES:
        return rng.multivariate_hypergeometric(left, count, method="marginals")
    # Of so many places a few thousand are taken, so that no window is full.
    return rng.multinomial(count, left / left.sum())


def _full(where: str, need: int, got: str) -> str:
    return (
        f"the directory for temporary files, {where}, must have {need / 1e9:.1f} GB free for a "
        f"shuffled copy of the rows, got {got}; name another one in the variable TMPDIR."
    )


def _other_rows(got: str, n_rows: int) -> str:
    return (
        f"the stream must have the same rows in every pass, got {got} than {n_rows:,} rows to "
        "learn from; make the source give the same each time."
    )
