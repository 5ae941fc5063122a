"""Fig. 1: one Gaussian and a mixture that share a mean. Nothing is learned: closed forms only."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..mixture import gaussian_mixture
from .store import Unit, rounded


@dataclass(frozen=True)
class Settings:
    """The mixture, and how finely it is drawn.

    Attributes:
        weights: Of the components.
        means: Of the components.
        scales: Of the components.
        n_grid: Points of the curves.
    """

    weights: list[float]
    means: list[float]
    scales: list[float]
    n_grid: int


def units(settings: Settings) -> list[Unit]:
    """Return the one unit."""
    return [{"what": "densities"}]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return the densities of the mixture and of the Gaussian with its mean and variance.

    The Gaussian's is the least negative log-likelihood that one Gaussian can have here: its own
    entropy; the mixture's is found by quadrature.
    """
    mixture = gaussian_mixture(
        np.log(settings.weights),
        np.array(settings.means)[:, None],
        np.array(settings.scales)[:, None],
    )
    centre, spread = float(mixture.mean()[0]), float(mixture.variance()[0]) ** 0.5
    grid = np.linspace(centre - 4 * spread, centre + 4 * spread, settings.n_grid)
    gaussian = gaussian_mixture(np.zeros(1), np.full((1, 1), centre), np.full((1, 1), spread))
    curves = {
        name: np.exp(np.asarray(density.log_prob(grid[:, None])))
        for name, density in {"mixture": mixture, "gaussian": gaussian}.items()
    }
    log = np.log(np.maximum(curves["mixture"], 1e-300))
    return {
        "mean": rounded(centre),
        "std": rounded(spread),
        "grid": rounded(grid),
        **{name: rounded(curve) for name, curve in curves.items()},
        "nll_mixture": rounded(float(-np.trapezoid(curves["mixture"] * log, grid))),
        "nll_gaussian": rounded(0.5 + np.log(spread * np.sqrt(2 * np.pi))),
        "density_at_mean": {
            name: rounded(float(np.interp(centre, grid, c))) for name, c in curves.items()
        },
    }
