"""How a text file is written: its encoding, separator, header and mark before decimals."""

import codecs
import csv
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

#: Separators that we look for, likely ones first; spaces only in files that are no .csv.
SEPARATORS = (",", ";", "\t", "|")

#: Lines and characters from which a separator and the mark before decimals are found.
_LINES, _CHARACTERS = 1000, 1_000_000

#: Bytes that are decoded at a time.
_CHUNK = 1 << 20

#: Fraction of lines that must have as many fields as the header.
_MOST = 0.9

#: A number whose decimals follow a comma, and one whose decimals follow a point. Three digits after
#: the mark may be thousands, so they show nothing, unless a zero stands before it.
_COMMA = re.compile(r"[+-]?((\d{1,3}(\.\d{3})+|\d+),(\d{1,2}|\d{4,})|0,\d{3})")
_POINT = re.compile(r"[+-]?((\d{1,3}(,\d{3})+|\d+)\.(\d{1,2}|\d{4,})|0\.\d{3})")

_BOMS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def find_encoding(path: Path) -> str:
    """Return the encoding of a text file: "utf-8", "utf-16", "cp1252" or "latin-1".

    Text that is not UTF-8 is nearly always that of older spreadsheets. Every file is valid latin-1.
    """
    with path.open("rb") as file:
        start = file.read(2)
    if start in _BOMS:
        return _BOMS[start]
    return next(name for name in ("utf-8", "cp1252", "latin-1") if can_decode(path, name))


def can_decode(path: Path, encoding: str) -> bool:
    """Return whether a file is text of an encoding."""
    try:
        for _ in chunks(path, encoding):
            pass
    except UnicodeDecodeError:
        return False
    return True


def chunks(path: Path, encoding: str) -> Iterator[str]:
    """Yield the text of a file, a piece at a time."""
    decoder = codecs.getincrementaldecoder(encoding)()
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def read_sample(path: Path) -> list[str]:
    """Return the first lines of a file in UTF-8."""
    lines, length = [], 0
    with path.open(encoding="utf-8-sig", newline="") as file:
        for line in itertools.islice(file, _LINES):
            lines.append(line)
            length += len(line)
            if length > _CHARACTERS:
                break
    return lines


def find_separator(lines: Sequence[str], usual: str, *, allow_spaces: bool) -> str:
    """Return the separator with which the lines have as many fields as the header.

    Args:
        lines: The first lines of a file.
        usual: The separator of files of this name; it wins unless another one is better.
        allow_spaces: Whether fields may be separated by spaces.
    """
    candidates = (*SEPARATORS, *([" "] if allow_spaces else []))
    widths = {separator: _width(lines, separator) for separator in candidates}
    if widths.get(usual, 0) > 1:
        return usual
    best = max(candidates, key=lambda separator: widths[separator])
    return best if widths[best] > 1 else usual


def _width(lines: Sequence[str], separator: str) -> int:
    """Return the fields of the header; 1 if most other lines have more or fewer."""
    rows = [row for row in csv.reader(lines, delimiter=separator) if row]
    if not rows:
        return 1
    same = sum(len(row) == len(rows[0]) for row in rows)
    return len(rows[0]) if same >= _MOST * len(rows) else 1


def find_decimal(lines: Sequence[str], separator: str) -> str | None:
    """Return the mark before the decimals of numbers; None if the lines do not show it."""
    rows = itertools.islice(csv.reader(lines, delimiter=separator), 1, None)
    fields = [re.sub(r"[\s$€£¥₹%]", "", field) for row in rows for field in row]
    commas = sum(bool(_COMMA.fullmatch(field)) for field in fields)
    points = sum(bool(_POINT.fullmatch(field)) for field in fields)
    if commas == points == 0:
        return None
    return "," if commas > points else "."


def read_header(lines: Sequence[str], separator: str) -> list[str]:
    """Return the names in the first line, without spaces around them and double quotes."""
    first = next(csv.reader(lines, delimiter=separator), [])
    names = [name.strip() for name in first]
    return [name or f"unnamed_{number + 1}" for number, name in enumerate(names)]


def find_ragged_row(path: Path, separator: str, width: int) -> tuple[int, int] | None:
    """Return the number of the first row with more or fewer fields, and how many it has.

    Empty lines do not count: they are rows of missing values.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter=separator)
        next(rows, None)
        for number, row in enumerate(rows, start=1):
            if len(row) != width and row:
                return number, len(row)
    return None
