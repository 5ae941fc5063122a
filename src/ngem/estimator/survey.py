"""One pass over a stream: what its columns hold, how they are scaled, which rows are held out.

| of the stream | is |
|---|---|
| rows, gaps, ranges, means, standard deviations | exact, up to rounding in double precision |
| categories | exact up to 10,000 in a column; see `Counts` for more |
| medians, which fill gaps, and bins | those of a uniform sample of rows |

A quantile of a sample of n rows has a rank that is off by at most sqrt(log(2 / p) / 2n) with a
probability of 1 - p (Dvoretzky, Kiefer, Wolfowitz; Massart): 0.0105 for 65,536 rows and p = 1e-6.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..distributed import active_mesh
from ..distributed.exchange import gathered, process_place
from ..distributed.mesh import check_agreement
from ..families import AbstractFamily
from ..streams import Counts, Hashed, Moments, Run, Smallest, Stream, StreamError, Summary
from . import encoding, frames
from .preprocessing import Inputs, Scaling, beside_rounding, column_median, no_scaling, one_hot
from .schema import PARTS, Column, Schema

#: Rows that are held out of a stream at most, and rows of the sample beside them.
_SAMPLE = 65_536

#: Part of the memory that these rows may take.
_SAMPLE_PART = 16


class Survey(NamedTuple):
    """What one pass tells of a stream.

    Attributes:
        stream: The stream.
        summary: Statistics of all rows.
        is_whole: Whether all rows fit into the window.
        sample: All rows in their order if they fit; else those with the smallest hashes, ascending.
    """

    stream: Stream
    summary: Summary
    is_whole: bool
    sample: Hashed

    @property
    def n_rows(self) -> int:
        """Rows of the stream."""
        return sum(self.summary.rows)

    def rows_without(self, held_out: np.ndarray) -> list[int]:
        """Return how many rows of each run are left without some rows of the sample."""
        ends = np.cumsum(self.summary.rows)
        runs = np.searchsorted(ends, self.sample.numbers[np.unique(held_out)], side="right")
        return (self.summary.rows - np.bincount(runs, minlength=len(ends))).tolist()

    @property
    def identity(self) -> str:
        """A hash of what was seen: another stream would have another."""
        digest = hashlib.sha256(f"{self.n_rows} {self.stream.columns}".encode())
        numbers, counts, targets, _ = self.summary
        for moments in (*numbers.values(), targets):
            for part in (moments.count, moments.mean, moments.std, moments.low, moments.high):
                digest.update(part.tobytes())
        digest.update(repr([sorted(one.counts.items()) for one in counts.values()]).encode())
        digest.update(self.sample.hashes.tobytes())
        return digest.hexdigest()

    def columns(self, most: int) -> tuple[Column, ...]:
        """Return what the columns hold, as `encoding.describe` does of a table in memory."""
        found = []
        for name in self.stream.features:
            if name in self.summary.counts:
                found.append(self._category(name, most))
            elif self.stream.kinds[name] == "date":
                moments = self.summary.numbers[name]
                varies = moments.low < moments.high
                parts = [part for i, part in enumerate(PARTS) if i == 0 or varies[i]]
                found.append(Column(name, "date", parts=tuple(parts)))
            else:
                found.append(Column(name, self.stream.kinds[name]))
        return tuple(found)

    def _category(self, name: str, most: int) -> Column:
        counts = self.summary.counts[name].counts
        values = np.array(list(counts), object)
        is_more = self.summary.counts[name].lost > 0
        return encoding.category_column(
            name, values, np.array(list(counts.values()), int), most, is_more=is_more
        )

    def inputs(self, columns: Sequence[Column], x: np.ndarray, *, scale: bool) -> Inputs:
        """Return how features become inputs, as `fit_inputs` does of rows in memory.

        Args:
            columns: What the columns hold.
            x: Features of the sample, for medians.
            scale: Whether to standardize.
        """
        coder = one_hot(Schema(tuple(columns), ()).sizes)
        read = x if coder is None else coder.forward(x)
        fill = np.array([column_median(column) for column in read.T])
        moments = _joined([self._moments_of(column) for column in columns])
        flagged = np.flatnonzero(moments.missing > 0)
        moments.merge(moments.missing, fill, np.zeros_like(fill))
        location = np.where(moments.low == moments.high, moments.low, moments.mean)
        scaling = _to_scaling(moments, location) if scale else no_scaling(len(fill))
        return Inputs(fill, flagged, scaling, coder)

    def _moments_of(self, column: Column) -> Moments:
        """Return the moments of the inputs that a column becomes."""
        if column.kind == "date":
            return _chosen(
                self.summary.numbers[column.name], [PARTS.index(p) for p in column.parts]
            )
        if column.kind != "category":
            return self.summary.numbers[column.name]
        counts = self.summary.counts[column.name].counts
        known = [counts.get(category, 0) for category in column.categories]
        if column.has_other:
            known.append(sum(counts.values()) - sum(known))
        moments = Moments(len(known))
        fraction = np.array(known) / self.n_rows
        moments.merge(
            np.full(len(known), self.n_rows), fraction, np.sqrt(fraction * (1 - fraction))
        )
        moments.low = np.where(fraction < 1, 0.0, 1.0)
        moments.high = np.where(fraction > 0, 1.0, 0.0)
        return moments

    def input_range(self, columns: Sequence[Column], inputs: Inputs) -> np.ndarray:
        """Return the smallest and the largest value of each input, as networks read them."""
        moments = _joined([self._moments_of(column) for column in columns])
        ends = np.stack([np.fmin(moments.low, moments.high), np.fmax(moments.low, moments.high)])
        ends = np.where(np.isfinite(ends), ends, inputs.fill)
        filled = np.stack([np.minimum(ends[0], inputs.fill), np.maximum(ends[1], inputs.fill)])
        ends = np.where(moments.missing > 0, filled, ends)
        flags = np.broadcast_to(np.array([[0.0], [1.0]]), (2, len(inputs.flagged)))
        return np.concatenate([inputs.scaling.forward(ends), flags], axis=1)


def _joined(parts: Sequence[Moments]) -> Moments:
    total = Moments(0)
    for name in ("count", "missing", "mean", "std", "low", "high"):
        setattr(total, name, np.concatenate([getattr(part, name) for part in parts]))
    return total


def _chosen(moments: Moments, places: list[int]) -> Moments:
    some = Moments(0)
    for name in ("count", "missing", "mean", "std", "low", "high"):
        setattr(some, name, getattr(moments, name)[places])
    return some


def _to_scaling(moments: Moments, location: np.ndarray) -> Scaling:
    varies = moments.std > 10 * np.finfo(np.float64).eps * np.abs(location)
    scale = [
        s if v else beside_rounding(m)
        for s, v, m in zip(moments.std, varies, location, strict=True)
    ]
    return Scaling(location, np.array(scale))


def target_scaling(moments: Moments) -> Scaling:
    """Return the scaling of targets whose moments are known."""
    return _to_scaling(moments, np.where(moments.low == moments.high, moments.low, moments.mean))


def survey(
    stream: Stream, family: AbstractFamily, *, takes_gaps: bool, is_rounded: bool = False
) -> Survey:
    """Read a stream once; on a mesh each process reads some of its runs.

    Args:
        stream: The rows.
        family: Distribution of the components, which says where targets may lie.
        takes_gaps: Whether features may be missing.
        is_rounded: Whether targets stand for intervals, which may reach where they may not lie.

    Raises:
        StreamError: If a row cannot be learned from; it names file and row group.
    """
    reading = _Reading(stream, family, takes_gaps, is_rounded)
    mesh, runs = active_mesh(), stream.runs
    if mesh is not None:
        check_agreement(mesh, _identity(stream))
    number, count = process_place(mesh)
    found = map(reading.summary, runs[number::count])
    if count > 1:
        found = _of_all(mesh, found, len(runs))
    total = reading.empty()
    for summary in found:
        total.add(summary)
    if sum(total.rows) < 2:
        raise StreamError(f"the stream must hold at least two rows, got {sum(total.rows)}.")
    return Survey(stream, total, *reading.rows(mesh))


def _of_all(mesh: Any, own: Iterable[Summary], count: int) -> Iterator[Summary]:
    """Return the summaries of all runs, of which each process has some, in their order."""
    texts = gathered(mesh, lambda: json.dumps([one.to_plain() for one in own]).encode())
    every = [json.loads(text) for text in texts]
    return (Summary.from_plain(every[run % len(every)][run // len(every)]) for run in range(count))


def _identity(stream: Stream) -> str:
    """Return a hash of where the rows are, which all processes must agree on."""
    pieces = [(piece.name, piece.group, piece.rows) for piece in stream.source.pieces]
    known = (pieces, stream.columns, stream.kinds, stream.memory, stream.window_bytes)
    return hashlib.sha256(repr(known).encode()).hexdigest()


class _Reading:
    """One pass over some runs of a stream, and the rows of them that are kept."""

    def __init__(self, stream: Stream, family: AbstractFamily, takes_gaps: bool, is_rounded: bool):
        self._stream, self._family = stream, family
        self._takes_gaps, self._is_rounded = takes_gaps, is_rounded
        texts = (name for name in stream.features if stream.kinds[name] == "text")
        self._coded = {*stream.categorical, *texts}
        self._row_bytes = 8 * len(stream.columns)
        most = stream.memory // _SAMPLE_PART // self._row_bytes // 2
        self._capacity = 2 * max(64, min(_SAMPLE, most))
        self._sample = Smallest(self._capacity)
        self._kept: list[Hashed] = []
        self._size = 0

    def empty(self) -> Summary:
        """Return a summary of no rows."""
        stream = self._stream
        numbers = {
            name: Moments(len(PARTS) if stream.kinds[name] == "date" else 1)
            for name in stream.features
            if name not in self._coded
        }
        counts = {name: Counts() for name in stream.features if name in self._coded}
        return Summary(numbers, counts, Moments(len(stream.targets)), [])

    def summary(self, run: Run) -> Summary:
        """Return the summary of a run, and keep some of its rows."""
        summary, rows = self.empty(), 0
        for block in self._stream.in_order(run):
            if block.table.num_rows:
                self._add(summary, block)
                rows += block.table.num_rows
        summary.rows.append(rows)
        return summary

    def _add(self, summary: Summary, block: Any) -> None:
        stream, table = self._stream, block.table
        values = read_values(block, stream.features)
        y = read_targets(block, stream.targets)
        if not self._is_rounded:
            _check_support(block, self._family, y)
        with np.errstate(divide="ignore", invalid="ignore"):
            summary.targets.add(self._family.link.forward(y))
        for name, one in values.items():
            if name in summary.counts:
                summary.counts[name].add(*_count(one))
            else:
                array = encoding.date_parts(one.array) if one.kind == "date" else one.array[:, None]
                _check_features(block, name, array, takes_gaps=self._takes_gaps)
                summary.numbers[name].add(array)
        numbers = np.arange(block.number, block.number + len(y))
        rows = Hashed(stream.hashes(block), numbers, table)
        self._sample.add(rows)
        self._size += max(table.nbytes, self._row_bytes * len(y))
        if self._size <= stream.window_bytes:
            self._kept.append(rows)
        else:
            self._kept.clear()

    def rows(self, mesh: Any) -> tuple[bool, Hashed]:
        """Return whether all rows are kept, and the rows of the sample, of all processes."""
        sizes = [int(size) for size in gathered(mesh, str(self._size).encode)]
        is_whole = sum(sizes) <= self._stream.window_bytes
        parts = self._kept
        if not is_whole:
            parts = [self._sample.rows()] if len(self._sample) else []
        if len(sizes) > 1:
            texts = gathered(mesh, lambda: b"" if not parts else Hashed.joined(parts).to_bytes())
            parts = [Hashed.from_bytes(text) for text in texts if text]
        if is_whole:
            rows = Hashed.joined(parts)
            in_order = np.all(rows.numbers[1:] > rows.numbers[:-1])
            return True, rows if in_order else rows.take(np.argsort(rows.numbers))
        sample = Smallest(self._capacity)
        for part in parts:
            sample.add(part)
        return False, sample.rows()


def read_values(block: Any, names: Sequence[str]) -> dict[str, frames.Values]:
    """Return the values of some columns of a block."""
    try:
        return {name: read() for name, read in frames.columns(block.table.select(list(names)))}
    except ValueError as error:
        raise StreamError(f"{block.piece}: {error}") from error


def read_targets(block: Any, names: Sequence[str]) -> np.ndarray:
    """Return the targets of a block; one that is not finite is an error that says where it is."""
    columns = [one.array for one in read_values(block, names).values()]
    y = np.column_stack(columns)
    _check(
        block, ", ".join(names), np.isfinite(y), y, "leave out rows without a target, or fill it in"
    )
    return y


def _check_support(block: Any, family: AbstractFamily, y: np.ndarray) -> None:
    try:
        family.check_targets(y, "y")
    except ValueError as error:
        raise StreamError(f"{block.piece}: {error}") from error


def _check_features(block: Any, name: str, values: np.ndarray, *, takes_gaps: bool) -> None:
    is_good = ~np.isinf(values) if takes_gaps else np.isfinite(values)
    _check(block, name, is_good, values, "fill it in, or pass missing='impute' for NaN")


def _check(block: Any, name: str, is_good: np.ndarray, values: np.ndarray, hint: str) -> None:
    if not is_good.all():
        row, column = np.argwhere(~is_good)[0]
        number = block.piece.start + block.start + int(row)
        raise StreamError(
            f"column {name!r} must hold finite numbers, got {values[row, column]:g} in "
            f"{block.piece}, row {number} (from 0); {hint}."
        )


def _count(values: frames.Values) -> tuple[np.ndarray, np.ndarray]:
    texts = np.array([text for text in encoding.to_texts(values) if text is not None], object)
    return np.unique(texts, return_counts=True) if len(texts) else (texts, np.zeros(0, int))
