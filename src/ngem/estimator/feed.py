"""Rows of a stream as networks read them, window by window."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.sharding import Mesh

from ..distributed.exchange import device_range, gathered
from ..streams import (
    Division,
    Prefetched,
    Run,
    Spool,
    Stream,
    StreamError,
    Windows,
    split_among,
)
from ..training import Data
from . import encoding
from .copying import fill
from .observations import round_ends
from .preprocessing import Inputs, Table
from .schema import Column
from .survey import read_targets
from .targets import TargetUnits

#: The part of a window that is read before it is written, and its rows at least and at most.
_PORTION_PART, _PORTION = 8, (1024, 131_072)


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
    reads that file: what a source costs is paid once, and rows that come sorted do not matter. Each
    of several processes reads some runs of the stream, and sends the rows to the processes that
    train on them.

    Args:
        encoder: How rows become numbers.
        inputs: How features become inputs.
        targets: How targets become what networks learn.
        held_out: Hashes of the rows that are left out.
        run_rows: Rows of each run, without those.
        batch_size: Rows of a step.
        seed: Seed of the order.
        mesh: Devices over which each batch is spread, or None.

    Attributes:
        n_rows: Rows of an epoch.
        window_rows: Rows of a window.
        batch_size: Rows of a step: at most all.
        lanes: First place of each device within a batch, and the end of the last one.
        waited: Seconds that training has waited for rows so far.
        copied: Seconds that writing the temporary file took.
    """

    def __init__(
        self,
        encoder: Encoder,
        inputs: Inputs,
        targets: TargetUnits,
        held_out: np.ndarray,
        *,
        run_rows: Sequence[int],
        batch_size: int,
        seed: int,
        mesh: Mesh | None,
    ):
        self._encoder, self._inputs, self._targets = encoder, inputs, targets
        self._held_out, self._run_rows = np.unique(held_out), run_rows
        self._seed, self._mesh = seed, mesh
        self.n_rows, self.waited, self.copied = sum(run_rows), 0.0, 0.0
        dim = len(encoder.stream.targets) * (1 if encoder.resolution is None else 2)
        self._width = inputs.n_columns + dim
        self.batch_size = min(batch_size, self.n_rows)
        fitting = encoder.stream.window_bytes // (4 * self._width)
        batches = min(fitting // self.batch_size, -(-self.n_rows // self.batch_size))
        self.window_rows = self.batch_size * max(1, batches)
        self._windows = Windows(self.n_rows, self.window_rows, self.batch_size)
        self._split = split_among(self._windows, *device_range(mesh))
        self.lanes = self._split.lanes(self._windows)

    @contextlib.contextmanager
    def windows(self, epoch: int, skip: int, stop: int) -> Iterator[Prefetched]:
        """Return the windows of all epochs from one on; see `training.Feed`."""
        with contextlib.ExitStack() as stack:
            began = time.perf_counter()
            gathered(self._mesh, lambda: self._open(stack))
            self._fill()
            self.copied += time.perf_counter() - began
            ahead = stack.enter_context(Prefetched(self._epochs(epoch, skip, stop)))
            yield ahead
            self.waited += ahead.waited

    def _open(self, stack: contextlib.ExitStack) -> bytes:
        self._spool = Spool(self._windows, self._width, self._split)
        stack.enter_context(contextlib.closing(self._spool))
        return b""

    def _epochs(self, first: int, skip: int, stop: int) -> Iterator[Data]:
        for epoch in range(first, stop):
            for rows in self._spool.epoch(self._seed, epoch, skip if epoch == first else 0):
                x, y = np.split(rows, [self._inputs.n_columns], axis=1)
                yield Data(x, y)  # type: ignore[arg-type]
                del rows, x, y

    def _fill(self) -> None:
        """Write the temporary file."""
        portion = self._encoder.stream.window_bytes // _PORTION_PART // (4 * self._width)
        most = int(np.clip(portion, *_PORTION))
        division = Division(self._windows, self._run_rows, most, self._seed)
        runs = self._encoder.stream.runs
        fill(self._spool, division, lambda run: self._rows(runs[run]), self._split, self._mesh)

    def _rows(self, run: Run) -> Iterator[np.ndarray]:
        """Yield the rows of a run as networks read them, without those that are held out."""
        stream = self._encoder.stream
        for block in stream.in_order(run):
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
