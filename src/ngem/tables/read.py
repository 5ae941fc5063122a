"""Tables in files: CSV, TSV and Parquet, read in batches and written whole or not at all.

Text formats are read as text, and what a column holds is decided by all of its values: the row of
a stray word can then be named, and a column that begins with whole numbers may go on with others.
"""

import contextlib
import difflib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from .. import _files
from ..estimator.schema import Column, Schema

#: What stands for a missing value in text, besides nothing at all.
GAPS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")

#: Rows in memory at a time.
BATCH = 32_768

#: Categories of one column at most; more are names or keys, from which nothing can be learned.
MOST_CATEGORIES = 100

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_SUFFIXES = (*_SEPARATORS, ".parquet", ".pq")
_ROW = "__row__"

#: What polars puts between a name that a header has twice and a number.
_TWICE = "_duplicated_"

_TEXT = (pl.String, pl.Categorical, pl.Enum)


class TableError(ValueError):
    """A table that is not as it should be."""


class Batch(NamedTuple):
    """Some rows of a table, encoded.

    Attributes:
        x: Features, NaN where a number is missing and is to be imputed.
        y: Targets, NaN where unknown; no columns where they were not asked for.
        complete: Rows that can be used; the others are to be dropped.
        kept: Columns to pass through as they are.
        numbers: Of the rows in the file, from 1.
    """

    x: np.ndarray
    y: np.ndarray
    complete: np.ndarray
    kept: pl.DataFrame
    numbers: np.ndarray


class Rows(NamedTuple):
    """A table in memory: features, targets, numbers of the rows, and how many had to be dropped."""

    x: np.ndarray
    y: np.ndarray
    numbers: np.ndarray
    dropped: int


def split_names(text: str | None, columns: Sequence[str]) -> list[str]:
    """Return names given as "a,b,c"; a column whose own name has a comma is found as well."""
    if text is None:
        return []
    if text in columns:
        return [text]
    return [name.strip() for name in text.split(",") if name.strip()]


def column_names(path: Path) -> list[str]:
    """Return the names in a file's header."""
    with _readable(path):
        return [name for name in _scan(path).collect_schema().names() if name != _ROW]


def describe(
    path: Path,
    targets: Sequence[str],
    *,
    features: Sequence[str] = (),
    exclude: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing: str = "error",
) -> tuple[Schema, int]:
    """Return what the columns of a file hold, and how many rows it has.

    Args:
        path: The file; it is read once or twice, never all of it at a time.
        targets: Columns to predict.
        features: Columns to predict from; all others if none are named.
        exclude: Columns that are no features.
        categorical: Columns of numbers that are names, such as codes of places.
        missing: What to do with rows that have gaps.

    Raises:
        TableError: If nothing can be learned from the file as it is.
    """
    columns = column_names(path)
    for name in (*targets, *features, *exclude, *categorical):
        _check_known(path, name, columns)
    features = [
        name
        for name in features or columns
        if name not in exclude and (features or name not in targets)
    ]
    _check_roles(features, targets)
    rows, counts = _count(path, [*features, *targets])
    if rows == 0:
        raise TableError(f"{path} must hold rows below its header, got none; is it the right file?")
    named = set(categorical) - set(targets)
    kinds = {name: _kind(path, name, count, name in named) for name, count in counts.items()}
    for name in targets:
        _check_target(path, name, kinds[name])
    categories = _categories(path, [name for name in features if kinds[name] == "category"])
    described = [Column(name, kinds[name], categories.get(name, ())) for name in features]
    return Schema(tuple(described), tuple(targets), missing), rows


def read(
    path: Path,
    schema: Schema,
    *,
    rows: int | None = None,
    max_rows: int | None = None,
    seed: int = 0,
) -> Rows:
    """Return the rows of a file that can be used, or a random choice among them.

    Args:
        path: The file.
        schema: What its columns hold.
        rows: How many rows it has, if that is known; counted where `max_rows` needs it.
        max_rows: How many to take at most; the file itself may be larger than memory.
        seed: Of the choice.

    Raises:
        TableError: If a value is not what it should be, or no row is left.
    """
    chosen = None
    if max_rows is not None:
        rows = _count(path, [])[0] if rows is None else rows
        if max_rows < rows:
            chosen = np.random.default_rng(seed).choice(rows, max_rows, replace=False)
    parts, dropped = [], 0
    for batch in batches(path, schema, with_targets=True, chosen=chosen):
        parts.append([part[batch.complete] for part in (batch.x, batch.y, batch.numbers)])
        dropped += int(np.sum(~batch.complete))
    if not parts:
        raise TableError(f"{path} must hold rows below its header, got none; is it the right file?")
    x, y, numbers = (np.concatenate(part) for part in zip(*parts, strict=True))
    if len(x) == 0:
        raise TableError(
            f"{path} must hold rows without gaps, got none: all {dropped} were dropped; try "
            "--missing impute, or --exclude for the columns that are mostly empty."
        )
    return Rows(x, y, numbers, dropped)


def batches(
    path: Path,
    schema: Schema,
    *,
    with_targets: bool,
    keep: Sequence[str] = (),
    chosen: np.ndarray | None = None,
    size: int | None = None,
) -> Iterator[Batch]:
    """Yield the rows of a file, encoded, a few at a time and in order.

    Args:
        path: The file.
        schema: What its columns should hold.
        with_targets: Read targets too.
        keep: Columns to pass through.
        chosen: Numbers of the rows to read; all if None.
        size: Rows at a time; None is `BATCH`.
    """
    names = [column.name for column in schema.features]
    names += schema.targets if with_targets else ()
    columns = column_names(path)
    for name in (*names, *keep):
        _check_known(path, name, columns)
    wanted = list(dict.fromkeys((_ROW, *names, *keep)))
    position, chosen = 0, None if chosen is None else np.sort(chosen)
    with _readable(path):
        for frame in _rows(path).select(wanted).collect_batches(chunk_size=size or BATCH):
            start, position = position, position + len(frame)
            if chosen is not None:
                low, high = np.searchsorted(chosen, [start, position])
                frame = frame[chosen[low:high] - start]
            if len(frame):
                yield _encode(path, frame, schema, with_targets, keep)


def beside(batch: Batch, columns: Mapping[str, np.ndarray]) -> pl.DataFrame:
    """Return a frame of all rows of a batch: kept columns, then some for its complete rows."""
    full = {}
    for name, values in columns.items():
        column = np.full(len(batch.x), np.nan)
        column[batch.complete] = values
        full[name] = pl.Series(name, column).fill_nan(None)
    both = set(batch.kept.columns) & set(full)
    if both:
        raise TableError(
            f"a kept column must have a name that no prediction has, got {min(both)!r}; rename it "
            "in the file, or leave it out of --keep."
        )
    return batch.kept.with_columns(**full) if batch.kept.width else pl.DataFrame(full)


@contextlib.contextmanager
def writing(path: Path | None) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Give a function that appends frames to a file, which appears when the block ends well.

    Args:
        path: Its suffix says how to write; None is CSV for standard output.
    """
    if path is None:
        yield _append_text(lambda text: sys.stdout.write(text), ",")
        return
    suffix = check_suffix(path)
    with _files.replacing(path) as file:
        if suffix in _SEPARATORS:
            # Encoded here: an error of the disk then comes as Python knows it.
            yield _append_text(lambda text: file.write(text.encode()), _SEPARATORS[suffix])
        else:
            with _parquet(file) as append:
                yield append


def check_suffix(path: Path) -> str:
    """Return a file's suffix if we can read and write such files."""
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise TableError(
            f"a table must be a file with the suffix {', '.join(_SUFFIXES)}, got {path.name!r}; "
            "rename or convert it."
        )
    return suffix


def _append_text(write: Callable[[str], Any], separator: str) -> Callable[[pl.DataFrame], None]:
    header = True

    def append(frame: pl.DataFrame) -> None:
        nonlocal header
        write(frame.write_csv(separator=separator, include_header=header))
        header = False

    return append


@contextlib.contextmanager
def _parquet(file: Any) -> Iterator[Callable[[pl.DataFrame], None]]:
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
            # It would close itself later, when its file is gone; what failed first is what counts.
            with contextlib.suppress(OSError):
                writer.close()
        raise


def _scan(path: Path) -> pl.LazyFrame:
    """Return a file's rows, to be read as they are needed, with their numbers from 1."""
    suffix = check_suffix(path)
    if not path.is_file():
        kind = "a directory" if path.is_dir() else "nothing there"
        raise TableError(f"{path} must be a file, got {kind}; check the name and the directory.")
    if path.stat().st_size == 0:
        raise TableError(f"{path} must hold a table, got an empty file; was it written to the end?")
    if suffix not in _SEPARATORS:
        return pl.scan_parquet(path, row_index_name=_ROW, row_index_offset=1)
    frame = pl.scan_csv(
        path,
        separator=_SEPARATORS[suffix],
        infer_schema=False,
        null_values=list(GAPS),
        row_index_name=_ROW,
        row_index_offset=1,
    )
    names = frame.collect_schema().names()
    _check_distinct(path, names)
    return frame


def _rows(path: Path) -> pl.LazyFrame:
    """Return a file's rows without the empty ones at its end, which editors and Excel leave there.

    Elsewhere an empty row is a row of gaps, so that predictions stay beside what they are for. Of
    one column, an empty line is a gap even at the end.
    """
    frame = _scan(path)
    names = frame.collect_schema().names()
    if path.suffix.lower() not in _SEPARATORS or len(names) <= 2:
        return frame
    full = pl.any_horizontal(pl.all().exclude(_ROW).is_not_null())
    last = frame.filter(full).select(pl.col(_ROW).max()).collect(engine="streaming").item()
    return frame.filter(pl.col(_ROW) <= (last or 0))


def _check_distinct(path: Path, names: Sequence[str]) -> None:
    """Refuse a header with one name twice, of which the reader makes two names."""
    for name in names:
        first = name.rsplit(_TWICE, 1)[0]
        if _TWICE in name and first in names:
            raise TableError(
                f"{path} must have a name of its own for each column, got {first!r} twice; rename "
                "or remove one of them."
            )


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what the library for tables says into one sentence."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise TableError(
            f"{path} must be a {path.suffix.lower()[1:]} file in UTF-8 with as many fields in each "
            f"row as in its header, got one that cannot be read ({lines[0][:200]}); check its "
            "separators and quotes, or write it again."
        ) from error


def _check_known(path: Path, name: str, columns: Sequence[str]) -> None:
    if name in columns:
        return
    lower = {column.lower(): column for column in columns}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    listed = ", ".join(columns[:20]) + (", …" if len(columns) > 20 else "")
    hint = f"did you mean {lower[near[0]]!r}?" if near else "check the spelling."
    if len(columns) == 1 and ";" in columns[0]:
        hint = "its fields are separated by semicolons: write it with commas or as .tsv."
    raise TableError(f"{path} must have a column {name!r}, got {listed}; {hint}")


def _check_roles(features: Sequence[str], targets: Sequence[str]) -> None:
    both = [name for name in features if name in targets]
    if both:
        raise TableError(
            f"a column must be a feature or a target, got {both[0]!r} as both; leave it out of "
            "--features."
        )
    for what, names in (("feature", features), ("target", targets)):
        if not names or len(set(names)) < len(names):
            raise TableError(
                f"there must be at least one {what} and none twice, got {list(names)}; name "
                f"columns with --{what}{'s' if what == 'feature' else ''}."
            )


def _count(path: Path, names: Sequence[str]) -> tuple[int, dict[str, "_Count"]]:
    """Return how many rows there are, and of each column how many values of which kind."""
    with _readable(path):
        frame = _rows(path)
        types = frame.collect_schema()
        wanted = [expr for name in names for expr in _counting(name, is_text=types[name] in _TEXT)]
        # By position: a user's column may have any name.
        wanted = [expr.alias(str(index)) for index, expr in enumerate([pl.len(), *wanted])]
        rows, *found = frame.select(wanted).collect(engine="streaming").row(0)
    parts = [found[start : start + 3] for start in range(0, len(found), 3)]
    counts = {name: _Count(types[name], *part) for name, part in zip(names, parts, strict=True)}
    return rows, counts


class _Count(NamedTuple):
    """The type of a column, and how many of its values are there, are numbers, are booleans."""

    dtype: Any
    known: int
    numbers: int
    booleans: int


def _counting(name: str, *, is_text: bool) -> list[pl.Expr]:
    column = pl.col(name)
    if not is_text:
        return [column.count(), pl.lit(0), pl.lit(0)]
    text = _clean(column)
    truth = text.str.to_lowercase().is_in(["true", "false"])
    return [text.count(), text.cast(pl.Float64, strict=False).count(), truth.sum()]


def _clean(column: pl.Expr) -> pl.Expr:
    """Return text without spaces around it, null where it stands for a missing value."""
    text = column.cast(pl.String).str.strip_chars()
    return pl.when(~text.is_in(GAPS)).then(text)


def _names(column: pl.Expr) -> pl.Expr:
    """Return text for categories, the same for 1 and for the 1.0 of a column with gaps."""
    return _clean(column).str.replace(r"^(-?\d+)\.0+$", "$1")


def _kind(path: Path, name: str, count: _Count, is_category: bool) -> str:
    """Return what a column holds, refusing one that holds nothing or a mixture."""
    if count.known == 0:
        raise TableError(
            f"column {name!r} of {path} must hold values, got none: all are missing; leave it out: "
            f"--exclude {name!r}."
        )
    if is_category:
        return "category"
    if count.dtype.is_numeric() or count.numbers == count.known:
        return "number"
    if count.dtype == pl.Boolean or count.booleans == count.known:
        return "boolean"
    if count.dtype not in _TEXT:
        raise TableError(
            f"column {name!r} of {path} must hold numbers, text or true and false, got "
            f"{count.dtype}; turn it into a number, or leave it out: --exclude {name!r}."
        )
    if 2 * count.numbers >= count.known:
        _refuse_text(path, name, count.known - count.numbers)
    return "category"


def _refuse_text(path: Path, name: str, count: int) -> None:
    """Name the first word in a column of numbers."""
    text = _clean(pl.col(name))
    stray = text.is_not_null() & text.cast(pl.Float64, strict=False).is_null()
    with _readable(path):
        row, word = _scan(path).filter(stray).select(_ROW, name).head(1).collect().row(0)
    raise TableError(
        f"column {name!r} of {path} must hold numbers, got {word!r} in row {row} ({count} such "
        f"values in all); mend or empty them, or pass --categorical {name!r} if they are names."
    )


def _check_target(path: Path, name: str, kind: str) -> None:
    if kind != "number":
        what = "text" if kind == "category" else "true and false"
        raise TableError(
            f"target {name!r} of {path} must hold numbers, got {what}: a density is over numbers; "
            "choose another --target, or a classifier for this one."
        )


def _categories(path: Path, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the values of each column, in order."""
    found = {}
    for name in names:
        with _readable(path):
            values = _scan(path).select(_names(pl.col(name)).drop_nulls().unique())
            # Of a column of keys, no more than shows what it is.
            values = values.head(MOST_CATEGORIES + 1).collect(engine="streaming")
        found[name] = tuple(sorted(values[name]))
        if len(found[name]) > MOST_CATEGORIES:
            raise TableError(
                f"column {name!r} of {path} must have at most {MOST_CATEGORIES} categories, got "
                f"more, such as {found[name][0]!r}; leave it out (--exclude {name!r}) or group its "
                "values."
            )
    return found


def _encode(
    path: Path, frame: pl.DataFrame, schema: Schema, with_targets: bool, keep: Sequence[str]
) -> Batch:
    """Return rows as numbers; which of them are complete follows the table's rule for gaps."""
    encoder = _Encoder(path, frame, schema.missing)
    blocks = [encoder.features(column) for column in schema.features]
    names = schema.targets if with_targets else ()
    # Nothing can be learned from an imputed target.
    targets = [encoder.numbers(name, fillable=False) for name in names]
    y = np.column_stack(targets) if targets else np.empty((len(frame), 0))
    x, numbers = np.column_stack(blocks), frame[_ROW].to_numpy()
    return Batch(x, y, ~encoder.gaps, frame.select(keep), numbers)


class _Encoder:
    """Reads columns of some rows, and remembers in `gaps` which rows cannot be used."""

    def __init__(self, path: Path, frame: pl.DataFrame, missing: str):
        self._path, self._frame, self._missing = path, frame, missing
        self.gaps = np.zeros(len(frame), bool)

    def features(self, column: Column) -> np.ndarray:
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
        if series.dtype in _TEXT:
            text = self._frame.select(_clean(pl.col(name)))[name]
            if words:
                text = text.str.to_lowercase().replace(words)
            numbers = text.cast(pl.Float64, strict=False)
            self._refuse(name, numbers.is_null() & text.is_not_null())
        elif series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null):
            numbers = series.cast(pl.Float64)
        else:
            raise TableError(
                f"column {name!r} of {self._path} must hold numbers, got {series.dtype}; turn it "
                "into numbers."
            )
        self._refuse(name, numbers.is_infinite().fill_null(False))
        values = numbers.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        self._mind(name, np.isnan(values), fillable=fillable)
        return values

    def _one_hot(self, column: Column) -> np.ndarray:
        """Return a column of zeros and ones for each category; a gap is zero in all of them."""
        text = self._frame.select(_names(pl.col(column.name)))[column.name]
        table = np.array(text.to_list(), object)[:, None] == np.array(column.categories, object)
        # A category that the model never saw tells it as little as none at all.
        self._mind(column.name, ~table.any(axis=1), known=column.categories)
        return table.astype(np.float64)

    def _mind(
        self,
        name: str,
        gaps: np.ndarray,
        *,
        fillable: bool = True,
        known: Sequence[str] = (),
    ) -> None:
        """Apply the table's rule to the gaps of one column."""
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
                f"{row} ({bad.sum()} such values near it); mend or empty them."
            )

    def _first(self, name: str, rows: np.ndarray) -> tuple[int, Any]:
        index = int(np.flatnonzero(rows)[0])
        return self._frame[_ROW][index], self._frame[name][index]
