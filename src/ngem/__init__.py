"""Mixture density networks trained by natural gradient expectation maximization."""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# Names are loaded on first use, so that importing ngem costs nothing but this file.
_HOMES = {
    "MDNRegressor": "sklearn",
    "ConformalRegressor": "conformal",
    "nll_scorer": "scorers",
    "crps_scorer": "scorers",
    "energy_scorer": "scorers",
    "Mixture": "mixture",
    "gaussian_mixture": "mixture",
    "nll_loss": "objectives",
    "ngem_loss": "objectives",
    "get_objective": "objectives",
    "OBJECTIVES": "objectives",
    "FAMILIES": "families",
}

if TYPE_CHECKING:
    from .conformal import ConformalRegressor as ConformalRegressor
    from .families import FAMILIES as FAMILIES
    from .mixture import Mixture as Mixture
    from .mixture import gaussian_mixture as gaussian_mixture
    from .objectives import OBJECTIVES as OBJECTIVES
    from .objectives import get_objective as get_objective
    from .objectives import ngem_loss as ngem_loss
    from .objectives import nll_loss as nll_loss
    from .scorers import crps_scorer as crps_scorer
    from .scorers import energy_scorer as energy_scorer
    from .scorers import nll_scorer as nll_scorer
    from .sklearn import MDNRegressor as MDNRegressor

__all__ = [
    "FAMILIES",
    "OBJECTIVES",
    "ConformalRegressor",
    "MDNRegressor",
    "Mixture",
    "__version__",
    "crps_scorer",
    "energy_scorer",
    "gaussian_mixture",
    "get_objective",
    "ngem_loss",
    "nll_loss",
    "nll_scorer",
]


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'ngem' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ngem.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
