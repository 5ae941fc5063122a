"""Rows of a file as arrays of numbers, and the rule for gaps that the user chose."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ..estimator.schema import Column, Schema
from .formats import ROW, TEXT, TableError, category_names, clean


class Rows(NamedTuple):
    """Rows of a table as numbers.

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


def encode(
    path: Path, frame: pl.DataFrame, schema: Schema, *, with_targets: bool, keep: Sequence[str] = ()
) -> Rows:
    """Return rows as numbers; the schema's rule for gaps decides which of them are complete."""
    encoder = _Encoder(path, frame, schema)
    x = np.column_stack([encoder.features(column) for column in schema.features])
    names = schema.targets if with_targets else ()
    # An imputed target would teach the model nothing.
    targets = [encoder.numbers(name, fillable=False) for name in names]
    y = np.column_stack(targets) if targets else np.empty((len(frame), 0))
    return Rows(x, y, frame[ROW].to_numpy(), ~encoder.gaps, frame.select(keep))


def use_gaps(schema: Schema) -> str:
    """Return the advice that makes a model use rows with gaps."""
    return {"one-hot": "fit with --missing impute", "codes": "use --missing keep"}[schema.coding]


def category_codes(x: np.ndarray, schema: Schema, column: Column) -> np.ndarray:
    """Return the number of each row's category, -1 for a gap, whatever their coding is."""
    features = x[:, schema.places[column.name]]
    if schema.coding == "codes":
        return np.nan_to_num(features[:, 0], nan=-1.0).astype(int)
    return np.where(features.any(axis=1), np.argmax(features, axis=1), -1)


def category_features(code: int, schema: Schema, column: Column) -> np.ndarray:
    """Return the features of one category."""
    codes = np.array([float(code)])
    return codes if schema.coding == "codes" else _one_hot(codes, column)[0]


def _one_hot(codes: np.ndarray, column: Column) -> np.ndarray:
    """Return one column of zeros and ones per category; a gap is zero in all of them."""
    return (codes[:, None] == np.arange(len(column.categories))).astype(np.float64)


class _Encoder:
    """Encodes columns of some rows, and records in `gaps` which rows cannot be used."""

    def __init__(self, path: Path, frame: pl.DataFrame, schema: Schema) -> None:
        self._path, self._frame, self._schema = path, frame, schema
        self.gaps = np.zeros(len(frame), bool)

    def features(self, column: Column) -> np.ndarray:
        """Return the features of the model that a column becomes."""
        if column.kind == "number":
            return self.numbers(column.name)
        if column.kind == "boolean":
            return self.numbers(column.name, words={"true": "1", "false": "0"})
        codes = self._codes(column)
        return codes if self._schema.coding == "codes" else _one_hot(codes, column)

    def numbers(
        self, name: str, *, words: dict[str, str] | None = None, fillable: bool = True
    ) -> np.ndarray:
        """Return a column as numbers, NaN in the gaps that are left to the model."""
        series = self._frame[name]
        if series.dtype in TEXT:
            text = self._frame.select(clean(pl.col(name)))[name]
            if words:
                text = text.str.to_lowercase().replace(words)
            numbers = text.cast(pl.Float64, strict=False)
            self._refuse(name, numbers.is_null() & text.is_not_null())
        elif series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null):
            numbers = series.cast(pl.Float64)
        else:
            raise TableError(
                f"column {name!r} of {self._path} must hold numbers, got {series.dtype}; convert "
                "it to numbers."
            )
        self._refuse(name, numbers.is_infinite().fill_null(False))
        values = numbers.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        self._apply_rule(name, np.isnan(values), fillable=fillable)
        return values

    def _codes(self, column: Column) -> np.ndarray:
        """Return the number of each category among those that the model knows, NaN for others."""
        text = self._frame.select(category_names(pl.col(column.name)))[column.name]
        numbers = np.arange(len(column.categories), dtype=np.float64)
        known = pl.Series(column.categories, dtype=pl.String)
        codes = text.replace_strict(known, numbers, default=float("nan"), return_dtype=pl.Float64)
        codes = codes.to_numpy()
        # The model can use a category it has never seen no better than a missing one.
        self._apply_rule(column.name, np.isnan(codes), known=column.categories)
        return codes

    def _apply_rule(
        self, name: str, gaps: np.ndarray, *, fillable: bool = True, known: Sequence[str] = ()
    ) -> None:
        """Apply the rule for gaps to one column."""
        if not gaps.any() or (self._schema.takes_gaps and fillable):
            return
        if self._schema.missing == "error":
            row, value = self._first(name, gaps)
            got = "a missing value" if value is None or value != value else repr(value)
            expected = f"hold one of {', '.join(known[:10])}" if known else "have no gaps"
            raise TableError(
                f"column {name!r} of {self._path} must {expected}, got {got} in row {row}; fill it "
                f"in, leave such rows out with --missing drop, or {use_gaps(self._schema)}."
            )
        self.gaps |= gaps

    def _refuse(self, name: str, bad: pl.Series) -> None:
        if bad.any():
            row, value = self._first(name, bad.to_numpy())
            raise TableError(
                f"column {name!r} of {self._path} must hold finite numbers, got {value!r} in row "
                f"{row} ({bad.sum()} such values near it); correct or empty them."
            )

    def _first(self, name: str, rows: np.ndarray) -> tuple[int, Any]:
        index = int(np.flatnonzero(rows)[0])
        return self._frame[ROW][index], self._frame[name][index]
