"""A trained network of ours as a PyTorch module with the same predictions."""

from typing import Any

import numpy as np

from .. import torch
from ..nn import ACTIVATIONS, MLP, SeparateNetworks
from .prediction import Model

_NAMES = {function: name for name, function in ACTIVATIONS.items()}


def to_torch(model: Model) -> torch.MixtureDensityNetwork:
    """Return a trained network with its units as a module in evaluation mode."""
    network = model.network
    family, covariance = network.family.names
    if family != "gaussian":
        raise ValueError(
            f"ngem.torch has Gaussian components only, got family={family!r}; fit with "
            "family='gaussian'."
        )
    scaling = model.inputs.scaling
    return torch.MixtureDensityNetwork(
        torch.Features(model.inputs.fill, model.inputs.flagged, scaling.location, scaling.scale),
        _body(network.body),
        torch.RawToMixture(
            network.n_components, network.dim, covariance, network.family.scale_floor
        ),
        model.targets.location,
        model.targets.scale,
    ).eval()


def _body(body: Any) -> Any:
    if isinstance(body, SeparateNetworks):
        return torch.Parallel([_body(body.weights), _body(body.components)])
    if not isinstance(body, MLP):
        raise ValueError(
            "only our own networks can become PyTorch modules, got a network of type "
            f"{type(body).__name__}; fit with network=None."
        )
    layers = []
    for index, layer in enumerate(body.layers):
        arrays = {"weight": layer.weight, "bias": layer.bias}
        if index < len(body.norms):
            norm = body.norms[index]
            arrays |= {"norm_weight": norm.weight, "norm_bias": norm.bias}
        layers.append({name: np.asarray(array) for name, array in arrays.items()})
    return torch.dense_network(layers, _NAMES[body.activation], body.dropout)
