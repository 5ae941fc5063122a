"""The objectives for PyTorch, with the same values and gradients; importing it loads no JAX."""

from ._guard import Guard
from ._head import MixtureDensityHead, RawToMixture
from ._losses import OBJECTIVES, NGEMLoss, mixture_loss, ngem_loss, nll_loss
from ._mixture import MixtureParameters, cdf, crps, distribution, quantile, sample
from ._network import (
    Bins,
    Encoded,
    Features,
    MixtureDensityNetwork,
    MixtureStack,
    Parallel,
    Squash,
    dense_network,
)
from ._onnx import export_onnx
from ._schedule import PowerSchedule

__all__ = [
    "OBJECTIVES",
    "Bins",
    "Encoded",
    "Features",
    "Guard",
    "MixtureDensityHead",
    "MixtureDensityNetwork",
    "MixtureParameters",
    "MixtureStack",
    "NGEMLoss",
    "Parallel",
    "PowerSchedule",
    "RawToMixture",
    "Squash",
    "cdf",
    "crps",
    "dense_network",
    "distribution",
    "export_onnx",
    "mixture_loss",
    "ngem_loss",
    "nll_loss",
    "quantile",
    "sample",
]
