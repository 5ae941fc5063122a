"""Fig. 1: one Gaussian and a mixture with the same mean, in closed form: nothing is learned."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..mixture import gaussian_mixture
from .store import Unit, rounded


@dataclass(frozen=True)
class Settings:
    """The mixture and the grid of its curve.

    Attributes:
        weights: Weights of the components.
        means: Means of the components.
        scales: Standard deviations of the components.
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

    The Gaussian's negative log-likelihood is its own entropy, the lowest that one Gaussian can have
    here. The mixture's comes from quadrature.
    """
    mixture = gaussian_mixture(
        np.log(settings.weights),
        np.array(settings.means)[:, None],
        np.array(settings.scales)[:, None],
    )
    center, std = float(mixture.mean()[0]), float(mixture.variance()[0]) ** 0.5
    grid = np.linspace(center - 4 * std, center + 4 * std, settings.n_grid)
    gaussian = gaussian_mixture(np.zeros(1), np.full((1, 1), center), np.full((1, 1), std))
    curves = {
        name: np.exp(np.asarray(density.log_prob(grid[:, None])))
        for name, density in {"mixture": mixture, "gaussian": gaussian}.items()
    }
    log_density = np.log(np.maximum(curves["mixture"], 1e-300))
    return {
        "mean": rounded(center),
        "std": rounded(std),
        "grid": rounded(grid),
        **{name: rounded(curve) for name, curve in curves.items()},
        "nll_mixture": rounded(float(-np.trapezoid(curves["mixture"] * log_density, grid))),
        "nll_gaussian": rounded(0.5 + np.log(std * np.sqrt(2 * np.pi))),
        "density_at_mean": {
            name: rounded(float(np.interp(center, grid, c))) for name, c in curves.items()
        },
    }
