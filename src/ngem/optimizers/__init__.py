"""Optimizers as optax gradient transformations: SOAP, K-FAC, and a registry by name."""

from optax import adam

from .kfac import KfacState, LayerStatistics, kfac, tapped_statistics
from .registry import (
    DEFAULT_LEARNING_RATES,
    DEFAULT_WEIGHT_DECAY,
    OPTIMIZERS,
    OptimizerSpec,
    get_optimizer,
    make_optimizer,
)
from .soap import SoapState, scale_by_soap, soap

__all__ = [
    "DEFAULT_LEARNING_RATES",
    "DEFAULT_WEIGHT_DECAY",
    "OPTIMIZERS",
    "KfacState",
    "LayerStatistics",
    "OptimizerSpec",
    "SoapState",
    "adam",
    "get_optimizer",
    "kfac",
    "make_optimizer",
    "scale_by_soap",
    "soap",
    "tapped_statistics",
]
