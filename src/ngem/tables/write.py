"""Tables written to files or standard output, whole or not at all."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from .. import _files
from .encode import Rows
from .formats import TEXT
from .opening import TableError

#: Separators of the text formats that we write, by suffix.
SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}

_SUFFIXES = (*SEPARATORS, ".parquet", ".pq")


def check_output(path: Path) -> str:
    """Return the suffix of a file that we can write."""
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise TableError(
            f"--out must be a file with the suffix {', '.join(_SUFFIXES)}, got {path.name!r}; "
            "choose one of these."
        )
    return suffix


def with_predictions(rows: Rows, columns: Mapping[str, np.ndarray]) -> pl.DataFrame:
    """Return a frame of all rows: kept columns, then predictions, null for incomplete rows."""
    predictions = {name: _in_place(name, values, rows.complete) for name, values in columns.items()}
    both = set(rows.kept.columns) & set(predictions)
    if both:
        raise TableError(
            f"a kept column must have a name that no prediction has, got {min(both)!r}; rename it "
            "in the file, or leave it out of --keep."
        )
    return rows.kept.with_columns(**predictions) if rows.kept.width else pl.DataFrame(predictions)


def _in_place(name: str, values: np.ndarray, is_complete: np.ndarray) -> pl.Series:
    """Return numbers or truth values of the complete rows as a column of all rows."""
    column = np.full(len(is_complete), np.nan)
    column[is_complete] = values
    series = pl.Series(name, column).fill_nan(None)
    return series.cast(pl.Boolean) if values.dtype == bool else series


def is_text(path: Path | None) -> bool:
    """Return whether a table is written as text, which spreadsheets open; None is CSV."""
    return path is None or check_output(path) in SEPARATORS


def quote_formulas(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Return a frame whose text no spreadsheet runs as a formula, and how many cells changed.

    Such a cell begins with =, +, -, @, a tab or a carriage return, and is not a number. It gets '
    in front, as OWASP advises. Names of columns are cells too.
    """
    texts = [name for name, dtype in frame.schema.items() if dtype in TEXT]
    cells = frame.select(_is_formula(pl.col(name).cast(pl.String)) for name in texts)
    counts = {series.name: int(series.sum() or 0) for series in cells.get_columns()}
    found = [name for name, count in counts.items() if count]
    quoted = [
        pl.when(_is_formula(text := pl.col(name).cast(pl.String)))
        .then(pl.concat_str(pl.lit("'"), text))
        .otherwise(text)
        .alias(name)
        for name in found
    ]
    names = pl.Series(frame.columns, dtype=pl.String)
    renamed = {name: f"'{name}" for name in names.filter(pl.select(_is_formula(names)).to_series())}
    return frame.with_columns(quoted).rename(renamed), sum(counts.values()) + len(renamed)


def _is_formula(text: Any) -> pl.Expr:
    text = pl.lit(text) if isinstance(text, pl.Series) else text
    is_number = text.cast(pl.Float64, strict=False).is_not_null()
    return (text.str.contains(r"^[=+\-@\t\r]") & ~is_number).fill_null(False)


@contextlib.contextmanager
def writing(path: Path | None) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Yield a function that appends frames to a file; the file appears when the block succeeds.

    Args:
        path: The file; its suffix selects the format. None means CSV on standard output.
    """
    if path is None:
        yield _append_text(lambda text: sys.stdout.write(text), ",")
        return
    suffix = check_output(path)
    with _files.replacing(path) as file:
        if suffix in SEPARATORS:
            # Python writes the bytes, not polars: a full disk is then an OSError.
            yield _append_text(lambda text: file.write(text.encode()), SEPARATORS[suffix])
        else:
            with _parquet(file) as append:
                yield append


def _append_text(write: Callable[[str], Any], separator: str) -> Callable[[pl.DataFrame], None]:
    header = True

    def append(frame: pl.DataFrame) -> None:
        nonlocal header
        write(frame.write_csv(separator=separator, include_header=header))
        header = False

    return append


@contextlib.contextmanager
def _parquet(file: BinaryIO) -> Iterator[Callable[[pl.DataFrame], None]]:
    from pyarrow import parquet

    writer = None

    def append(frame: pl.DataFrame) -> None:
        nonlocal writer
        table = frame.to_arrow()
        writer = writer or parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)

    try:
        yield append
        if writer is not None:
            writer.close()
    except BaseException:
        if writer is not None:
            # Left open, the writer would close itself after its file. Report the first error.
            with contextlib.suppress(OSError):
                writer.close()
        raise
