"""What the columns of a file hold: numbers, true and false, or categories."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from ..estimator.schema import Column, Schema
from .formats import (
    ROW,
    TEXT,
    TableError,
    category_names,
    check_names,
    clean,
    column_types,
    frames,
)

#: A column with more categories than this holds names or keys, from which nothing is learned. For
#: networks a category is an input of its own; trees sort categories into groups.
MOST_CATEGORIES = {"one-hot": 100, "codes": 10_000}


def describe(
    path: Path,
    targets: Sequence[str],
    *,
    features: Sequence[str] = (),
    exclude: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing: str = "error",
    coding: str = "one-hot",
) -> tuple[Schema, int]:
    """Return what the columns of a file hold, and how many rows it has.

    Args:
        path: The file. It is read once, in batches.
        targets: Columns to predict.
        features: Columns to predict from; by default all others.
        exclude: Columns that are not features.
        categorical: Numeric columns to treat as categories, such as postal codes.
        missing: What to do with rows that have gaps.
        coding: How columns of categories become features.

    Raises:
        TableError: If nothing can be learned from the file as it is.
    """
    types = column_types(path)
    check_names(path, (*targets, *features, *exclude, *categorical), types)
    features = [
        name
        for name in features or types
        if name not in exclude and (features or name not in targets)
    ]
    _check_roles(features, targets)
    named = set(categorical) - set(targets)
    types = {name: types[name] for name in (*features, *targets)}
    rows, tallies = _tally(path, types, named, MOST_CATEGORIES[coding])
    if rows == 0:
        raise TableError(f"{path} must hold rows below its header, got none; is it the right file?")
    kinds = {name: _kind(path, name, tallies[name], name in named) for name in tallies}
    for name in targets:
        _check_target(path, name, kinds[name])
    columns = [_column(path, name, kinds[name], tallies[name]) for name in features]
    return Schema(tuple(columns), tuple(targets), missing, coding=coding), rows


@dataclass
class _Tally:
    """Counts of one column's values over the batches read so far.

    Attributes:
        dtype: Polars type of the column.
        with_categories: Collect the distinct values, until there are too many of them.
        most: Largest number of categories that we accept.
        known: Values that are not missing.
        numbers: Those of them that are numbers, in a column of text.
        booleans: Those of them that are true or false, in a column of text.
        stray: Row and text of the first value that is not a number, in a column of text.
        categories: Distinct values; not complete once there are more than `most`.
    """

    dtype: Any
    with_categories: bool
    most: int
    known: int = 0
    numbers: int = 0
    booleans: int = 0
    stray: tuple[int, str] | None = None
    categories: set[str] = field(default_factory=set)

    @property
    def has_too_many(self) -> bool:
        """Whether the column has more categories than we accept."""
        return len(self.categories) > self.most

    def add(self, values: pl.Series, numbers: pl.Series | None, rows: pl.Series) -> None:
        """Add the values of one batch; `numbers` are those of a column of text."""
        self.known += values.count()
        if numbers is not None:
            self.numbers += numbers.count()
            self._add_strays(values, values.is_not_null() & numbers.is_null(), rows)
        if self.with_categories and not self.has_too_many:
            distinct = pl.lit(values.drop_nulls().unique(maintain_order=True))
            names = pl.select(category_names(distinct).unique(maintain_order=True)).to_series()
            # A column of keys has as many values as rows; a few show what it is.
            self.categories.update(names.head(self.most + 1))

    def _add_strays(self, values: pl.Series, is_stray: pl.Series, rows: pl.Series) -> None:
        strays = values.filter(is_stray)
        if not len(strays):
            return
        self.booleans += int(strays.str.to_lowercase().is_in(["true", "false"]).sum())
        self.stray = self.stray or (rows.filter(is_stray)[0], strays[0])


def _tally(
    path: Path, types: dict[str, Any], categorical: set[str], most: int
) -> tuple[int, dict[str, _Tally]]:
    """Return the number of rows and the counts of each column, in one pass over the file."""
    texts = [name for name, dtype in types.items() if dtype in TEXT]
    tallies = {
        name: _Tally(dtype, name in texts or name in categorical, most)
        for name, dtype in types.items()
    }
    count = 0
    for frame in frames(path, list(types)):
        count += len(frame)
        frame = frame.with_columns(clean(pl.col(name)) for name in texts)
        numbers = frame.select(pl.col(name).cast(pl.Float64, strict=False) for name in texts)
        for name, tally in tallies.items():
            tally.add(frame[name], numbers[name] if name in texts else None, frame[ROW])
    return count, tallies


def _kind(path: Path, name: str, tally: _Tally, is_category: bool) -> str:
    """Return the kind of a column; refuse one that is empty or that mixes numbers and words."""
    if tally.known == 0:
        raise TableError(
            f"column {name!r} of {path} must hold values, got none: all are missing; leave it out: "
            f"--exclude {name!r}."
        )
    if is_category:
        return "category"
    if tally.dtype.is_numeric() or tally.numbers == tally.known:
        return "number"
    if tally.dtype == pl.Boolean or tally.booleans == tally.known:
        return "boolean"
    if tally.dtype not in TEXT:
        raise TableError(
            f"column {name!r} of {path} must hold numbers, text or true and false, got "
            f"{tally.dtype}; convert it to a number, or leave it out: --exclude {name!r}."
        )
    if tally.stray is not None and 2 * tally.numbers >= tally.known:
        row, word = tally.stray
        raise TableError(
            f"column {name!r} of {path} must hold numbers, got {word!r} in row {row} "
            f"({tally.known - tally.numbers} such values in all); correct or empty them, or pass "
            f"--categorical {name!r} to treat the column as categories."
        )
    return "category"


def _column(path: Path, name: str, kind: str, tally: _Tally) -> Column:
    """Return a feature with its categories, refusing a column that has too many."""
    if kind != "category":
        return Column(name, kind)
    categories = tuple(sorted(tally.categories))
    if tally.has_too_many:
        raise TableError(
            f"column {name!r} of {path} must have at most {tally.most:,} categories, got more, "
            f"such as {categories[0]!r}; leave it out (--exclude {name!r}) or group its values."
        )
    return Column(name, kind, categories)


def _check_target(path: Path, name: str, kind: str) -> None:
    if kind != "number":
        what = "text" if kind == "category" else "true and false"
        raise TableError(
            f"target {name!r} of {path} must hold numbers, got {what}: a density is over numbers; "
            "choose another --target, or use a classifier for this one."
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
                f"there must be at least one {what} and none twice, got {list(names)}; name "
                f"columns with --{what}{'s' if what == 'feature' else ''}."
            )
