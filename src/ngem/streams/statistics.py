"""What one pass over a stream gathers: moments, categories, and a sample, all in bounded memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

#: Distinct values that are counted exactly; beyond, counts may be too low by rows / this.
MOST_COUNTED = 10_000


class Moments:
    """Count, mean, standard deviation and range of columns, merged batch by batch.

    Means and deviations are exact up to rounding: they are merged as by Chan, Golub and LeVeque
    (1983), in double precision. Missing values (NaN) are counted and left out.

    Args:
        size: Number of columns.
    """

    def __init__(self, size: int):
        self.count = np.zeros(size)
        self.missing = np.zeros(size)
        self.mean = np.zeros(size)
        self.std = np.zeros(size)
        self.low = np.full(size, np.inf)
        self.high = np.full(size, -np.inf)

    def add(self, values: Float[np.ndarray, "batch column"]) -> None:
        """Add the rows of a batch."""
        gaps = np.isnan(values)
        count = len(values) - gaps.sum(axis=0)
        self.missing += gaps.sum(axis=0)
        if not count.any():
            return
        self.low = np.fmin(self.low, np.min(values, axis=0, where=~gaps, initial=np.inf))
        self.high = np.fmax(self.high, np.max(values, axis=0, where=~gaps, initial=-np.inf))
        safe = np.maximum(count, 1)
        # In units of the largest value, so that squares neither overflow nor underflow.
        unit = np.max(np.abs(values), axis=0, where=~gaps, initial=0.0)
        unit = np.where(unit > 0, unit, 1.0)
        scaled = np.where(gaps, 0.0, values / unit)
        mean = scaled.sum(axis=0) / safe
        squares = np.where(gaps, 0.0, (scaled - mean) ** 2).sum(axis=0)
        self.merge(count, mean * unit, np.sqrt(squares / safe) * unit)

    def merge(self, count: np.ndarray, mean: np.ndarray, std: np.ndarray) -> None:
        """Add rows of which only count, mean and standard deviation are known."""
        total = self.count + count
        part = np.divide(count, total, out=np.zeros_like(self.mean), where=total > 0)
        shift = mean - self.mean
        unit = np.maximum(np.maximum(np.abs(shift), std), np.maximum(self.std, 1e-300))
        square = (
            (1 - part) * (self.std / unit) ** 2
            + part * (std / unit) ** 2
            + part * (1 - part) * (shift / unit) ** 2
        )
        self.mean = np.where(part == 1, mean, self.mean + part * shift)
        self.std, self.count = np.sqrt(square) * unit, total


class Counts:
    """How often each value occurs, of at most `MOST_COUNTED` values.

    Exact while there are no more distinct values. Beyond, the summary is that of Misra and Gries
    (1982): each count is too low by at most `lost`, which is below rows / `MOST_COUNTED`. So no
    value of more rows than that is forgotten.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.lost = 0

    def add(self, values: np.ndarray, counts: np.ndarray) -> None:
        """Add distinct values of a batch with their counts."""
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            self.counts[value] = self.counts.get(value, 0) + count
        if len(self.counts) > MOST_COUNTED:
            cut = sorted(self.counts.values(), reverse=True)[MOST_COUNTED]
            self.lost += cut
            self.counts = {v: count - cut for v, count in self.counts.items() if count > cut}


class Smallest:
    """The rows with the smallest hashes: a uniform sample, the same however the rows are read.

    Args:
        capacity: Rows to keep.
    """

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._parts: list[tuple[np.ndarray, np.ndarray, Any]] = []
        self._rows = 0
        self._limit = np.uint64(2**64 - 1)

    def add(self, hashes: np.ndarray, numbers: np.ndarray, table: Any) -> None:
        """Add the rows of a batch; `numbers` tells rows with equal hashes apart."""
        chosen = np.flatnonzero(hashes <= self._limit)
        if len(chosen):
            self._parts.append((hashes[chosen], numbers[chosen], table.take(chosen)))
            self._rows += len(chosen)
        if self._rows > 2 * self._capacity:
            self._compact()

    def _compact(self) -> None:
        hashes = np.concatenate([part[0] for part in self._parts])
        numbers = np.concatenate([part[1] for part in self._parts])
        table = joined([part[2] for part in self._parts])
        kept = np.lexsort((numbers, hashes))[: self._capacity]
        # A copy of its own: slices would keep the batches that they came from.
        part = (hashes[kept], numbers[kept], table.take(kept).combine_chunks())
        self._parts, self._rows = [part], len(kept)
        if len(kept) == self._capacity:
            self._limit = part[0][-1]

    def rows(self) -> tuple[np.ndarray, np.ndarray, Any]:
        """Return hashes in ascending order, and numbers and table of these rows."""
        self._compact()
        return self._parts[0]


def joined(tables: Sequence[Any]) -> Any:
    """Return Arrow tables as one; numbers of different types become those of the wider type."""
    import pyarrow as pa

    return pa.concat_tables(tables, promote_options="permissive")
