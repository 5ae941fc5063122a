"""Tables that a user names: where the rows are, and how they are written.

Compressed files, spreadsheets, standard input and text that is not UTF-8 are written to a temporary
file first, which polars can read in batches and more than once.
"""

import contextlib
import gzip
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from .._errors import check_choice
from ..estimator.frames import is_number
from ..estimator.schema import DECIMALS
from . import sniff

#: The usual separator of text formats, by suffix.
SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}

PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx", ".xls", ".xlsb", ".xlsm", ".ods")

#: Suffixes of files that we read.
SUFFIXES = (*SEPARATORS, *PARQUET, *EXCEL)

#: First bytes of files that come without a name.
_MAGIC = {b"PAR1": ".parquet", b"PK\x03\x04": ".xlsx"}
_GZIP = b"\x1f\x8b"

#: The name that stands for standard input.
STDIN = "-"


class TableError(ValueError):
    """A table that cannot be used as it is."""


@dataclass(frozen=True)
class How:
    """How a text file is written, as far as the user says; None is found in the file.

    Attributes:
        separator: Between fields.
        decimal: Before decimals, "." or ",".
        encoding: Name of a codec of Python's.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    def options(self) -> dict[str, str | None]:
        """Return the options of the command that say so."""
        return {name: getattr(self, name) for name in ("separator", "decimal", "encoding")}


def read_how(separator: str | None, decimal: str | None, encoding: str | None) -> How:
    """Return how a text file is written, as the options of the command say.

    Raises:
        ValueError: If an option has a value that it cannot have.
    """
    words = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
    separator = None if separator is None else words.get(separator, separator)
    if separator is not None and len(separator) != 1:
        raise ValueError(
            f"--separator must be one character, got {separator!r}; for example ';', or the word "
            "tab."
        )
    if decimal is not None:
        check_choice("--decimal", decimal, DECIMALS)
    if separator is not None and separator == decimal:
        raise ValueError(
            f"--separator and --decimal must differ, got {separator!r} for both; numbers with "
            "decimal commas need another separator."
        )
    _check_encoding(encoding)
    return How(separator, decimal, encoding)


@dataclass(frozen=True)
class TableFile:
    """A table that can be read.

    Attributes:
        name: What the user calls it.
        path: A Parquet file, or a text file in UTF-8.
        separator: Between the fields of a text file; empty for Parquet.
        decimal: Before decimals, "." or ","; None if nothing shows it.
        header: Names of the columns of a text file.
        notes: What was found about how it is written.
    """

    name: str
    path: Path
    separator: str = ""
    decimal: str | None = None
    header: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def is_text(self) -> bool:
        """Whether it is a text file."""
        return bool(self.separator)


@contextlib.contextmanager
def opened(path: Path, how: How | None = None) -> Iterator[TableFile]:
    """Yield a table that can be read until the block ends.

    Args:
        path: A file, or `STDIN`.
        how: How a text file is written.

    Raises:
        TableError: If there is no table in the file.
    """
    how = how or How()
    with tempfile.TemporaryDirectory(prefix="ngem-") as folder:
        place, suffix = _at_hand(path, Path(folder))
        name = "standard input" if str(path) == STDIN else str(path)
        if place.stat().st_size == 0:
            raise TableError(f"{name} must hold a table, got an empty file; was it fully written?")
        if suffix in EXCEL:
            yield _open_excel(name, place, Path(folder))
        elif suffix in PARQUET:
            yield TableFile(name, place)
        else:
            yield _open_text(name, place, suffix, how, Path(folder))


def check_suffix(path: Path) -> str:
    """Return the suffix of a file that we can read; that of its content if it is compressed."""
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    suffix = inner.suffix.lower()
    if suffix not in SUFFIXES:
        kinds = ", ".join((*SEPARATORS, *PARQUET, EXCEL[0]))
        raise TableError(
            f"a table must be a file with the suffix {kinds}, or .gz after one of these, got "
            f"{path.name!r}; write it as one of them, for example as .csv."
        )
    return suffix


def _at_hand(path: Path, folder: Path) -> tuple[Path, str]:
    """Return a file that is not compressed, and its suffix."""
    if str(path) == STDIN:
        place = folder / "input"
        with place.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        suffix = ""
    else:
        suffix = check_suffix(path)
        if not path.is_file():
            kind = "a directory" if path.is_dir() else "nothing there"
            raise TableError(
                f"{path} must be a file, got {kind}; check the name and the directory."
            )
        place = path
    with place.open("rb") as file:
        start = file.read(4)
    if start[:2] == _GZIP and suffix not in PARQUET:
        place = _decompressed(path, place, folder / "content")
        with place.open("rb") as file:
            start = file.read(4)
    return place, suffix or _MAGIC.get(start, ".csv")


def _decompressed(path: Path, place: Path, target: Path) -> Path:
    try:
        with gzip.open(place) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file)
    except (EOFError, gzip.BadGzipFile) as error:
        raise TableError(
            f"{path} must be a complete .gz file, got a damaged one ({error}); copy it again."
        ) from error
    return target


def _open_excel(name: str, place: Path, folder: Path) -> TableFile:
    """Return the first sheet of a spreadsheet, as Parquet."""
    import polars as pl

    if not find_spec("fastexcel"):
        raise TableError(
            f"{name} must be a table that can be read, got a spreadsheet, which needs the package "
            "fastexcel: pip install 'ngem[excel]'; or write it as .csv."
        )
    sheets = pl.read_excel(place, sheet_id=0)
    first = next(iter(sheets))
    content = folder / "sheet.parquet"
    sheets[first].write_parquet(content)
    note = f"only the first of its {len(sheets)} sheets, {first!r}, was read"
    return TableFile(name, content, notes=(note,) if len(sheets) > 1 else ())


def _open_text(name: str, place: Path, suffix: str, how: How, folder: Path) -> TableFile:
    """Return a text file in UTF-8, with its separator and its header."""
    encoding = _check_encoding(how.encoding) or sniff.find_encoding(place)
    notes = []
    is_utf8 = encoding.replace("_", "-").lower() in ("utf-8", "utf8")
    if not is_utf8 or (how.encoding and not sniff.can_decode(place, encoding)):
        place = _in_utf8(name, place, encoding, folder / "text")
        notes.append(f"its text is in {encoding}")
    usual = SEPARATORS[suffix]
    lines = sniff.read_sample(place)
    separator = how.separator or sniff.find_separator(lines, usual, allow_spaces=suffix == ".txt")
    if separator != usual:
        words = {"\t": "tabs", " ": "spaces", ";": "semicolons", ",": "commas"}
        notes.append(f"its fields are separated by {words.get(separator, repr(separator))}")
    decimal = how.decimal or sniff.find_decimal(lines, separator)
    if decimal == ",":
        notes.append("its numbers have decimal commas")
    header = sniff.read_header(lines, separator)
    _check_header(name, header)
    return TableFile(name, place, separator, decimal, tuple(header), tuple(notes))


def _check_encoding(encoding: str | None) -> str | None:
    try:
        "".encode(encoding or "utf-8")
    except LookupError:
        raise TableError(
            f"--encoding must be an encoding that Python knows, got {encoding!r}; try utf-8, "
            "latin-1, cp1252 or utf-16."
        ) from None
    return encoding


def _in_utf8(name: str, place: Path, encoding: str, target: Path) -> Path:
    try:
        with target.open("w", encoding="utf-8", newline="") as file:
            for text in sniff.chunks(place, encoding):
                file.write(text)
    except UnicodeDecodeError as error:
        raise TableError(
            f"{name} must be in the encoding {encoding}, got other bytes ({error.reason}); leave "
            "--encoding out to have it found."
        ) from error
    return target


def _check_header(name: str, header: list[str]) -> None:
    """Refuse a first line that holds no names, or one name twice."""
    if not header or all(map(is_number, header)):
        shown = ", ".join(header[:3])
        raise TableError(
            f"{name} must have the names of its columns in the first line, got {shown or 'none'}; "
            "add a line with a name for each column."
        )
    seen: set[str] = set()
    for column in header:
        if column in seen:
            _raise_twice(name, column)
        seen.add(column)


def _raise_twice(name: str, column: str) -> NoReturn:
    raise TableError(
        f"{name} must have a different name for each column, got {column!r} twice; rename or "
        "remove one of them."
    )


def with_decimal(table: TableFile, decimal: str) -> TableFile:
    """Return a table whose mark before decimals is known: its own, or else the one given."""
    return replace(table, decimal=table.decimal or decimal)
