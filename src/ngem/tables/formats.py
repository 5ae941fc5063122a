"""CSV, TSV and Parquet files as frames of rows: what can be read, and the one pass that reads it.

Text formats are read as text. The values of a whole column decide what it holds, so an error can
name the row of a stray word, and a column may start with whole numbers and continue with others.
"""

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

#: Text that stands for a missing value.
GAPS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")

#: Rows in memory at a time.
BATCH = 32_768

#: Separators of the text formats, by suffix.
SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}

#: Types of columns that hold text.
TEXT = (pl.String, pl.Categorical, pl.Enum)

#: Name of the column of row numbers, which start at 1.
ROW = "__row__"

_SUFFIXES = (*SEPARATORS, ".parquet", ".pq")

#: Name of the column that marks rows with at least one value.
_HAS_VALUE = "__has_value__"

#: What polars inserts between a repeated column name and its number.
_REPEATED = "_duplicated_"


class TableError(ValueError):
    """A table that cannot be used as it is."""


def check_suffix(path: Path) -> str:
    """Return a file's suffix if we can read and write such files."""
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise TableError(
            f"a table must be a file with the suffix {', '.join(_SUFFIXES)}, got {path.name!r}; "
            "rename or convert it."
        )
    return suffix


def column_types(path: Path) -> dict[str, Any]:
    """Return the names and polars types of a file's columns; only the header is read."""
    with _readable(path):
        types = _scan(path).collect_schema()
    return {name: dtype for name, dtype in types.items() if name != ROW}


def split_names(text: str | None, columns: Iterable[str]) -> list[str]:
    """Return the names in "a,b,c"; the name of a column may itself contain a comma."""
    if text is None:
        return []
    if text in columns:
        return [text]
    return [name.strip() for name in text.split(",") if name.strip()]


def check_names(path: Path, names: Iterable[str], columns: Iterable[str]) -> None:
    """Raise an error for the first name that is not a column of the file."""
    columns = list(columns)
    for name in names:
        if name not in columns:
            _raise_unknown(path, name, columns)


def frames(path: Path, names: Sequence[str], size: int | None = None) -> Iterator[pl.DataFrame]:
    """Yield the rows of a file in order, a frame at a time. This is one pass over the file.

    Empty rows at the end of a text file are left out: editors and spreadsheets write them.
    Elsewhere an empty row is a row of missing values, so that predictions stay in line with the
    rows of the file. In a file with one column an empty line is always a missing value.

    Args:
        path: The file.
        names: Columns to read; the row numbers in column `ROW` come in addition.
        size: Rows per frame; None means `BATCH`.
    """
    with _readable(path):
        rows = _scan(path)
        columns = rows.collect_schema().names()
        has_tail = path.suffix.lower() in SEPARATORS and len(columns) > 2
        if has_tail:
            has_value = pl.any_horizontal(pl.all().exclude(ROW).is_not_null())
            rows = rows.with_columns(has_value.alias(_HAS_VALUE))
        wanted = [ROW, *names, *([_HAS_VALUE] if has_tail else [])]
        batches = rows.select(wanted).collect_batches(chunk_size=size or BATCH)
        yield from _without_empty_tail(batches) if has_tail else batches


def count_rows(path: Path) -> int:
    """Return how many rows a file has, in one pass over it."""
    return sum(len(frame) for frame in frames(path, []))


def clean(column: pl.Expr) -> pl.Expr:
    """Return text without spaces around it, null where it stands for a missing value."""
    text = column.cast(pl.String).str.strip_chars()
    return pl.when(~text.is_in(GAPS)).then(text)


def category_names(column: pl.Expr) -> pl.Expr:
    """Return the text of categories; 1.0, from a column with gaps, is the same category as 1."""
    return clean(column).str.replace(r"^(-?\d+)\.0+$", "$1")


def _scan(path: Path) -> pl.LazyFrame:
    """Return a file's rows with their numbers, to be read later."""
    suffix = check_suffix(path)
    if not path.is_file():
        kind = "a directory" if path.is_dir() else "nothing there"
        raise TableError(f"{path} must be a file, got {kind}; check the name and the directory.")
    if path.stat().st_size == 0:
        raise TableError(f"{path} must hold a table, got an empty file; was it fully written?")
    if suffix not in SEPARATORS:
        return pl.scan_parquet(path, row_index_name=ROW, row_index_offset=1)
    rows = pl.scan_csv(
        path,
        separator=SEPARATORS[suffix],
        infer_schema=False,
        null_values=list(GAPS),
        row_index_name=ROW,
        row_index_offset=1,
    )
    _check_distinct(path, rows.collect_schema().names())
    return rows


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


def _check_distinct(path: Path, names: Sequence[str]) -> None:
    """Refuse a header that has one name twice; polars renames the second column."""
    for name in names:
        first = name.rsplit(_REPEATED, 1)[0]
        if _REPEATED in name and first in names:
            raise TableError(
                f"{path} must have a different name for each column, got {first!r} twice; rename "
                "or remove one of them."
            )


def _raise_unknown(path: Path, name: str, columns: Sequence[str]) -> None:
    lower = {column.lower(): column for column in columns}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    listed = ", ".join(columns[:20]) + (", …" if len(columns) > 20 else "")
    hint = f"did you mean {lower[near[0]]!r}?" if near else "check the spelling."
    if len(columns) == 1 and ";" in columns[0]:
        hint = "its fields are separated by semicolons: write it with commas or as .tsv."
    raise TableError(f"{path} must have a column {name!r}, got {listed}; {hint}")


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn an error of polars into one sentence."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise TableError(
            f"{path} must be a {path.suffix.lower()[1:]} file in UTF-8 with as many fields in each "
            f"row as in its header, got one that cannot be read ({lines[0][:200]}); check its "
            "separators and quotes, or write it again."
        ) from error
