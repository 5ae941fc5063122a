"""Networks whose output is a mixture."""

from .curvature import output_gradient, tapped
from .head import MixtureNetwork, apply, check_own_network, hidden_matrices, mixture_mlp
from .networks import ACTIVATIONS, MLP, AbstractNetwork, SeparateNetworks
from .predictor import WIDTHS, AbstractPredictor, Guard, Predictor, average
from .start import cluster_mixture, initialize_head, k_means

__all__ = [
    "ACTIVATIONS",
    "MLP",
    "WIDTHS",
    "AbstractNetwork",
    "AbstractPredictor",
    "Guard",
    "MixtureNetwork",
    "Predictor",
    "SeparateNetworks",
    "apply",
    "average",
    "check_own_network",
    "cluster_mixture",
    "hidden_matrices",
    "initialize_head",
    "k_means",
    "mixture_mlp",
    "output_gradient",
    "tapped",
]
