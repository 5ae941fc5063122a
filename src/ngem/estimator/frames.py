"""Columns of a user's table as plain arrays: of numbers, of dates or of texts.

Tables are data frames of pandas, polars or pyarrow, which narwhals reads, or arrays.
"""

import datetime
import numbers
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np


class Values(NamedTuple):
    """The values of one column.

    Attributes:
        kind: "number", "boolean", "date" or "text".
        array: Of float64, NaN where missing; for dates of datetime64, NaT where missing; for texts
            of objects, None where missing.
    """

    kind: str
    array: np.ndarray


def has_names(X: Any) -> bool:
    """Return whether a table has a name for each of its columns, all of them texts."""
    if not nw.dependencies.is_into_dataframe(X):
        return False
    names = _names(X)
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def select(X: Any, names: Sequence[str]) -> Any:
    """Return a table with these columns only, in this order."""
    return nw.from_native(X, eager_only=True).select(list(names)).to_native()


def columns(X: Any) -> Iterator[tuple[str, Callable[[], Values]]]:
    """Yield the name of each column, and a function that reads it."""
    if has_names(X):
        frame = nw.from_native(X, eager_only=True)
        for name in frame.columns:
            yield name, lambda name=name: _read_series(name, frame[name])
    else:
        array = np.asarray(X)
        for index in range(array.shape[1]):
            name = f"x{index}"
            yield name, lambda index=index, name=name: _read_array(name, array[:, index])


def are_given(names: Sequence[str]) -> bool:
    """Return whether columns have names of their own, and not those of columns of an array."""
    return list(names) != [f"x{index}" for index in range(len(names))]


def names_of(table: Any) -> list[str]:
    """Return the names that a data frame, or one column of it, has; none for others."""
    if nw.dependencies.is_into_dataframe(table):
        return list(map(str, _names(table)))
    name = getattr(table, "name", None)
    return [name] if isinstance(name, str) and name else []


def _names(frame: Any) -> list[Any]:
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def _read_series(name: str, series: nw.Series) -> Values:
    """Return the values of a column of a data frame."""
    dtype = series.dtype
    if dtype == nw.Boolean:
        return Values("boolean", _floats(series))
    if dtype.is_numeric():
        return Values("number", _floats(series))
    if dtype in (nw.Datetime, nw.Date):
        return Values("date", _dates(series))
    if dtype == nw.Duration:
        return Values("number", _floats(series.dt.total_microseconds()) / 1e6)
    return _read_array(name, np.array(series.to_list(), object))


def _floats(series: nw.Series) -> np.ndarray:
    return np.asarray(series.cast(nw.Float64).to_numpy(), np.float64)


def _dates(series: nw.Series) -> np.ndarray:
    """Return dates as the clock of their own time zone shows them."""
    if series.dtype == nw.Datetime and getattr(series.dtype, "time_zone", None):
        series = series.dt.replace_time_zone(None)
    return np.asarray(series.cast(nw.Datetime("us")).to_numpy()).astype("datetime64[us]")


def _read_array(name: str, array: np.ndarray) -> Values:
    """Return the values of a column of an array, or of Python's own objects."""
    if array.dtype.kind in "fiu":
        return Values("number", array.astype(np.float64))
    if array.dtype.kind == "b":
        return Values("boolean", array.astype(np.float64))
    if array.dtype.kind == "M":
        return Values("date", array.astype("datetime64[us]"))
    values = [None if _is_gap(value) else value for value in array.tolist()]
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool | np.bool_) for value in known):
        return Values("boolean", np.array(values, np.float64))
    if all(isinstance(value, numbers.Real) for value in known):
        return Values("number", np.array(values, np.float64))
    if all(isinstance(value, datetime.date) for value in known):
        return Values("date", np.array(values, "datetime64[us]"))
    if all(isinstance(value, datetime.time) for value in known):
        return Values("number", np.array([np.nan if v is None else _hours(v) for v in values]))
    odd = [value for value in known if not isinstance(value, str | numbers.Real)]
    if odd:
        raise ValueError(
            f"column {name!r} of X must hold numbers, texts or dates, got {odd[0]!r} of type "
            f"{type(odd[0]).__name__}; convert it, or leave the column out."
        )
    return Values("text", np.array([to_text(value) for value in values], object))


def _is_gap(value: Any) -> bool:
    """Return whether a value stands for a missing one: None, NaN, or one of pandas's own."""
    return value is None or (not isinstance(value, str) and bool(_differs_from_itself(value)))


def _differs_from_itself(value: Any) -> bool:
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True


def _hours(time: datetime.time) -> float:
    return time.hour + time.minute / 60 + time.second / 3600 + time.microsecond / 3.6e9


def to_text(value: Any) -> str | None:
    """Return a category as text, None for a missing or empty one; 1.0 is the same as 1."""
    if value is None:
        return None
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, numbers.Real) and float(value).is_integer():
        value = int(float(value))
    return str(value).strip() or None


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
