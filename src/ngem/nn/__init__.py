"""Networks whose output is a mixture."""

from .curvature import output_gradient, tapped
from .encoding import Bins, EncodedNetwork, Squash, fit_bins, no_bins, with_bins
from .head import (
    MixtureNetwork,
    apply,
    check_own_network,
    hidden_matrices,
    mixture_mlp,
    num_outputs,
)
from .networks import ACTIVATIONS, MLP, AbstractNetwork, SeparateNetworks
from .predictor import WIDTHS, AbstractPredictor, Guard, Predictor, average
from .start import cluster_mixture, initialize_head, k_means

__all__ = [
    "ACTIVATIONS",
    "MLP",
    "WIDTHS",
    "AbstractNetwork",
    "AbstractPredictor",
    "Bins",
    "EncodedNetwork",
    "Guard",
    "MixtureNetwork",
    "Predictor",
    "SeparateNetworks",
    "Squash",
    "apply",
    "average",
    "check_own_network",
    "cluster_mixture",
    "fit_bins",
    "hidden_matrices",
    "initialize_head",
    "k_means",
    "mixture_mlp",
    "no_bins",
    "num_outputs",
    "output_gradient",
    "tapped",
    "with_bins",
]
