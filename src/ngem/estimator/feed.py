"""Rows of a stream as networks read them, window by window."""

import contextlib
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
    def windows(self, epoch: int, skip: int) -> Iterator[Prefetched]:
        """Return the windows of an epoch without the first ones."""
        with Prefetched(self._windows(epoch, skip)) as ahead:
            yield ahead
        self.waited += ahead.waited

    def _windows(self, epoch: int, skip: int) -> Iterator[Data]:
        x, y = (np.empty((self.window_rows, size), np.float32) for size in self._shape)
        filled = number = count = 0
        for part in self._rows(epoch):
            count += len(part[0])
            while len(part[0]):
                taken = min(self.window_rows - filled, len(part[0]))
                for whole, rows in zip((x, y), part, strict=True):
                    whole[filled : filled + taken] = rows[:taken]
                part = tuple(rows[taken:] for rows in part)
                filled += taken
                if filled == self.window_rows:
                    if number >= skip:
                        yield self._shuffled(x, y, filled, epoch, number)
                    filled, number = 0, number + 1
        if count != self.n_rows:
            raise StreamError(
                f"the stream must have the same rows in every pass, got {count} rows to learn from "
                f"after {self.n_rows} in the first pass; make the source give the same each time."
            )
        if filled and number >= skip:
            yield self._shuffled(x, y, filled, epoch, number)

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

    def _shuffled(self, x: np.ndarray, y: np.ndarray, rows: int, epoch: int, number: int) -> Data:
        """Return a copy of a window in random order, filled up with some of its own rows."""
        order = np.random.default_rng([self._seed, epoch, number]).permutation(rows)
        order = np.resize(order, self.window_rows)
        return Data(x[order], y[order])  # type: ignore[arg-type]


def is_in(hashes: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Return which hashes are among some that are ascending."""
    if not len(held_out):
        return np.zeros(len(hashes), bool)
    found = np.zeros(len(hashes), bool)
    some = np.flatnonzero(hashes <= held_out[-1])
    places = np.searchsorted(held_out, hashes[some])
    found[some] = held_out[places] == hashes[some]
    return found
