"""Counts of the values of all columns of a file, batch by batch: what decides what they hold."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from .formats import ROW, TEXT, category_names, clean, frames
from .opening import TableFile
from .parse import FORMATS, matching_formats, to_booleans, to_numbers

#: Distinct values that are collected of a column. More of them are names or keys, or numbers.
MOST_DISTINCT = 10_000

_SIGNS = {
    "signs of money": "[$€£¥₹]",
    "percent signs": "%",
    "marks between thousands": r"\d[ ,.'\u2019]\d{3}",
}


@dataclass
class Tally:
    """Counts of one column's values over the batches read so far.

    Attributes:
        dtype: Polars type of the column.
        rows: Rows that were read.
        known: Values that are not missing.
        numbers: Those of them that are numbers.
        low, high: The smallest and the largest number.
        is_whole: Whether all numbers are whole.
        counts_up: Whether each number is one more than that of the row before.
        last: The last number.
        is_padded: Whether all numbers have as many digits and some begin with a zero, as codes do.
        booleans: Values of a text column that are true or false.
        formats: Formats of which all values of a text column are dates.
        signs: What stands beside numbers in a text column, such as signs of money.
        stray: Row and text of the first value that is not a number, in a column of text.
        example: The first value.
        distinct: Distinct values as text; not complete once there are more than `MOST_DISTINCT`.
        distinct_of: Values from which they were collected.
    """

    dtype: Any
    rows: int = 0
    known: int = 0
    numbers: int = 0
    low: float = np.inf
    high: float = -np.inf
    is_whole: bool = True
    counts_up: bool = True
    last: float | None = None
    digits: set[int] = field(default_factory=set)
    has_zeros: bool = False
    booleans: int = 0
    formats: list[str] = field(default_factory=lambda: list(FORMATS))
    signs: set[str] = field(default_factory=set)
    stray: tuple[int, str] | None = None
    example: Any = None
    distinct: set[str] = field(default_factory=set)
    distinct_of: int = 0

    @property
    def is_padded(self) -> bool:
        return self.has_zeros and len(self.digits) == 1

    @property
    def is_full(self) -> bool:
        """Whether no more distinct values are collected."""
        return len(self.distinct) > MOST_DISTINCT

    @property
    def is_constant(self) -> bool:
        """Whether all rows have the same value."""
        if self.known < self.rows or self.rows < 2:
            return False
        if self.numbers == self.known and not self.signs:
            return self.low == self.high
        return len(self.distinct) == 1

    def collect(self, values: pl.Series) -> None:
        """Collect the distinct values of one batch, unless there are too many of them."""
        if self.is_full:
            return
        names = pl.select(category_names(pl.lit(values.drop_nulls().unique()))).to_series()
        self.distinct.update(names.unique().head(MOST_DISTINCT + 1))
        self.distinct_of += values.count()

    def add_words(
        self, values: pl.Series, strays: pl.Series, rows: pl.Series, decimal: str
    ) -> None:
        """Add the values of a text column of which some are no plain numbers.

        Args:
            values: All values of one batch.
            strays: Those that are no plain numbers.
            rows: Row numbers of these.
            decimal: The mark before decimals.
        """
        parsed = strays.to_frame("text").select(to_numbers(pl.col("text"), decimal)).to_series()
        self.numbers += parsed.count()
        self._add_range(parsed)
        self.counts_up = False
        found = strays.filter(parsed.is_not_null())
        self.signs |= {
            name for name, sign in _SIGNS.items() if len(found) and found.str.contains(sign).any()
        }
        others, their_rows = strays.filter(parsed.is_null()), rows.filter(parsed.is_null())
        if len(others):
            self.stray = self.stray or (their_rows[0], others[0])
            booleans = others.to_frame("text").select(to_booleans(pl.col("text"))).to_series()
            self.booleans += booleans.count()
        self.formats = matching_formats(values.drop_nulls(), self.formats)

    def _add_range(self, numbers: pl.Series) -> None:
        known = numbers.drop_nulls()
        if len(known):
            low, high = float(known.min()), float(known.max())  # type: ignore[arg-type]
            self.low, self.high = min(self.low, low), max(self.high, high)
            self.is_whole &= bool((known % 1 == 0).all())


def tally(
    table: TableFile, types: Mapping[str, Any], collected: Collection[str]
) -> tuple[int, dict[str, Tally]]:
    """Return the number of rows and the counts of each column, in one pass over the file.

    Args:
        table: The file.
        types: Polars types of the columns.
        collected: Columns of numbers whose distinct values are collected too.
    """
    tallies = {name: Tally(dtype) for name, dtype in types.items()}
    count = 0
    for frame in frames(table, list(types)):
        count += len(frame)
        _add_batch(tallies, frame, collected, table.decimal or ".")
    return count, tallies


def _add_batch(
    tallies: dict[str, Tally], frame: pl.DataFrame, collected: Collection[str], decimal: str
) -> None:
    """Add one batch; what concerns all columns is asked of all of them at once."""
    texts = {name: None for name, one in tallies.items() if one.dtype in TEXT}
    numeric = [name for name, one in tallies.items() if one.dtype.is_numeric()]
    rows, frame = frame[ROW], frame.select(list(tallies))
    frame = frame.with_columns(
        *(clean(pl.col(name)) for name in texts),
        *(pl.col(name).fill_nan(None) for name in _floats(tallies)),
    )
    numbers = frame.select(
        *(_plain_number(pl.col(name), decimal) for name in texts),
        *(pl.col(name).cast(pl.Float64) for name in numeric),
    )
    known = _row(frame.select(pl.all().count()))
    first = _row(frame.select(pl.all().drop_nulls().first()))
    facts = _Facts(numbers)
    digits = _Digits(frame.select(list(texts)))
    for name, one in tallies.items():
        one.rows += len(frame)
        one.known += known[name]
        one.example = first[name] if one.example is None else one.example
        if name in facts.count:
            facts.add_to(one, name, known[name])
            digits.add_to(one, name)
        has_words = name in texts and facts.count[name] < known[name]
        if has_words:
            is_stray = frame[name].is_not_null() & numbers[name].is_null()
            one.add_words(frame[name], frame[name].filter(is_stray), rows.filter(is_stray), decimal)
        elif name in texts and known[name]:
            one.formats = []  # whole numbers may look like dates
        if has_words or name in collected:
            one.collect(frame[name])


def _floats(tallies: Mapping[str, Tally]) -> list[str]:
    return [name for name, one in tallies.items() if one.dtype.is_float()]


def _plain_number(text: pl.Expr, decimal: str) -> pl.Expr:
    """Return numbers without signs of money and marks between thousands; null for other texts."""
    if decimal == ",":
        text = pl.when(~text.str.contains(".", literal=True)).then(text).str.replace(",", ".")
    return text.cast(pl.Float64, strict=False)


def _row(frame: pl.DataFrame) -> dict[str, Any]:
    return frame.row(0, named=True)


class _Facts:
    """Facts about the numbers of all columns of one batch."""

    def __init__(self, numbers: pl.DataFrame) -> None:
        each = pl.all()
        self.count = _row(numbers.select(each.count())) if numbers.width else {}
        if not numbers.width:
            return
        self.low = _row(numbers.select(each.min()))
        self.high = _row(numbers.select(each.max()))
        self.is_whole = _row(numbers.select((each % 1 == 0).all()))
        self.counts_up = _row(numbers.select((each.diff() == 1).all()))
        self.first = _row(numbers.select(each.first()))
        self.last = _row(numbers.select(each.last()))

    def add_to(self, one: Tally, name: str, known: int) -> None:
        """Add them to the counts of a column."""
        one.numbers += self.count[name]
        if self.count[name]:
            one.low, one.high = min(one.low, self.low[name]), max(one.high, self.high[name])
            one.is_whole &= self.is_whole[name]
        follows = one.last is None or self.first[name] == one.last + 1
        one.counts_up &= (
            known == one.rows - (one.known - known) and self.counts_up[name] and follows
        )
        one.last = self.last[name]


class _Digits:
    """How many characters the texts of all columns of one batch have, and first zeros."""

    def __init__(self, texts: pl.DataFrame) -> None:
        each = pl.all()
        self.known = bool(texts.width)
        if self.known:
            length = each.str.len_chars()
            self.shortest = _row(texts.select(length.min()))
            self.longest = _row(texts.select(length.max()))
            is_padded = each.str.starts_with("0") & (length > 1)
            self.has_zeros = _row(
                texts.select((is_padded & ~each.str.contains(".", literal=True)).any())
            )

    def add_to(self, one: Tally, name: str) -> None:
        """Add them to the counts of a column."""
        if self.known and name in self.has_zeros and self.shortest[name] is not None:
            one.digits |= {self.shortest[name], self.longest[name]}
            one.has_zeros |= bool(self.has_zeros[name])
