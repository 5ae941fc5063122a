"""What one pass over a stream gathers: moments, categories, and a sample, all in bounded memory."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

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

    def add_moments(self, other: "Moments") -> None:
        """Add rows whose moments are known."""
        self.missing += other.missing
        self.low, self.high = np.fmin(self.low, other.low), np.fmax(self.high, other.high)
        self.merge(other.count, other.mean, other.std)

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
        self._add(zip(values.tolist(), counts.tolist(), strict=True))

    def add_counts(self, other: "Counts") -> None:
        """Add rows whose counts are known; the bound stays (Agarwal and others, 2012)."""
        self.lost += other.lost
        self._add(other.counts.items())

    def _add(self, pairs: Iterable[tuple[str, int]]) -> None:
        for value, count in pairs:
            self.counts[value] = self.counts.get(value, 0) + count
        if len(self.counts) > MOST_COUNTED:
            cut = sorted(self.counts.values(), reverse=True)[MOST_COUNTED]
            self.lost += cut
            self.counts = {v: count - cut for v, count in self.counts.items() if count > cut}


class Summary(NamedTuple):
    """What is gathered of the rows of a run, and of all runs in their order.

    Attributes:
        numbers: Moments of each column of numbers or dates.
        counts: How often each category occurs, of each column of categories.
        targets: Moments of the targets.
        rows: Rows of each run.
    """

    numbers: dict[str, Moments]
    counts: dict[str, Counts]
    targets: Moments
    rows: list[int]

    def add(self, other: "Summary") -> None:
        """Add the rows of a later run."""
        for name, moments in self.numbers.items():
            moments.add_moments(other.numbers[name])
        for name, counts in self.counts.items():
            counts.add_counts(other.counts[name])
        self.targets.add_moments(other.targets)
        self.rows.extend(other.rows)

    def to_plain(self) -> dict[str, Any]:
        """Return lists of numbers, for JSON, which keeps every bit."""
        return {
            "numbers": {name: _plain(moments) for name, moments in self.numbers.items()},
            "counts": {name: vars(counts) for name, counts in self.counts.items()},
            "targets": _plain(self.targets),
            "rows": self.rows,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Summary":
        """Return what `to_plain` was made of."""
        return cls(
            {name: _moments(one) for name, one in plain["numbers"].items()},
            {name: _counts(one) for name, one in plain["counts"].items()},
            _moments(plain["targets"]),
            plain["rows"],
        )


def _plain(moments: Moments) -> dict[str, list[float]]:
    return {name: array.tolist() for name, array in vars(moments).items()}


def _moments(plain: dict[str, list[float]]) -> Moments:
    made = Moments(0)
    vars(made).update({name: np.array(values) for name, values in plain.items()})
    return made


def _counts(plain: dict[str, Any]) -> Counts:
    made = Counts()
    vars(made).update(plain)
    return made


class Hashed(NamedTuple):
    """Rows with their hashes and their numbers in the stream.

    Attributes:
        hashes: Hashes of the rows.
        numbers: Numbers of the rows, which tell rows with equal hashes apart.
        table: The rows, an Arrow table.
    """

    hashes: np.ndarray
    numbers: np.ndarray
    table: Any

    def take(self, places: np.ndarray) -> "Hashed":
        """Return some of the rows."""
        return Hashed(self.hashes[places], self.numbers[places], self.table.take(places))

    @classmethod
    def joined(cls, parts: Sequence["Hashed"]) -> "Hashed":
        """Return several parts as one."""
        hashes = np.concatenate([part.hashes for part in parts])
        numbers = np.concatenate([part.numbers for part in parts])
        return cls(hashes, numbers, joined([part.table for part in parts]))

    def to_bytes(self) -> bytes:
        """Return the rows in Arrow's format; hashes and numbers are the last columns."""
        import pyarrow as pa

        table, sink = self.table, pa.BufferOutputStream()
        for name in self._fields[:2]:
            table = table.append_column(f"({name})", pa.array(getattr(self, name)))
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Hashed":
        """Return what `to_bytes` was made of."""
        import pyarrow as pa

        table = pa.ipc.open_stream(data).read_all()
        first, second = (table.column(place).to_numpy() for place in (-2, -1))
        return cls(first, second, table.select(table.column_names[:-2]))


class Smallest:
    """The rows with the smallest hashes: a uniform sample, the same however the rows are read.

    Args:
        capacity: Rows to keep.
    """

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._parts: list[Hashed] = []
        self._rows = 0
        self._limit = np.uint64(2**64 - 1)

    def add(self, rows: Hashed) -> None:
        """Add the rows of a batch."""
        chosen = np.flatnonzero(rows.hashes <= self._limit)
        if len(chosen):
            self._parts.append(rows.take(chosen))
            self._rows += len(chosen)
        if self._rows > 2 * self._capacity:
            self._compact()

    def _compact(self) -> None:
        rows = Hashed.joined(self._parts)
        rows = rows.take(np.lexsort((rows.numbers, rows.hashes))[: self._capacity])
        # A copy of its own: slices would keep the batches that they came from.
        self._parts = [rows._replace(table=rows.table.combine_chunks())]
        self._rows = len(rows.hashes)
        if self._rows == self._capacity:
            self._limit = rows.hashes[-1]

    def __len__(self) -> int:
        return min(self._rows, self._capacity)

    def rows(self) -> Hashed:
        """Return these rows, of which there must be some, by ascending hashes."""
        self._compact()
        return self._parts[0]


def joined(tables: Sequence[Any]) -> Any:
    """Return Arrow tables as one; numbers of different types become those of the wider type."""
    import pyarrow as pa

    return pa.concat_tables(tables, promote_options="permissive")
