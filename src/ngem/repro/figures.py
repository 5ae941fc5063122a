"""The paper's figures, drawn from saved runs with the layout of its captions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import plotting
from ..datasets import two_gaussians as two_gaussians_data
from ..datasets import two_sinusoids as two_sinusoids_data
from ..mixture import gaussian_mixture
from .boosting_study import CHOSEN
from .objective_comparison import BASE, compare
from .spec import Spec
from .statistics import standard_error
from .store import Results
from .two_gaussians import true_density
from .two_sinusoids import curve_stride, standardize


def _shown(spec: Spec) -> list[str]:
    """Return the objectives that figures compare, as far as the runs have them."""
    return [n for n in ("ngem-listing", "ngem", "nll") if n in spec.settings["objectives"]]


def fig1(spec: Spec, results: Results, path: Path) -> None:
    """One Gaussian against a mixture with the same mean."""
    (run,) = results.select()
    with plotting.styled_figure(1, 1, (5, 3)) as (figure, axes):
        curves = {
            "mixture": np.array(run["mixture"]),
            "one Gaussian": np.array(run["gaussian"]),
        }
        grid = np.array(run["grid"])
        plotting.compared_densities(axes[0, 0], grid, curves, mean=run["mean"])
        figure.savefig(path, dpi=150)


def fig2(spec: Spec, results: Results, path: Path) -> None:
    """Learned densities with marginals: separation, and collapse of nll."""
    data = two_gaussians_data(spec.settings["n_points"])
    rate = max(spec.settings["learning_rates"])
    with plotting.styled_figure(1, len(_shown(spec)), (11, 3.9), top=0.9) as (figure, axes):
        for ax, name in zip(axes[0], _shown(spec), strict=True):
            (run,) = results.select(objective=name, learning_rate=rate)
            parts = {key: np.array(value)[0] for key, value in run["mixture"].items()}
            learned = gaussian_mixture(
                np.log(np.maximum(parts["weights"], 1e-30)), parts["mean"], parts["scale"]
            )
            plotting.density_with_marginals(ax, learned, true_density(data))
            text = f"{name}, learning rate {rate:g}: entropy {run['entropy'][0]:.3f}"
            plotting.caption(ax, text, height=1.25)
        figure.savefig(path, dpi=150)


def fig4(spec: Spec, results: Results, path: Path) -> None:
    """Convergence for each learning rate."""
    rates = spec.settings["learning_rates"]
    with plotting.styled_figure(1, len(rates), (11, 3.2), sharey=True) as (figure, axes):
        for ax, rate in zip(axes[0], rates, strict=True):
            runs = {
                name: results.select(objective=name, learning_rate=rate)[0] for name in _shown(spec)
            }
            curves = {name: np.array(run["curve"]) for name, run in runs.items()}
            run = runs["nll"]
            plotting.convergence(ax, np.array(run["iterations"]), curves, optimum=run["optimum"])
            seeds = len(spec.settings["seeds"])
            ax.set(title=f"learning rate {rate:g}, {seeds} seeds")
            ax.set_ylim(run["optimum"] - 0.3, 9)
            ax.label_outer()
        figure.savefig(path, dpi=150)


def fig5(spec: Spec, results: Results, path: Path) -> None:
    """Paths of the means in one training."""
    data = two_gaussians_data(spec.settings["n_points"])
    rate = sorted(spec.settings["learning_rates"])[-2]
    with plotting.styled_figure(1, len(_shown(spec)), (11, 3.9)) as (figure, axes):
        for ax, name in zip(axes[0], _shown(spec), strict=True):
            (run,) = results.select(objective=name, learning_rate=rate)
            color = plotting.COLORS[name]
            plotting.trajectories(ax, np.array(run["path"]), data.means, color=color)
            ax.set(title=f"{name}, learning rate {rate:g}", xlim=(-6, 6), ylim=(-6, 6))
        figure.savefig(path, dpi=150)


def fig6(spec: Spec, results: Results, path: Path) -> None:
    """Convergence of the network for each learning rate."""
    rates = spec.settings["learning_rates"]
    steps = -(-spec.settings["n_points"] // 128)
    stride = curve_stride(spec.settings["epochs"])
    with plotting.styled_figure(1, len(rates), (11, 3.2), sharey=True) as (figure, axes):
        for ax, rate in zip(axes[0], rates, strict=True):
            curves = {
                name: np.array(
                    [run["curve"] for run in results.select(objective=name, learning_rate=rate)]
                )
                for name in _shown(spec)
            }
            iterations = steps * (1 + stride * np.arange(curves["nll"].shape[1]))
            plotting.convergence(ax, iterations, curves)
            ax.set(title=f"learning rate {rate:g}, {len(curves['nll'])} seeds")
            ax.set_ylim(-1.2, 3.2)
            ax.label_outer()
        figure.savefig(path, dpi=150)


def fig7(spec: Spec, results: Results, path: Path) -> None:
    """Component bands over the training points, for the seed where nll has the lowest entropy."""
    data = two_sinusoids_data(spec.settings["n_points"])
    x, y = (standardize(v) if spec.settings["standardise"] else v for v in data)
    rate = spec.settings["learning_rates"][0]
    seed = min(
        spec.settings["seeds"][:2],
        key=lambda s: results.select(objective="nll", learning_rate=rate, seed=s)[0]["entropy"],
    )
    with plotting.styled_figure(1, len(_shown(spec)), (12, 3.6), sharey=True) as (figure, axes):
        for ax, name in zip(axes[0], _shown(spec), strict=True):
            (run,) = results.select(objective=name, learning_rate=rate, seed=seed)
            bands = {key: np.array(value) for key, value in run["bands"].items()}
            learned = gaussian_mixture(
                np.log(np.maximum(bands["weights"], 1e-30)), bands["mean"], bands["scale"]
            )
            ax.plot(x[:, 0], y[:, 0], ".", color="0.75", markersize=2, zorder=0)
            plotting.component_bands(ax, bands["x"], learned)
            title = f"{name}: NLL {run['nll']:.2f}, entropy {run['entropy']:.3f}"
            ax.set(xlabel="x", title=title)
        axes[0, 0].set(ylabel="y", ylim=(1.4 * y.min(), 1.8 * y.max()))
        figure.savefig(path, dpi=150)


def fig8(spec: Spec, results: Results, path: Path) -> None:
    """Images of the components for four labels, one row for each objective."""
    labels = (0, 4, 7, 8)
    with plotting.styled_figure(len(_shown(spec)), len(labels), (11, 3.4)) as (figure, axes):
        for row, name in zip(axes, _shown(spec), strict=True):
            for ax, label in zip(row, labels, strict=True):
                _images(ax, results, name, label)
            row[0].text(
                -0.05, 0.5, name, transform=row[0].transAxes, rotation=90, ha="right", va="center"
            )
        figure.savefig(path, dpi=150)


def fig9(spec: Spec, results: Results, path: Path) -> None:
    """Images of the components for all labels, the paper's ngem and ours."""
    _all_labels(results, path, [name for name in _shown(spec) if name != "nll"])


def fig10(spec: Spec, results: Results, path: Path) -> None:
    """Images of the components for all labels, nll."""
    _all_labels(results, path, ["nll"])


def _all_labels(results: Results, path: Path, names: list[str]) -> None:
    with plotting.styled_figure(3 * len(names), 4, (11, 3.3 * len(names))) as (figure, axes):
        for block, name in enumerate(names):
            cells = axes[3 * block : 3 * block + 3].ravel()
            for label, ax in enumerate(cells):
                if label < 10:
                    _images(ax, results, name, label)
                    ax.set_title(f"{name}, label {label}", fontsize=8)
                else:
                    ax.axis("off")
        figure.savefig(path, dpi=150)


def _images(ax: Any, results: Results, name: str, label: int) -> None:
    run = next(run for run in results.select(objective=name) if "images" in run)
    images = np.array(run["images"][label]) / 255
    plotting.images_with_weights(ax, images, np.array(run["weights"][label]))


def objectives(spec: Spec, results: Results, path: Path) -> None:
    """Every method's difference to nll on every task."""
    tasks = spec.settings["tasks"]
    methods = [name for name in spec.settings["methods"] if name != BASE]
    compared = {name: [compare(results, task, name) for task in tasks] for name in methods}
    with plotting.styled_figure(1, 1, (8, 0.3 * len(tasks) + 1.2)) as (figure, axes):
        plotting.differences(
            axes[0, 0],
            tasks,
            {
                name: np.array([(np.nan, 0) if one is None else one[:2] for one in row])
                for name, row in compared.items()
            },
        )
        axes[0, 0].set(xlabel=f"test NLL minus that of {BASE}, in nat: left is better")
        figure.savefig(path, dpi=150)


def boosting(spec: Spec, results: Results, path: Path) -> None:
    """Every curvature's difference to "em" on every set, with K chosen by held-out rows."""
    names = list(spec.settings["datasets"])
    kinds = [kind for kind in spec.settings["curvatures"] if kind != "em"]
    with plotting.styled_figure(1, 1, (8, 0.3 * len(names) + 1.2)) as (figure, axes):
        shown = {
            kind: np.array([_against_em(results, name, kind) for name in names]) for kind in kinds
        }
        plotting.differences(axes[0, 0], names, shown)
        axes[0, 0].set(xlabel="test NLL minus that of em, in nat: left is better than em")
        figure.savefig(path, dpi=150)


def _against_em(results: Results, name: str, kind: str) -> tuple[float, float]:
    """Return the mean difference of test NLLs and its standard error; NaN without runs."""
    pairs = results.pairs({"curvature": kind}, dataset=name, curvature="em", components=CHOSEN)
    gains = [other["nll"] - em["nll"] for em, other in pairs]
    return (float(np.mean(gains)) if gains else np.nan), standard_error(gains)


FIGURES: dict[str, Callable[[Spec, Results, Path], None]] = {
    "boosting": boosting,
    "fig1": fig1,
    "fig2": fig2,
    "fig4": fig4,
    "fig5": fig5,
    "fig6": fig6,
    "fig7": fig7,
    "fig8": fig8,
    "fig9": fig9,
    "fig10": fig10,
    "objectives": objectives,
}
