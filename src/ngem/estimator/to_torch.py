"""Trained networks of ours as a PyTorch module with the same predictions."""

import os
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _files, torch
from .._errors import check_choice
from ..ensemble import StackPredictor
from ..families import AbstractFamily
from ..nn import ACTIVATIONS, MLP, Bins, EncodedNetwork, Guard, SeparateNetworks, Squash
from .prediction import Model
from .preprocessing import Inputs, Scaling
from .tree_inputs import TreeInputs

_NAMES = {function: name for name, function in ACTIVATIONS.items()}


def to_torch(model: Model) -> torch.MixtureDensityNetwork | torch.MixtureStack:
    """Return trained networks with their units as a module in evaluation mode."""
    if isinstance(model.network, StackPredictor):
        return _stack(model, model.network)
    if isinstance(model.inputs, TreeInputs):
        raise ValueError(
            "only networks can become PyTorch modules and ONNX files, got boosted trees; distill "
            "them into one network first, model.distill(X).to_onnx(path), or fit kinds of networks "
            "only: DensityStack(['network', 'network with bins'])."
        )
    family, covariance = model.network.family.names
    if family != "gaussian":
        raise ValueError(
            "ngem.torch has Gaussian components only, got family="
            f"{model.network.family.name!r}; fit with family='gaussian'."
        )
    if covariance == "low-rank":
        raise ValueError(
            "ngem.torch has no components with covariance='low-rank'; fit with covariance='diag' "
            "or 'full' to convert a model."
        )
    members, guard = model.network.members, model.network.guard
    return torch.MixtureDensityNetwork(
        _features(model.inputs),
        _body(members.body),
        torch.RawToMixture(
            members.n_components, members.dim, covariance, members.family.scale_floor
        ),
        model.targets.location,
        model.targets.scale,
        None if guard is None else _guard(guard, members.family),
    ).eval()


def write_onnx(
    path: str | os.PathLike,
    model: Model,
    *,
    n_features: int,
    quantiles: Any,
    cdf: bool,
    dtype: str,
    notes: Mapping[str, Any],
) -> None:
    """Write trained networks with their units to one ONNX file.

    Arguments are those of `MDNRegressor.to_onnx`, and of `ngem.torch.export_onnx`.
    """
    check_choice("dtype", dtype, ("float64", "float32"))
    levels = np.atleast_1d(np.asarray(quantiles, np.float64))
    if levels.ndim > 1 or not np.all((levels > 0) & (levels < 1)):
        raise ValueError(
            f"quantiles must be probabilities between 0 and 1, both excluded, got {quantiles!r}; "
            "try quantiles=(0.05, 0.5, 0.95)."
        )
    module = to_torch(model)
    content = torch.export_onnx(
        module,
        n_features=n_features,
        levels=levels.tolist(),
        with_cdf=cdf,
        dtype=dtype,
        notes={**notes, "quantiles": levels.tolist()},
    )
    _files.replace(path, content)


def _features(inputs: Inputs) -> torch.Features:
    scaling, one_hot = inputs.scaling, inputs.one_hot
    return torch.Features(
        inputs.fill,
        inputs.flagged,
        scaling.location,
        scaling.scale,
        None if one_hot is None else (one_hot.source, one_hot.code, one_hot.last),
    )


def _stack(model: Model, network: StackPredictor) -> torch.MixtureStack:
    """Return the parts of a stack, each in its own units, as one module."""
    units, parts = model.targets, []
    for part, inputs in zip(network.parts, model.inputs.parts, strict=True):
        location, scale = (np.asarray(array, np.float64) for array in (part.location, part.scale))
        own = Scaling(units.location + units.scale * location, units.scale * scale)
        parts.append(to_torch(Model(part.predictor, inputs, own)))
    weights = np.exp(np.asarray(network.log_weights, np.float64))
    width = 1.0 if network.width is None else float(network.width)
    return torch.MixtureStack(parts, weights, width).eval()


def _guard(guard: Guard, family: AbstractFamily) -> torch.Guard:
    variances = jnp.concatenate([guard.noise[None], guard.widths])
    simple = jax.vmap(family.from_moments)(jnp.zeros_like(variances), variances)
    arrays = vars(guard) | {"scale": simple.scale}
    return torch.Guard({name: np.asarray(array) for name, array in arrays.items()})


def _encoder(encoder: Bins | Squash) -> torch.Bins | torch.Squash:
    if isinstance(encoder, Squash):
        return torch.Squash(encoder.limit)
    return torch.Bins(np.asarray(encoder.start), np.asarray(encoder.slope))


def _body(body: Any) -> Any:
    if isinstance(body, EncodedNetwork):
        return torch.Encoded(_encoder(body.encoder), _body(body.network))
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
