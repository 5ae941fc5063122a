"""A fitted model on one page: a self-contained HTML file for screen, phone and paper."""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

import jax
import jinja2
import numpy as np
from markupsafe import Markup

from ... import __version__
from ...estimator.schema import Schema
from .. import scores as table_scores
from ..encode import Rows
from ..kinds import Estimator, kind_of
from ..messages import of_the_fit_text
from ..scores import RowScores, score_rows
from . import figures
from .explorer import explorer
from .figures import Bars, Figure
from .importance import importance_bars, importance_of
from .words import answers, columns, least_likely, notes, options, summary

#: Rows that a figure shows at most.
MOST_ROWS = 400


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
        warning=of_the_fit_text(of_the_fit),
        answers=answers(model, rows, schema, scores),
        summary=summary(model, rows, scores),
        columns=columns(rows, schema),
        convergence=figures.convergence(model) if kind.step else None,
        kinds=None if kind.step else figures.kind_weights(model),
        gains=_gains(model, schema),
        targets=targets,
        weights=_weights(model, rows.x[shown]),
        least_likely=least_likely(rows, schema, scores, list(importance.rises)),
        options=options(schema.command),
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
    of_rows = notes(rows, shown, schema, important)
    return {
        "name": name,
        "intervals": figures.intervals(name, quantiles, rows.y[shown, target], of_rows),
        "uncertainty": _uncertainty(model, rows.x[shown], name, target, quantiles[:, 1]),
        "verdict": table_scores.calibration_text(len(pit), result),
        "is_miscalibrated": result["calibration"].startswith("too"),
        "calibration": figures.calibration(name, pit),
    }


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


def _settings(model: Estimator) -> dict[str, Any]:
    return {
        name: value if isinstance(value, str | int | float | bool | None) else repr(value)
        for name, value in model.get_params(deep=False).items()
    }
