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
