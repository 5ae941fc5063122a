"""Rows of a file with the types of their columns, and as arrays of numbers; the rule for gaps."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ..estimator import encoding
from ..estimator.schema import Column, Schema
from .formats import ROW, TEXT, category_names, clean
from .opening import TableError, TableFile
from .parse import FORMATS, matching_formats, to_booleans, to_dates, to_numbers

_ISO = "%Y-%m-%d"


class Batch(NamedTuple):
    """Rows of a file, each column with the type of what it holds.

    Attributes:
        features: Columns of numbers, true and false, texts and dates, null where missing.
        y: Targets, NaN where unknown; without columns if they were not read.
        numbers: Numbers of the rows in the file, from 1.
        complete: Which rows can be used; the others have gaps.
        kept: Columns to copy to the output as they are.
    """

    features: pl.DataFrame
    y: np.ndarray
    numbers: np.ndarray
    complete: np.ndarray
    kept: pl.DataFrame

    def encoded(self, schema: Schema) -> "Rows":
        """Return the same rows as numbers."""
        x = encoding.encode(self.features, schema.features)
        return Rows(x, self.y, self.numbers, self.complete, self.kept)

    @property
    def has_target(self) -> np.ndarray:
        """Which rows have all targets."""
        return np.asarray(~np.isnan(self.y).any(axis=1))


class Rows(NamedTuple):
    """Rows of a table as numbers; see `Schema`.

    Attributes:
        x: Features, NaN where a missing value is left to the model.
        y: Targets, NaN where unknown; without columns if they were not read.
        numbers: Numbers of the rows in the file, from 1.
        complete: Which rows can be used; the others have gaps.
        kept: Columns to copy to the output as they are.
    """

    x: np.ndarray
    y: np.ndarray
    numbers: np.ndarray
    complete: np.ndarray
    kept: pl.DataFrame


def read_types(
    table: TableFile,
    frame: pl.DataFrame,
    schema: Schema,
    *,
    with_targets: bool,
    keep: Sequence[str] = (),
) -> Batch:
    """Return rows with the types of their columns; the rule for gaps says which are complete.

    A row without a target is never complete: an imputed target would teach the model nothing.
    """
    reader = _Reader(table, frame)
    features = pl.DataFrame([reader.feature(column) for column in schema.features])
    targets = [reader.numbers(name).to_numpy() for name in schema.targets if with_targets]
    y = np.column_stack(targets) if targets else np.empty((len(frame), 0))
    gaps = ~_complete(table, features, frame[ROW], schema)
    gaps |= np.isnan(y).any(axis=1)
    return Batch(features, y, frame[ROW].to_numpy(), ~gaps, frame.select(keep))


def category_codes(x: np.ndarray, schema: Schema, column: Column) -> np.ndarray:
    """Return the code of each row's category, -1 for a gap and for one that is not known."""
    codes = x[:, schema.places[column.name][0]]
    return np.where(codes < len(column.labels), np.nan_to_num(codes, nan=-1.0), -1).astype(int)


def unseen_rows(x: np.ndarray, schema: Schema) -> np.ndarray:
    """Return which rows have a category that the model has not seen."""
    sizes = np.array(schema.sizes)
    coded = np.flatnonzero(sizes)
    return np.asarray((x[:, coded] >= sizes[coded]).any(axis=1))


def _complete(
    table: TableFile, features: pl.DataFrame, rows: pl.Series, schema: Schema
) -> np.ndarray:
    """Return which rows the rule for gaps lets pass."""
    if schema.takes_gaps or not sum(features.null_count().row(0)):
        return np.ones(len(rows), bool)
    if schema.missing == "error":
        _raise_gap(table, features, rows)
    return features.select(pl.all_horizontal(pl.all().is_not_null())).to_series().to_numpy()


def _raise_gap(table: TableFile, features: pl.DataFrame, rows: pl.Series) -> None:
    name = next(name for name in features.columns if features[name].null_count())
    row = rows.filter(features[name].is_null())[0]
    raise TableError(
        f"column {name!r} of {table} must have no gaps, got a missing value in row {row}; fill it "
        "in, leave such rows out with --missing drop, or leave --missing out to use them."
    )


class _Reader:
    """Reads the columns of some rows as what they should hold."""

    def __init__(self, table: TableFile, frame: pl.DataFrame) -> None:
        self._table = table
        # Found once: a frame looks through all of its columns for each that it is asked for.
        self._columns = {series.name: series for series in frame.get_columns()}
        self._decimal = table.decimal or "."

    def feature(self, column: Column) -> pl.Series:
        """Return a column with the type of its kind."""
        if column.kind == "number":
            return self.numbers(column.name)
        if column.kind == "boolean":
            return self._booleans(column.name)
        if column.kind == "date":
            return self._dates(column)
        return self._select(category_names(pl.col(column.name)), column.name)

    def numbers(self, name: str) -> pl.Series:
        """Return a column as finite numbers."""
        dtype = self._columns[name].dtype
        if dtype in TEXT:
            text = self._text(name)
            numbers = self._parse(text, lambda one: to_numbers(one, self._decimal))
            self._refuse(name, text.is_not_null() & numbers.is_null(), "numbers")
        elif dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
            numbers = self._columns[name].cast(pl.Float64).fill_nan(None)
        elif dtype == pl.Duration:
            numbers = self._columns[name].dt.total_microseconds().cast(pl.Float64) / 1e6
        else:
            raise self._other_type(name, "numbers")
        self._refuse(name, numbers.is_infinite().fill_null(False), "finite numbers")
        return numbers.rename(name)

    def _booleans(self, name: str) -> pl.Series:
        if self._columns[name].dtype not in TEXT:
            return self.numbers(name)
        text = self._text(name)
        found = self._parse(text, to_booleans)
        # Other programs write 0 and 1.
        numbers = self._parse(text, lambda one: one.cast(pl.Float64, strict=False))
        found = found.cast(pl.Float64).fill_null(numbers)
        self._refuse(name, text.is_not_null() & found.is_null(), "true and false")
        return found.rename(name)

    def _dates(self, column: Column) -> pl.Series:
        dtype = self._columns[column.name].dtype
        if dtype == pl.Time:
            return self._select(pl.date(1970, 1, 1).dt.combine(pl.col(column.name)), column.name)
        if dtype.is_temporal() and dtype != pl.Duration:
            return self._columns[column.name]
        if dtype not in (*TEXT, pl.Null):
            raise self._other_type(column.name, "dates")
        text = self._text(column.name)
        # Dates of another kind of file have no format; any of ours will do then.
        form = column.format or next(iter(matching_formats(text.drop_nulls(), FORMATS)), _ISO)
        found = self._parse(text, lambda one: to_dates(one, form))
        what = f"dates as when the model was fitted ({form})"
        self._refuse(column.name, text.is_not_null() & found.is_null(), what)
        return found.rename(column.name)

    def _text(self, name: str) -> pl.Series:
        return self._select(clean(pl.col(name)), name)

    def _select(self, expression: pl.Expr, name: str) -> pl.Series:
        return self._columns[name].to_frame().select(expression.alias(name)).to_series()

    def _parse(self, text: pl.Series, parse: Any) -> pl.Series:
        return text.to_frame("text").select(parse(pl.col("text"))).to_series()

    def _other_type(self, name: str, what: str) -> TableError:
        return TableError(
            f"column {name!r} of {self._table} must hold {what}, got {self._columns[name].dtype}; "
            "convert it first."
        )

    def _refuse(self, name: str, bad: pl.Series, what: str) -> None:
        if not bad.any():
            return
        row, value = self._columns[ROW].filter(bad)[0], self._columns[name].filter(bad)[0]
        count = int(bad.sum())
        raise TableError(
            f"column {name!r} of {self._table} must hold {what}, got {value!r} in row {row}"
            f"{f' ({count} such values near it)' if count > 1 else ''}; correct or empty "
            f"{'them' if count > 1 else 'it'}."
        )
