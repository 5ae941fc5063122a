"""How the shuffled copy of a stream is written: by one process, or by several that read parts."""

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jax.sharding import Mesh

from ..distributed.exchange import exchanged, gathered, process_place
from ..streams import Division, Portion, Split, Spool, in_portions

#: How many times the largest exchange of rows is a multiple of the step between two sizes. Each
#: size is a program of its own.
_SIZES = 32


class _Own(NamedTuple):
    """A portion that this process has read, in the order in which rows are written."""

    portion: Portion
    rows: np.ndarray


def fill(
    spool: Spool,
    division: Division,
    read: Callable[[int], Iterator[np.ndarray]],
    split: Split,
    mesh: Mesh | None,
) -> None:
    """Write all rows, each to a random window.

    Args:
        spool: Where to write the rows of this process.
        division: Which rows go where.
        read: Returns the rows of a run, some at a time.
        split: Which groups of a batch are on which device.
        mesh: The devices, or None.
    """
    number, count = process_place(mesh)
    own = _own_portions(division, read, number, count)
    if mesh is None or count == 1:
        for portion, rows in own:
            spool.write(rows, portion)
        return
    devices = [device.process_index for device in mesh.devices.flat]
    bounds = [split.bounds[devices.index(process)] for process in range(count)]
    step = -(-division.most // _SIZES)
    together = _Together(spool, own)
    queues = [_portions(division, process, count) for process in range(count)]
    for portions in itertools.zip_longest(*queues):
        gathered(mesh, together.write_and_read)
        sizes = np.array([_sizes(portion, bounds) for portion in portions])
        most = step * -(-int(sizes.max()) // step)
        together.received = exchanged(mesh, together.parts(sizes[number]), most)
        together.portions, together.sizes = portions, sizes[:, number]
    gathered(mesh, together.write_and_read)


def _portions(division: Division, number: int, count: int) -> Iterator[Portion]:
    """Yield the portions that a process reads."""
    for run in range(number, division.n_runs, count):
        yield from division.portions(run)


def _own_portions(
    division: Division, read: Callable[[int], Iterator[np.ndarray]], number: int, count: int
) -> Iterator[_Own]:
    for run in range(number, division.n_runs, count):
        parts = in_portions(read(run), division.sizes(run), division.n_rows)
        for portion, rows in zip(division.portions(run), parts, strict=True):
            yield _Own(portion, portion.permuted(rows))


def _sizes(portion: Portion | None, bounds: list[int]) -> np.ndarray:
    """Return how many rows of a portion each process trains on."""
    if portion is None:
        return np.zeros(len(bounds), int)
    return np.add.reduceat(portion.taken.sum(axis=1), bounds)


class _Together:
    """What this process does between two exchanges of rows with the others.

    Attributes:
        received: Rows that each process has sent in the last exchange.
        portions: The portions that they belong to.
        sizes: How many there are of each.
    """

    def __init__(self, spool: Spool, own: Iterator[_Own]):
        self._spool, self._own = spool, own
        self._read: _Own | None = None
        self.received: np.ndarray | None = None
        self.portions: tuple[Portion | None, ...] = ()
        self.sizes = np.zeros(0, int)

    def write_and_read(self) -> bytes:
        """Write what was received, and read the next portion."""
        if self.received is not None:
            for portion, rows, size in zip(self.portions, self.received, self.sizes, strict=True):
                if portion is not None:
                    self._spool.write(rows[:size], portion)
        self._read = next(self._own, None)
        return b""

    def parts(self, sizes: np.ndarray) -> list[np.ndarray]:
        """Return the rows of the portion that was read for each process."""
        if self._read is None:
            return [np.zeros((0, self._spool.width), np.float32)] * len(sizes)
        return np.split(self._read.rows, np.cumsum(sizes)[:-1])
