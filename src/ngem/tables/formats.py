"""Text and Parquet files as frames of rows: the one pass that reads them.

Text formats are read as text. The values of a whole column decide what it holds, so an error can
name the row of a stray word, and a column may start with whole numbers and continue with others.
"""

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from . import sniff
from .opening import TableError, TableFile
from .parquet import ParquetError, parquet_frames, parquet_types

#: Text that stands for a missing value.
GAPS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")

#: Rows in memory at a time.
BATCH = 32_768

#: Types of columns that hold text.
TEXT = (pl.String, pl.Categorical, pl.Enum)

#: Name of the column of row numbers, which start at 1.
ROW = "__row__"

#: Name of the column that marks rows with at least one value.
_HAS_VALUE = "__has_value__"


def column_types(table: TableFile) -> dict[str, Any]:
    """Return the names and polars types of a table's columns; only the header is read."""
    with _readable(table):
        types = _scan(table).collect_schema() if table.is_text else parquet_types(table.path)
    return {name: dtype for name, dtype in types.items() if name != ROW}


def split_names(text: str | None, columns: Iterable[str]) -> list[str]:
    """Return the names in "a,b,c"; the name of a column may itself contain a comma."""
    if text is None:
        return []
    if text in columns:
        return [text]
    return [name.strip() for name in text.split(",") if name.strip()]


def check_names(table: TableFile, names: Iterable[str], columns: Iterable[str]) -> None:
    """Raise an error for the first name that is not a column of the table."""
    columns = list(columns)
    known = set(columns)
    for name in names:
        if name not in known:
            _raise_unknown(table, name, columns)


def frames(
    table: TableFile, names: Sequence[str], size: int | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a table in order, a frame at a time. This is one pass over the file.

    Empty rows at the end of a text file are left out: editors and spreadsheets write them.
    Elsewhere an empty row is a row of missing values, so that predictions stay in line with the
    rows of the file. In a file with one column an empty line is always a missing value.

    Args:
        table: The table.
        names: Columns to read; the row numbers in column `ROW` come in addition.
        size: Rows per frame; None means `BATCH`.
    """
    with _readable(table):
        if not table.is_text:
            yield from parquet_frames(table.path, names, size or BATCH, ROW)
            return
        rows = _scan(table)
        columns = rows.collect_schema().names()
        has_tail = len(columns) > 2
        # polars fills up rows with fewer fields than the header, so the last one is then missing.
        last = [columns[-1]] if has_tail else []
        if has_tail:
            has_value = pl.any_horizontal(pl.all().exclude(ROW).is_not_null())
            rows = rows.with_columns(has_value.alias(_HAS_VALUE))
        wanted = list(dict.fromkeys([ROW, *names, *last, *([_HAS_VALUE] if has_tail else [])]))
        batches = rows.select(wanted).collect_batches(chunk_size=size or BATCH)
        if not has_tail:
            yield from batches
            return
        is_checked = False
        for batch in _without_empty_tail(batches):
            if not is_checked and batch[last[0]].null_count():
                _check_ragged(table, len(columns) - 1)
                is_checked = True
            yield batch.select(ROW, *names)


def count_rows(table: TableFile) -> int:
    """Return how many rows a table has, in one pass over it."""
    return sum(len(frame) for frame in frames(table, []))


def clean(column: pl.Expr) -> pl.Expr:
    """Return text without spaces around it, null where it stands for a missing value."""
    text = column.cast(pl.String).str.strip_chars()
    return pl.when(~text.is_in(GAPS)).then(text)


def category_names(column: pl.Expr) -> pl.Expr:
    """Return the text of categories; 1.0, from a column with gaps, is the same category as 1."""
    return clean(column).str.replace(r"^(-?\d+)\.0+$", "$1")


def _scan(table: TableFile) -> pl.LazyFrame:
    """Return the rows of a text file with their numbers, to be read later."""
    return pl.scan_csv(
        table.path,
        separator=table.separator,
        infer_schema=False,
        null_values=list(GAPS),
        row_index_name=ROW,
        row_index_offset=1,
        # polars leaves the double quotes of a quoted name as they are.
        new_columns=list(table.header),
    )


def _without_empty_tail(batches: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield frames up to the last row with a value; empty rows wait until such a row follows."""
    waiting: list[pl.DataFrame] = []
    for batch in batches:
        with_value = batch[_HAS_VALUE].arg_true()
        end = with_value[-1] + 1 if len(with_value) else 0
        batch = batch.drop(_HAS_VALUE)
        if end:
            yield from waiting
            yield batch[:end]
            waiting = []
        if end < len(batch):
            waiting.append(batch[end:])


def _check_ragged(table: TableFile, width: int) -> None:
    """Refuse a row with more or fewer fields than the header, naming it."""
    ragged = sniff.find_ragged_row(table.path, table.separator, width)
    if ragged is not None:
        row, count = ragged
        raise TableError(
            f"{table} must have {width} fields in each row, as in its header, got {count} in row "
            f"{row}; correct that row: look for a separator too many or too few, or a quotation "
            "mark that is not closed."
        )


def _raise_unknown(table: TableFile, name: str, columns: Sequence[str]) -> None:
    lower = {column.lower(): column for column in columns}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    listed = ", ".join(columns[:20]) + (", …" if len(columns) > 20 else "")
    hint = f"did you mean {lower[near[0]]!r}?" if near else "check the spelling."
    raise TableError(f"{table} must have a column {name!r}, got {listed}; {hint}")


@contextlib.contextmanager
def _readable(table: TableFile) -> Iterator[None]:
    """Turn an error of polars into one sentence."""
    try:
        yield
    except (pl.exceptions.PolarsError, ParquetError) as error:
        if table.is_text:
            _check_ragged(table, len(table.header))
        lines = str(error).strip().splitlines() or [type(error).__name__]
        kind = "text" if table.is_text else "Parquet"
        raise TableError(
            f"{table} must be a complete {kind} file, got one that cannot be read "
            f"({lines[0][:200]}); write it again."
        ) from error
