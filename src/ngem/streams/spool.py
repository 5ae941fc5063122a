"""A shuffled copy of a stream on disk: each window of it is a uniform sample of all rows."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from .division import Portion, Split, Windows
from .source import StreamError

#: What draws belong to, so that no two of them use the same random numbers.
_WINDOWS, _ROWS = range(2)


class Spool:
    """Rows of single precision in a temporary file: those that this process trains on.

    The file has no name, so nothing is left of it when the process ends, however it ends.

    Args:
        windows: How an epoch is divided.
        width: Numbers of a row.
        split: Which part of each batch this process has.

    Attributes:
        width: Numbers of a row.
    """

    def __init__(self, windows: Windows, width: int, split: Split):
        self._windows, self.width, self._split = windows, width, split
        # Window by window, and within it group by group: a window is read at once.
        self._cells = windows.cells[split.groups]
        ends = np.cumsum(self._cells.T.ravel()).reshape(self._cells.T.shape).T
        self._starts = ends - self._cells
        self._need = 4 * width * int(self._cells.sum())
        where = tempfile.gettempdir()
        free = shutil.disk_usage(where).free
        if self._need > free:
            raise StreamError(_full(where, self._need, f"{free / 1e9:.1f} GB"))
        self._file = tempfile.TemporaryFile(prefix="ngem-", buffering=0)  # noqa: SIM115

    def write(self, rows: Float[np.ndarray, "batch width"], portion: Portion) -> None:
        """Write those rows of a portion that this process has, in the order of the portion."""
        own = self._split.groups
        taken, places = portion.taken[own], self._starts + portion.places[own]
        data = np.ascontiguousarray(rows, np.float32)
        ends = np.cumsum(taken.ravel())
        cells = np.flatnonzero(taken)
        for cell, place in zip(cells, places.ravel()[cells].tolist(), strict=True):
            self._write(data[ends[cell] - taken.ravel()[cell] : ends[cell]], place)

    def _write(self, rows: np.ndarray, place: int) -> None:
        data, offset = rows.data.cast("B"), 4 * self.width * place
        try:
            while data:
                written = os.pwrite(self._file.fileno(), data, offset)
                data, offset = data[written:], offset + written
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            text = _full(tempfile.gettempdir(), self._need, "a full disk")
            raise StreamError(text) from error

    def epoch(self, seed: int, epoch: int, skip: int = 0) -> Iterator[np.ndarray]:
        """Yield the windows of an epoch, in an order of windows and rows of its own.

        All have as many rows: those of each device, in turn, are its part of each batch. What a
        batch lacks is filled up with rows that do not count.

        Args:
            seed: Seed of the order.
            epoch: Number of the epoch.
            skip: Windows at the start to leave out.
        """
        last = self._cells.shape[1] - 1
        # The last one, which is shorter, stays last.
        order = np.random.default_rng((_WINDOWS, seed, epoch)).permutation(last)
        for place, window in enumerate([*order.tolist(), last]):
            if place >= skip:
                yield self._window(window, (_ROWS, seed, epoch, place))

    def _window(self, window: int, seed: tuple[int, ...]) -> np.ndarray:
        """Return a window in random order: batches of rows for each device."""
        lanes, bounds = self._split.lanes(self._windows), self._split.bounds
        batches = self._windows.size // self._windows.batch
        devices = range(self._split.first, self._split.stop)
        shape = (len(devices), batches, max(np.diff(lanes)), self.width)
        found = np.empty(shape, np.float32)
        for part, device in zip(found, devices, strict=True):
            groups = slice(bounds[device], bounds[device + 1])
            if self._cells[self._own(groups), window].sum() < batches * shape[2]:
                part[:] = self._read(0, 1)
            self._place(part, groups, window, seed)
        return found.reshape(-1, self.width)

    def _place(self, part: np.ndarray, groups: slice, window: int, seed: tuple[int, ...]) -> None:
        """Put the rows of some groups in random order into the batches of a device."""
        first = self._windows.lanes[groups.start]
        for group in range(groups.start, groups.stop):
            begin, end = self._windows.lanes[group : group + 2] - first
            cell = group - self._split.groups.start, window
            rows = self._read(int(self._starts[cell]), int(self._cells[cell]))
            # As one item per row: numpy shuffles those fast.
            items = rows.view(np.dtype((np.void, 4 * self.width)))[:, 0]
            np.random.default_rng((*seed, group)).shuffle(items)
            full, rest = divmod(len(rows), end - begin)
            whole = full * (end - begin)
            part[:full, begin:end] = rows[:whole].reshape(full, end - begin, self.width)
            if rest:
                part[full, begin : begin + rest] = rows[whole:]

    def _own(self, groups: slice) -> slice:
        first = self._split.groups.start
        return slice(groups.start - first, groups.stop - first)

    def _read(self, place: int, count: int) -> np.ndarray:
        """Return some rows of the file."""
        rows = np.empty((count, self.width), np.float32)
        data, offset = rows.data.cast("B") if count else rows.data, 4 * self.width * place
        while data:
            got = os.preadv(self._file.fileno(), [data], offset)
            if not got:
                raise StreamError("the temporary file must hold all rows, got fewer; start again.")
            data, offset = data[got:], offset + got
        return rows

    def close(self) -> None:
        """Free the disk."""
        self._file.close()


def _full(where: str, need: int, got: str) -> str:
    return (
        f"the directory for temporary files, {where}, must have {need / 1e9:.1f} GB free for a "
        f"shuffled copy of the rows, got {got}; name another one in the variable TMPDIR."
    )
