"""A fitted model on one page: a self-contained HTML file for screen, phone and paper."""

import base64
import hashlib
import json
import shlex
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import jax
import jinja2
import numpy as np
from markupsafe import Markup

from ... import __version__
from ...estimator.schema import Column, Schema
from .. import scores as table_scores
from ..encode import Rows, category_codes
from ..kinds import Estimator, kind_of
from ..messages import gain_text
from ..scores import RowScores, score_rows
from . import figures
from .explorer import explorer
from .figures import Bars, Figure
from .importance import importance_bars, importance_of

#: Rows that a figure shows at most.
MOST_ROWS = 400

#: Rows in the table of the least likely rows, and features of each that are shown.
_LEAST_LIKELY, _MOST_FEATURES = 8, 6


def make_report(
    model: Estimator, rows: Rows, schema: Schema, *, title: str, of_the_fit: float = 0.0
) -> str:
    """Return the page.

    Args:
        model: A fitted model.
        rows: Complete rows to judge it by, preferably rows that it was not fitted to.
        schema: Columns of these rows.
        title: Title of the page.
        of_the_fit: Fraction of these rows that the model was fitted to; the page says so.
    """
    shown = _shown(rows)
    scores = score_rows(model.model_, rows.x, rows.y)
    importance = importance_of(model.model_, rows.x[shown], rows.y[shown], schema)
    kind = kind_of(model)
    targets = [
        {
            **_target(model, rows, schema, scores, list(importance.rises), target),
            "importance": importance_bars(importance, name, target),
        }
        for target, name in enumerate(schema.targets)
    ]
    data = _Data()
    return _template().render(
        title=title,
        warning=_warning(of_the_fit),
        answers=_answers(model, rows, schema, scores),
        summary=_summary(model, rows, scores),
        columns=_columns(rows, schema),
        convergence=figures.convergence(model) if kind.step else None,
        kinds=None if kind.step else figures.kind_weights(model),
        gains=_gains(model, schema),
        targets=targets,
        weights=_weights(model, rows.x[shown]),
        least_likely=_least_likely(rows, schema, scores, list(importance.rises)),
        options=_options(schema.command),
        policy=_policy(),
        settings=json.dumps(_settings(model), indent=1),
        version=__version__,
        member=kind.member,
        explorer=explorer(model.model_, rows, schema, importance.rises),
        data=data,
        read=_read,
    )


class _Data:
    """The charts of a page in the order in which it shows them."""

    def __init__(self) -> None:
        self.charts: list[dict[str, Any]] = []

    def add(self, figure: Figure) -> int:
        """Keep a chart; return its number."""
        self.charts.append(figure.chart)
        return len(self.charts) - 1


def _warning(of_the_fit: float) -> str:
    """Return a sentence about rows that the model was fitted to; none if there are none."""
    if of_the_fit == 0:
        return ""
    which = "These are" if of_the_fit > 0.99 else f"About {of_the_fit:.0%} of these rows are among"
    return (
        f"{which} the rows that the model was fitted to. It knows them, so all scores below are "
        "too good. Judge it by other rows."
    )


def _weights(model: Estimator, x: np.ndarray) -> Bars | None:
    """Return the weights of components; None for a stack, whose members have different ones."""
    kind = kind_of(model)
    if not kind.step:
        return None
    weights = model.model_.weights(x)
    return figures.component_weights(model.model_.network, weights, kind.member)


def _gains(model: Estimator, schema: Schema) -> Bars | None:
    """Return a table of what trees split for, or None for a model without trees."""
    gains = getattr(model, "feature_importances_", None)
    return None if gains is None else figures.gain_bars(gains, schema.numbers)


def _options(command: str) -> list[tuple[str, str]]:
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


#: What the page holds as it is, between its tags: the styles and the scripts.
_PARTS = {"style": ("vendor/uplot.css", "page.css"), "script": ("vendor/uplot.js", "page.js")}


def _policy() -> str:
    """Return a policy that lets the page use its own styles and run its own scripts, no more."""
    allowed = {
        tag: " ".join(f"'sha256-{_digest(_read(name))}'" for name in names)
        for tag, names in _PARTS.items()
    }
    return (
        f"default-src 'none'; style-src {allowed['style']}; script-src {allowed['script']}; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _read(name: str) -> Markup:
    """Return one of our own files, to insert as it is."""
    folder = resources.files("ngem.tables.report")
    # A browser reads every line end as one character, and the policy counts them so.
    text = folder.joinpath(*name.split("/")).read_text(encoding="utf-8")
    return Markup(text.replace("\r\n", "\n"))


def _template() -> jinja2.Template:
    """Return the template of the page; it escapes every text that it inserts."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_read("page.html"))


def _shown(rows: Rows) -> np.ndarray:
    """Return the rows for pictures and importances; scores use all rows."""
    return np.random.default_rng(0).permutation(len(rows.x))[:MOST_ROWS]


def _target(
    model: Estimator,
    rows: Rows,
    schema: Schema,
    scores: RowScores,
    important: Sequence[str],
    target: int,
) -> dict[str, Any]:
    """Return the figures and the verdict of one target."""
    name, pit, shown = schema.targets[target], scores.pit[:, target], _shown(rows)
    quantiles = model.model_.quantiles(rows.x[shown], np.array([0.05, 0.5, 0.95]))[:, :, target]
    result = table_scores.calibration(pit)
    notes = _notes(rows, shown, schema, important)
    return {
        "name": name,
        "intervals": figures.intervals(name, quantiles, rows.y[shown, target], notes),
        "uncertainty": _uncertainty(model, rows.x[shown], name, target, quantiles[:, 1]),
        "verdict": table_scores.calibration_text(len(pit), result),
        "is_miscalibrated": result["calibration"].startswith("too"),
        "calibration": figures.calibration(name, pit),
    }


def _notes(
    rows: Rows, shown: np.ndarray, schema: Schema, important: Sequence[str]
) -> list[str]:
    """Return the number of each row, with its most important features."""
    by_name = {column.name: column for column in schema.features}
    columns = [by_name[name] for name in important[:_MOST_FEATURES]]
    return [
        f"row {rows.numbers[row]}: "
        + ", ".join(f"{one.name} = {_value(rows.x[row], schema, one)}" for one in columns)
        for row in shown
    ]


def _uncertainty(
    model: Estimator, x: np.ndarray, name: str, target: int, median: np.ndarray
) -> Figure | None:
    """Return a figure of noise and model, or None if a single member cannot tell them apart."""
    if model.model_.network.n_members == 1:
        return None
    # Variances need no samples; the entropies, which do, are not shown.
    noise, of_model, _ = model.model_.uncertainty(x, 1, jax.random.key(0))
    outside = model.model_.distance(x) > 0
    stds = np.sqrt(noise[:, target]), np.sqrt(of_model[:, target])
    return figures.uncertainty(name, median, *stds, outside, kind_of(model).member)


def _summary(model: Estimator, rows: Rows, scores: RowScores) -> dict[str, str]:
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
        "Root mean squared error of the mean": ", ".join(f"{value:.4g}" for value in rmse),
        "CRPS": ", ".join(f"{value:.4g}" for value in crps) if np.all(crps == crps) else "unknown",
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
    kind = kind_of(model)
    if not kind.step:
        gain = _gain(model.diagnostics_["gain_over_best_kind"])
        return {
            "At the fit: gain over the best kind alone": gain,
            "Components of all members together": str(model.n_components_),
        }
    effective = model.diagnostics_["effective_components"]
    in_use = "unknown" if effective is None else f"{effective:.1f} of {model.n_components_}"
    return {f"At the fit: effective components of a {kind.member}": in_use}


def _outside(model: Estimator, rows: Rows) -> str:
    """Return how many rows have a feature outside the range of the training rows."""
    if not model.model_.network.is_guarded:
        return "unknown"  # to a model of an earlier version
    return f"{np.count_nonzero(model.model_.distance(rows.x) > 0):,}"


def _gain(value: float | None) -> str:
    return "unknown" if value is None else f"{value:+.3f} nat per row"


def _columns(rows: Rows, schema: Schema) -> list[Sequence[str]]:
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
            write = _date if column.kind == "date" else "{:.4g}".format
            lines.append((column.name, *_statistics(rows.x[:, places[column.name][0]], write)))
    for target, name in enumerate(schema.targets):
        lines.append((f"{name} (target)", *_statistics(rows.y[:, target])))
    return lines


def _statistics(
    values: np.ndarray, write: Callable[[float], str] = "{:.4g}".format
) -> tuple[str, ...]:
    known = values[np.isfinite(values)]
    texts = [write(f(known)) if len(known) else "-" for f in (np.min, np.median, np.max)]
    return *texts, str(len(values) - len(known))


def _date(days: float) -> str:
    """Return the day so many days after the first of 1970."""
    return str(np.datetime64(int(days // 1), "D"))


def _answers(model: Estimator, rows: Rows, schema: Schema, scores: RowScores) -> list[str]:
    """Return, a sentence each, whether the model can be trusted, and the worst that it does."""
    sentences = []
    for target, name in enumerate(schema.targets):
        pit = scores.pit[:, [target]]
        rmse = np.sqrt(np.mean(scores.error[:, target] ** 2))
        verdict = table_scores.calibration_text(len(pit), table_scores.calibration(pit[:, 0]))
        inside = table_scores.coverage(pit, 0.9)
        sentences.append(
            f"{inside:.0%} of {name} lie in the 90% intervals, and predicted means are off by "
            f"{rmse:.3g} (root mean square). Calibration: {verdict}."
        )
    gain = gain_text(model.diagnostics_["gain_over_linear"])
    sentences += [f"On rows held out at the fit: {gain[0].lower()}{gain[1:]}"] if gain else []
    row = int(np.argmax(scores.nll))
    true, mean = (
        ", ".join(f"{value:.4g}" for value in part[row]) for part in (rows.y, rows.y + scores.error)
    )
    sentences.append(
        f"The worst: row {rows.numbers[row]} has {true}, where {mean} was predicted (mean). Its "
        f"log density is {-scores.nll[row]:.3g}; half of the rows have more than "
        f"{-np.median(scores.nll):.3g}."
    )
    return sentences


def _least_likely(
    rows: Rows, schema: Schema, scores: RowScores, important: Sequence[str]
) -> list[Sequence[str]]:
    """Return a table of the rows with the lowest density, with the columns that matter most."""
    mean = rows.y + scores.error
    true = (f"{name}: true" for name in schema.targets)
    predicted = (f"{name}: predicted mean" for name in schema.targets)
    by_name = {column.name: column for column in schema.features}
    columns = [by_name[name] for name in important[:_MOST_FEATURES]]
    lines: list[Sequence[str]] = [
        ("row of the file", "log density", *true, *predicted, *(one.name for one in columns))
    ]
    for row in np.argsort(-scores.nll)[:_LEAST_LIKELY]:
        values = [f"{value:.4g}" for value in (*rows.y[row], *mean[row])]
        features = [_value(rows.x[row], schema, column) for column in columns]
        lines.append((str(rows.numbers[row]), f"{-scores.nll[row]:.3f}", *values, *features))
    return lines


def _value(x: np.ndarray, schema: Schema, column: Column) -> str:
    """Return the value of a column in one row, as text."""
    value = x[schema.places[column.name][0]]
    if np.isnan(value):
        return "missing"
    if column.kind == "category":
        known = int(value) < len(column.labels)
        return column.labels[int(value)] if known else "(not seen at the fit)"
    if column.kind == "boolean":
        return str(bool(value)).lower()
    return _date(value) if column.kind == "date" else f"{value:.4g}"


def _settings(model: Estimator) -> dict[str, Any]:
    return {
        name: value if isinstance(value, str | int | float | bool | None) else repr(value)
        for name, value in model.get_params(deep=False).items()
    }
