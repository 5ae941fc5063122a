"""Pictures; matplotlib appears here only."""

from collections.abc import Mapping
from typing import Any, cast

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from .datasets import TwoGaussians
from .mixture import Mixture, gaussian_mixture
from .repro import two_sinusoids
from .repro.two_gaussians import Run

#: One colour for a method in every picture, distinguishable without red-green vision.
COLORS = {"nll": "#4477aa", "ngem": "#cc3311"}

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
    ax: Axes, iterations: np.ndarray, curves: Mapping[str, np.ndarray], *, optimum: float
) -> list[Any]:
    """Draw curves (seeds, logs) as mean and standard deviation over seeds (Fig. 4)."""
    artists: list[Any] = []
    for name, curve in curves.items():
        mean, spread = curve.mean(axis=0), curve.std(axis=0)
        artists += ax.plot(iterations, mean, color=COLORS[name], label=name)
        artists.append(
            ax.fill_between(
                iterations, mean - spread, mean + spread, color=COLORS[name], alpha=0.2, lw=0
            )
        )
    artists.append(ax.axhline(optimum, color="black", lw=0.8, ls=":", label="optimum"))
    ax.set(xlabel="iterations", ylabel="negative log-likelihood (nat)")
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


def sinusoids_figure(
    runs: Mapping[str, two_sinusoids.Run], *, seed: int = 0, title: Mapping[str, str]
) -> Figure:
    """Return the paper's Fig. 7: what each objective learned, over the training points."""
    with mpl.rc_context(cast(Any, STYLE)):
        figure = Figure(figsize=(10.5, 3.8), layout="constrained")
        axes = figure.subplots(1, len(runs), sharey=True)
        for ax, (name, run) in zip(axes, runs.items(), strict=True):
            x, y = np.asarray(run.x)[:, 0], np.asarray(run.y)[:, 0]
            ax.plot(x, y, ".", color="0.75", markersize=2, zorder=0)
            grid = np.linspace(x.min(), x.max(), 400)
            learned = run.predict(seed, jnp.asarray(grid[:, None], run.x.dtype))
            component_bands(ax, grid, learned)
            ax.set(xlabel="x (standardised)", title=title[name])
        axes[0].set(ylabel="y (standardised)", ylim=(-2.6, 3.2))
    return figure


def demo_figure(
    data: TwoGaussians,
    collapsed: Mapping[str, Run],
    converged: Mapping[str, Run],
    *,
    optimum: float,
) -> Figure:
    """Return the paper's Figs. 2 and 5 for nll and ngem in one picture.

    Args:
        data: The points and their true density.
        collapsed: Runs at the large learning rate, by objective.
        converged: Runs at the middle learning rate.
        optimum: Negative log-likelihood of the best mixture.
    """
    truth = gaussian_mixture(np.log(data.weights), data.means, np.full_like(data.means, data.scale))
    with mpl.rc_context(cast(Any, STYLE)):
        layout = ConstrainedLayoutEngine(rect=(0.01, 0, 0.98, 0.95), hspace=0.08)
        figure = Figure(figsize=(10.5, 7), layout=layout)
        axes = figure.subplots(2, 3)
        for ax, letter, (name, run) in zip(axes[0], "ab", collapsed.items(), strict=False):
            density_with_marginals(ax, _seed(run.mixture, 0), truth)
            entropy = f"weights' entropy {run.entropy()[0]:.3f}"
            _caption(ax, f"({letter}) {name} at rate 0.1: {entropy}", height=1.25)
        for ax, letter, (name, run) in zip(axes[1], "de", converged.items(), strict=False):
            # The second seed: its two means start well apart, so both paths can be seen.
            trajectories(ax, run.means[1], data.means, color=COLORS[name])
            _caption(ax, f"({letter}) {name} at rate 0.01: paths of the means")
        for ax, letter, rate, runs in zip(
            axes[:, 2], "cf", ("0.1", "0.01"), (collapsed, converged), strict=True
        ):
            curves = {name: run.nll for name, run in runs.items()}
            convergence(ax, next(iter(runs.values())).iterations, curves, optimum=optimum)
            _caption(ax, f"({letter}) learning rate {rate}, 5 seeds")
    return figure


def _caption(ax: Axes, text: str, height: float = 1.03) -> None:
    ax.text(0, height, text, transform=ax.transAxes, va="bottom").set_in_layout(False)


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


def _seed(mixture: Mixture, index: int) -> Mixture:
    return jax.tree.map(lambda leaf: leaf[index], mixture)
