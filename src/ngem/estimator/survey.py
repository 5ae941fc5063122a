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
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..families import AbstractFamily
from ..streams import Counts, Moments, Smallest, Stream, StreamError, joined
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
        n_rows: Rows of the stream.
        kept: All rows, an Arrow table, if they fit into the window; else None.
        numbers: Moments of each column of numbers or dates.
        counts: How often each category occurs, of each column of categories.
        targets: Moments of the targets.
        hashes: Hashes of the rows of the sample, ascending; of all rows if they are kept.
        sample: The rows with the smallest hashes, an Arrow table.
    """

    stream: Stream
    n_rows: int
    kept: Any
    numbers: dict[str, Moments]
    counts: dict[str, Counts]
    targets: Moments
    hashes: np.ndarray
    sample: Any

    @property
    def identity(self) -> str:
        """A hash of what was seen: another stream would have another."""
        digest = hashlib.sha256(f"{self.n_rows} {self.stream.columns}".encode())
        for moments in (*self.numbers.values(), self.targets):
            for part in (moments.count, moments.mean, moments.std, moments.low, moments.high):
                digest.update(part.tobytes())
        digest.update(repr([sorted(one.counts.items()) for one in self.counts.values()]).encode())
        digest.update(self.hashes.tobytes())
        return digest.hexdigest()

    def columns(self, most: int) -> tuple[Column, ...]:
        """Return what the columns hold, as `encoding.describe` does of a table in memory."""
        found = []
        for name in self.stream.features:
            if name in self.counts:
                found.append(self._category(name, most))
            elif self.stream.kinds[name] == "date":
                moments = self.numbers[name]
                varies = moments.low < moments.high
                parts = [part for i, part in enumerate(PARTS) if i == 0 or varies[i]]
                found.append(Column(name, "date", parts=tuple(parts)))
            else:
                found.append(Column(name, self.stream.kinds[name]))
        return tuple(found)

    def _category(self, name: str, most: int) -> Column:
        counts = self.counts[name].counts
        values = np.array(list(counts), object)
        is_more = self.counts[name].lost > 0
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
            return _chosen(self.numbers[column.name], [PARTS.index(p) for p in column.parts])
        if column.kind != "category":
            return self.numbers[column.name]
        counts = self.counts[column.name].counts
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
    """Read a stream once.

    Args:
        stream: The rows.
        family: Distribution of the components, which says where targets may lie.
        takes_gaps: Whether features may be missing.
        is_rounded: Whether targets stand for intervals, which may reach where they may not lie.

    Raises:
        StreamError: If a row cannot be learned from; it names file and row group.
    """
    coded = {*stream.categorical, *(n for n in stream.features if stream.kinds[n] == "text")}
    numbers = {
        name: Moments(len(PARTS) if stream.kinds[name] == "date" else 1)
        for name in stream.features
        if name not in coded
    }
    counts = {name: Counts() for name in stream.features if name in coded}
    targets = Moments(len(stream.targets))
    row_bytes = 8 * len(stream.columns)
    sample = Smallest(2 * max(64, min(_SAMPLE, stream.memory // _SAMPLE_PART // row_bytes // 2)))
    kept: list[Any] | None = []
    n_rows = size = 0
    for block in stream.in_order():
        table = block.table
        if not table.num_rows:
            continue
        values = read_values(block, stream.features)
        y = read_targets(block, stream.targets)
        if not is_rounded:
            _check_support(block, family, y)
        with np.errstate(divide="ignore", invalid="ignore"):
            targets.add(family.link.forward(y))
        for name, one in values.items():
            if name in counts:
                counts[name].add(*_count(one))
            else:
                array = encoding.date_parts(one.array) if one.kind == "date" else one.array[:, None]
                _check_features(block, name, array, takes_gaps=takes_gaps)
                numbers[name].add(array)
        hashes = stream.hashes(block)
        sample.add(hashes, np.arange(n_rows, n_rows + len(hashes)), table)
        n_rows, size = n_rows + table.num_rows, size + max(table.nbytes, row_bytes * len(y))
        if kept is not None:
            kept.append((hashes, table))
            kept = kept if size <= stream.window_bytes else None
    if n_rows < 2:
        raise StreamError(f"the stream must hold at least two rows, got {n_rows}.")
    hashes, _, rows = sample.rows()
    if kept is not None:
        hashes = np.concatenate([part[0] for part in kept])
        rows = joined([part[1] for part in kept])
    return Survey(
        stream, n_rows, rows if kept is not None else None, numbers, counts, targets, hashes, rows
    )


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
