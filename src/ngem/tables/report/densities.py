"""Heat maps of a target's density along the most informative number, at values of other columns."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from ... import plotting
from ...estimator.schema import Column, Schema
from ..encode import Rows, category_codes
from ..kinds import Estimator
from .pictures import Picture, picture

#: Rows that a picture shows at most.
MOST_ROWS = 400

#: Other columns that get a slider, and the quantiles of a number at which its pictures are drawn.
_SLIDERS = 2
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


class Slider(NamedTuple):
    """Pictures of a density, one for each value of a column, with the values as labels.

    A density that depends on one column only has one picture, and no column.
    """

    column: str
    labels: list[str]
    pictures: list[Picture]


class _Value(NamedTuple):
    """A value of a column: as text, as features of the model, and which rows are close to it."""

    label: str
    inputs: np.ndarray
    close: np.ndarray


def density_sliders(
    model: Estimator, rows: Rows, schema: Schema, importance: Mapping[str, float], target: int
) -> list[Slider]:
    """Return the density of a target along the most informative number, with sliders for others.

    The list is empty if no numeric column varies.
    """
    along = _most_informative_number(rows, schema, importance)
    if along is None:
        return []
    columns = {column.name: column for column in schema.features}
    others = [(name, _values(rows, schema, columns[name])) for name in importance if name != along]
    others = [(name, values) for name, values in others if len(values) > 1][:_SLIDERS]
    if not others:
        others = [("", [_Value("", np.empty(0), np.ones(len(rows.x), bool))])]
    # In double precision: a target may be far from zero and vary by little.
    with jax.enable_x64(True):
        return [
            Slider(
                name,
                [value.label for value in values],
                [_density(model, rows, schema, target, along, name, value) for value in values],
            )
            for name, values in others
        ]


def typical_row(rows: Rows, schema: Schema) -> np.ndarray:
    """Return the features of a row of medians and most common categories."""
    known = [column[~np.isnan(column)] for column in rows.x.T]
    row = np.array([np.median(values) if len(values) else np.nan for values in known])
    for column in schema.features:
        inputs = schema.places[column.name]
        if column.kind == "boolean":
            row[inputs] = np.round(row[inputs])
        elif column.kind == "category":
            common = _common_codes(rows, schema, column)
            if len(common):
                row[inputs] = common[0]
    return row


def _most_informative_number(
    rows: Rows, schema: Schema, importance: Mapping[str, float]
) -> str | None:
    numbers = [column.name for column in schema.features if column.kind == "number"]
    varying = {name for name in numbers if _range(rows.x[:, schema.places[name][0]]) is not None}
    return next((name for name in importance if name in varying), None)


def _values(rows: Rows, schema: Schema, column: Column) -> list[_Value]:
    """Return the values of a column at which the density is drawn; a date has none."""
    if column.kind == "date":
        return []
    if column.kind == "category":
        codes = category_codes(rows.x, schema, column)
        return [
            _Value(
                f"{column.name} = {column.labels[code]}",
                np.array([float(code)]),
                codes == code,
            )
            for code in _common_codes(rows, schema, column)[: len(_LEVELS)]
        ]
    inputs = rows.x[:, schema.places[column.name][0]]
    if column.kind == "boolean":
        return [
            _Value(f"{column.name} = {label}", np.array([value]), inputs == value)
            for value, label in ((0.0, "false"), (1.0, "true"))
            if np.any(inputs == value)
        ]
    if np.all(np.isnan(inputs)):
        return []
    radius = 0.35 * np.nanstd(inputs)
    return [
        _Value(f"{column.name} = {value:.4g}", np.array([value]), np.abs(inputs - value) <= radius)
        for value in np.unique(np.nanquantile(inputs, _LEVELS))
    ]


def _common_codes(rows: Rows, schema: Schema, column: Column) -> list[int]:
    """Return the categories that some row has, the most common first."""
    codes = category_codes(rows.x, schema, column)
    counts = np.bincount(codes[codes >= 0], minlength=len(column.labels))
    common = np.argsort(-counts, kind="stable")
    return common[counts[common] > 0].tolist()


def _range(values: np.ndarray) -> tuple[float, float] | None:
    """Return the range of a column without its outermost values, or None if it is constant."""
    known = values[np.isfinite(values)]
    if not len(known) or known.min() == known.max():
        return None
    low, high = np.quantile(known, [0.005, 0.995])
    return (low, high) if low < high else (known.min(), known.max())


def _density(
    model: Estimator,
    rows: Rows,
    schema: Schema,
    target: int,
    along: str,
    other: str,
    value: _Value,
) -> Picture:
    """Return the density of a target along one column, with another column at a value."""
    name, axis = schema.targets[target], schema.places[along][0]
    ends = _range(rows.x[:, axis])
    assert ends is not None
    grid = np.linspace(*ends, 120)
    x = np.tile(typical_row(rows, schema), (len(grid), 1))
    x[:, axis] = grid
    if other:
        x[:, schema.places[other]] = value.inputs
    mixture = model.model_.mixture(x).marginal(target)
    limits = _limits(rows.y[:, target])
    shown = np.flatnonzero(value.close)[:MOST_ROWS]

    def draw(ax: Any) -> None:
        plotting.density_map(ax, grid, mixture, limits=limits, gamma=0.3)
        dots = rows.x[shown, axis], rows.y[shown, target]
        ax.plot(*dots, "o", color="#66ccee", markersize=2.5, alpha=0.5)
        ax.set(xlabel=along, ylabel=name, xlim=grid[[0, -1]], ylim=limits)

    where = f"{value.label}, " if other else ""
    where += "all others at their medians or most common values"
    alt = (
        f"Heat map: brighter means that {name} is more likely there, given {along}, {where}; dots "
        "are similar rows."
    )
    return picture(f"Density of {name} along {along}, {where}", alt, draw, (6.4, 3.6))


def _limits(values: np.ndarray) -> tuple[float, float]:
    bottom, top = np.quantile(values, [0.002, 0.998])
    margin = 0.08 * (top - bottom) or 1.0
    return bottom - margin, top + margin
