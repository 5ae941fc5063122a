"""What the columns of a file hold: numbers, true and false, categories or dates, or nothing of use.

Columns that nothing can be learned from are left out. Each of them is named with the reason.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from ..estimator.schema import Column
from .formats import TEXT, check_names, column_types
from .opening import TableError, TableFile
from .parse import MONTH_OR_DAY
from .tally import MOST_DISTINCT, Tally, tally

#: Names of columns that identify rows or things, and shorter ones that may do so.
_IDENTIFIER = re.compile(
    r"(^|[\W_])(id|uuid|guid|row[\W_]?(names?|numbers?|id))$|[a-z]I[dD]$|^unnamed(_|: ?)\d+$",
    re.IGNORECASE,
)
_MAYBE = re.compile(r"(^[a-z]{1,2}id|(^|[\W_])(index|key|no|nr|num|number|order))$", re.IGNORECASE)

#: A column whose values differ in at least this fraction of so many rows holds names or keys.
_NEARLY_ALL, _ENOUGH = 0.9, 20

#: Whole numbers that name at most so many things are categories.
_FEW = 100


class Description(NamedTuple):
    """What the columns of a file hold.

    Attributes:
        features: Columns to predict from. Their categories and parts of dates are not known yet.
        targets: Names of the columns to predict.
        rows: Rows of the file.
        notes: What was done about a column, by name.
    """

    features: tuple[Column, ...]
    targets: tuple[str, ...]
    rows: int
    notes: dict[str, str]


def describe(
    table: TableFile,
    targets: Sequence[str],
    *,
    features: Sequence[str] = (),
    exclude: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> Description:
    """Return what the columns of a file hold.

    Args:
        table: The file. It is read once, in batches.
        targets: Columns to predict.
        features: Columns to predict from; by default all others that something can be learned from.
        exclude: Columns that are not features.
        categorical: Numeric columns to treat as categories, such as postal codes.

    Raises:
        TableError: If nothing can be learned from the file as it is.
    """
    types = column_types(table)
    check_names(table, (*targets, *features, *exclude, *categorical), types)
    left_out, aims = set(exclude), set(targets)
    names = [
        name
        for name in features or types
        if name not in left_out and (features or name not in aims)
    ]
    _check_roles(names, targets)
    named = set(categorical) - aims
    types = {name: types[name] for name in (*names, *targets)}
    collected = {
        name for name in names if name in named or _IDENTIFIER.search(name) or _MAYBE.search(name)
    }
    rows, tallies = tally(table, types, collected)
    if rows == 0:
        raise TableError(
            f"{table} must hold rows below its header, got none; is it the right file?"
        )
    for name in targets:
        _check_target(table, name, tallies[name])
    columns, notes = [], {}
    for name in names:
        column, note = _column(table, name, tallies[name], name in named, asked=bool(features))
        columns += [] if column is None else [column]
        notes |= {name: note} if note else {}
    if not columns:
        raise TableError(
            f"{table} must have a column to predict from, got {len(notes)} of no use: "
            f"{_listed([f'{name} ({note})' for name, note in notes.items()])}; name one with "
            "--features if it is of use all the same."
        )
    notes |= {name: note for name in targets if (note := _signs(tallies[name]))}
    return Description(tuple(columns), tuple(targets), rows, notes)


def _column(
    table: TableFile, name: str, one: Tally, is_category: bool, *, asked: bool
) -> tuple[Column | None, str]:
    """Return a feature, or None if it is left out, and what was done about it."""
    if one.known == 0:
        return None, "left out, because it holds no values"
    kind, form = _kind(table, name, one, is_category)
    if not kind:
        if asked:
            raise TableError(
                f"column {name!r} of {table} must hold numbers, text, dates or true and false, got "
                f"{one.dtype}; leave it out of --features."
            )
        return None, f"left out, because it holds {one.dtype}"
    if asked or is_category:
        return Column(name, kind, format=form), _reading(one, kind, form)
    if one.is_constant:
        return None, f"left out, because it is {one.example} in all rows"
    reason = _identifies(name, one, kind)
    if reason:
        return None, f"left out, because {reason}"
    if kind == "number" and _names_things(name, one):
        return Column(
            name, "category"
        ), f"read as {len(one.distinct)} categories, because its whole numbers name things"
    if kind == "number" and _numbers_rows(one):
        # It may be time: only the user knows.
        return Column(name, kind), "kept, though it numbers the rows; --exclude leaves it out"
    return Column(name, kind, format=form), _reading(one, kind, form)


def _kind(table: TableFile, name: str, one: Tally, is_category: bool) -> tuple[str, str]:
    """Return the kind of a column and the format of its dates; empty for what we cannot read."""
    if is_category:
        return "category", ""
    if one.dtype in TEXT:
        return _kind_of_text(table, name, one)
    if one.dtype == pl.Boolean:
        return "boolean", ""
    if one.dtype.is_numeric() or one.dtype == pl.Duration:
        return "number", ""
    return ("date", "") if one.dtype.is_temporal() else ("", "")


def _kind_of_text(table: TableFile, name: str, one: Tally) -> tuple[str, str]:
    """Return the kind of a column of text; refuse one that mixes numbers and words."""
    if one.numbers == one.known:
        return "category" if one.is_whole and one.is_padded else "number", ""
    if one.booleans == one.known:
        return "boolean", ""
    if one.formats:
        return "date", _choose_format(
            one.formats, day_first=table.separator == ";" or table.decimal == ","
        )
    if one.stray is not None and 2 * one.numbers >= one.known:
        row, word = one.stray
        others = one.known - one.numbers
        raise TableError(
            f"column {name!r} of {table} must hold numbers, got {word!r} in row {row} "
            f"({others} such {'value' if others == 1 else 'values'} in all); correct or empty "
            f"{'it' if others == 1 else 'them'}, or pass --categorical {name!r} to treat the "
            "column as categories."
        )
    return "category", ""


def _choose_format(formats: Sequence[str], *, day_first: bool) -> str:
    """Return the first format, or the one with the day first where files are written so."""
    first = formats[0]
    other = MONTH_OR_DAY.get(first, "")
    return other if day_first and other in formats else first


def _reading(one: Tally, kind: str, form: str) -> str:
    """Return how a column was read, if that needs saying."""
    if kind == "category" and one.numbers == one.known and one.dtype in TEXT and one.is_padded:
        return f"read as categories, because its numbers begin with zeros, such as {one.example}"
    if form:
        is_unclear = MONTH_OR_DAY.get(form) in one.formats or form in {
            MONTH_OR_DAY[other] for other in one.formats if other in MONTH_OR_DAY
        }
        unclear = "; month or day may come first" if is_unclear else ""
        return f"read as dates, {one.example} as {_words(form)}{unclear}"
    return _signs(one) if kind == "number" else ""


def _words(form: str) -> str:
    """Return a format of dates in words."""
    words = {"%Y": "year", "%y": "year", "%m": "month", "%B": "month", "%d": "day", "%H": "hour"}
    words |= {"%I": "hour", "%M": "minute", "%S%.f": "second", "%S": "second", "%p": "am or pm"}
    for code, word in words.items():
        form = form.replace(code, word)
    return form


def _signs(one: Tally) -> str:
    if not one.signs:
        return ""
    percent = "; 12% is 12" if "percent signs" in one.signs else ""
    return f"read as numbers, without {' and '.join(sorted(one.signs))}{percent}"


def _identifies(name: str, one: Tally, kind: str) -> str:
    """Return why a column identifies rows and teaches nothing; empty if it does not."""
    differs = one.distinct_of >= _ENOUGH and len(one.distinct) >= _NEARLY_ALL * one.distinct_of
    if kind == "category":
        return "nearly every row has another value, as names and keys have" if differs else ""
    if kind != "number" or not one.is_whole or one.known < one.rows:
        return ""
    may_identify = _IDENTIFIER.search(name) or _MAYBE.search(name)
    if may_identify and _numbers_rows(one):
        return "it numbers the rows"
    if differs and may_identify:
        return "it identifies rows, with another number in nearly each"
    if _IDENTIFIER.search(name) and len(one.distinct) > max(_FEW, one.known / _ENOUGH):
        more = "more than " if one.is_full else ""
        count = MOST_DISTINCT if one.is_full else len(one.distinct)
        return f"it identifies things, {more}{count:,} of them in {one.known:,} rows"
    return ""


def _numbers_rows(one: Tally) -> bool:
    return one.counts_up and one.is_whole and one.known == one.rows >= _ENOUGH


def _names_things(name: str, one: Tally) -> bool:
    """Return whether the whole numbers of a column name a few things, such as shops."""
    return bool(_IDENTIFIER.search(name)) and one.is_whole and 2 < len(one.distinct) <= _FEW


def _check_target(table: TableFile, name: str, one: Tally) -> None:
    if one.known == 0:
        raise TableError(
            f"target {name!r} of {table} must hold values, got none: all are missing; choose "
            "another --target."
        )
    kind, _ = _kind(table, name, one, is_category=False)
    if kind == "number" or (kind == "category" and one.numbers == one.known):
        return
    what = {"category": "text", "boolean": "true and false", "date": "dates"}.get(
        kind, str(one.dtype)
    )
    shown = f", such as {one.example!r}" if kind == "category" else ""
    advice = "use a classifier for this one" if kind != "date" else "make it a number, such as days"
    raise TableError(
        f"target {name!r} of {table} must hold numbers, got {what}{shown}: a density is over "
        f"numbers; choose another --target, or {advice}."
    )


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
                f"there must be at least one {what} and none twice, got "
                f"{_listed(names) or 'none'}; name columns with "
                f"--{what}{'s' if what == 'feature' else ''}."
            )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
