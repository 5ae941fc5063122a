"""What the density explorer shows: features of real rows, and the densities predicted for them.

The page cannot run the model, which may be thousands of trees. So it holds the predicted
probabilities of real rows in narrow cells of the target, and averages those of the rows that are
near all sliders. It shows no row that could not be: every density is that of a row of the table.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...estimator.prediction import Model
from ...estimator.schema import Column, Schema
from ...families import AbstractFamily
from ..encode import Rows, category_codes
from .figures import plain
from .words import support_text

#: Cells of a target between the limits of its axis at most. Two more hold the rest on either side.
CELLS = 80

#: By how much of a cell all edges move where one of them would be a value with a probability.
_ASIDE = 0.37

#: Rows at most, columns with a slider at most, and probabilities of all targets at most.
_MOST_ROWS, _MOST_COLUMNS, _MOST_NUMBERS = 600, 60, 200_000

#: Columns whose sliders are set at first, those with few gaps; the others may have any value.
_SET = 2


def explorer(
    model: Model, rows: Rows, schema: Schema, importance: Mapping[str, float]
) -> dict[str, Any]:
    """Return the rows of the explorer: their features, targets and predicted probabilities.

    Args:
        model: What predicts.
        rows: Rows of the report.
        schema: Columns of these rows.
        importance: How much each column matters, the most important first.
    """
    dim = len(schema.targets)
    most = min(_MOST_ROWS, _MOST_NUMBERS // (dim * (CELLS + 2)))
    some = np.sort(np.random.default_rng(2).permutation(len(rows.x))[:most])
    x, y = rows.x[some], rows.y[some]
    families = [model.family_of(target) for target in range(dim)]
    edges = [cell_edges(one, column) for one, column in zip(families, rows.y.T, strict=True)]
    masses, exactly = probabilities(model, x, edges, [one.atoms for one in families])
    by_name = {column.name: column for column in schema.features}
    listed = [_column(x, schema, by_name[name]) for name in importance]
    columns = [column for column in listed if column is not None]
    mostly_known = [one["name"] for one in columns if one["values"].count(None) <= len(x) / 5]
    for column in columns:
        column["set"] = column["name"] in mostly_known[:_SET]
    return {
        "rows": rows.numbers[some].tolist(),
        "columns": columns[:_MOST_COLUMNS],
        "left_out": max(0, len(columns) - _MOST_COLUMNS),
        "targets": [
            {
                "name": name,
                "isWhole": families[target].is_discrete,
                "support": support_text(name, families[target]),
                "edges": plain(edges[target], 9),
                "masses": _packed(masses[target]),
                "atoms": [
                    {"value": atom, "masses": _packed(exactly[target][:, place])}
                    for place, atom in enumerate(families[target].atoms)
                ],
                "y": plain(y[:, target]),
            }
            for target, name in enumerate(schema.targets)
        ],
    }


def cell_edges(family: AbstractFamily, values: np.ndarray) -> np.ndarray:
    """Return the ends of the cells of an axis: whole numbers have one each, or equally many."""
    low, high = _limits(values)
    least, most = family.ends
    if family.is_discrete:
        first, last = np.floor(max(low, least)), np.ceil(min(high, most))
        step = np.ceil((last - first + 1) / CELLS)
        return np.arange(first - 0.5, last + step, step)
    if not family.atoms:
        return np.linspace(max(low, least), min(high, most), CELLS + 1)
    # An atom is inside a cell, also where it is a bound.
    edges = np.linspace(low, high, CELLS + 1)
    return edges + _ASIDE * (edges[1] - edges[0]) * bool(np.isin(edges, family.atoms).any())


def probabilities(
    model: Model, x: np.ndarray, edges: Sequence[np.ndarray], atoms: Sequence[Sequence[float]]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return for each target the probabilities of its cells and of its atoms.

    Args:
        model: What predicts.
        x: Features.
        edges: Ends of the cells of each target.
        atoms: Single values of each target.

    Returns:
        (rows, cells + 2): the first and the last are those below and above all edges; and (rows,
        atoms).
    """
    model, inputs = model.encoded(x)
    cdf = _at_values(model.cdf, inputs, edges)
    ends = np.zeros((len(x), 1))
    padded = [np.concatenate([ends, np.clip(part, 0, 1), 1 + ends], axis=1) for part in cdf]
    masses = [np.maximum(np.diff(part, axis=1), 0) for part in padded]
    if not any(map(len, atoms)):
        return masses, [np.zeros((len(x), 0))] * len(edges)
    some = [own or (float(cells[0]),) for own, cells in zip(atoms, edges, strict=True)]
    return masses, _at_values(model.mass_at, inputs, list(map(np.array, some)))


def _at_values(
    ask: Callable[..., np.ndarray], inputs: np.ndarray, values: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Return what a method of a model gives at values of each target: (rows, values) of each.

    All targets are asked at once, so short lists repeat their last value.
    """
    most = max(map(len, values))
    table = np.stack([np.pad(one, (0, most - len(one)), mode="edge") for one in values], axis=1)
    found = ask(np.repeat(inputs, most, axis=0), np.tile(table, (len(inputs), 1)))
    found = found.reshape(len(inputs), most, len(values))
    return [found[:, : len(one), target] for target, one in enumerate(values)]


def _packed(masses: np.ndarray) -> str:
    """Return probabilities as text: 16 bits each, the lower byte first, in base64."""
    whole = np.round(65535 * masses).astype("<u2")
    return base64.b64encode(whole.tobytes()).decode()


def _column(x: np.ndarray, schema: Schema, column: Column) -> dict[str, Any] | None:
    """Return a column with its values in each row, or None if they are all the same."""
    if column.kind == "category":
        codes = category_codes(x, schema, column)
        return _choices(column.name, codes, column.labels)
    values = x[:, schema.places[column.name][0]]
    if column.kind == "boolean":
        codes = np.nan_to_num(values, nan=-1).astype(int)
        return _choices(column.name, codes, ("false", "true"))
    known = values[np.isfinite(values)]
    if not len(known) or np.ptp(known) == 0:
        return None
    is_date = column.kind == "date"
    return {"name": column.name, "kind": "date" if is_date else "number", "values": plain(values)}


def _choices(name: str, codes: np.ndarray, labels: tuple[str, ...]) -> dict[str, Any] | None:
    """Return a column of categories, those that some row has, the most common first."""
    found, counts = np.unique(codes[codes >= 0], return_counts=True)
    if len(found) < 2:
        return None
    found = found[np.argsort(-counts, kind="stable")]
    place = {int(code): index for index, code in enumerate(found)}
    return {
        "name": name,
        "kind": "choice",
        "labels": [labels[code] for code in found],
        "values": [place.get(int(code)) for code in codes],
    }


def _limits(values: np.ndarray) -> tuple[float, float]:
    """Return the ends of the axis of a target."""
    bottom, top = np.quantile(values, [0.002, 0.998])
    margin = 0.08 * (top - bottom) or max(1.0, 1e-3 * abs(float(top)))
    return float(bottom - margin), float(top + margin)
