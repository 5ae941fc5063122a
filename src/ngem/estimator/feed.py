"""Rows of a stream as networks read them, window by window."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..streams import Prefetched, Spool, Stream, StreamError, Windows
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

    The rows are written once to a temporary file, shuffled and as networks read them. An epoch
    reads that file: what a source costs is paid once, and rows that come sorted do not matter.

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
        copied: Seconds that writing the temporary file took.
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
        self.n_rows, self.waited, self.copied = n_rows, 0.0, 0.0
        dim = len(encoder.stream.targets) * (1 if encoder.resolution is None else 2)
        self._width = inputs.n_columns + dim
        fitting = encoder.stream.window_bytes // (4 * self._width)
        batches = min(fitting // batch_size, -(-n_rows // batch_size))
        self.window_rows = batch_size * max(1, batches)

    @contextlib.contextmanager
    def windows(self, epoch: int, skip: int, stop: int) -> Iterator[Prefetched]:
        """Return the windows of all epochs from one on; see `training.Feed`."""
        spool = Spool(Windows(self.n_rows, self.window_rows), self._width)
        with contextlib.closing(spool):
            began = time.perf_counter()
            spool.fill(self._rows(), self._seed)
            self.copied += time.perf_counter() - began
            with Prefetched(self._windows(spool, epoch, skip, stop)) as ahead:
                yield ahead
            self.waited += ahead.waited

    def _windows(self, spool: Spool, first: int, skip: int, stop: int) -> Iterator[Data]:
        for epoch in range(first, stop):
            for rows in spool.epoch(self._seed, epoch, skip if epoch == first else 0):
                if len(rows) < self.window_rows:
                    # Fill the last window up with some of its own rows, which do not count.
                    rows = np.resize(rows, (self.window_rows, self._width))
                x, y = np.split(rows, [self._inputs.n_columns], axis=1)
                yield Data(x, y)  # type: ignore[arg-type]
                del rows, x, y

    def _rows(self) -> Iterator[np.ndarray]:
        """Yield all rows as networks read them, without those that are held out."""
        stream = self._encoder.stream
        for block in stream.in_order():
            if not block.table.num_rows:
                continue
            rows = self._encoder.block(block)
            given = rows.y if rows.ends is None else rows.ends
            forward = self._targets.forward if rows.ends is None else self._targets.forward_ends
            both = np.concatenate([self._inputs.forward(rows.x), forward(given)], axis=1)
            yield both[~is_in(stream.hashes(block), self._held_out)]


def is_in(hashes: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Return which hashes are among some that are ascending."""
    if not len(held_out):
        return np.zeros(len(hashes), bool)
    found = np.zeros(len(hashes), bool)
    some = np.flatnonzero(hashes <= held_out[-1])
    places = np.searchsorted(held_out, hashes[some])
    found[some] = held_out[places] == hashes[some]
    return found
