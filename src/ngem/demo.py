"""The demonstration behind `ngem demo`: why NLL collapses and nGEM does not."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from . import datasets, plotting
from ._console import progress_bar
from .objectives import NGEM, NLL
from .repro import two_gaussians, two_sinusoids

# The paper's strength, with our unbiased logits: what the picture compares with is its Figs. 2, 5.
# Scales are learned as they are there, so that they are their own coordinates.
_OBJECTIVES = {"nll": NLL(), "ngem": NGEM(power=1.0, coordinates="scale")}
_LEARNING_RATES = (0.1, 0.01)


def run_demo(out: Path, *, epochs: int = 50) -> None:
    """Train on both synthetic examples of the paper, print tables and write pictures."""
    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    show_two_gaussians(out, console, epochs=epochs)
    show_two_sinusoids(out, console, epochs=3 * epochs)


def show_two_sinusoids(out: Path, console: Console, *, epochs: int) -> None:
    """Learn a conditional density: two crossing sine waves."""
    data = datasets.two_sinusoids(seed=1)
    console.print(
        f"\nTwo crossing sine waves, a network of 4 x 128 with K = 2: 3 seeds, {epochs} epochs "
        "of 2000 points, Adam at learning rate 1e-3."
    )
    runs, titles = {}, {}
    table = Table(title="after training; optimum entropy 0.693")
    for column in ("objective", "NLL of 3 seeds", "entropy of 3 seeds"):
        table.add_column(column, justify="right")
    with progress_bar(console, "epochs") as progress:
        for name, objective in {"nll": NLL(), "ngem": NGEM()}.items():
            task = progress.add_task(f"{name:>5}", total=3 * epochs)
            runs[name] = two_sinusoids.train(
                data,
                objective,
                seeds=(1, 2, 3),
                max_epochs=epochs,
                callbacks=[lambda _, task=task: progress.advance(task)],
            )
    for name, run in runs.items():
        nll, entropy = run.nll(), run.entropy()
        table.add_row(name, *("  ".join(f"{v:.3f}" for v in row) for row in (nll, entropy)))
        titles[name] = f"{name}: NLL {nll[0]:.2f}, weights' entropy {entropy[0]:.3f}"
    console.print(table)
    path = out / "two_sinusoids.png"
    with plotting.styled_figure(1, len(runs), (10.5, 3.8), sharey=True) as (figure, axes):
        for ax, (name, run) in zip(axes[0], runs.items(), strict=True):
            ax.plot(run.x[:, 0], run.y[:, 0], ".", color="0.75", markersize=2, zorder=0)
            grid = np.linspace(run.x.min(), run.x.max(), 400)
            learned = run.predict(0, jnp.asarray(grid[:, None], run.x.dtype))
            plotting.component_bands(ax, grid, learned)
            ax.set(xlabel="x (standardised)", title=titles[name])
        axes[0, 0].set(ylabel="y (standardised)", ylim=(-2.6, 3.2))
        figure.savefig(path, dpi=150)
    console.print(f"Picture: {path}")


def show_two_gaussians(out: Path, console: Console, *, epochs: int) -> None:
    """Learn an unconditional density: two Gaussians in the plane."""
    data = datasets.two_gaussians()
    console.print(
        "Two Gaussians in the plane, learned one point at a time: 5 seeds, "
        f"{epochs} epochs of {len(data.points)} points (Sec. 4.1 of the paper)."
    )
    runs = _train_all(data, epochs, console)
    optimum = two_gaussians.best_nll(data)
    console.print(_table(runs, optimum))
    collapsed, converged = (
        {name: runs[name, rate] for name in _OBJECTIVES} for rate in _LEARNING_RATES
    )
    path = out / "two_gaussians.png"
    _draw_two_gaussians(path, data, collapsed, converged, optimum=optimum)
    console.print(f"Picture: {path}")


def _draw_two_gaussians(path: Path, data, collapsed, converged, *, optimum: float) -> None:
    """Draw the paper's Figs. 2, 4 and 5 for nll and ngem in one picture."""
    truth = two_gaussians.true_density(data)
    with plotting.styled_figure(2, 3, (10.5, 7), top=0.95) as (figure, axes):
        for ax, letter, (name, run) in zip(axes[0], "ab", collapsed.items(), strict=False):
            first = jax.tree.map(lambda leaf: leaf[0], run.mixture)
            plotting.density_with_marginals(ax, first, truth)
            entropy = f"weights' entropy {run.entropy()[0]:.3f}"
            plotting.caption(ax, f"({letter}) {name} at rate 0.1: {entropy}", height=1.25)
        for ax, letter, (name, run) in zip(axes[1], "de", converged.items(), strict=False):
            # The second seed: its two means start well apart, so both paths can be seen.
            plotting.trajectories(ax, run.means[1], data.means, color=plotting.COLORS[name])
            plotting.caption(ax, f"({letter}) {name} at rate 0.01: paths of the means")
        for ax, letter, rate, runs in zip(
            axes[:, 2], "cf", ("0.1", "0.01"), (collapsed, converged), strict=True
        ):
            curves = {name: run.nll for name, run in runs.items()}
            iterations = next(iter(runs.values())).iterations
            plotting.convergence(ax, iterations, curves, optimum=optimum)
            plotting.caption(ax, f"({letter}) learning rate {rate}, 5 seeds")
        figure.savefig(path, dpi=150)


def _train_all(data, epochs, console):
    runs = {}
    with progress_bar(console, "epochs") as progress:
        for rate in _LEARNING_RATES:
            for name, objective in _OBJECTIVES.items():
                task = progress.add_task(f"{name:>5}, learning rate {rate:g}", total=epochs)
                runs[name, rate] = two_gaussians.train(
                    data,
                    objective,
                    learning_rate=rate,
                    epochs=epochs,
                    on_epoch=lambda _, task=task: progress.advance(task),
                )
    return runs


def _table(runs, optimum: float) -> Table:
    table = Table(
        title=f"mean ± std of 5 seeds, median iterations; optimum NLL {optimum:.3f}, entropy 0.693"
    )
    for column in ("learning rate", "objective", "NLL", "entropy", "iterations to +0.1"):
        table.add_column(column, justify="right")
    for (name, rate), run in runs.items():
        reached = run.iterations_to(optimum + 0.1)
        entropy, nll = run.entropy(), run.nll[:, -1]
        table.add_row(
            f"{rate:g}",
            name,
            f"{nll.mean():.3f} ± {nll.std():.3f}",
            f"{entropy.mean():.3f} ± {entropy.std():.3f}",
            f"{np.median(reached):.0f}" if np.isfinite(np.median(reached)) else "never",
        )
    return table
