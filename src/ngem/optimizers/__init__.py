"""Second-order optimizers that optax does not have: SOAP and K-FAC, as gradient transformations."""

from .kfac import KfacState, LayerStatistics, kfac, tapped_statistics
from .registry import DEFAULT_LEARNING_RATES, DEFAULT_WEIGHT_DECAY, make_optimizer
from .soap import SoapState, scale_by_soap, soap

__all__ = [
    "DEFAULT_LEARNING_RATES",
    "DEFAULT_WEIGHT_DECAY",
    "KfacState",
    "LayerStatistics",
    "SoapState",
    "kfac",
    "make_optimizer",
    "scale_by_soap",
    "soap",
    "tapped_statistics",
]
