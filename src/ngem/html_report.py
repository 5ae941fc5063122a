"""A fitted model on one page: a self-contained HTML file for screen, phone and paper."""

import base64
import html
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from . import __version__, metrics, plotting
from .mixture import Mixture
from .sklearn import MDNRegressor
from .table_scores import RowScores, coverage, score_rows

#: Rows that pictures and importances are made from; scores use all of them.
_SHOWN = 400

#: Rows in the table of those that the model finds least likely.
_WORST = 8

#: Places along the second feature at which the density is drawn, as quantiles of it.
_PLACES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Table:
    """Rows to judge a model by.

    Attributes:
        x: Features as the model takes them, (rows, inputs).
        y: Targets, (rows, targets).
        columns: For each column of the user's table, the inputs that it became.
        targets: Names of the targets.
    """

    x: np.ndarray
    y: np.ndarray
    columns: dict[str, list[int]]
    targets: list[str]


class Picture(NamedTuple):
    """A drawing, with what a reader who cannot see it is told instead."""

    title: str
    alt: str
    draw: Callable[[Any], Any]
    size: tuple[float, float] = (6.0, 3.2)


def make_report(model: MDNRegressor, table: Table, *, title: str, repeat: str = "") -> str:
    """Return the page.

    Args:
        model: Fitted.
        table: Rows to judge it by, best ones it has not seen.
        title: Of the page.
        repeat: The command that makes the same model again, if there is one.
    """
    mixture = model.predict_distribution(table.x)
    scores = score_rows(model.model_, table.x, table.y)
    importance = importances(model, table)
    sections = [
        _section("Summary", _summary(model, table, mixture, scores)),
        _section("The data", _data(table)),
        _section("Training", _picture(_convergence(model))),
        _section("What matters", _picture(_importance(importance))),
    ]
    for number, name in enumerate(table.targets):
        sections += _density_section(model, table, importance, number, name)
        sections += _target_sections(mixture.marginal(number), table, scores, number, name)
    sections += [
        _section("Components", _picture(_usage(mixture))),
        _section("Rows that surprise the model", _worst(table, scores)),
        _section("To repeat this", _settings(model, repeat)),
    ]
    return _page(title, sections)


def importances(model: MDNRegressor, table: Table, seed: int = 0) -> dict[str, float]:
    """Return by how much the NLL rises if a column's values are dealt out anew, largest first."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(table.x))[:_SHOWN]
    x, y = table.x[rows], _targets(model, table.y[rows])
    known = float(np.mean(model.log_prob(x, y)))
    found = {}
    for name, inputs in table.columns.items():
        shuffled = x.copy()
        shuffled[:, inputs] = x[rng.permutation(len(x))][:, inputs]
        found[name] = known - float(np.mean(model.log_prob(shuffled, y)))
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _targets(model: MDNRegressor, y: np.ndarray) -> np.ndarray:
    """Return targets in the shape that the model was fitted with."""
    return y[:, 0] if model.target_ndim_ == 1 else y


def _target_sections(
    own: Mixture, table: Table, scores: RowScores, number: int, name: str
) -> list[str]:
    y, pit = table.y[:, number], scores.pit[:, number]
    rows = np.random.default_rng(0).permutation(len(y))[:_SHOWN]
    quantiles = np.asarray(own.quantile(jnp.array([0.05, 0.5, 0.95])[:, None]), float)
    order = rows[np.argsort(quantiles[1, rows])]
    intervals = Picture(
        f"Predicted 90% intervals of {name} against the truth",
        f"For {len(rows)} rows, sorted by predicted median, the interval between the 5% and 95% "
        f"quantiles of {name} as a band, and the true value as a dot.",
        lambda ax: _draw_intervals(ax, quantiles[:, order], y[order], name),
    )
    verdict = metrics.pit_uniformity(pit).p_value
    calibration = [
        Picture(
            f"Is {name} calibrated?",
            f"Histogram of the probability integral transform of {name}; flat means calibrated.",
            lambda ax: plotting.pit_histogram(ax, pit),
            (5.0, 3.0),
        ),
        Picture(
            f"Reliability of {name}",
            f"Share of true values of {name} below each predicted quantile, against its level.",
            lambda ax: plotting.reliability_curve(ax, pit),
            (4.0, 3.6),
        ),
    ]
    return [
        _section(f"Intervals of {name}", _picture(intervals)),
        _section(
            f"Calibration of {name}",
            f"<p>{html.escape(_calibration_words(verdict))}</p>"
            f'<div class="side">{"".join(map(_picture, calibration))}</div>',
        ),
    ]


def _calibration_words(p_value: float) -> str:
    if p_value < 0.01:
        return (
            "Not calibrated on these rows: by chance alone a PIT is this uneven with probability "
            f"{p_value:.2g}. Recalibrate intervals with ngem.ConformalRegressor."
        )
    return f"No sign of miscalibration on these rows (test of a uniform PIT: p = {p_value:.2g})."


def _density_section(
    model: MDNRegressor, table: Table, importance: dict[str, float], number: int, name: str
) -> list[str]:
    """Return the density along the most informative number, with a slider for the next one."""
    numbers = [
        column
        for column in importance
        if len(table.columns[column]) == 1 and np.ptp(table.x[:, table.columns[column][0]]) > 0
    ]
    if not numbers:
        return []
    middle = np.nanmedian(table.x, axis=0)
    along = table.columns[numbers[0]][0]
    low, high = np.nanquantile(table.x[:, along], [0.005, 0.995])
    grid = np.linspace(low, high, 120)
    bottom, top = np.quantile(table.y[:, number], [0.002, 0.998])
    margin = 0.08 * (top - bottom)
    heights = np.linspace(bottom - margin, top + margin, 160)
    second = numbers[1] if len(numbers) > 1 else None
    frames = []
    for place in _PLACES if second else (0.5,):
        x = np.tile(middle, (len(grid), 1))
        x[:, along] = grid
        where = "the others at their medians"
        near = np.ones(len(table.x), bool)
        if second:
            column = table.columns[second][0]
            value = float(np.nanquantile(table.x[:, column], place))
            x[:, column] = value
            spread = np.nanstd(table.x[:, column])
            near = np.abs(table.x[:, column] - value) <= 0.35 * spread
            where = f"{second} = {value:.4g}"
        mixture = model.predict_distribution(x).marginal(number)
        dots = np.stack([table.x[near, along], table.y[near, number]])[:, :_SHOWN]
        frames.append(
            (
                where,
                Picture(
                    f"Density of {name} along {numbers[0]}, {where}",
                    f"Heat map: darker means that {name} is likelier there, given {numbers[0]} and "
                    f"{where}; dots are rows nearby.",
                    lambda ax, mixture=mixture, dots=dots: _draw_density(
                        ax, grid, heights, mixture, dots, numbers[0], name
                    ),
                    (6.4, 3.6),
                ),
            )
        )
    body = _picture(frames[0][1]) if len(frames) == 1 else _slider(second or "", frames)
    return [_section(f"The density of {name}", body)]


def _draw_density(
    ax: Any,
    grid: np.ndarray,
    heights: np.ndarray,
    mixture: Mixture,
    dots: np.ndarray,
    along: str,
    name: str,
) -> None:
    plotting.density_map(ax, grid, mixture, limits=(heights[0], heights[-1]))
    ax.plot(*dots, "o", color="#cc3311", markersize=2.5, alpha=0.5)
    ax.set(xlabel=along, ylabel=name, xlim=grid[[0, -1]], ylim=heights[[0, -1]])


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


def _usage(mixture: Mixture) -> Picture:
    weights = np.asarray(mixture.weights)
    order = np.argsort(-weights.mean(axis=0))

    def draw(ax: Any) -> None:
        ax.boxplot(weights[:, order], showfliers=False, tick_labels=[str(k + 1) for k in order])
        ax.set(xlabel="component", ylabel="weight over rows", ylim=(-0.02, 1.02))

    mean = ", ".join(f"{value:.2f}" for value in weights.mean(axis=0)[order])
    return Picture("Weights of the components", f"Mean weights: {mean}.", draw)


def _summary(model: MDNRegressor, table: Table, mixture: Mixture, scores: RowScores) -> str:
    found = model.diagnostics_
    nll = scores.nll.mean()
    error = np.sqrt(np.mean(scores.error**2, axis=0))
    facts = {
        "Rows judged here": f"{len(table.x):,}",
        "Rows trained on": f"{found['training_rows']:,}",
        "NLL, in the units of the targets": f"{nll:.4f} nat",
        "NLL, standardised": f"{nll - found['nll_offset']:.4f} nat",
        "Root mean squared error of the mean": ", ".join(f"{value:.4g}" for value in error),
        "Inside the 90% intervals": f"{100 * coverage(scores.pit, 0.9):.1f} %",
        "Gain over one Gaussian": _gain(found["gain_over_gaussian"]),
        "Gain over least squares": _gain(found["gain_over_linear"]),
        "Components in use": f"{found['effective_components']:.1f} of {mixture.n_components}",
    }
    return (
        _rows([("measure", "value"), *facts.items()])
        + "<p>NLL is minus the mean log density: lower is better, and negative is fine.</p>"
    )


def _gain(value: float | None) -> str:
    return "not measured" if value is None else f"{value:+.3f} nat a row"


def _data(table: Table) -> str:
    lines: list[Sequence[str]] = [("column", "least", "median", "largest", "missing")]
    for name, inputs in table.columns.items():
        if len(inputs) == 1:
            lines.append((name, *_numbers(table.x[:, inputs[0]])))
        else:
            lines.append((name, f"{len(inputs)} categories", "", "", ""))
    lines += [
        (f"{name} (target)", *_numbers(table.y[:, d])) for d, name in enumerate(table.targets)
    ]
    return _rows(lines)


def _numbers(values: np.ndarray) -> tuple[str, ...]:
    known = values[np.isfinite(values)]
    marks = [f"{f(known):.4g}" if len(known) else "-" for f in (np.min, np.median, np.max)]
    return *marks, str(len(values) - len(known))


def _worst(table: Table, scores: RowScores) -> str:
    rows = np.argsort(-scores.nll)[:_WORST]
    mean = table.y + scores.error
    header = ("row", "log density", *(f"{t}: true" for t in table.targets))
    header += tuple(f"{t}: predicted mean" for t in table.targets)
    lines: list[Sequence[str]] = [header]
    for row in rows:
        numbers = [*table.y[row], *mean[row]]
        lines.append((str(row + 1), f"{-scores.nll[row]:.3f}", *(f"{n:.4g}" for n in numbers)))
    return "<p>The least likely rows: mistakes in the data, or in the model.</p>" + _rows(lines)


def _settings(model: MDNRegressor, repeat: str) -> str:
    settings = {
        name: value if isinstance(value, str | int | float | bool | None) else repr(value)
        for name, value in model.get_params(deep=False).items()
    }
    command = f"<pre><code>{html.escape(repeat)}</code></pre>" if repeat else ""
    return (
        f"{command}<details><summary>All settings (ngem {__version__})</summary><pre><code>"
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
        f'<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{html.escape(picture.alt)}"></picture>'
        f"<figcaption>{html.escape(picture.title)}</figcaption></figure>"
    )


def _png(picture: Picture, *, dark: bool) -> str:
    encoded = base64.b64encode(plotting.png(picture.draw, picture.size, dark=dark))
    return f"data:image/png;base64,{encoded.decode()}"


def _page(title: str, sections: list[str]) -> str:
    template = resources.files("ngem").joinpath("report.html").read_text(encoding="utf-8")
    return template.replace("{{title}}", html.escape(title)).replace("{{body}}", "".join(sections))
