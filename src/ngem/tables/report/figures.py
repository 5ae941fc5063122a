"""The figures of a report as plain numbers, which the script of the page draws."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import metrics
from ...nn import WIDTHS, Predictor
from ..kinds import Estimator, kind_of

#: Columns whose importance is drawn at most.
_MOST_COLUMNS = 12

#: Steps of a training that a curve shows at most.
_MOST_STEPS = 300

#: Probability with which a calibrated model stays in the bands of its figures.
_CONFIDENCE = 0.95


class Figure(NamedTuple):
    """A chart.

    Attributes:
        title: What it shows.
        alt: The same in words, for those who cannot see it, for paper and without scripts.
        chart: Labels, x values and series, for the script of the page.
    """

    title: str
    alt: str
    chart: dict[str, Any]


class Bar(NamedTuple):
    """A line of a table with a bar: a name, texts, and the length of the bar from 0 to 1."""

    name: str
    texts: Sequence[str]
    length: float


class Bars(NamedTuple):
    """A table whose lines have bars."""

    title: str
    header: Sequence[str]
    lines: Sequence[Bar]


def plain(values: Any, digits: int = 5) -> list[float | None]:
    """Return numbers for JSON, rounded to significant digits; None for those that are not finite.

    The digits are those of the variation, and all before the decimal point: 30,000,000.25 among its
    neighbors keeps its quarter.
    """
    values = np.asarray(values, float).ravel()
    known = values[np.isfinite(values)]
    spread = float(np.ptp(known)) if len(known) else 0.0
    decimals = digits - int(np.ceil(np.log10(spread))) if spread > 0 else 15
    rounded = np.round(values, max(decimals, 0)) if decimals < 300 else values
    return [float(value) if np.isfinite(value) else None for value in rounded]


def number(value: float, digits: int = 4) -> str:
    """Return a number as text, with so many digits or all before the decimal point."""
    return f"{value:,.0f}" if 10**digits <= abs(value) < 1e15 else f"{value:.{digits}g}"


def series(label: str, values: Any, style: str, color: str) -> dict[str, Any]:
    """Return one series of a chart.

    Args:
        label: Its name in the legend; an empty one is not listed.
        values: Its values, one for each x.
        style: "line", "thin", "dotted", "dots", "rings", "bars" or "edge", which only
            bounds a band.
        color: A name of the page's palette.
    """
    return {"label": label, "values": plain(values), "style": style, "color": color}


def convergence(model: Any) -> Figure:
    """Return the NLL of training and held-out rows over the steps, a thin line for each member."""
    offset = model.diagnostics_["nll_offset"]
    train = np.asarray(model.history_["train_nll"]) + offset
    validation = np.asarray(model.history_["validation_nll"]) + offset
    kind = kind_of(model)
    first = int(kind.step == "epoch")  # trees have a state before their first round
    kept = kind.best(model)
    last = train.shape[1] - 1
    steps = np.union1d(np.linspace(0, last, min(last + 1, _MOST_STEPS)).astype(int), kept)
    curves = [("training rows", train, "blue")]
    if np.any(np.isfinite(validation)):
        curves.append(("held-out rows", validation, "red"))
    lines = [
        series(label if number == 0 else "", curve[steps], "thin", color)
        for label, members, color in curves
        for number, curve in enumerate(members)
    ]
    if len(curves) > 1:
        at = np.full(len(steps), np.nan)
        at[np.searchsorted(steps, kept)] = validation[np.arange(len(kept)), kept]
        lines.append(series("kept", at, "rings", "yellow"))
    values = np.concatenate([members[:, steps] for _, members, _ in curves], axis=None)
    values = values[np.isfinite(values)]
    low, high = values.min(), np.quantile(values, 0.98)
    margin = 0.05 * (high - low) + 1e-6
    alt = (
        f"Negative log-likelihood over {model.n_iter_:,} {kind.step}s, {kept_text(model)}. It can "
        "be negative: it is minus a log density."
    )
    chart = {
        "x": plain(steps + first),
        "xLabel": kind.step,
        "yLabel": "negative log-likelihood (nat)",
        "yRange": [low - margin, high + margin],
        "series": lines,
    }
    return Figure("Convergence", alt, chart)


def kept_text(model: Estimator) -> str:
    """Return how many members there are, and which epochs or rounds were kept."""
    kind = kind_of(model)
    steps = kind.steps(model)
    members = f"{len(steps)} {kind.member}{'s' if len(steps) > 1 else ''}"
    return f"{members}, {kind.kept_text(steps)}"


def kind_weights(model: Any) -> Bars:
    """Return the weight of each kind of a stack, with its NLL on held-out rows."""
    ran = sorted((kind for kind in model.kinds_ if kind.ran), key=lambda kind: -kind.weight)
    lines = [
        Bar(kind.name, [f"{kind.weight:.2f}", f"{kind.oof_nll:.3f}"], kind.weight) for kind in ran
    ]
    return Bars(
        "Kinds of models in the stack, by the weight that held-out rows gave them",
        ("kind", "weight", "NLL of held-out rows"),
        lines,
    )


def gain_bars(gains: Mapping[str, np.ndarray], names: Sequence[str]) -> Bars:
    """Return which columns the trees split for weights, for means and for scales."""
    total = np.sum(list(gains.values()), axis=0)
    order: list[int] = np.argsort(-total)[:_MOST_COLUMNS].tolist()
    longest = float(total[order[0]]) or 1.0
    lines = [
        Bar(
            names[column],
            [f"{100 * values[column]:.0f} %" for values in gains.values()],
            float(total[column]) / longest,
        )
        for column in order
    ]
    header = ("column", *(f"for {kind}" for kind in gains))
    return Bars("What the trees split: fractions of the gain of all splits", header, lines)


def component_weights(network: Predictor, weights: np.ndarray, member: str) -> Bars:
    """Return where the weight of the mixtures is, (rows, components of all members and guard).

    Components of different members have nothing in common but their rank. So the weights are those
    of the heaviest component of a member, of the next one and so on, summed over the members.
    """
    own = network.member_components
    of_members = weights[:, : network.n_members * own].reshape(-1, network.n_members, own)
    ranked = np.sum(-np.sort(-of_members, axis=-1), axis=1)
    ranks = [f"component {rank + 1} of a {member}" for rank in range(own)]
    # After those of the members come the weights of the guard, if there is one.
    guards = ["linear model", *(f"wide, {width:g} standard deviations" for width in WIDTHS)]
    of_guard = weights[:, network.n_members * own :]
    values = np.concatenate([ranked, of_guard], axis=1)
    low, mean, high = values.min(axis=0), values.mean(axis=0), values.max(axis=0)
    lines = [
        Bar(name, [f"{mean[index]:.2g}", f"{low[index]:.2g} to {high[index]:.2g}"], mean[index])
        for index, name in enumerate([*ranks, *guards][: values.shape[1]])
    ]
    return Bars("Weights of the components", ("component", "mean weight", "range"), lines)


def uncertainty(
    name: str,
    median: np.ndarray,
    noise: np.ndarray,
    model: np.ndarray,
    outside: np.ndarray,
    member: str,
) -> Figure:
    """Return the standard deviations of noise and model of a target, by predicted median."""
    order = np.argsort(median)
    lines = [
        series("noise", noise[order], "dots", "blue"),
        series("model", model[order], "dots", "red"),
    ]
    if outside.any():
        hollow = np.where(outside, model, np.nan)[order]
        lines.append(series("model, outside the training range", hollow, "rings", "red"))
    alt = (
        f"For {len(order)} rows, sorted by predicted median, two standard deviations of {name}: "
        f"the noise, which more data would not remove, {np.mean(noise):.3g} on average, and the "
        f"disagreement of the {member}s, which more data would remove, {np.mean(model):.3g} on "
        f"average. {int(outside.sum())} rows have a feature outside the range of the training rows."
    )
    chart = {
        "x": list(range(1, len(order) + 1)),
        "xLabel": "rows, sorted by predicted median",
        "xName": "rank",
        "yLabel": f"standard deviation of {name}",
        "series": lines,
    }
    return Figure(f"Uncertainty of {name}: noise and model", alt, chart)


def intervals(name: str, quantiles: np.ndarray, y: np.ndarray, notes: Sequence[str]) -> Figure:
    """Return the 5%, 50% and 95% quantiles, (rows, 3), of a target against its true values.

    The notes, one for each row, are shown where the pointer is.
    """
    order = np.argsort(quantiles[:, 1])
    (lower, median, upper), y = quantiles[order].T, y[order]
    inside = (lower <= y) & (y <= upper)
    alt = (
        f"For {len(y)} rows, sorted by predicted median, the interval between the 5% and 95% "
        f"quantiles of {name} as a band, and the true value as a dot; {int(inside.sum())} of them "
        "lie inside. Where the pointer is, the page shows the numbers and the features of a row."
    )
    chart = {
        "x": list(range(1, len(y) + 1)),
        "xLabel": "rows, sorted by predicted median",
        "xName": "rank",
        "yLabel": name,
        "bands": [[0, 1]],
        "series": [
            series("95% quantile", upper, "edge", "blue"),
            series("5% quantile", lower, "edge", "blue"),
            series("median", median, "line", "blue"),
            series("true, inside", np.where(inside, y, np.nan), "dots", "green"),
            series("true, outside", np.where(inside, np.nan, y), "rings", "red"),
        ],
        "notes": [notes[row] for row in order],
    }
    return Figure(f"Predicted 90% intervals of {name} and true values", alt, chart)


def calibration(name: str, pit: np.ndarray) -> list[Figure]:
    """Return the PIT histogram and the reliability curve of a target."""
    return [_pit_histogram(name, pit), _reliability(name, pit)]


def _pit_histogram(name: str, pit: np.ndarray, bins: int = 20) -> Figure:
    low, high = (end / len(pit) for end in metrics.binomial_band(len(pit), 1 / bins, _CONFIDENCE))
    counts, edges = np.histogram(pit, bins=bins, range=(0, 1))
    ones = np.ones(bins)
    alt = (
        f"Histogram of the predicted probability of a value below the true {name}. Flat means "
        "calibrated: each bar holds as many rows as any other. High at both ends: the densities "
        "are too narrow; high in the middle: too wide. The band holds 95% of a calibrated model's "
        "bars."
    )
    chart = {
        "x": plain((edges[:-1] + edges[1:]) / 2),
        "xLabel": "predicted probability of a lower value",
        "xName": "probability",
        "yLabel": "% of the rows",
        "xRange": [0, 1],
        "zero": True,
        "bands": [[0, 1]],
        "series": [
            series("calibrated: at most", 100 * high * ones, "edge", "soft"),
            series("at least", 100 * low * ones, "edge", "soft"),
            series("rows (%)", 100 * counts / len(pit), "bars", "blue"),
        ],
    }
    return Figure(f"PIT histogram of {name}", alt, chart)


def _reliability(name: str, pit: np.ndarray) -> Figure:
    levels = np.linspace(0, 1, 101)
    curve = metrics.reliability(pit, levels, kind="central", confidence=_CONFIDENCE)
    alt = (
        f"Fraction of true values of {name} inside central intervals, against the probability "
        "of these intervals; below the diagonal the model is overconfident. The band holds 95% of "
        "calibrated models."
    )
    chart = {
        "x": plain(100 * levels),
        "xLabel": "probability of the interval (%)",
        "xName": "interval (%)",
        "yLabel": "rows inside (%)",
        "xRange": [0, 100],
        "yRange": [0, 100],
        "bands": [[0, 1]],
        "series": [
            series("calibrated: at most", 100 * curve.upper, "edge", "soft"),
            series("at least", 100 * curve.lower, "edge", "soft"),
            series("", 100 * levels, "dotted", "ink"),
            series("rows inside (%)", 100 * curve.observed, "line", "red"),
        ],
    }
    return Figure(f"Reliability of {name}", alt, chart)
