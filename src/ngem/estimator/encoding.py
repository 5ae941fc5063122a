"""What the columns of a user's table hold, and its rows as numbers."""

import contextlib
import datetime
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from . import frames
from .frames import Values, is_number, to_text
from .schema import PARTS, Column, Schema

#: Categories of a column, and the fewest rows of each, if there are more than networks can use.
#: Trees sort categories into groups, so that more of them are of use.
MOST_CATEGORIES, LEAST_ROWS = 100, 5
MOST_CATEGORIES_OF_TREES = 10_000

#: A time of day and its zone, at the end of a date.
_ZONE = re.compile(r"(:[\d:.]*) ?(Z|UTC|[+-]\d{2}:?\d{2})$")

#: Parts of formats for which Python's `strptime` needs two.
_PARTS = re.compile(r"(%B|%S%\.f)")
_PYTHONS = {"%B": ("%B", "%b"), "%S%.f": ("%S", "%S.%f")}


class Encoded(NamedTuple):
    """Rows that are numbers already, and how they came to be; see `Schema`."""

    x: Float[np.ndarray, "batch column"]
    schema: Schema


def describe(
    X: Any,
    *,
    categorical: Any = "auto",
    most: int = MOST_CATEGORIES,
    common: int | None = None,
) -> tuple[Column, ...]:
    """Return what the columns of a table hold.

    Args:
        X: A table with names, or an array.
        categorical: "auto", or names or numbers of further columns to treat as categories.
        most: Categories of a column at most; rarer ones share a code.
        common: Of these, how many are an input of networks each; None for all.
    """
    columns = dict(frames.columns(X))
    named = set() if isinstance(categorical, str) else _find(list(columns), categorical)
    found = []
    for name, read in columns.items():
        values = read()
        if name in named or values.kind == "text":
            found.append(_categories(name, values, most, common))
        elif values.kind == "date":
            found.append(Column(name, "date", parts=_varying_parts(values.array)))
        else:
            found.append(Column(name, values.kind))
    return tuple(found)


def encode(X: Any, columns: Sequence[Column]) -> Float[np.ndarray, "batch column"]:
    """Return the rows of a table as numbers; see `Schema`.

    Args:
        X: A table that has these columns by name, in any order, or an array that has them in order.
        columns: What the columns should hold.

    Raises:
        ValueError: If a column is missing, or holds something else.
    """
    by_name = dict(frames.columns(X))
    if frames.has_names(X):
        check_columns(columns, list(by_name))
        readers = [by_name[column.name] for column in columns]
    else:
        readers = list(by_name.values())
    parts = [
        _ENCODERS[column.kind](column, read())
        for column, read in zip(columns, readers, strict=True)
    ]
    return np.column_stack(parts) if parts else np.empty((len(X), 0))


def check_columns(columns: Sequence[Column], names: Sequence[str]) -> None:
    """Refuse a table that lacks a column, naming those that are missing and those it has."""
    found = set(names)
    missing = [column.name for column in columns if column.name not in found]
    if missing:
        known = {column.name for column in columns}
        more = [name for name in names if name not in known]
        raise ValueError(
            f"X must have the columns that the model was fitted to, got none named "
            f"{_listed(missing)}; it has {_listed(more) if more else 'no others'} instead: check "
            "the spelling, or choose the right table."
        )


def target_names(y: Any, n_outputs: int, features: Iterable[str]) -> tuple[str, ...]:
    """Return the names of targets: those that their table has, or else "y" with numbers."""
    names = frames.names_of(y)
    taken = set(features)
    if len(names) == n_outputs and len(set(names)) == n_outputs and not taken & set(names):
        return tuple(names)
    plain = ["y"] if n_outputs == 1 else [f"y{index + 1}" for index in range(n_outputs)]
    return tuple(f"{name} (target)" if name in taken else name for name in plain)


def _find(names: Sequence[str], asked: Iterable[Any]) -> set[str]:
    """Return the names of columns that a user names or numbers."""
    found = set()
    for one in asked:
        if isinstance(one, int | np.integer) and -len(names) <= one < len(names):
            found.add(names[int(one)])
        elif one in names:
            found.add(one)
        else:
            raise ValueError(
                f"categorical_features must be names or numbers of columns of X, got {one!r}, "
                f"where X has {len(names)} columns named {_listed(names)}; check the spelling."
            )
    return found


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (" …" if len(names) > 5 else "")


def to_texts(values: Values) -> list[str | None]:
    """Return values as categories."""
    listed = values.array.tolist()
    if values.kind == "text":
        return listed
    if values.kind == "boolean":
        listed = [value if value != value else bool(value) for value in listed]
    # NaN differs from itself.
    return [None if value != value else to_text(value) for value in listed]


def _categories(name: str, values: Values, most: int, common: int | None) -> Column:
    """Return a column of categories; of too many only those with enough rows are kept."""
    texts = np.array([text for text in to_texts(values) if text is not None], object)
    found, counts = np.unique(texts, return_counts=True) if len(texts) else (texts, np.zeros(0))
    return category_column(name, found, counts, most, common)


def category_column(
    name: str,
    found: np.ndarray,
    counts: np.ndarray,
    most: int,
    common: int | None = None,
    *,
    is_more: bool = False,
) -> Column:
    """Return a column of categories from the distinct ones and their counts.

    Args:
        name: Name of the column.
        found: Distinct categories.
        counts: How many rows have each.
        most: Categories to keep at most; rarer ones share a code.
        common: Of these, how many are an input of networks each; None for all.
        is_more: Whether there were others that were not counted.
    """
    order = np.argsort(found) if len(found) else np.zeros(0, int)
    found, counts = found[order], counts[order]
    # A column without values has codes all the same, so that a schema can hold it.
    has_other = len(found) > most or is_more or not len(found)
    if len(found) > most or is_more:
        found, counts = _most_common(found, counts, most, by_trees=most > MOST_CATEGORIES)
    if common is None or len(found) <= common:
        return Column(name, "category", tuple(_sorted(found.tolist())), has_other=has_other)
    first, _ = _most_common(found, counts, common, by_trees=False)
    others = found[~np.isin(found, first)]
    both = *_sorted(first.tolist()), *_sorted(others.tolist())
    return Column(name, "category", both, has_other=has_other, common=len(first))


def _most_common(
    found: np.ndarray, counts: np.ndarray, most: int, *, by_trees: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the most common categories and their counts; networks need some rows of each."""
    common = np.argsort(-counts, kind="stable")[:most]
    kept = common[counts[common] >= (1 if by_trees else LEAST_ROWS)]
    return found[kept], counts[kept]


def _sorted(texts: list[str]) -> list[str]:
    """Return texts in order; those of whole numbers as numbers are ordered."""
    try:
        return sorted(texts, key=float)
    except ValueError:
        return sorted(texts)


def _varying_parts(dates: np.ndarray) -> tuple[str, ...]:
    """Return the parts of dates that vary; the first in any case."""
    known = dates[~np.isnat(dates)]
    numbers_ = date_parts(known)
    return tuple(
        part
        for index, part in enumerate(PARTS)
        if index == 0 or (len(known) and np.ptp(numbers_[:, index]) > 0)
    )


def date_parts(dates: np.ndarray) -> Float[np.ndarray, "batch 4"]:
    """Return the numbers of `PARTS` for each date, NaN for a missing one."""
    days = dates.astype("datetime64[D]")
    new_year = dates.astype("datetime64[Y]").astype("datetime64[D]")
    in_days = (dates - np.datetime64(0, "D")) / np.timedelta64(1, "D")
    return np.column_stack(
        [
            in_days,
            (days - new_year) / np.timedelta64(1, "D") + 1,
            (np.floor(in_days) + 3) % 7,  # 1970 began on a Thursday; Monday is 0
            (dates - days) / np.timedelta64(1, "h"),
        ]
    )


def _encode_number(column: Column, values: Values) -> np.ndarray:
    if values.kind in ("number", "boolean"):
        return values.array
    return _convert(column, values, float, "numbers")


def _encode_boolean(column: Column, values: Values) -> np.ndarray:
    if values.kind in ("number", "boolean"):
        return values.array
    words = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
    return _convert(column, values, lambda text: words[text.lower()], "true and false")


def _encode_category(column: Column, values: Values) -> np.ndarray:
    codes = {category: float(code) for code, category in enumerate(column.categories)}
    unseen = float(len(column.categories))  # that of the rare ones, if they share a code
    texts = to_texts(values)
    if values.kind == "number" and codes and not any(map(is_number, codes)):
        # Unseen categories are accepted, but these show that columns were mixed up.
        wrong = next((text for text in texts if text is not None), None)
        if wrong is not None:
            raise ValueError(
                f"column {column.name!r} of X must hold categories, such as "
                f"{column.categories[0]!r}, got the number {wrong}; check the order of the "
                "columns, or pass a data frame with their names."
            )
    return np.array([np.nan if text is None else codes.get(text, unseen) for text in texts])


def _encode_date(column: Column, values: Values) -> np.ndarray:
    dates = values.array
    if values.kind == "text":
        read = partial(_to_date, form=column.format)
        dates = _convert(column, values, read, "dates", "datetime64[us]")
    elif values.kind != "date":
        raise ValueError(
            f"column {column.name!r} of X must hold dates, got numbers; convert it, for example "
            "with pandas.to_datetime."
        )
    return date_parts(dates)[:, [PARTS.index(part) for part in column.parts]]


def _to_date(text: str, form: str) -> np.datetime64:
    """Return a date that is written as in ISO 8601, or as in the file that the model was fitted to.

    The clock of its own time zone counts, as in files.
    """
    if form.startswith("%H"):  # a time alone is on one day
        return np.datetime64(f"1970-01-01T{text}")
    try:
        return np.datetime64(_ZONE.sub(r"\1", text))
    except ValueError:
        if not form:
            raise
    options = itertools.product(*(_PYTHONS.get(part, (part,)) for part in _PARTS.split(form)))
    for option in options:
        with contextlib.suppress(ValueError):
            return np.datetime64(datetime.datetime.strptime(text, "".join(option)))
    raise ValueError(text)


def _convert(
    column: Column,
    values: Values,
    convert: Callable[[str], Any],
    what: str,
    dtype: str = "float64",
) -> np.ndarray:
    """Return texts, or dates, as something else; the first that is none is an error."""
    gap = np.datetime64("NaT") if dtype != "float64" else np.nan
    converted = []
    for row, text in enumerate(to_texts(values)):
        try:
            converted.append(gap if text is None else convert(text))
        except (ValueError, KeyError):
            raise ValueError(
                f"column {column.name!r} of X must hold {what}, as when the model was fitted, got "
                f"{text!r} in row {row}; convert it first."
            ) from None
    return np.array(converted, dtype)


_ENCODERS: dict[str, Callable[[Column, Values], np.ndarray]] = {
    "number": _encode_number,
    "boolean": _encode_boolean,
    "category": _encode_category,
    "date": _encode_date,
}
