"""Trained networks of ours as a PyTorch module with the same predictions."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import torch
from ..families import AbstractFamily
from ..nn import ACTIVATIONS, MLP, EncodedNetwork, Guard, SeparateNetworks
from .prediction import Model

_NAMES = {function: name for name, function in ACTIVATIONS.items()}


def to_torch(model: Model) -> torch.MixtureDensityNetwork:
    """Return trained networks with their units as a module in evaluation mode."""
    members, guard = model.network.members, model.network.guard
    family, covariance = members.family.names
    if family != "gaussian":
        raise ValueError(
            f"ngem.torch has Gaussian components only, got family={family!r}; fit with "
            "family='gaussian'."
        )
    scaling = model.inputs.scaling
    return torch.MixtureDensityNetwork(
        torch.Features(model.inputs.fill, model.inputs.flagged, scaling.location, scaling.scale),
        _body(members.body),
        torch.RawToMixture(
            members.n_components, members.dim, covariance, members.family.scale_floor
        ),
        model.targets.location,
        model.targets.scale,
        None if guard is None else _guard(guard, members.family),
    ).eval()


def _guard(guard: Guard, family: AbstractFamily) -> torch.Guard:
    variances = jnp.concatenate([guard.noise[None], guard.widths])
    simple = jax.vmap(family.from_moments)(jnp.zeros_like(variances), variances)
    arrays = vars(guard) | {"scale": simple.scale}
    return torch.Guard({name: np.asarray(array) for name, array in arrays.items()})


def _body(body: Any) -> Any:
    if isinstance(body, EncodedNetwork):
        start, slope = map(np.asarray, (body.bins.start, body.bins.slope))
        return torch.Encoded(torch.Bins(start, slope), _body(body.network))
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
