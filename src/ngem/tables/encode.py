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
        x: Features, NaN where a missing number is to be imputed.
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
    encoder = _Encoder(path, frame, schema.missing)
    x = np.column_stack([encoder.features(column) for column in schema.features])
    names = schema.targets if with_targets else ()
    # An imputed target would teach the model nothing.
    targets = [encoder.numbers(name, fillable=False) for name in names]
    y = np.column_stack(targets) if targets else np.empty((len(frame), 0))
    return Rows(x, y, frame[ROW].to_numpy(), ~encoder.gaps, frame.select(keep))


class _Encoder:
    """Encodes columns of some rows, and records in `gaps` which rows cannot be used."""

    def __init__(self, path: Path, frame: pl.DataFrame, missing: str) -> None:
        self._path, self._frame, self._missing = path, frame, missing
        self.gaps = np.zeros(len(frame), bool)

    def features(self, column: Column) -> np.ndarray:
        """Return the inputs of the network that a column becomes."""
        if column.kind == "number":
            return self.numbers(column.name)
        if column.kind == "boolean":
            return self.numbers(column.name, words={"true": "1", "false": "0"})
        return self._one_hot(column)

    def numbers(
        self, name: str, *, words: dict[str, str] | None = None, fillable: bool = True
    ) -> np.ndarray:
        """Return a column as numbers, NaN in the gaps that are to be filled."""
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

    def _one_hot(self, column: Column) -> np.ndarray:
        """Return one column of zeros and ones per category; a gap is zero in all of them."""
        text = self._frame.select(category_names(pl.col(column.name)))[column.name]
        table = np.array(text.to_list(), object)[:, None] == np.array(column.categories, object)
        # The model can use a category it has never seen no better than a missing one.
        self._apply_rule(column.name, ~table.any(axis=1), known=column.categories)
        return table.astype(np.float64)

    def _apply_rule(
        self, name: str, gaps: np.ndarray, *, fillable: bool = True, known: Sequence[str] = ()
    ) -> None:
        """Apply the rule for gaps to one column."""
        if not gaps.any() or (self._missing == "impute" and fillable):
            return
        if self._missing == "error":
            row, value = self._first(name, gaps)
            got = "a missing value" if value is None or value != value else repr(value)
            expected = f"hold one of {', '.join(known[:10])}" if known else "have no gaps"
            raise TableError(
                f"column {name!r} of {self._path} must {expected}, got {got} in row {row}; fill it "
                "in, leave such rows out with --missing drop, or fit with --missing impute."
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
