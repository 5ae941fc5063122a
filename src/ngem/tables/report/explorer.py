"""What the density explorer shows: features of real rows, and the densities predicted for them.

The page cannot run the model, which may be thousands of trees. So it holds the predicted
probabilities of real rows in narrow cells of the target, and averages those of the rows that are
near all sliders. It shows no row that could not be: every density is that of a row of the table.
"""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...estimator.prediction import Model
from ...estimator.schema import Column, Schema
from ..encode import Rows, category_codes
from .figures import plain

#: Cells of a target between the limits of its axis. Two more hold the rest on either side.
CELLS = 80

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
    limits = [_limits(column) for column in rows.y.T]
    masses = cell_masses(model, x, np.array(limits))
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
        "cells": CELLS,
        "targets": [
            {
                "name": name,
                "low": limits[target][0],
                "high": limits[target][1],
                "y": plain(y[:, target]),
                "masses": _packed(masses[:, :, target]),
            }
            for target, name in enumerate(schema.targets)
        ],
    }


def cell_masses(model: Model, x: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return the probabilities of the cells of each target, (rows, cells + 2, dim).

    The first and the last are those below and above the limits, (dim, 2).
    """
    edges = np.linspace(limits[:, 0], limits[:, 1], CELLS + 1)
    model, inputs = model.encoded(x)
    at = np.tile(edges, (len(x), 1))
    cdf = model.pit(np.repeat(inputs, len(edges), axis=0), at).reshape(len(x), *edges.shape)
    ends = np.zeros((len(x), 1, edges.shape[1]))
    steps = np.diff(np.concatenate([ends, np.clip(cdf, 0, 1), 1 + ends], axis=1), axis=1)
    return np.maximum(steps, 0)


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
