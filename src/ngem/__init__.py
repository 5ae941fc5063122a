"""Mixture density networks trained by natural gradient expectation maximization."""

import importlib
from typing import TYPE_CHECKING, Any

from . import _moved

__version__ = "0.1.0"

# Names are loaded on first use, so that importing ngem costs nothing but this file.
_HOMES = {
    "MDNRegressor": "estimator.regressor",
    "MixtureBoostingRegressor": "estimator.boosting_regressor",
    "ConformalRegressor": "estimator.conformal",
    "load": "estimator.loading",
    "nll_scorer": "estimator.scorers",
    "crps_scorer": "estimator.scorers",
    "energy_scorer": "estimator.scorers",
    "Mixture": "mixture",
    "gaussian_mixture": "mixture",
    "nll_loss": "objectives",
    "ngem_loss": "objectives",
    "get_objective": "objectives",
    "OBJECTIVES": "objectives",
    "FAMILIES": "families",
}

if TYPE_CHECKING:
    from .estimator.boosting_regressor import MixtureBoostingRegressor as MixtureBoostingRegressor
    from .estimator.conformal import ConformalRegressor as ConformalRegressor
    from .estimator.loading import load as load
    from .estimator.regressor import MDNRegressor as MDNRegressor
    from .estimator.scorers import crps_scorer as crps_scorer
    from .estimator.scorers import energy_scorer as energy_scorer
    from .estimator.scorers import nll_scorer as nll_scorer
    from .families import FAMILIES as FAMILIES
    from .mixture import Mixture as Mixture
    from .mixture import gaussian_mixture as gaussian_mixture
    from .objectives import OBJECTIVES as OBJECTIVES
    from .objectives import get_objective as get_objective
    from .objectives import ngem_loss as ngem_loss
    from .objectives import nll_loss as nll_loss

__all__ = [
    "FAMILIES",
    "OBJECTIVES",
    "ConformalRegressor",
    "MDNRegressor",
    "Mixture",
    "MixtureBoostingRegressor",
    "__version__",
    "crps_scorer",
    "energy_scorer",
    "gaussian_mixture",
    "get_objective",
    "load",
    "ngem_loss",
    "nll_loss",
    "nll_scorer",
]


_moved.install()


def __getattr__(name: str) -> Any:
    if name in _moved.MOVED:
        return importlib.import_module(f"ngem.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'ngem' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ngem.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
