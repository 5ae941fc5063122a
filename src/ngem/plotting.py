"""Pictures; matplotlib appears here only."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from .mixture import Mixture

#: One colour for a method in every picture, distinguishable without red-green vision.
COLORS = {"nll": "#4477aa", "ngem": "#cc3311", "ngem-listing": "#ddaa33", "sgem": "#66ccee"}

#: Colours of components, likewise.
_CYCLE = ("#cc3311", "#4477aa", "#228833", "#aa3377", "#ccbb44", "#66ccee")

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


@contextlib.contextmanager
def styled_figure(
    rows: int,
    columns: int,
    size: tuple[float | int, float | int],
    *,
    top: float = 1.0,
    **settings: Any,
) -> Iterator[tuple[Figure, np.ndarray]]:
    """Give a figure in our style and its axes, always (rows, columns); draw within the context.

    Args:
        rows: Rows of axes.
        columns: Columns of axes.
        size: Width and height in inches.
        top: Share of the height that axes may use, where captions stand above them.
        settings: Passed on to `Figure.subplots`.
    """
    with mpl.rc_context(cast(Any, STYLE)):
        layout = ConstrainedLayoutEngine(rect=(0.01, 0, 0.98, top), hspace=0.08)
        figure = Figure(figsize=size, layout=layout)
        yield figure, np.asarray(figure.subplots(rows, columns, squeeze=False, **settings))


def caption(ax: Axes, text: str, height: float = 1.03) -> None:
    """Write above the axes at their left edge."""
    ax.text(0, height, text, transform=ax.transAxes, va="bottom").set_in_layout(False)


def density_with_marginals(
    ax: Axes, mixture: Mixture, truth: Mixture, *, limit: float = 7.0
) -> list[Any]:
    """Draw a density in the plane as a heat map with its two marginals beside it (Fig. 2)."""
    axis = np.linspace(-limit, limit, 201)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    density = np.exp(np.asarray(mixture.log_prob(_like(mixture, grid))))
    extent = (-limit, limit, -limit, limit)
    image = ax.imshow(density, extent=extent, origin="lower", cmap="magma", aspect="equal")
    centres = np.asarray(truth.components.mean)
    stars = ax.plot(*centres.T, "*", color="white", markeredgecolor="black", markersize=11)
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
    for path, marker in zip(np.moveaxis(means, 1, 0), "sovD^", strict=False):
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
    for name, curve in curves.items():
        mean, spread = curve.mean(axis=0), curve.std(axis=0)
        artists += ax.plot(iterations, mean, color=COLORS[name], label=name)
        artists.append(
            ax.fill_between(
                iterations, mean - spread, mean + spread, color=COLORS[name], alpha=0.2, lw=0
            )
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
    """Save what a step takes against each size, on logarithmic axes, with slopes in the legend.

    Args:
        curves: For each quantity ("time" in seconds, "memory" in bytes) and each size that was
            varied: sizes, values and slope.
        path: PNG file.
    """
    units = {"time": "ms a step", "memory": "MB"}
    factors = {"time": 1e3, "memory": 2.0**-20}
    with styled_figure(1, len(curves), (4.2 * len(curves), 3.6)) as (figure, axes):
        for ax, (what, found) in zip(axes[0], curves.items(), strict=True):
            for (vary, (sizes, values, slope)), color in zip(found.items(), _CYCLE, strict=False):
                scaled = factors[what] * np.asarray(values, float)
                ax.loglog(sizes, scaled, "o-", ms=3, color=color, label=f"{vary}: {slope:.2f}")
            ax.set(xlabel="size", ylabel=units[what], title=f"{what}, with slopes")
            ax.legend()
        figure.savefig(path, dpi=150)


def differences(
    ax: Axes, rows: Sequence[str], methods: Mapping[str, np.ndarray], *, linear: float = 0.1
) -> list[Any]:
    """Draw (difference, standard error) of each row for each method.

    Args:
        ax: Where to draw.
        rows: Names, from top to bottom.
        methods: For each method an array (rows, 2); NaN is left out.
        linear: Up to here the axis is linear, beyond it logarithmic.
    """
    artists: list[Any] = []
    for number, (name, values) in enumerate(methods.items()):
        at = np.arange(len(rows)) + 0.22 * (number - (len(methods) - 1) / 2)
        color = COLORS.get(name, _CYCLE[(number + 2) % len(_CYCLE)])
        artists.append(
            ax.errorbar(
                values[:, 0], at, xerr=values[:, 1], fmt="o", ms=4, lw=1, color=color, label=name
            )
        )
    artists.append(ax.axvline(0, color="black", lw=0.8))
    ax.set_xscale("symlog", linthresh=linear)
    ax.set(yticks=range(len(rows)), yticklabels=rows, ylim=(len(rows) - 0.5, -0.5))
    ax.legend()
    return artists


def component_bands(ax: Axes, x: np.ndarray, mixture: Mixture) -> list[Any]:
    """Draw each component's mean ± std along x, as opaque as it has weight (Fig. 7)."""
    artists: list[Any] = []
    weights = np.asarray(mixture.weights)
    means = np.asarray(mixture.components.mean)[..., 0]
    spread = np.sqrt(np.asarray(mixture.component_variance())[..., 0])
    for k, color in zip(range(mixture.n_components), _CYCLE, strict=False):
        low, high = means[:, k] - spread[:, k], means[:, k] + spread[:, k]
        share = float(weights[:, k].mean())
        alpha = 0.1 + 0.4 * share
        artists.append(ax.fill_between(x, low, high, color=color, alpha=alpha, lw=0))
        label = f"component {k + 1}, weight {share:.2f}"
        artists += ax.plot(x, means[:, k], color=color, alpha=0.3 + 0.7 * share, label=label)
    ax.legend(loc="upper right")
    return artists


def images_with_weights(
    ax: Axes, images: np.ndarray, weights: np.ndarray, *, gap: int = 2
) -> list[Any]:
    """Draw square images of components in a row, the weight at each one's lower left (Fig. 8)."""
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
    """Draw densities over one axis, with the mean that they share (Fig. 1)."""
    artists: list[Any] = []
    for (name, curve), color in zip(curves.items(), _CYCLE, strict=False):
        artists += ax.plot(grid, curve, color=color, label=name)
        artists.append(ax.fill_between(grid, curve, color=color, alpha=0.15, lw=0))
    artists.append(ax.axvline(mean, color="black", lw=0.8, ls=":", label="mean"))
    ax.set(xlabel="y", ylabel="density")
    ax.legend()
    return artists


def _marginal(
    side: Axes, dim: int, axis: np.ndarray, mixture: Mixture, truth: Mixture
) -> list[Any]:
    artists: list[Any] = []
    looks = (
        (truth, {"facecolor": "none", "edgecolor": "gray", "hatch": "////", "linewidth": 0.6}),
        (mixture, {"color": COLORS["ngem"], "alpha": 0.45, "linewidth": 0}),
    )
    for density, look in looks:
        marginal = density.marginal(dim)
        height = np.exp(np.asarray(marginal.log_prob(_like(marginal, axis[:, None]))))
        fill = side.fill_between if dim == 0 else side.fill_betweenx
        artists.append(fill(axis, height, **look))
    side.axis("off")
    return artists


def _like(mixture: Mixture, values: np.ndarray):
    return jnp.asarray(values, mixture.logits.dtype)
