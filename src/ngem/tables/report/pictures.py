"""The pictures of a report, each drawn for a light and for a dark screen."""

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import plotting
from ...estimator.regressor import MDNRegressor

_BLUE, _GREEN, _RED, _GRAY = "#4477aa", "#228833", "#cc3311", "#888888"


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


def convergence(model: MDNRegressor) -> Picture:
    """Return the NLL of training and validation rows over the epochs."""
    offset = model.diagnostics_["nll_offset"]
    train = np.asarray(model.history_["train_nll"]) + offset
    validation = np.asarray(model.history_["validation_nll"]) + offset

    def draw(ax: Any) -> None:
        ax.plot(train, color=_BLUE, label="training rows")
        if np.any(np.isfinite(validation)):
            ax.plot(validation, color=_RED, label="validation rows")
            ax.axvline(model.best_epoch_, color=_GRAY, ls=":", label="kept")
        values = np.concatenate([train, validation])
        values = values[np.isfinite(values)]
        low, high = values.min(), np.quantile(values, 0.98)
        ax.set(xlabel="epoch", ylabel="negative log-likelihood (nat)")
        ax.set_ylim(low - 0.05 * (high - low) - 1e-6, high + 0.05 * (high - low) + 1e-6)
        ax.legend()

    alt = (
        f"Negative log-likelihood over {len(train)} epochs; the parameters of epoch "
        f"{model.best_epoch_ + 1} were kept. It can be negative: it is minus a log density."
    )
    return picture("Convergence", alt, draw)


def importance_bars(importance: dict[str, float]) -> Picture:
    """Return the importance of the twelve most important columns."""
    columns = dict(list(importance.items())[:12])

    def draw(ax: Any) -> None:
        ax.barh(list(columns), list(columns.values()), color=_BLUE)
        ax.invert_yaxis()
        ax.set(xlabel="rise of NLL if the column is shuffled (nat)")

    alt = "How much worse the model predicts without a column: " + ", ".join(
        f"{name} {value:.2f}" for name, value in columns.items()
    )
    return picture("Importance of columns", alt, draw, (6.0, 0.9 + 0.28 * len(columns)))


def component_weights(weights: np.ndarray) -> Picture:
    """Return the weights of the components over rows, (rows, components)."""
    order = np.argsort(-weights.mean(axis=0))

    def draw(ax: Any) -> None:
        ax.boxplot(weights[:, order], showfliers=False, tick_labels=[str(k + 1) for k in order])
        ax.set(xlabel="component", ylabel="weight over rows", ylim=(-0.02, 1.02))

    means = ", ".join(f"{value:.2f}" for value in weights.mean(axis=0)[order])
    return picture("Weights of the components", f"Mean weights: {means}.", draw)


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
