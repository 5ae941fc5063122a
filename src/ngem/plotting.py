"""Plots. Only this module imports matplotlib."""

import contextlib
import io
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image

from . import metrics
from .mixture import Mixture

#: One color per method in all plots. Readers with red-green color blindness can tell them apart.
COLORS = {"nll": "#4477aa", "ngem": "#cc3311", "ngem-listing": "#ddaa33", "sgem": "#66ccee"}

#: Colors of components, chosen in the same way.
_CYCLE = ("#cc3311", "#4477aa", "#228833", "#aa3377", "#ccbb44", "#66ccee")

#: Components that a legend can name, and the least mean weight that is drawn of more.
_MOST_NAMED, _LEAST_DRAWN = len(_CYCLE), 0.01

#: Style of the band of a calibrated model, visible on light and dark pages.
_BAND: dict[str, Any] = {"color": "0.5", "alpha": 0.3, "lw": 0}

#: Grid points along y of a heat map.
_HEIGHT = 300

STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
}


_DARK = {
    "figure.facecolor": "#16191d",
    "axes.facecolor": "#16191d",
    "savefig.facecolor": "#16191d",
    "text.color": "#e6e6e6",
    "axes.labelcolor": "#e6e6e6",
    "axes.edgecolor": "#a0a0a0",
    "xtick.color": "#c8c8c8",
    "ytick.color": "#c8c8c8",
    "lines.color": "#e6e6e6",
    "boxplot.boxprops.color": "#c8c8c8",
    "boxplot.whiskerprops.color": "#c8c8c8",
    "boxplot.capprops.color": "#c8c8c8",
}


@contextlib.contextmanager
def styled_figure(
    rows: int,
    columns: int,
    size: tuple[float | int, float | int],
    *,
    top: float = 1.0,
    **settings: Any,
) -> Iterator[tuple[Figure, np.ndarray]]:
    """Yield a figure in our style and its array of axes, (rows, columns); draw in the context.

    Args:
        rows: Rows of axes.
        columns: Columns of axes.
        size: Width and height in inches.
        top: Fraction of the height for the axes; the rest is for captions above them.
        settings: Passed to `Figure.subplots`.
    """
    with mpl.rc_context(cast(Any, STYLE)):
        layout = ConstrainedLayoutEngine(rect=(0.01, 0, 0.98, top), hspace=0.08)
        figure = Figure(figsize=size, layout=layout)
        yield figure, np.asarray(figure.subplots(rows, columns, squeeze=False, **settings))


def png(
    draw: Callable[[Axes], Any], size: tuple[float | int, float | int], *, dark: bool = False
) -> bytes:
    """Return a plot in our style as a PNG file, for a light or a dark page.

    Text is never parsed as a formula, because column names may contain dollar signs.
    """
    with (
        mpl.rc_context(cast(Any, {"text.parse_math": False} | (_DARK if dark else {}))),
        styled_figure(1, 1, size) as (figure, axes),
    ):
        draw(axes[0, 0])
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=140)
    # 256 colors look the same, in a third of the bytes. Rare colors, as of single dots, are kept.
    with Image.open(buffer) as image:
        plain = image.convert("RGB")
    few = plain.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    few.save(buffer, "png", optimize=True)
    return buffer.getvalue()


def caption(ax: Axes, text: str, height: float = 1.03) -> None:
    """Write text above the axes, at their left edge."""
    ax.text(0, height, text, transform=ax.transAxes, va="bottom").set_in_layout(False)


def density_with_marginals(
    ax: Axes, mixture: Mixture, truth: Mixture, *, limit: float = 7.0
) -> list[Any]:
    """Draw a density in the plane as a heat map with its two marginals (Fig. 2)."""
    axis = np.linspace(-limit, limit, 201)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    density = np.exp(np.asarray(mixture.log_prob(_like(mixture, grid))))
    extent = (-limit, limit, -limit, limit)
    image = ax.imshow(density, extent=extent, origin="lower", cmap="magma", aspect="equal")
    centers = np.asarray(truth.components.mean)
    stars = ax.plot(*centers.T, "*", color="white", markeredgecolor="black", markersize=11)
    ax.set(xlabel="$y_1$", ylabel="$y_2$")
    ax.grid(visible=False)
    artists: list[Any] = [image, *stars]
    for dim, bounds in enumerate(((0, 1.02, 1, 0.22), (1.02, 0, 0.22, 1))):
        side = ax.inset_axes(bounds, sharex=ax if dim == 0 else None, sharey=ax if dim else None)
        artists += _marginal(side, dim, axis, mixture, truth)
    return artists


def trajectories(
    ax: Axes, means: np.ndarray, centres: np.ndarray, *, color: str = COLORS["ngem"]
) -> list[Any]:
    """Draw the paths of component means during training, (logs, comp, 2) (Fig. 5)."""
    artists: list[Any] = []
    for path, marker in zip(np.moveaxis(means, 1, 0), itertools.cycle("sovD^"), strict=False):
        artists += ax.plot(*path.T, "-", color=color, linewidth=0.6, alpha=0.5)
        artists += ax.plot(*path.T, marker, color=color, markersize=3, alpha=0.6)
        artists += ax.plot(*path[0], marker, color="white", markeredgecolor="black", markersize=7)
    artists += ax.plot(*centres.T, "*", color="gold", markeredgecolor="black", markersize=13)
    ax.set(xlabel="$y_1$", ylabel="$y_2$", aspect="equal")
    return artists


def convergence(
    ax: Axes,
    iterations: np.ndarray,
    curves: Mapping[str, np.ndarray],
    *,
    optimum: float | None = None,
) -> list[Any]:
    """Draw curves (seeds, logs) as mean and standard deviation over seeds (Figs. 4, 6)."""
    artists: list[Any] = []
    for number, (name, curve) in enumerate(curves.items()):
        mean, std = curve.mean(axis=0), curve.std(axis=0)
        color = _color(name, number)
        artists += ax.plot(iterations, mean, color=color, label=name)
        artists.append(
            ax.fill_between(iterations, mean - std, mean + std, color=color, alpha=0.2, lw=0)
        )
    if optimum is not None:
        artists.append(ax.axhline(optimum, color="black", lw=0.8, ls=":", label="optimum"))
    ax.set(xlabel="iterations", ylabel="negative log-likelihood (nat)")
    ax.legend()
    return artists


def growth(
    curves: Mapping[str, Mapping[str, tuple[Sequence[float | int], Sequence[float | int], float]]],
    path: Path,
) -> None:
    """Save the cost of a step against each size, on logarithmic axes, with slopes in the legend.

    Args:
        curves: For each quantity ("time" in seconds, "memory" in bytes) and each size that was
            varied: the sizes, the values and the slope.
        path: PNG file.
    """
    units = {"time": "ms a step", "memory": "MB"}
    factors = {"time": 1e3, "memory": 2.0**-20}
    with styled_figure(1, len(curves), (4.2 * len(curves), 3.6)) as (figure, axes):
        for ax, (what, by_size) in zip(axes[0], curves.items(), strict=True):
            for (vary, (sizes, values, slope)), color in zip(by_size.items(), _CYCLE, strict=False):
                scaled = factors[what] * np.asarray(values, float)
                ax.loglog(sizes, scaled, "o-", ms=3, color=color, label=f"{vary}: {slope:.2f}")
            ax.set(xlabel="size", ylabel=units[what], title=f"{what}, with slopes")
            ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), handlelength=0.8)
        figure.savefig(path, dpi=150)


def differences(
    ax: Axes, rows: Sequence[str], methods: Mapping[str, np.ndarray], *, linear: float = 0.1
) -> list[Any]:
    """Draw (difference, standard error) of each row for each method.

    Args:
        ax: Where to draw.
        rows: Names, from top to bottom.
        methods: An array (rows, 2) for each method. NaN entries are not drawn.
        linear: The axis is linear up to this difference and logarithmic beyond it.
    """
    artists: list[Any] = []
    for number, (name, values) in enumerate(methods.items()):
        at = np.arange(len(rows)) + 0.22 * (number - (len(methods) - 1) / 2)
        style = {"fmt": "o", "ms": 4, "lw": 1, "color": _color(name, number), "label": name}
        artists.append(ax.errorbar(values[:, 0], at, xerr=values[:, 1], **style))
    artists.append(ax.axvline(0, color="black", lw=0.8))
    ax.set_xscale("symlog", linthresh=linear)
    ax.set(yticks=range(len(rows)), yticklabels=rows, ylim=(len(rows) - 0.5, -0.5))
    ax.legend()
    return artists


def component_bands(ax: Axes, x: np.ndarray, mixture: Mixture) -> list[Any]:
    """Draw each component's mean ± std along x; heavier components are more opaque (Fig. 7).

    With more than six components there is no legend, and those with less than a hundredth of the
    weight are left out.

    Args:
        ax: Where to draw.
        x: Values of the feature, ascending.
        mixture: The density at each value of x, over one target column.
    """
    _check_path(x, mixture)
    artists: list[Any] = []
    weights = np.asarray(mixture.weights).mean(axis=0)
    means = np.asarray(mixture.component_mean())[..., 0]
    stds = np.sqrt(np.asarray(mixture.component_variance())[..., 0])
    are_many = mixture.n_components > _MOST_NAMED
    for k, color in zip(range(mixture.n_components), itertools.cycle(_CYCLE), strict=False):
        if are_many and weights[k] < _LEAST_DRAWN:
            continue
        weight, mean, std = float(weights[k]), means[:, k], stds[:, k]
        alpha = 0.1 + 0.4 * weight
        artists.append(ax.fill_between(x, mean - std, mean + std, color=color, alpha=alpha, lw=0))
        label = f"component {k + 1}, weight {weight:.2f}"
        artists += ax.plot(x, mean, color=color, alpha=0.3 + 0.7 * weight, label=label)
    if not are_many:
        ax.legend(loc="upper right")
    return artists


def images_with_weights(
    ax: Axes, images: np.ndarray, weights: np.ndarray, *, gap: int = 2
) -> list[Any]:
    """Draw square images of components in a row, each with its weight (Fig. 8)."""
    side = round(images.shape[-1] ** 0.5)
    strip = np.ones((side, len(images) * (side + gap) - gap))
    for k, image in enumerate(images):
        strip[:, k * (side + gap) : k * (side + gap) + side] = image.reshape(side, side)
    artists: list[Any] = [ax.imshow(strip, cmap="gray", vmin=0, vmax=1)]
    for k, weight in enumerate(weights):
        place = (k * (side + gap) + 1, side - 1.5)
        artists.append(ax.annotate(f"{weight:.2f}", place, color="white", fontsize=7))
    ax.axis("off")
    return artists


def compared_densities(
    ax: Axes, grid: np.ndarray, curves: Mapping[str, np.ndarray], *, mean: float
) -> list[Any]:
    """Draw densities over one axis, with the mean that they have in common (Fig. 1)."""
    artists: list[Any] = []
    for (name, curve), color in zip(curves.items(), itertools.cycle(_CYCLE), strict=False):
        artists += ax.plot(grid, curve, color=color, label=name)
        artists.append(ax.fill_between(grid, curve, color=color, alpha=0.15, lw=0))
    artists.append(ax.axvline(mean, color="black", lw=0.8, ls=":", label="mean"))
    ax.set(xlabel="y", ylabel="density")
    ax.legend()
    return artists


def density_map(
    ax: Axes,
    x: np.ndarray,
    mixture: Mixture,
    *,
    limits: tuple[float | int, float | int] | None = None,
    gamma: float | int = 0.5,
) -> list[Any]:
    """Draw p(y | x) as a heat map, one target column over one feature.

    Args:
        ax: Where to draw.
        x: Values of the feature, ascending.
        mixture: The density at each value of x.
        limits: Lowest and highest y. By default, the 0.001 and 0.999 quantiles.
        gamma: The color shows density ** gamma; below 1 this makes faint branches visible.
    """
    _check_path(x, mixture)
    if limits is None:
        low, high = (np.asarray(mixture.quantile(q)) for q in (0.001, 0.999))
        limits = float(low.min()), float(high.max())
    y = np.linspace(*limits, _HEIGHT)
    if mixture.family.is_discrete:
        y = np.arange(np.floor(limits[0]), np.ceil(limits[1]) + 1)
    points = np.broadcast_to(y[:, None, None], (len(y), len(x), 1))
    density = np.exp(np.asarray(mixture.log_prob(_like(mixture, points))))
    # Rasterized, because a vector file with one polygon per cell takes megabytes.
    mesh = ax.pcolormesh(
        x, y, density, cmap="magma", norm=PowerNorm(gamma, vmin=0), rasterized=True
    )
    ax.set(xlabel="x", ylabel="y", xlim=(x[0], x[-1]))
    if not mixture.family.is_discrete:  # cells of integers reach half a step beyond
        ax.set(ylim=limits)
    ax.grid(visible=False)
    return [mesh]


def fan_chart(
    ax: Axes,
    x: np.ndarray,
    mixture: Mixture,
    *,
    coverages: Sequence[float] = (0.5, 0.8, 0.95),
    color: str = COLORS["nll"],
) -> list[Any]:
    """Draw the median along x, and equal-tailed intervals as bands, wider ones lighter.

    Args:
        ax: Where to draw.
        x: Values of the feature, ascending.
        mixture: The density at each value of x, over one target column.
        coverages: Probabilities of the bands.
        color: Color of the median and the bands.
    """
    _check_path(x, mixture)
    artists: list[Any] = []
    # Tints instead of transparency: a band then has the same color as in the legend.
    strengths = np.linspace(0.2, 0.6, len(coverages))
    for coverage, strength in zip(sorted(coverages, reverse=True), strengths, strict=True):
        ends = np.asarray(mixture.interval(coverage, "equal-tailed"))[:, 0]
        tint = 1 - strength * (1 - np.array(to_rgb(color)))
        artists.append(
            ax.fill_between(x, *ends.T, color=tuple(tint), lw=0, label=f"{coverage:.0%}")
        )
    median = np.asarray(mixture.quantile(0.5))
    artists += ax.plot(x, median, color=color, label="median")
    ax.margins(y=0.12)  # space for the legend above the widest band
    ax.set(xlabel="x", ylabel="y")
    ax.legend(loc="upper center", ncols=len(artists))
    return artists


def pit_histogram(
    ax: Axes, pit: np.ndarray, *, bins: int = 20, confidence: float | int = 0.95
) -> list[Any]:
    """Draw a histogram of PIT values, with the band in which a calibrated model's bars lie.

    Args:
        ax: Where to draw.
        pit: Values of the probability integral transform, (rows,).
        bins: Number of bars.
        confidence: Fraction of a calibrated model's bars that lie within the band.
    """
    low, high = metrics.binomial_band(len(pit), 1 / bins, confidence)
    per_count = bins / len(pit)
    label = f"{confidence:.0%} of a calibrated model's bars"
    artists: list[Any] = [
        ax.axhspan(low * per_count, high * per_count, **_BAND, zorder=0, label=label)
    ]
    counts, edges = np.histogram(pit, bins=bins, range=(0, 1))
    artists.append(
        ax.bar(
            edges[:-1],
            counts * per_count,
            width=1 / bins,
            align="edge",
            color=COLORS["nll"],
            alpha=0.7,
            edgecolor="white",
            linewidth=0.5,
        )
    )
    artists.append(ax.axhline(1, color=mpl.rcParams["text.color"], lw=0.8, ls=":"))
    # Space for the legend above the bars.
    top = 1.25 * per_count * max(high, counts.max())
    ax.set(xlabel="probability integral transform", ylabel="density", xlim=(0, 1), ylim=(0, top))
    ax.legend(loc="upper center")
    return artists


def reliability_curve(
    ax: Axes, pit: np.ndarray, *, kind: str = "central", confidence: float | int = 0.95
) -> list[Any]:
    """Draw observed against nominal frequencies, with the band of a calibrated model.

    Args:
        ax: Where to draw.
        pit: Values of the probability integral transform, (rows,).
        kind: "central", fractions within equal-tailed intervals; a curve below the diagonal means
            that the model is overconfident. Or "below", fractions below quantiles.
        confidence: Confidence of the band, at each level separately.
    """
    levels = np.linspace(0, 1, 101)
    curve = metrics.reliability(pit, levels, kind=kind, confidence=confidence)
    label = f"{confidence:.0%} of calibrated models"
    artists: list[Any] = [
        ax.fill_between(levels, curve.lower, curve.upper, **_BAND, label=label),
        *ax.plot((0, 1), (0, 1), color=mpl.rcParams["text.color"], lw=0.8, ls=":"),
        *ax.plot(levels, curve.observed, color=COLORS["ngem"], label=f"observed, {len(pit)} rows"),
    ]
    what = "coverage of central intervals" if kind == "central" else "fraction below the quantile"
    ax.set(xlabel=f"nominal {what}", ylabel="observed", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.legend(loc="upper left")
    return artists


def uncertainty(
    ax: Axes,
    x: np.ndarray,
    noise: np.ndarray,
    model: np.ndarray,
    *,
    outside: np.ndarray | None = None,
) -> list[Any]:
    """Draw what more data would not remove, and what it would, as standard deviations along x.

    Args:
        ax: Where to draw.
        x: A value of each row, in any order: a feature, or the rank of its prediction.
        noise: Standard deviation of the noise, (rows,): the square root of the `noise_variance` of
            `predict_uncertainty`.
        model: Standard deviation of what members predict, of its `model_variance`.
        outside: Which rows have a feature outside the range of the training rows; they are hollow.
    """
    for name, values in {"x": x, "noise": noise, "model": model}.items():
        if values.ndim != 1 or len(values) != len(x):
            raise ValueError(
                f"{name} must have one number per row, shape ({len(x)},), got {values.shape}; for "
                "targets in columns pass one of them: values[:, column]."
            )
    outside = np.zeros(len(x), bool) if outside is None else outside
    artists: list[Any] = []
    for name, values, method in (("noise", noise, "nll"), ("model", model, "ngem")):
        style = {"ls": "", "marker": "o", "ms": 3.5, "color": COLORS[method]}
        artists += ax.plot(x[~outside], values[~outside], mew=0, label=name, **style)
        label = "outside the training range" if name == "model" and outside.any() else None
        artists += ax.plot(x[outside], values[outside], mfc="none", mew=0.8, label=label, **style)
    # Space for the legend above the dots.
    top = 1.2 * max(np.max(noise, initial=0.0), np.max(model, initial=0.0))
    ax.set(xlabel="x", ylabel="standard deviation", ylim=(0, top or 1.0))
    ax.legend(loc="upper left", ncols=3)
    return artists


def importances(
    ax: Axes, values: Mapping[str, np.ndarray], names: Sequence[str], *, most: int = 15
) -> list[Any]:
    """Draw how much each column matters for weights, means and scales, as bars.

    Args:
        ax: Where to draw.
        values: A number for each column, by what it is for: the `feature_importances_` of a
            `MixtureBoostingRegressor`, or mean absolute values of its `shap_values`.
        names: Names of the columns.
        most: Columns at most; those with the largest sum are shown, the largest on top.
    """
    table = np.array(list(values.values()))
    if table.shape[1:] != (len(names),):
        raise ValueError(
            f"values must have a number for each of {len(names)} columns, got shape "
            f"{table.shape[1:]}; leave out the last column of shap_values."
        )
    order = np.argsort(table.sum(axis=0), kind="stable")[-most:]
    height = 0.8 / len(table)
    artists: list[Any] = []
    for number, (kind, row) in enumerate(zip(values, table, strict=True)):
        place = np.arange(len(order)) + 0.4 - height * (number + 0.5)
        artists.append(ax.barh(place, row[order], height, color=_CYCLE[number], label=kind))
    ax.set_yticks(np.arange(len(order)), [str(names[column]) for column in order])
    ax.set_xlabel("importance")
    ax.grid(visible=False, axis="y")
    ax.legend(loc="lower right")
    return artists


def _color(name: str, number: int) -> str:
    """Return the color of a method in `COLORS`, or a color by number for any other method.

    What follows a comma, as in "ngem, full strength", does not change the color.
    """
    return COLORS.get(name.partition(",")[0], _CYCLE[(number + 2) % len(_CYCLE)])


def _check_path(x: np.ndarray, mixture: Mixture) -> None:
    """Raise unless the mixture can be drawn along an axis."""
    if mixture.dim != 1:
        raise ValueError(
            f"the mixture must have one target column, got {mixture.dim}; draw one at a time: "
            "mixture.marginal(column)."
        )
    if x.ndim != 1 or mixture.batch_shape != x.shape:
        raise ValueError(
            f"x must have one number per row of the mixture, shape {mixture.batch_shape}, got "
            f"{x.shape}; for a column of a table pass x[:, column]."
        )
    if np.any(np.diff(x) <= 0):
        raise ValueError(
            "x must be ascending, got values that repeat or fall; predict on a grid, for example "
            "np.linspace(x.min(), x.max(), 200)."
        )


def _marginal(
    side: Axes, dim: int, axis: np.ndarray, mixture: Mixture, truth: Mixture
) -> list[Any]:
    """Fill one marginal of the true density (hatched) and of the mixture."""
    artists: list[Any] = []
    styles = (
        (truth, {"facecolor": "none", "edgecolor": "gray", "hatch": "////", "linewidth": 0.6}),
        (mixture, {"color": COLORS["ngem"], "alpha": 0.45, "linewidth": 0}),
    )
    for density, style in styles:
        marginal = density.marginal(dim)
        height = np.exp(np.asarray(marginal.log_prob(_like(marginal, axis[:, None]))))
        fill = side.fill_between if dim == 0 else side.fill_betweenx
        artists.append(fill(axis, height, **style))
    side.axis("off")
    return artists


def _like(mixture: Mixture, values: np.ndarray) -> Float[Array, "..."]:
    """Return values as an array of the mixture's dtype."""
    return jnp.asarray(values, mixture.logits.dtype)
