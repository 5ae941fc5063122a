"""Parquet files as frames of rows, read by Arrow where it is installed.

Polars reads them too. But where a file is damaged, threads of its Rust code panic, and print that
to standard error, where no program can catch it.
"""

import contextlib
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl


class ParquetError(Exception):
    """A file that Arrow cannot read."""


def parquet_types(path: Path) -> dict[str, Any]:
    """Return the names and polars types of a file's columns."""
    if not _has_arrow():
        return dict(pl.scan_parquet(path).collect_schema())
    with _reading(path) as file:
        return dict(_to_frame(file.schema_arrow.empty_table()).schema)


def parquet_frames(
    path: Path, names: Sequence[str], size: int, row_name: str
) -> Iterator[pl.DataFrame]:
    """Yield some columns of a file, and the numbers of its rows from 1 on, a frame at a time."""
    if not _has_arrow():
        rows = pl.scan_parquet(path, row_index_name=row_name, row_index_offset=1)
        yield from rows.select(row_name, *names).collect_batches(chunk_size=size)
        return
    end = 0
    with _reading(path) as file:
        for batch in file.iter_batches(batch_size=size, columns=list(names)):
            start, end = end, end + batch.num_rows
            numbers = pl.int_range(start + 1, end + 1, dtype=pl.UInt32, eager=True).alias(row_name)
            # Arrow takes "a" for all columns of a structure "a", and so for a column "a.b".
            columns = _to_frame(batch).select(names).get_columns()
            yield pl.DataFrame([numbers, *columns])


def _has_arrow() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    path.open("rb").close()  # an error of the file system keeps its own words
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (
        pyarrow.ArrowException,
        OSError,
        UnicodeDecodeError,
        OverflowError,
        MemoryError,  # of a length that damage made huge
        pl.exceptions.PanicException,
    ) as error:
        raise ParquetError(str(error)) from error


def _check_names(field: Any) -> None:
    """Raise for a name or a remark that is no text, also of what is within a column."""
    remarks = field.metadata or {}
    for text in (field.name.encode(), *remarks, *remarks.values()):
        text.decode()
    for index in range(field.type.num_fields):
        _check_names(field.type.field(index))


def _to_frame(table: Any) -> pl.DataFrame:
    # Texts that are no texts, and numbers of categories that do not exist; then names of columns.
    table.validate(full=True)
    for field in table.schema:
        _check_names(field)
    frame = pl.from_arrow(table.replace_schema_metadata(None))
    assert isinstance(frame, pl.DataFrame)
    return frame
