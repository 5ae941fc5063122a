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
from .formats import SEPARATORS, TableError, check_suffix


def with_predictions(rows: Rows, columns: Mapping[str, np.ndarray]) -> pl.DataFrame:
    """Return a frame of all rows: kept columns, then predictions, null for incomplete rows."""
    predictions = {}
    for name, values in columns.items():
        column = np.full(len(rows.x), np.nan)
        column[rows.complete] = values
        predictions[name] = pl.Series(name, column).fill_nan(None)
    both = set(rows.kept.columns) & set(predictions)
    if both:
        raise TableError(
            f"a kept column must have a name that no prediction has, got {min(both)!r}; rename it "
            "in the file, or leave it out of --keep."
        )
    return rows.kept.with_columns(**predictions) if rows.kept.width else pl.DataFrame(predictions)


@contextlib.contextmanager
def writing(path: Path | None) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Yield a function that appends frames to a file; the file appears when the block succeeds.

    Args:
        path: The file; its suffix selects the format. None means CSV on standard output.
    """
    if path is None:
        yield _append_text(lambda text: sys.stdout.write(text), ",")
        return
    suffix = check_suffix(path)
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
