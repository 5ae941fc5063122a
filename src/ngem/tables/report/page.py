"""A fitted model on one page: a self-contained HTML file for screen, phone and paper."""

import base64
import html
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any, NamedTuple

import jax
import numpy as np

from ... import __version__, plotting
from ...estimator.regressor import MDNRegressor
from ...estimator.schema import Schema
from ...mixture import Mixture
from .. import scores as table_scores
from ..scores import RowScores, score_rows

#: Rows that pictures and importances are made from; scores use all of them.
_SHOWN = 400

#: Rows in the table of those that the model finds least likely.
_WORST = 8

#: Columns that have a slider, and places at which the density is drawn: quantiles of a number.
_SLIDERS = 2
_PLACES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Table:
    """Rows to judge a model by.

    Attributes:
        x: Features as the model takes them, (rows, inputs).
        y: Targets, (rows, targets).
        schema: The columns that they were.
        numbers: Of the rows in the user's file, from 1.
    """

    x: np.ndarray
    y: np.ndarray
    schema: Schema
    numbers: np.ndarray

    @cached_property
    def shown(self) -> np.ndarray:
        """The rows that pictures and importances are made from."""
        return np.random.default_rng(0).permutation(len(self.x))[:_SHOWN]

    @cached_property
    def typical(self) -> np.ndarray:
        """A row of medians and most common categories."""
        row = np.nanmedian(self.x, axis=0)
        for column in self.schema.features:
            inputs = self.schema.places[column.name]
            if column.kind == "boolean":
                row[inputs] = np.round(row[inputs])
            elif column.kind == "category":
                row[inputs] = np.eye(len(inputs))[np.argmax(self.x[:, inputs].sum(axis=0))]
        return row


class Picture(NamedTuple):
    """A drawing, with what a reader who cannot see it is told instead."""

    title: str
    alt: str
    draw: Callable[[Any], Any]
    size: tuple[float, float] = (6.0, 3.2)


def make_report(model: MDNRegressor, table: Table, *, title: str) -> str:
    """Return the page.

    Args:
        model: Fitted.
        table: Rows to judge it by, best ones it has not seen.
        title: Of the page.
    """
    scores = score_rows(model.model_, table.x, table.y)
    importance = importances(model, table)
    sections = [
        _section("Summary", _summary(model, table, scores)),
        _section("The data", _data(table)),
        _section("Training", _picture(_convergence(model))),
        _section("What matters", _picture(_importance(importance))),
    ]
    for number, name in enumerate(table.schema.targets):
        # A target may be far from zero and vary by little.
        with jax.enable_x64(True):
            body = _densities(model, table, importance, number)
        sections.append(_section(f"The density of {name}", body))
        sections += _target_sections(model, table, scores, number)
    sections += [
        _section("Components", _picture(_usage(model, table))),
        _section("Rows that surprise the model", _worst(table, scores)),
        _section("To repeat this", _settings(model, table.schema.command)),
    ]
    return _page(title, sections)


def importances(model: MDNRegressor, table: Table) -> dict[str, float]:
    """Return by how much the NLL rises if a column's values are dealt out anew, largest first."""
    rows = table.shown
    x, y = table.x[rows], table.y[rows]
    order = np.random.default_rng(1).permutation(len(x))
    known = float(np.mean(model.model_.log_prob(x, y)))
    found = {}
    for name, inputs in table.schema.places.items():
        shuffled = x.copy()
        shuffled[:, inputs] = x[order][:, inputs]
        found[name] = known - float(np.mean(model.model_.log_prob(shuffled, y)))
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _target_sections(
    model: MDNRegressor, table: Table, scores: RowScores, number: int
) -> list[str]:
    name, pit, rows = table.schema.targets[number], scores.pit[:, number], table.shown
    quantiles = model.model_.quantiles(table.x[rows], np.array([0.05, 0.5, 0.95]))[:, :, number]
    order = np.argsort(quantiles[:, 1])
    intervals = Picture(
        f"Predicted 90% intervals of {name} against the truth",
        f"For {len(rows)} rows, sorted by predicted median, the interval between the 5% and 95% "
        f"quantiles of {name} as a band, and the true value as a dot.",
        lambda ax: _draw_intervals(ax, quantiles[order].T, table.y[rows[order], number], name),
    )
    calibration = [
        Picture(
            f"Is {name} calibrated?",
            f"Histogram of the probability integral transform of {name}; flat means calibrated.",
            lambda ax: plotting.pit_histogram(ax, pit),
            (5.0, 3.0),
        ),
        Picture(
            f"Reliability of {name}",
            f"Share of true values of {name} inside central intervals, against the probability of "
            "these; below the diagonal the model is too sure.",
            lambda ax: plotting.reliability_curve(ax, pit),
            (4.0, 3.6),
        ),
    ]
    return [
        _section(f"Intervals of {name}", _picture(intervals)),
        _section(
            f"Calibration of {name}",
            f"<p>{html.escape(_calibration_words(pit))}</p>"
            f'<div class="side">{"".join(map(_picture, calibration))}</div>',
        ),
    ]


def _calibration_words(pit: np.ndarray) -> str:
    told = table_scores.calibration(pit)
    words = (
        f"Calibration on these rows: {told['calibration']} (test of a uniform PIT: p = "
        f"{told['pit_p_value']:.2g})."
    )
    if told["pit_p_value"] < table_scores.SIGNIFICANT:
        words += " Intervals can be recalibrated with ngem.ConformalRegressor."
    return words


class Place(NamedTuple):
    """Where along a column the density is drawn: in words, as inputs, and which rows are near."""

    label: str
    inputs: np.ndarray
    near: np.ndarray


def _densities(model: MDNRegressor, table: Table, importance: dict[str, float], number: int) -> str:
    """Return the density along the most informative number, with sliders for other columns."""
    numbers = {column.name for column in table.schema.features if column.kind == "number"}
    ranges = {name: _range(table.x[:, table.schema.places[name][0]]) for name in numbers}
    along = next((name for name in importance if ranges.get(name) is not None), None)
    if along is None:
        return "<p>There is no column of numbers along which to draw it.</p>"
    others = [name for name in importance if name != along]
    found = [(name, _places(table, name)) for name in others]
    sliders = [(name, places) for name, places in found if len(places) > 1][:_SLIDERS]
    here = Place("", np.empty(0), np.ones(len(table.x), bool))
    if not sliders:
        return _picture(_density(model, table, number, along, "", here))
    return "".join(
        _slider(
            name,
            [(place.label, _density(model, table, number, along, name, place)) for place in places],
        )
        for name, places in sliders
    )


def _places(table: Table, name: str) -> list[Place]:
    """Return the places along a column at which the density is drawn."""
    column = next(column for column in table.schema.features if column.name == name)
    inputs = table.schema.places[name]
    values = table.x[:, inputs]
    if column.kind == "category":
        common = np.argsort(-values.sum(axis=0), kind="stable")[: len(_PLACES)]
        rows = np.eye(len(inputs))
        return [
            Place(f"{name} = {column.categories[k]}", rows[k], values[:, k] == 1)
            for k in common
            if values[:, k].any()
        ]
    values = values[:, 0]
    if column.kind == "boolean":
        names = {0.0: "false", 1.0: "true"}
        return [
            Place(f"{name} = {names[value]}", np.array([value]), values == value)
            for value in names
            if np.any(values == value)
        ]
    if np.all(np.isnan(values)):
        return []
    near = 0.35 * np.nanstd(values)
    return [
        Place(f"{name} = {value:.4g}", np.array([value]), np.abs(values - value) <= near)
        for value in np.unique(np.nanquantile(values, _PLACES))
    ]


def _range(values: np.ndarray) -> tuple[float, float] | None:
    """Return nearly the whole range of what is known of a column, or None where it is constant."""
    known = values[np.isfinite(values)]
    if not len(known) or known.min() == known.max():
        return None
    low, high = np.quantile(known, [0.005, 0.995])
    return (low, high) if low < high else (known.min(), known.max())


def _density(
    model: MDNRegressor, table: Table, number: int, along: str, other: str, place: Place
) -> Picture:
    """Return the density of a target along one column, another one at a place."""
    name, axis = table.schema.targets[number], table.schema.places[along][0]
    ends = _range(table.x[:, axis])
    assert ends is not None
    grid = np.linspace(*ends, 120)
    x = np.tile(table.typical, (len(grid), 1))
    x[:, axis] = grid
    if other:
        x[:, table.schema.places[other]] = place.inputs
    bottom, top = np.quantile(table.y[:, number], [0.002, 0.998])
    margin = 0.08 * (top - bottom) or 1.0
    limits = (bottom - margin, top + margin)
    where = f"{place.label}, " if other else ""
    where += "all others at their medians or most common values"
    mixture = model.model_.mixture(x).marginal(number)
    rows = np.flatnonzero(place.near)[:_SHOWN]
    dots = np.stack([table.x[rows, axis], table.y[rows, number]])
    return Picture(
        f"Density of {name} along {along}, {where}",
        f"Heat map: brighter means that {name} is likelier there, given {along}, {where}; dots are "
        "rows nearby.",
        lambda ax: _draw_density(ax, grid, limits, mixture, dots, along, name),
        (6.4, 3.6),
    )


def _draw_density(
    ax: Any,
    grid: np.ndarray,
    limits: tuple[float, float],
    mixture: Mixture,
    dots: np.ndarray,
    along: str,
    name: str,
) -> None:
    plotting.density_map(ax, grid, mixture, limits=limits, gamma=0.3)
    ax.plot(*dots, "o", color="#66ccee", markersize=2.5, alpha=0.5)
    ax.set(xlabel=along, ylabel=name, xlim=grid[[0, -1]], ylim=limits)


def _draw_intervals(ax: Any, quantiles: np.ndarray, y: np.ndarray, name: str) -> None:
    at = np.arange(len(y))
    inside = (quantiles[0] <= y) & (y <= quantiles[2])
    ax.fill_between(at, quantiles[0], quantiles[2], color="#4477aa", alpha=0.3, lw=0)
    ax.plot(at, quantiles[1], color="#4477aa", lw=1, label="median and 90% interval")
    ax.plot(at[inside], y[inside], "o", ms=2.5, color="#228833", label="inside")
    ax.plot(at[~inside], y[~inside], "x", ms=4, color="#cc3311", label="outside")
    ax.set(xlabel="rows, by predicted median", ylabel=name)
    ax.legend()


def _convergence(model: MDNRegressor) -> Picture:
    offset = model.diagnostics_["nll_offset"]
    train = np.asarray(model.history_["train_nll"]) + offset
    held_out = np.asarray(model.history_["validation_nll"]) + offset

    def draw(ax: Any) -> None:
        ax.plot(train, color="#4477aa", label="training rows")
        if np.any(np.isfinite(held_out)):
            ax.plot(held_out, color="#cc3311", label="validation rows")
            ax.axvline(model.best_epoch_, color="#888888", ls=":", label="kept")
        shown = np.concatenate([train, held_out])
        shown = shown[np.isfinite(shown)]
        low, high = shown.min(), np.quantile(shown, 0.98)
        ax.set(xlabel="epoch", ylabel="negative log-likelihood (nat)")
        ax.set_ylim(low - 0.05 * (high - low) - 1e-6, high + 0.05 * (high - low) + 1e-6)
        ax.legend()

    alt = (
        f"Negative log-likelihood over {len(train)} epochs; the parameters of epoch "
        f"{model.best_epoch_ + 1} were kept. It can be negative: it is minus a log density."
    )
    return Picture("Convergence", alt, draw)


def _importance(importance: dict[str, float]) -> Picture:
    shown = dict(list(importance.items())[:12])

    def draw(ax: Any) -> None:
        ax.barh(list(shown), list(shown.values()), color="#4477aa")
        ax.invert_yaxis()
        ax.set(xlabel="rise of NLL if the column is shuffled (nat)")

    alt = "How much worse the model predicts without a column: " + ", ".join(
        f"{name} {value:.2f}" for name, value in shown.items()
    )
    return Picture("Importance of columns", alt, draw, (6.0, 0.9 + 0.28 * len(shown)))


def _usage(model: MDNRegressor, table: Table) -> Picture:
    weights = np.asarray(model.model_.mixture(table.x[table.shown]).weights)
    order = np.argsort(-weights.mean(axis=0))

    def draw(ax: Any) -> None:
        ax.boxplot(weights[:, order], showfliers=False, tick_labels=[str(k + 1) for k in order])
        ax.set(xlabel="component", ylabel="weight over rows", ylim=(-0.02, 1.02))

    mean = ", ".join(f"{value:.2f}" for value in weights.mean(axis=0)[order])
    return Picture("Weights of the components", f"Mean weights: {mean}.", draw)


def _summary(model: MDNRegressor, table: Table, scores: RowScores) -> str:
    found = model.diagnostics_
    nll = scores.nll.mean()
    error = np.sqrt(np.mean(scores.error**2, axis=0))
    crps = scores.crps.mean(axis=0)
    effective = found["effective_components"]
    facts = {
        "Rows judged here": f"{len(table.x):,}",
        "Rows trained on": f"{found['training_rows']:,}",
        "NLL, in the units of the targets": f"{nll:.4f} nat",
        "NLL, standardised": f"{nll - found['nll_offset']:.4f} nat",
        "Root mean squared error of the mean": ", ".join(f"{value:.4g}" for value in error),
        "CRPS": ", ".join(f"{value:.4g}" for value in crps) if np.all(crps == crps) else "unknown",
        "Inside the 90% intervals": f"{100 * table_scores.coverage(scores.pit, 0.9):.1f} %",
        "When fitted: gain over one Gaussian": _gain(found["gain_over_gaussian"]),
        "When fitted: gain over least squares": _gain(found["gain_over_linear"]),
        "When fitted: components in use": "unknown"
        if effective is None
        else f"{effective:.1f} of {model.n_components}",
    }
    return (
        _rows([("measure", "value"), *facts.items()])
        + "<p>NLL is minus the mean log density: lower is better, and negative is fine.</p>"
    )


def _gain(value: float | None) -> str:
    return "not measured" if value is None else f"{value:+.3f} nat a row"


def _data(table: Table) -> str:
    lines: list[Sequence[str]] = [("column", "least", "median", "largest", "missing")]
    for column in table.schema.features:
        values = table.x[:, table.schema.places[column.name]]
        if column.kind == "category":
            counts = values.sum(axis=0)
            most = column.categories[int(np.argmax(counts))]
            told = (f"{np.count_nonzero(counts)} categories", f"{most} (most common)", "")
            lines.append((column.name, *told, str(int(len(values) - counts.sum()))))
        else:
            lines.append((column.name, *_numbers(values[:, 0])))
    lines += [
        (f"{name} (target)", *_numbers(table.y[:, d]))
        for d, name in enumerate(table.schema.targets)
    ]
    return _rows(lines)


def _numbers(values: np.ndarray) -> tuple[str, ...]:
    known = values[np.isfinite(values)]
    marks = [f"{f(known):.4g}" if len(known) else "-" for f in (np.min, np.median, np.max)]
    return *marks, str(len(values) - len(known))


def _worst(table: Table, scores: RowScores) -> str:
    rows = np.argsort(-scores.nll)[:_WORST]
    mean = table.y + scores.error
    targets = table.schema.targets
    header = ("row of the file", "log density", *(f"{name}: true" for name in targets))
    header += tuple(f"{name}: predicted mean" for name in targets)
    lines: list[Sequence[str]] = [header]
    for row in rows:
        values = [f"{value:.4g}" for value in (*table.y[row], *mean[row])]
        lines.append((str(table.numbers[row]), f"{-scores.nll[row]:.3f}", *values))
    return "<p>The least likely rows: mistakes in the data, or in the model.</p>" + _rows(lines)


def _settings(model: MDNRegressor, command: str) -> str:
    settings = {
        name: value if isinstance(value, str | int | float | bool | None) else repr(value)
        for name, value in model.get_params(deep=False).items()
    }
    line = f"<pre><code>{html.escape(command)}</code></pre>" if command else ""
    return (
        f"{line}<details><summary>All settings (ngem {__version__})</summary><pre><code>"
        f"{html.escape(json.dumps(settings, indent=1))}</code></pre></details>"
    )


def _rows(lines: Sequence[Sequence[str]]) -> str:
    header = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in lines[0])
    body = "".join(
        f'<tr><th scope="row">{html.escape(line[0])}</th>'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in line[1:])
        + "</tr>"
        for line in lines[1:]
    )
    head = f"<thead><tr>{header}</tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def _section(title: str, body: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>{body}</section>"


def _slider(name: str, frames: list[tuple[str, Picture]]) -> str:
    """Return pictures of which a slider shows one; all of them without scripts and on paper."""
    shown = "".join(f'<div class="frame">{_picture(picture)}</div>' for _, picture in frames)
    labels = html.escape(json.dumps([label for label, _ in frames]))
    return (
        f'<div class="slider" data-labels="{labels}"><label>{html.escape(name)} '
        f'<input type="range" min="0" max="{len(frames) - 1}" value="{len(frames) // 2}" step="1">'
        f'</label> <output aria-live="polite"></output><div class="frames">{shown}</div></div>'
    )


def _picture(picture: Picture) -> str:
    light, dark = (_png(picture, dark=dark) for dark in (False, True))
    return (
        f'<figure><picture><source media="screen and (prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{html.escape(picture.alt)}"></picture>'
        f"<figcaption>{html.escape(picture.title)}</figcaption></figure>"
    )


def _png(picture: Picture, *, dark: bool) -> str:
    encoded = base64.b64encode(plotting.png(picture.draw, picture.size, dark=dark))
    return f"data:image/png;base64,{encoded.decode()}"


def _page(title: str, sections: list[str]) -> str:
    template = (
        resources.files("ngem.tables.report").joinpath("report.html").read_text(encoding="utf-8")
    )
    parts = {"{{title}}": html.escape(title), "{{body}}": "".join(sections)}
    return re.sub("|".join(parts), lambda found: parts[found[0]], template)
