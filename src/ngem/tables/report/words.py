"""The words and tables of a report: answers, scores, columns, rows that surprise."""

import shlex
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...estimator.schema import Column, Schema
from ...estimator.stack import DensityStack
from ...families import AbstractFamily
from .. import scores as table_scores
from ..encode import Rows, category_codes
from ..kinds import Estimator, kind_of
from ..messages import gain_text, width_text
from ..scores import RowScores
from . import figures
from .figures import number

#: Rows in the table of the least likely rows, and features of each that are shown.
_LEAST_LIKELY, MOST_FEATURES = 8, 6


def options(command: str) -> list[tuple[str, str]]:
    """Return the options of the command that a model file states; none if it is no such command.

    Not the command itself: the file may come from anybody, and text in a page gets pasted.
    """
    try:
        words = shlex.split(command)
    except ValueError:  # an open quote
        return []
    if words[:2] != ["ngem", "fit"] or len(words) % 2 == 0:
        return []
    pairs = [("DATA", words[2]), *zip(words[3::2], words[4::2], strict=True)]
    return pairs if all(name.startswith("--") for name, _ in pairs[1:]) else []


def summary(model: Estimator, rows: Rows, scores: RowScores) -> dict[str, str]:
    facts = model.diagnostics_
    nll = scores.nll.mean()
    rmse = np.sqrt(np.mean(scores.error**2, axis=0))
    crps = scores.crps.mean(axis=0)
    kind = kind_of(model)
    return {
        "Rows in this report": f"{len(rows.x):,}",
        "Of these, outside the range of the training rows": _outside(model, rows),
        "Training rows": f"{facts['training_rows']:,}",
        kind.what.capitalize(): figures.kept_text(model) if kind.step else _kinds_text(model),
        "NLL, in the units of the targets": f"{nll:.4f} nat",
        "NLL, standardized": f"{nll - facts['nll_offset']:.4f} nat",
        "Root mean squared error of the mean": ", ".join(number(value) for value in rmse),
        "CRPS": ", ".join(number(value) for value in crps) if np.all(crps == crps) else "unknown",
        "Inside the 90% intervals": f"{100 * table_scores.coverage(scores.pit, 0.9):.1f} %",
        "At the fit: gain over one Gaussian": _gain(facts["gain_over_gaussian"]),
        "At the fit: gain over linear least squares": _gain(facts["gain_over_linear"]),
        "At the fit: outlier rows": f"{len(facts['outlier_rows']):,}",
        **_components(model),
    }


def _kinds_text(model: Any) -> str:
    """Return the kinds of a stack with their weights."""
    used = [kind for kind in model.kinds_ if kind.weight]
    return ", ".join(f"{kind.name} {kind.weight:.2f}" for kind in used)


def _components(model: Estimator) -> dict[str, str]:
    """Return how many components a model has and uses."""
    if isinstance(model, DensityStack):
        gain = _gain(model.diagnostics_["gain_over_best_kind"])
        return {
            "At the fit: gain over the best kind alone": gain,
            "Width": width_text(model.width_, model.diagnostics_["gain_of_width"]),
            "Components of all members together": str(model.n_components_),
        }
    effective = model.diagnostics_["effective_components"]
    in_use = "unknown" if effective is None else f"{effective:.1f} of {model.n_components_}"
    return {f"At the fit: effective components of a {kind_of(model).member}": in_use}


def _outside(model: Estimator, rows: Rows) -> str:
    """Return how many rows have a feature outside the range of the training rows."""
    if not model.model_.network.is_guarded:
        return "unknown"  # to a model of an earlier version
    return f"{np.count_nonzero(model.model_.distance(rows.x) > 0):,}"


def _gain(value: float | None) -> str:
    return "unknown" if value is None else f"{value:+.3f} nat per row"


def columns(rows: Rows, schema: Schema) -> list[Sequence[str]]:
    """Return a table of the columns: a header, then one line for each feature and target."""
    lines: list[Sequence[str]] = [("column", "smallest", "median", "largest", "missing")]
    places = schema.places
    for column in schema.features:
        if column.kind == "category":
            codes = category_codes(rows.x, schema, column)
            counts = np.bincount(codes[codes >= 0], minlength=len(column.labels))
            most = f"{column.labels[int(np.argmax(counts))]} (most common)"
            count = f"{np.count_nonzero(counts)} categories"
            lines.append((column.name, count, most, "", str(np.sum(codes < 0))))
        else:
            write = _date if column.kind == "date" else number
            lines.append((column.name, *_statistics(rows.x[:, places[column.name][0]], write)))
    for target, name in enumerate(schema.targets):
        lines.append((f"{name} (target)", *_statistics(rows.y[:, target])))
    return lines


def _statistics(values: np.ndarray, write: Callable[[float], str] = number) -> tuple[str, ...]:
    known = values[np.isfinite(values)]
    texts = [write(f(known)) if len(known) else "-" for f in (np.min, np.median, np.max)]
    return *texts, str(len(values) - len(known))


def _date(days: float) -> str:
    """Return the day so many days after the first of 1970."""
    return str(np.datetime64(int(days // 1), "D"))


def answers(model: Estimator, rows: Rows, schema: Schema, scores: RowScores) -> list[str]:
    """Return, a sentence each, whether the model can be trusted, and the worst that it does."""
    sentences = []
    for target, name in enumerate(schema.targets):
        pit = scores.pit[:, [target]]
        rmse = np.sqrt(np.mean(scores.error[:, target] ** 2))
        verdict = table_scores.calibration_text(len(pit), table_scores.calibration(pit[:, 0]))
        inside = table_scores.coverage(pit, 0.9)
        sentences.append(
            f"{inside:.0%} of {name} lie in the 90% intervals, and predicted means are off by "
            f"{number(rmse, 3)} (root mean square). Calibration: {verdict}."
        )
    gain = gain_text(model.diagnostics_["gain_over_linear"])
    sentences += [f"On rows held out at the fit: {gain[0].lower()}{gain[1:]}"] if gain else []
    row = int(np.argmax(scores.nll))
    true, mean = (
        ", ".join(number(value) for value in part[row]) for part in (rows.y, rows.y + scores.error)
    )
    sentences.append(
        f"The worst: row {rows.numbers[row]} has {true}, where {mean} was predicted (mean). Its "
        f"log density is {-scores.nll[row]:.3g}; half of the rows have more than "
        f"{-np.median(scores.nll):.3g}."
    )
    return sentences


def least_likely(
    rows: Rows, schema: Schema, scores: RowScores, important: Sequence[str]
) -> list[Sequence[str]]:
    """Return a table of the rows with the lowest density, with the columns that matter most."""
    mean = rows.y + scores.error
    true = (f"{name}: true" for name in schema.targets)
    predicted = (f"{name}: predicted mean" for name in schema.targets)
    by_name = {column.name: column for column in schema.features}
    columns = [by_name[name] for name in important[:MOST_FEATURES]]
    lines: list[Sequence[str]] = [
        ("row of the file", "log density", *true, *predicted, *(one.name for one in columns))
    ]
    for row in np.argsort(-scores.nll)[:_LEAST_LIKELY]:
        values = [number(value) for value in (*rows.y[row], *mean[row])]
        features = [value_text(rows.x[row], schema, column) for column in columns]
        lines.append((str(rows.numbers[row]), f"{-scores.nll[row]:.3f}", *values, *features))
    return lines


def value_text(x: np.ndarray, schema: Schema, column: Column) -> str:
    """Return the value of a column in one row, as text."""
    value = x[schema.places[column.name][0]]
    if np.isnan(value):
        return "missing"
    if column.kind == "category":
        known = int(value) < len(column.labels)
        return column.labels[int(value)] if known else "(not seen at the fit)"
    if column.kind == "boolean":
        return str(bool(value)).lower()
    return _date(value) if column.kind == "date" else number(value)


def notes(rows: Rows, shown: np.ndarray, schema: Schema, important: Sequence[str]) -> list[str]:
    """Return the number of each row, with its most important features."""
    by_name = {column.name: column for column in schema.features}
    columns = [by_name[name] for name in important[:MOST_FEATURES]]
    return [
        f"row {rows.numbers[row]}: "
        + ", ".join(f"{one.name} = {value_text(rows.x[row], schema, one)}" for one in columns)
        for row in shown
    ]


def support_text(name: str, family: AbstractFamily) -> str:
    """Return where the values of a target can be, one sentence; nothing if that is everywhere.

    >>> from ngem.families import get_family
    >>> support_text("loss", get_family("gamma + 0"))
    'loss is never below 0, and has a probability of its own at 0.'
    >>> support_text("grade", get_family("ordinal(5)")), support_text("x", get_family("laplace"))
    ('grade is a whole number from 0 to 4.', '')
    """
    low, high = (f"{end:.12g}" if np.isfinite(end) else "" for end in family.ends)
    parts = []
    if family.is_discrete:
        parts.append(f"is a whole number from {low} {f'to {high}' if high else 'on'}")
    elif low and high:
        parts.append(f"lies between {low} and {high}")
    elif low or high:
        parts.append(f"is never below {low}" if low else f"is never above {high}")
    if family.atoms:
        values = " and ".join(f"{atom:.12g}" for atom in family.atoms)
        parts.append(f"has a probability of its own at {values}")
    return f"{name} {', and '.join(parts)}." if parts else ""
