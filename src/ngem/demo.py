"""The demonstration behind `ngem demo`: why nGEM trains, then a table in and densities out."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from . import datasets, plotting
from ._console import Output, progress_bar
from .objectives import NGEM, NLL, OBJECTIVES
from .repro import two_gaussians, two_sinusoids
from .tables import commands
from .tables.source import Source

#: Full strength is the paper's, with our unbiased logits: the picture is that of its Figs. 2 and 5.
#: Scales are learned directly on Two-Gaussians, so they are the coordinates.
_ON_TWO_GAUSSIANS = {"nll": NLL(), "ngem, full strength": NGEM(power=1.0, coordinates="scale")}
_LEARNING_RATES = (0.1, 0.01)

#: The default objective: half strength that falls to zero early in training.
_ON_TWO_SINUSOIDS = {"nll": NLL(), "ngem, default": OBJECTIVES["ngem"]}

#: Runs of Two-Gaussians by objective.
_Runs = Mapping[str, two_gaussians.Run]


def run_demo(out: Path, *, epochs: int = 50) -> None:
    """Train on both synthetic examples of the paper, then learn from a table and use the model."""
    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    show_two_gaussians(out, console, epochs=epochs)
    show_two_sinusoids(out, console, epochs=3 * epochs)
    show_table(out, console)


def show_table(out: Path, console: Console, **settings: Any) -> None:
    """Learn from a table that scikit-learn brings along, predict three rows, and write a report.

    Args:
        out: Directory for the files.
        console: Where to print.
        settings: Parameters of the model that differ from those of `--quality fast`.
    """
    table, new, model = (out / name for name in ("diabetes.csv", "new.csv", "diabetes.ngem"))
    three, report = out / "three.csv", out / "report.html"
    _write_diabetes(table, new, three)
    source = Source(table, "progression", model="stack")
    _announce(console, "A table in", f"ngem fit {table} --target progression --quality fast")
    commands.fit(source, {"quality": "fast", **settings}, model, Output(), force=True)
    _announce(console, "densities out", f"ngem predict {model} {three} --above 200")
    predicted, quiet = out / "predicted.csv", Output(quiet=True)
    commands.predict(model, three, above="200", out=predicted, force=True, output=quiet)
    _print_predictions(console, predicted, three)
    _announce(console, "and a page about the model", f"ngem report {model} {new} --out {report}")
    commands.report(model, new, out=report, force=True, output=Output())


def _announce(console: Console, what: str, command: str) -> None:
    console.print(f"\n[bold]{what}:[/bold]  $ {command}", highlight=False, soft_wrap=True)


def _write_diabetes(table: Path, new: Path, three: Path) -> None:
    """Write patients to learn from, others to judge by, and three of these by themselves."""
    names, values = datasets.diabetes()
    order = np.random.default_rng(0).permutation(len(values))
    for path, rows in ((table, order[42:]), (new, order[:42]), (three, order[:3])):
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([names, *values[rows].tolist()])


def _print_predictions(console: Console, predicted: Path, three: Path) -> None:
    """Print the density of each row in a few numbers, beside what came true."""
    titles = {
        "mean": "mean",
        "q0.05": "5%",
        "q0.5": "median",
        "q0.95": "95%",
        "above200": "P(> 200)",
    }
    shown = Table(title="progression of diabetes after a year, for three new patients")
    for title in ("patient", *titles.values(), "true value"):
        shown.add_column(title, justify="right")
    with predicted.open() as file, three.open() as truth:
        pairs = zip(csv.DictReader(file), csv.DictReader(truth), strict=True)
        for number, (row, true) in enumerate(pairs, start=1):
            numbers = [float(row[f"progression_{name}"]) for name in titles]
            cells = [f"{value:.0f}" for value in numbers[:-1]] + [f"{numbers[-1]:.0%}"]
            shown.add_row(str(number), *cells, f"{float(true['progression']):.0f}")
    console.print(shown)


def show_two_sinusoids(out: Path, console: Console, *, epochs: int) -> None:
    """Learn a conditional density: two crossing sine waves."""
    console.print(
        f"\nTwo crossing sine waves, a network of 4 x 128 with K = 2: 3 seeds, {epochs} epochs "
        "of 2000 points, Adam at learning rate 1e-3."
    )
    runs = _train_sinusoids(console, epochs)
    table = Table(title="after training; optimum entropy 0.693")
    for column in ("objective", "NLL of 3 seeds", "entropy of 3 seeds"):
        table.add_column(column, justify="right")
    for name, run in runs.items():
        cells = ("  ".join(f"{v:.3f}" for v in row) for row in (run.nll(), run.entropy()))
        table.add_row(name, *cells)
    console.print(table)
    path = out / "two_sinusoids.png"
    _draw_two_sinusoids(path, runs)
    console.print(f"Picture: {path}")


def show_two_gaussians(out: Path, console: Console, *, epochs: int) -> None:
    """Learn an unconditional density: two Gaussians in the plane."""
    data = datasets.two_gaussians()
    console.print(
        "Two Gaussians in the plane, learned one point at a time: 5 seeds, "
        f"{epochs} epochs of {len(data.points)} points (Sec. 4.1 of the paper)."
    )
    runs = _train_gaussians(data, epochs, console)
    optimum = two_gaussians.best_nll(data)
    console.print(_table(runs, optimum))
    collapsed, converged = (
        {name: runs[name, rate] for name in _ON_TWO_GAUSSIANS} for rate in _LEARNING_RATES
    )
    path = out / "two_gaussians.png"
    _draw_two_gaussians(path, data, collapsed, converged, optimum=optimum)
    console.print(f"Picture: {path}")


def _train_sinusoids(console: Console, epochs: int) -> dict[str, two_sinusoids.Run]:
    data = datasets.two_sinusoids(seed=1)
    runs = {}
    with progress_bar(console, "epochs") as progress:
        for name, objective in _ON_TWO_SINUSOIDS.items():
            task = progress.add_task(name, total=3 * epochs)
            runs[name] = two_sinusoids.train(
                data,
                objective,
                seeds=(1, 2, 3),
                max_epochs=epochs,
                callbacks=[lambda _, task=task: progress.advance(task)],
            )
    return runs


def _draw_two_sinusoids(path: Path, runs: Mapping[str, two_sinusoids.Run]) -> None:
    with plotting.styled_figure(1, len(runs), (10.5, 3.8), sharey=True) as (figure, axes):
        for ax, (name, run) in zip(axes[0], runs.items(), strict=True):
            ax.plot(run.x[:, 0], run.y[:, 0], ".", color="0.75", markersize=2, zorder=0)
            grid = np.linspace(run.x.min(), run.x.max(), 400)
            learned = run.predict(0, jnp.asarray(grid[:, None], run.x.dtype))
            plotting.component_bands(ax, grid, learned)
            title = f"{name}: NLL {run.nll()[0]:.2f}, entropy of weights {run.entropy()[0]:.3f}"
            ax.set(xlabel="x (standardized)", title=title)
        axes[0, 0].set(ylabel="y (standardized)", ylim=(-2.6, 3.2))
        figure.savefig(path, dpi=150)


def _draw_two_gaussians(
    path: Path,
    data: datasets.TwoGaussians,
    collapsed: _Runs,
    converged: _Runs,
    *,
    optimum: float,
) -> None:
    """Draw the paper's Figs. 2, 4 and 5 for both objectives in one picture."""
    truth = two_gaussians.true_density(data)
    with plotting.styled_figure(2, 3, (10.5, 7), top=0.95) as (figure, axes):
        for ax, letter, (name, run) in zip(axes[0], "ab", collapsed.items(), strict=False):
            first = jax.tree.map(lambda leaf: leaf[0], run.mixture)
            plotting.density_with_marginals(ax, first, truth)
            text = f"({letter}) {name}, rate 0.1: entropy {run.entropy()[0]:.3f}"
            plotting.caption(ax, text, height=1.25)
        for ax, letter, (name, run) in zip(axes[1], "de", converged.items(), strict=False):
            # The second seed: its two means start well apart, so both paths can be seen.
            plotting.trajectories(
                ax, run.means[1], data.means, color=plotting.COLORS[name.partition(",")[0]]
            )
            plotting.caption(ax, f"({letter}) {name}, rate 0.01: paths of means")
        for ax, letter, rate, runs in zip(
            axes[:, 2], "cf", ("0.1", "0.01"), (collapsed, converged), strict=True
        ):
            curves = {name: run.nll for name, run in runs.items()}
            iterations = next(iter(runs.values())).iterations
            plotting.convergence(ax, iterations, curves, optimum=optimum)
            plotting.caption(ax, f"({letter}) learning rate {rate}, 5 seeds")
        figure.savefig(path, dpi=150)


def _train_gaussians(
    data: datasets.TwoGaussians, epochs: int, console: Console
) -> dict[tuple[str, float], two_gaussians.Run]:
    runs = {}
    with progress_bar(console, "epochs") as progress:
        for rate in _LEARNING_RATES:
            for name, objective in _ON_TWO_GAUSSIANS.items():
                task = progress.add_task(f"{name}, learning rate {rate:g}", total=epochs)
                runs[name, rate] = two_gaussians.train(
                    data,
                    objective,
                    learning_rate=rate,
                    epochs=epochs,
                    on_epoch=lambda _, task=task: progress.advance(task),
                )
    return runs


def _table(runs: Mapping[tuple[str, float], two_gaussians.Run], optimum: float) -> Table:
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
