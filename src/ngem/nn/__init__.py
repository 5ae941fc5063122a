"""Networks whose output is a mixture."""

from .networks import (
    ACTIVATIONS,
    MLP,
    MixtureNetwork,
    SeparateNetworks,
    cluster_mixture,
    hidden_matrices,
    initialise_head,
    k_means,
    mixture_mlp,
    output_gradient,
    tapped,
)

__all__ = [
    "ACTIVATIONS",
    "MLP",
    "MixtureNetwork",
    "SeparateNetworks",
    "cluster_mixture",
    "hidden_matrices",
    "initialise_head",
    "k_means",
    "mixture_mlp",
    "output_gradient",
    "tapped",
]
