"""Columns of categories: which they are, and the whole number of each category."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

#: Parts of dtype names in pandas and polars that mark columns of categories.
_CATEGORIES = ("categor", "enum")

#: What a category may be: something that a model file can hold.
Category = str | int | float | bool


class Categories(NamedTuple):
    """Columns of categories with the categories of each, as the training rows had them.

    Attributes:
        columns: Numbers of the columns, ascending.
        values: Categories of each of these columns; the place of a category is its number.
    """

    columns: tuple[int, ...] = ()
    values: tuple[tuple[Category, ...], ...] = ()

    def encode(self, X: Any) -> Any:
        """Return a table of the same kind, with the number of each category in its place.

        A category that the training rows did not have becomes NaN, as a missing one.
        """
        for column, values in zip(self.columns, self.values, strict=True):
            X = _replace(X, column, _codes(_column(X, column), values))
        return X


def find_categories(X: Any, asked: Any) -> Categories:
    """Return the columns of categories in training rows.

    Args:
        X: Features.
        asked: "auto" for columns of a categorical dtype, or names or numbers of columns.
    """
    columns = _detect(X) if isinstance(asked, str) else _find(X, asked)
    return Categories(columns, tuple(_distinct(_column(X, column)) for column in columns))


def _detect(X: Any) -> tuple[int, ...]:
    """Return the columns of a categorical dtype."""
    if not _has_columns(X):
        return ()
    kinds = [str(_series(X, column).dtype).lower() for column in range(len(X.columns))]
    return tuple(
        column for column, kind in enumerate(kinds) if any(word in kind for word in _CATEGORIES)
    )


def _find(X: Any, asked: Sequence[Any]) -> tuple[int, ...]:
    """Return the numbers of columns that a user names or numbers."""
    names = [str(name) for name in X.columns] if _has_columns(X) else []
    count = len(names) or np.shape(X)[1]
    found = set()
    for one in asked:
        place = names.index(one) if isinstance(one, str) and one in names else one
        if isinstance(place, str) or not -count <= place < count:
            raise ValueError(
                f"categorical_features must be names or numbers of columns of X, got {one!r}, "
                f"where X has {count} columns{_listing(names)}; check the spelling."
            )
        found.add(int(place) % count)
    return tuple(sorted(found))


def _listing(names: list[str]) -> str:
    return f" named {', '.join(map(repr, names[:5]))}{' …' * (len(names) > 5)}" if names else ""


def _has_columns(X: Any) -> bool:
    return hasattr(X, "columns") and not hasattr(X, "column_names")


def _series(X: Any, column: int) -> Any:
    return X.iloc[:, column] if hasattr(X, "iloc") else X[X.columns[column]]


def _column(X: Any, column: int) -> list[Any]:
    """Return the values of a column as Python's own objects, None where they are missing."""
    if _has_columns(X):
        values = _series(X, column)
        values = values.to_list() if hasattr(values, "to_list") else values.tolist()
    else:
        values = np.asarray(X)[:, column].tolist()
    return [None if value is None or value != value else value for value in values]


def _distinct(values: list[Any]) -> tuple[Category, ...]:
    """Return the categories of a column: numbers in order, then texts in order."""
    kinds = {value for value in values if value is not None}
    odd = [value for value in kinds if not isinstance(value, Category)]
    if odd:
        raise ValueError(
            f"categories must be texts or numbers, got {odd[0]!r} of type "
            f"{type(odd[0]).__name__}; try X.astype(str) for that column."
        )
    return tuple(sorted(kinds, key=lambda value: (isinstance(value, str), value)))


def _codes(values: list[Any], categories: Sequence[Category]) -> Float[np.ndarray, " batch"]:
    known = {category: float(code) for code, category in enumerate(categories)}
    return np.array([known.get(value, np.nan) for value in values], np.float64)


def _replace(X: Any, column: int, codes: Float[np.ndarray, " batch"]) -> Any:
    """Return the table with another column in place of one, without changing the user's."""
    if hasattr(X, "iloc"):
        X = X.copy(deep=False)
        X.isetitem(column, codes)
        return X
    if _has_columns(X):
        name = X.columns[column]
        return X.with_columns(type(X[name])(name, codes))
    X = np.array(X)
    X[:, column] = codes
    return X
