"""Which rows of a stream belong to which window, to which device, and where they are written.

Everything follows from the seed and from numbers of rows. So each of several processes knows it
without a message, and it does not depend on how many processes there are.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from .source import StreamError

#: Places from which numpy can draw without replacement.
_MOST_PLACES = 10**9

#: Parts of a batch that can be on different devices.
_MOST_GROUPS = 64

#: What draws belong to, so that no two of them use the same random numbers.
_RUNS, _PORTIONS, _ROWS = range(3)


class Windows(NamedTuple):
    """How an epoch is divided: into windows, and each batch of a window into groups of rows.

    Attributes:
        n_rows: Rows of an epoch.
        size: Rows of a window, a multiple of `batch`; the last one may be shorter.
        batch: Rows of a step.
    """

    n_rows: int
    size: int
    batch: int

    @property
    def counts(self) -> Int[np.ndarray, " window"]:
        """Rows of each window."""
        full, rest = divmod(self.n_rows, self.size)
        return np.array([self.size] * full + [rest] * (rest > 0), np.int64)

    @property
    def lanes(self) -> Int[np.ndarray, " bound"]:
        """First place of each group within a batch, and the end of the last one."""
        groups = min(_MOST_GROUPS, self.batch)
        return np.arange(groups + 1) * self.batch // groups

    @property
    def cells(self) -> Int[np.ndarray, "group window"]:
        """Rows of each group of each window. A batch takes its places of a group from there."""
        starts, sizes = self.lanes[:-1, None], np.diff(self.lanes)[:, None]
        full = (self.counts - 1) // self.batch
        rest = self.counts - full * self.batch
        return full * sizes + np.clip(rest - starts, 0, sizes)


class Split(NamedTuple):
    """Which groups of a batch are on which device.

    Attributes:
        bounds: First group of each device, and the end of the last one.
        first: The first device of this process.
        stop: The device after its last one.
    """

    bounds: tuple[int, ...]
    first: int
    stop: int

    @property
    def groups(self) -> slice:
        """The groups of this process."""
        return slice(self.bounds[self.first], self.bounds[self.stop])

    def lanes(self, windows: Windows) -> tuple[int, ...]:
        """Return the first place of each device within a batch, and the end of the last one."""
        return tuple(int(windows.lanes[group]) for group in self.bounds)


def split_among(windows: Windows, devices: int, first: int, stop: int) -> Split:
    """Return the groups of several devices, as many of each as possible.

    Args:
        windows: How an epoch is divided.
        devices: Number of devices.
        first: The first device of this process.
        stop: The device after its last one.
    """
    groups = len(windows.lanes) - 1
    if devices > groups:
        raise ValueError(
            f"a stream must have a batch of as many rows as there are devices, and at most "
            f"{_MOST_GROUPS} devices, got {devices} devices and {windows.batch} rows; use fewer "
            "devices, or a larger batch_size."
        )
    bounds = tuple(index * groups // devices for index in range(devices + 1))
    return Split(bounds, first, stop)


class Portion(NamedTuple):
    """Some rows of a run that are written together.

    Attributes:
        seed: Seed of the order of these rows.
        taken: How many of them belong to each group of each window, in this order.
        places: Where the first of those is within the group's rows of the window.
    """

    seed: tuple[int, ...]
    taken: Int[np.ndarray, "group window"]
    places: Int[np.ndarray, "group window"]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.taken.sum())

    def permuted(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows in the order of the groups and windows that they belong to."""
        return np.random.default_rng(self.seed).permutation(rows)


class Division:
    """A division of rows among the windows and their groups; all divisions are equally likely.

    Args:
        windows: How an epoch is divided.
        run_rows: Rows of each run.
        most: Rows of a portion at most.
        seed: Seed of the division.

    Attributes:
        n_rows: Rows of all runs.
        n_runs: Number of runs.
        most: Rows of a portion at most.
    """

    def __init__(self, windows: Windows, run_rows: Sequence[int], most: int, seed: int):
        self.n_rows, self.n_runs, self.most = windows.n_rows, len(run_rows), most
        self._shape, self._seed = windows.cells.shape, seed
        rng = np.random.default_rng((_RUNS, seed))
        left = windows.cells.ravel()
        self._runs = np.zeros((len(run_rows), len(left)), np.int64)
        for run, count in enumerate(run_rows):
            self._runs[run] = _draw(rng, left, count)
            left = left - self._runs[run]

    def sizes(self, run: int) -> list[int]:
        """Return how many rows each portion of a run has."""
        full, rest = divmod(int(self._runs[run].sum()), self.most)
        return [self.most] * full + [rest] * (rest > 0)

    def portions(self, run: int) -> Iterator[Portion]:
        """Yield the portions of a run, in the order of its rows."""
        rng = np.random.default_rng((_PORTIONS, self._seed, run))
        left, places = self._runs[run], self._runs[:run].sum(axis=0)
        for number, count in enumerate(self.sizes(run)):
            taken = _draw(rng, left, count)
            seed = (_ROWS, self._seed, run, number)
            yield Portion(seed, taken.reshape(self._shape), places.reshape(self._shape))
            left, places = left - taken, places + taken


def in_portions(
    parts: Iterable[np.ndarray], sizes: Sequence[int], n_rows: int
) -> Iterator[np.ndarray]:
    """Yield the rows of a run, so many at a time.

    Args:
        parts: The rows, some at a time.
        sizes: Rows of each portion.
        n_rows: Rows of the stream, for messages.

    Raises:
        StreamError: If there are more or fewer rows than these.
    """
    rest, waiting = iter(parts), 0
    ahead: list[np.ndarray] = []
    for size in sizes:
        while waiting < size:
            part = next(rest, None)
            if part is None:
                raise StreamError(_other_rows("fewer", n_rows))
            ahead.append(part)
            waiting += len(part)
        rows = np.concatenate(ahead)
        yield rows[:size]
        ahead, waiting = [rows[size:]], waiting - size
    if waiting or any(len(part) for part in rest):
        raise StreamError(_other_rows("more", n_rows))


def _other_rows(got: str, n_rows: int) -> str:
    return (
        f"the stream must have the same rows in every pass, got {got} than {n_rows:,} rows to "
        "learn from; make the source give the same each time."
    )


def _draw(rng: np.random.Generator, left: np.ndarray, count: int) -> np.ndarray:
    """Return how many of some rows go to each cell, if all places left are equally likely."""
    if left.sum() < _MOST_PLACES:
        return rng.multivariate_hypergeometric(left, count, method="marginals")
    # Of so many places a small part is taken, so that no cell is full.
    return rng.multinomial(count, left / left.sum())
