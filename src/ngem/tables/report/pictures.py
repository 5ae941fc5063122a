"""The pictures of a report, each drawn for a light and for a dark screen."""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import plotting
from ...nn import WIDTHS, Predictor
from ..kinds import Estimator, kind_of

_BLUE, _GREEN, _RED, _YELLOW = "#4477aa", "#228833", "#cc3311", "#ddaa33"

#: Columns whose importance is drawn at most.
_MOST_COLUMNS = 12

#: Weights below this are not drawn.
_LEAST_WEIGHT = 1e-4


class Picture(NamedTuple):
    """A drawing as data URLs of two PNG images, with a description for those who cannot see it."""

    title: str
    alt: str
    light: str
    dark: str


def picture(
    title: str, alt: str, draw: Callable[[Any], Any], size: tuple[float, float] = (6.0, 3.2)
) -> Picture:
    """Return a picture from a function that draws on axes; the size is in inches."""
    images = (plotting.png(draw, size, dark=dark) for dark in (False, True))
    light, dark = (f"data:image/png;base64,{base64.b64encode(png).decode()}" for png in images)
    return Picture(title, alt, light, dark)


def convergence(model: Any) -> Picture:
    """Return the NLL of training and held-out rows over the steps, a thin line for each member."""
    offset = model.diagnostics_["nll_offset"]
    train = np.asarray(model.history_["train_nll"]) + offset
    validation = np.asarray(model.history_["validation_nll"]) + offset
    has_validation = bool(np.any(np.isfinite(validation)))
    kind = kind_of(model)
    kept = kind.best(model)

    def draw(ax: Any) -> None:
        thin = {"lw": 1.5 if len(train) == 1 else 0.7}
        _lines(ax, train, color=_BLUE, label="training rows", alpha=0.5, **thin)
        if has_validation:
            _lines(ax, validation, color=_RED, label="held-out rows", **thin)
            at = validation[np.arange(len(kept)), kept]
            ax.plot(kept, at, "o", ms=6, color=_YELLOW, mec="black", zorder=3, label="kept")
        values = np.concatenate([train, validation], axis=None)
        values = values[np.isfinite(values)]
        low, high = values.min(), np.quantile(values, 0.98)
        ax.set(xlabel=kind.step, ylabel="negative log-likelihood (nat)")
        ax.set_ylim(low - 0.05 * (high - low) - 1e-6, high + 0.05 * (high - low) + 1e-6)
        ax.legend()

    alt = (
        f"Negative log-likelihood over {model.n_iter_:,} {kind.step}s, {kept_text(model)}. It can "
        "be negative: it is minus a log density."
    )
    return picture("Convergence", alt, draw)


def kind_weights(model: Any) -> Picture:
    """Return the weight of each kind of a stack, with its NLL on held-out rows."""
    ran = sorted((kind for kind in model.kinds_ if kind.ran), key=lambda kind: kind.weight)
    names = [f"{kind.name}: NLL {kind.oof_nll:.3f}" for kind in ran]

    def draw(ax: Any) -> None:
        ax.barh(names, [kind.weight for kind in ran], color=_BLUE)
        ax.set(xlabel="weight in the stack", xlim=(0, 1))
        ax.grid(axis="y", visible=False)

    alt = "Weights that held-out rows gave to the kinds of models: " + ", ".join(
        f"{kind.name} {kind.weight:.2f}" for kind in reversed(ran)
    )
    return picture("Kinds of models in the stack", alt, draw, (6.0, 0.9 + 0.28 * len(ran)))


def kept_text(model: Estimator) -> str:
    """Return how many members there are, and which epochs or rounds were kept."""
    kind = kind_of(model)
    steps = kind.steps(model)
    members = f"{len(steps)} {kind.member}{'s' if len(steps) > 1 else ''}"
    return f"{members}, {kind.kept_text(steps)}"


def _lines(ax: Any, curves: np.ndarray, *, label: str, **style: Any) -> None:
    """Draw one line for each row, of which the first stands in the legend."""
    for number, curve in enumerate(curves):
        ax.plot(curve, label=None if number else label, **style)


def importance_bars(importance: dict[str, float]) -> Picture:
    """Return the importance of the most important columns."""
    columns = dict(list(importance.items())[:_MOST_COLUMNS])

    def draw(ax: Any) -> None:
        ax.barh(list(columns), list(columns.values()), color=_BLUE)
        ax.invert_yaxis()
        ax.set(xlabel="rise of NLL if the column is shuffled (nat)")

    alt = "How much worse the model predicts without a column: " + ", ".join(
        f"{name} {value:.2f}" for name, value in columns.items()
    )
    return picture("Importance of columns", alt, draw, (6.0, 0.9 + 0.28 * len(columns)))


def gain_bars(gains: Mapping[str, np.ndarray], names: Sequence[str]) -> Picture:
    """Return which columns the trees split for weights, for means and for scales."""
    most = {kind: names[int(np.argmax(values))] for kind, values in gains.items()}
    alt = "Fraction of the trees' gain that each column has; the largest: " + ", ".join(
        f"{name} for {kind}" for kind, name in most.items()
    )

    def draw(ax: Any) -> None:
        plotting.importances(ax, gains, names, most=_MOST_COLUMNS)
        ax.set(xlabel="fraction of the gain of all splits")

    height = 0.9 + 0.45 * min(len(names), _MOST_COLUMNS)
    return picture("What the trees split for weights, means and scales", alt, draw, (6.0, height))


def component_weights(network: Predictor, weights: np.ndarray, member: str) -> Picture:
    """Return where the weight of the mixtures is, (rows, components of all members and guard).

    Components of different members have nothing in common but their rank. So the weights are those
    of the heaviest component of a member, of the next one and so on, summed over the members.
    """
    own = network.member_components
    of_members = weights[:, : network.n_members * own].reshape(-1, network.n_members, own)
    ranked = np.sum(-np.sort(-of_members, axis=-1), axis=1)
    ranks = [f"component {rank + 1}" for rank in range(own)]
    # After those of the members come the weights of the guard, if there is one.
    kinds = ["linear model", *(f"wide, {width:g} std" for width in WIDTHS)]
    of_guard = weights[:, network.n_members * own :]
    values = np.concatenate([ranked, of_guard], axis=1)
    names = [
        f"{name}: {mean:.2g}"
        for name, mean in zip([*ranks, *kinds], values.mean(axis=0), strict=False)
    ]

    def draw(ax: Any) -> None:
        shown = np.maximum(values, _LEAST_WEIGHT / 2)[:, ::-1]
        ax.boxplot(shown, showfliers=False, tick_labels=names[::-1], orientation="horizontal")
        ax.set(xlabel="weight over rows", xscale="log", xlim=(_LEAST_WEIGHT, 1.2))
        ticks = [10.0**power for power in range(-4, 1)]
        ax.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        ax.grid(axis="y", visible=False)

    alt = (
        f"Mean weights of the components of a {member}, heaviest first, and of the simple "
        f"densities beside the {member}s: {', '.join(names)}."
    )
    return picture("Weights of the components", alt, draw, (6.0, 0.9 + 0.28 * len(names)))


def uncertainty(
    name: str,
    median: np.ndarray,
    noise: np.ndarray,
    model: np.ndarray,
    outside: np.ndarray,
    member: str,
) -> Picture:
    """Return the standard deviations of noise and model of a target, by predicted median."""
    ranks = np.argsort(np.argsort(median))

    def draw(ax: Any) -> None:
        plotting.uncertainty(ax, ranks, noise, model, outside=outside)
        ax.set(xlabel="rows, sorted by predicted median", ylabel=f"standard deviation of {name}")

    alt = (
        f"For {len(ranks)} rows, sorted by predicted median, two standard deviations of {name}: "
        f"the noise, which more data would not remove, {np.mean(noise):.3g} on average, and the "
        f"disagreement of the {member}s, which more data would remove, {np.mean(model):.3g} on "
        f"average. {int(outside.sum())} rows have a feature outside the range of the training rows."
    )
    return picture(f"Uncertainty of {name}: noise and model", alt, draw)


def intervals(name: str, quantiles: np.ndarray, y: np.ndarray) -> Picture:
    """Return the 5%, 50% and 95% quantiles, (rows, 3), of a target against its true values."""
    order = np.argsort(quantiles[:, 1])
    (lower, median, upper), y = quantiles[order].T, y[order]

    def draw(ax: Any) -> None:
        at, inside = np.arange(len(y)), (lower <= y) & (y <= upper)
        ax.fill_between(at, lower, upper, color=_BLUE, alpha=0.3, lw=0)
        ax.plot(at, median, color=_BLUE, lw=1, label="median and 90% interval")
        ax.plot(at[inside], y[inside], "o", ms=2.5, color=_GREEN, label="inside")
        ax.plot(at[~inside], y[~inside], "x", ms=4, color=_RED, label="outside")
        ax.set(xlabel="rows, sorted by predicted median", ylabel=name)
        ax.legend()

    alt = (
        f"For {len(y)} rows, sorted by predicted median, the interval between the 5% and 95% "
        f"quantiles of {name} as a band, and the true value as a dot."
    )
    return picture(f"Predicted 90% intervals of {name} and true values", alt, draw)


def calibration(name: str, pit: np.ndarray) -> list[Picture]:
    """Return the PIT histogram and the reliability curve of a target."""
    return [
        picture(
            f"PIT histogram of {name}",
            f"Histogram of the probability integral transform of {name}; flat means calibrated.",
            lambda ax: plotting.pit_histogram(ax, pit),
            (5.0, 3.0),
        ),
        picture(
            f"Reliability of {name}",
            f"Fraction of true values of {name} inside central intervals, against the probability "
            "of these intervals; below the diagonal the model is overconfident.",
            lambda ax: plotting.reliability_curve(ax, pit),
            (4.0, 3.6),
        ),
    ]
