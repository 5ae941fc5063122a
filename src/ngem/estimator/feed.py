"""Rows of a stream as networks read them, window by window."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..streams import Prefetched, Stream, StreamError
from ..training import Data
from . import encoding
from .observations import round_ends
from .preprocessing import Inputs, Table
from .schema import Column
from .survey import read_targets
from .targets import TargetUnits


class Encoder(NamedTuple):
    """How the rows of a stream become numbers.

    Attributes:
        stream: The stream.
        columns: What its columns hold.
        resolution: The step to which targets were rounded, or None.
    """

    stream: Stream
    columns: Sequence[Column]
    resolution: float | None

    def table(self, table: Any, y: np.ndarray) -> Table:
        """Return rows of an Arrow table, in the user's units."""
        x = encoding.encode(table.select(self.stream.features), self.columns)
        ends = None if self.resolution is None else round_ends(y, float(self.resolution))
        return Table(x, y, None, ends)

    def block(self, block: Any) -> Table:
        """Return the rows of a block; errors say where they are."""
        try:
            return self.table(block.table, read_targets(block, self.stream.targets))
        except StreamError:
            raise
        except ValueError as error:
            raise StreamError(f"{block.piece}: {error}") from error


class StreamFeed:
    """The windows of each epoch, read ahead in a thread; see `training.Feed`.

    Args:
        encoder: How rows become numbers.
        inputs: How features become inputs.
        targets: How targets become what networks learn.
        held_out: Hashes of the rows that are left out, ascending.
        n_rows: Rows of an epoch, without those.
        batch_size: Rows of a step.
        seed: Seed of the order.

    Attributes:
        waited: Seconds that training has waited for rows so far.
        window_rows: Rows of a window.
    """

    def __init__(
        self,
        encoder: Encoder,
        inputs: Inputs,
        targets: TargetUnits,
        held_out: np.ndarray,
        *,
        n_rows: int,
        batch_size: int,
        seed: int,
    ):
        self._encoder, self._inputs, self._targets = encoder, inputs, targets
        self._held_out, self._seed = held_out, seed
        self.n_rows, self.waited = n_rows, 0.0
        dim = len(encoder.stream.targets) * (1 if encoder.resolution is None else 2)
        self._shape = inputs.n_columns, dim
        fitting = encoder.stream.window_bytes // (4 * sum(self._shape))
        batches = min(fitting // batch_size, -(-n_rows // batch_size))
        self.window_rows = batch_size * max(1, batches)

    @contextlib.contextmanager
    def windows(self, epoch: int, skip: int, stop: int) -> Iterator[Prefetched]:
        """Return the windows of all epochs from one on; see `training.Feed`."""
        each = (
            self._windows(number, skip if number == epoch else 0) for number in range(epoch, stop)
        )
        with Prefetched(itertools.chain.from_iterable(each)) as ahead:
            yield ahead
        self.waited += ahead.waited

    def _windows(self, epoch: int, skip: int) -> Iterator[Data]:
        window, number = self._new_window(epoch, 0), 0
        for part in self._rows(epoch):
            while len(part[0]):
                if window.is_full:
                    self._check_count(epoch, window, more=True)
                part = window.add(part)
                if window.is_full and window.rows == self.window_rows:
                    if number >= skip:
                        yield window.data
                    number += 1
                    del window
                    window = self._new_window(epoch, number)
        self._check_count(epoch, window, more=False)
        if window.rows and number >= skip:
            yield window.filled_up()

    def _new_window(self, epoch: int, number: int) -> "_Window":
        rows = int(np.clip(self.n_rows - number * self.window_rows, 0, self.window_rows))
        rng = np.random.default_rng([self._seed, epoch, number])
        size = self.window_rows if rows else 0
        arrays = (np.empty((size, width), np.float32) for width in self._shape)
        return _Window(*arrays, rng.permutation(rows).astype(np.uint32))

    def _check_count(self, epoch: int, window: "_Window", *, more: bool) -> None:
        if more or not window.is_full:
            got = "more" if more else "fewer"
            raise StreamError(
                f"the stream must have the same rows in every pass, got {got} than {self.n_rows:,} "
                f"rows to learn from in pass {epoch}; make the source give the same each time."
            )

    def _rows(self, epoch: int) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield the rows of an epoch as networks read them, without those that are held out."""
        stream = self._encoder.stream
        for block in stream.shuffled(self._seed, epoch):
            if not block.table.num_rows:
                continue
            rows = self._encoder.block(block)
            kept = ~is_in(stream.hashes(block), self._held_out)
            given = rows.y if rows.ends is None else rows.ends
            forward = self._targets.forward if rows.ends is None else self._targets.forward_ends
            yield self._inputs.forward(rows.x)[kept], forward(given)[kept]


class _Window:
    """A window that is being filled: each row goes to its random place at once.

    Args:
        x: Inputs to fill.
        y: Targets to fill.
        order: The place of each row, in the order in which they come.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, order: np.ndarray):
        self._arrays, self._order, self._count = (x, y), order, 0

    @property
    def rows(self) -> int:
        """Rows that count."""
        return len(self._order)

    @property
    def is_full(self) -> bool:
        return self._count == self.rows

    @property
    def data(self) -> Data:
        return Data(*self._arrays)  # type: ignore[arg-type]

    def add(self, part: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """Add as many rows as fit; return the others."""
        places = self._order[self._count : self._count + len(part[0])]
        for whole, rows in zip(self._arrays, part, strict=True):
            whole[places] = rows[: len(places)]
        self._count += len(places)
        return tuple(rows[len(places) :] for rows in part)

    def filled_up(self) -> Data:
        """Return the last window of an epoch, filled up with some of its own rows."""
        for whole in self._arrays:
            whole[self.rows :] = np.resize(
                whole[: self.rows], (len(whole) - self.rows, whole.shape[1])
            )
        return self.data


def is_in(hashes: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Return which hashes are among some that are ascending."""
    if not len(held_out):
        return np.zeros(len(hashes), bool)
    found = np.zeros(len(hashes), bool)
    some = np.flatnonzero(hashes <= held_out[-1])
    places = np.searchsorted(held_out, hashes[some])
    found[some] = held_out[places] == hashes[some]
    return found
