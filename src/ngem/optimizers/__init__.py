"""Optimizers as gradient transformations: SOAP and K-FAC, which optax has not, and a lean Adam."""

from .adam import adam
from .kfac import KfacState, LayerStatistics, kfac, tapped_statistics
from .registry import DEFAULT_LEARNING_RATES, DEFAULT_WEIGHT_DECAY, make_optimizer
from .soap import SoapState, scale_by_soap, soap

__all__ = [
    "DEFAULT_LEARNING_RATES",
    "DEFAULT_WEIGHT_DECAY",
    "KfacState",
    "LayerStatistics",
    "SoapState",
    "adam",
    "kfac",
    "make_optimizer",
    "scale_by_soap",
    "soap",
    "tapped_statistics",
]
