"""A trained estimator as a module: from a user's features to mixtures in the user's units."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from ._guard import Guard
from ._head import RawToMixture
from ._mixture import MixtureParameters

# Standardized features are clipped here, so that the outputs of the network are finite.
_LIMIT = 1e12

_ACTIVATIONS = {
    "gelu": lambda: nn.GELU(approximate="tanh"),  # as in JAX
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}

#: Arrays of one layer: weight and bias, and those of a layer normalization if one follows. All may
#: have a first axis of members.
Layer = Mapping[str, np.ndarray]


class Features(nn.Module):
    """Imputes missing values, adds their indicators and standardizes, in double precision.

    Args:
        fill: Value that replaces missing values, for each column.
        flagged: Columns with an indicator of missing values.
        location: Subtracted from each column.
        scale: Divides each column.
        one_hot: Where codes of categories become columns of 0 and 1: for each column above, the
            column of x it comes from, and the codes from and up to which it is 1, NaN if it is
            the number itself. None if there are no categories.
    """

    fill: Tensor
    flagged: Tensor
    location: Tensor
    scale: Tensor
    source: Tensor
    code: Tensor
    last: Tensor

    def __init__(
        self,
        fill: np.ndarray,
        flagged: np.ndarray,
        location: np.ndarray,
        scale: np.ndarray,
        one_hot: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    ) -> None:
        super().__init__()
        self.has_categories = one_hot is not None
        plain = np.full(len(fill), np.nan)
        source, code, last = one_hot or (np.arange(len(fill)), plain, plain)
        floats = {"fill": fill, "location": location, "scale": scale, "code": code, "last": last}
        for name, value in floats.items():
            self.register_buffer(name, torch.from_numpy(np.array(value, np.float64)))
        for name, value in {"flagged": flagged, "source": source}.items():
            self.register_buffer(name, torch.from_numpy(np.array(value, np.int64)))
        self.n_features = int(np.max(source)) + 1

    def forward(self, x: Tensor) -> Tensor:
        """Return the inputs of the network, (rows, inputs)."""
        if x.dim() != 2 or x.shape[1] != self.n_features:
            raise ValueError(
                f"x must have shape (rows, {self.n_features}), got {tuple(x.shape)}; for one row "
                "pass x.unsqueeze(0)."
            )
        x = x.to(self.fill.dtype)
        if self.has_categories:
            picked = x.index_select(1, self.source)
            inside = (picked >= self.code) & (picked <= self.last)
            x = torch.where(self.code.isnan(), picked, inside.to(x.dtype))
        missing = x.isnan()
        filled = torch.where(missing, self.fill, x)
        scaled = ((filled - self.location) / self.scale).clamp(-_LIMIT, _LIMIT)
        if len(self.flagged) == 0:
            return scaled
        return torch.cat([scaled, missing.index_select(1, self.flagged).to(scaled.dtype)], 1)


class Parallel(nn.ModuleList):
    """Several networks with the same inputs and concatenated outputs."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the concatenated outputs of all networks."""
        return torch.cat([network(x) for network in self], -1)


class Bins(nn.Module):
    """Cuts each feature into bins; each bin is an input that rises from 0 to 1 within it.

    Args:
        start: Where each bin starts, all bins of the first feature first; (bins,), or
            (members, bins) for several networks side by side.
        slope: One over the width of each bin, the same shape.
    """

    start: Tensor
    slope: Tensor

    def __init__(self, start: np.ndarray, slope: np.ndarray) -> None:
        super().__init__()
        for name, value in (("start", start), ("slope", slope)):
            self.register_buffer(name, torch.tensor(value, dtype=torch.get_default_dtype()))

    def forward(self, x: Tensor) -> Tensor:
        """Return the features followed by their bins, (rows, inputs) or (members, rows, inputs)."""
        per_feature = self.start.shape[-1] // x.shape[-1]
        repeated = x.repeat_interleave(per_feature, -1)
        filled = ((repeated - self.start.unsqueeze(-2)) * self.slope.unsqueeze(-2)).clamp(0, 1)
        return torch.cat([x.expand(*filled.shape[:-1], x.shape[-1]), filled], -1)


class Squash(nn.Module):
    """Puts features that are further than a limit from zero on a log scale."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, x: Tensor) -> Tensor:
        """Return the features: beyond the limit, the limit plus log(1 + excess)."""
        excess = (x.abs() - self.limit).clamp(min=0)
        return torch.where(excess > 0, x.sign() * (self.limit + excess.log1p()), x)


class Encoded(nn.Module):
    """A network that reads encoded features: in bins, or squashed."""

    def __init__(self, encoder: Bins | Squash, network: nn.Module) -> None:
        super().__init__()
        self.encoder, self.network = encoder, network

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of the network."""
        return self.network(self.encoder(x))


class Dense(nn.Module):
    """A linear layer, or one for each of several networks side by side.

    Args:
        weight: (outputs, inputs), or (members, outputs, inputs).
        bias: (outputs,), or (members, outputs).
    """

    def __init__(self, weight: np.ndarray, bias: np.ndarray) -> None:
        super().__init__()
        self.weight, self.bias = _parameter(weight), _parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of rows, (rows, outputs) or (members, rows, outputs)."""
        return x @ self.weight.mT + self.bias.unsqueeze(-2)

    def extra_repr(self) -> str:
        return f"weight={tuple(self.weight.shape)}"


class LayerNorm(nn.Module):
    """A layer normalization with its own weight and bias for each network.

    Args:
        weight: (units,), or (members, units).
        bias: The same shape.
    """

    def __init__(self, weight: np.ndarray, bias: np.ndarray) -> None:
        super().__init__()
        self.weight, self.bias = _parameter(weight), _parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalized units."""
        normalized = nn.functional.layer_norm(x, x.shape[-1:])
        return normalized * self.weight.unsqueeze(-2) + self.bias.unsqueeze(-2)

    def extra_repr(self) -> str:
        return f"weight={tuple(self.weight.shape)}"


class MixtureDensityNetwork(nn.Module):
    """A trained estimator as a module: features in, mixtures in the user's units out.

    The mixture is the average of those of all members, together with the guard's.

    Attributes:
        features: From the user's features to the inputs of the networks.
        body: From inputs to raw outputs of each member, (members, rows, raw).
        mixture: From raw outputs to a mixture over standardized targets.
        guard: Simple densities beside the networks, or None.
    """

    target_location: Tensor
    target_scale: Tensor

    def __init__(
        self,
        features: Features,
        body: nn.Module,
        mixture: RawToMixture,
        location: np.ndarray,
        scale: np.ndarray,
        guard: Guard | None = None,
    ) -> None:
        super().__init__()
        self.features = features
        self.body = body
        self.mixture = mixture
        self.guard = guard
        self.register_buffer("target_location", torch.from_numpy(np.array(location, np.float64)))
        self.register_buffer("target_scale", torch.from_numpy(np.array(scale, np.float64)))

    def forward(self, x: Tensor) -> MixtureParameters:
        """Return logits, means and scales of each row, in the dtype of x."""
        logits, mean, scale = self.standardized(x)
        mean = self.target_location + self.target_scale * mean.to(self.target_scale.dtype)
        scale = self.mixture.family.rescale(scale.to(self.target_scale.dtype), self.target_scale)
        return MixtureParameters(*(part.to(x.dtype) for part in (logits, mean, scale)))

    def standardized(self, x: Tensor) -> MixtureParameters:
        """Return the mixture over standardized targets of each row."""
        inputs = self.features(x).to(next(self.body.parameters()).dtype)
        if self.guard is None:
            return average(self.mixture(self.body(inputs)))
        networks = average(self.mixture(self.body(self.guard.clip(inputs))))
        return self.guard(networks, inputs)

    def predict(self, x: Tensor) -> Tensor:
        """Return the conditional mean, (rows, dim)."""
        return _mean(self(x))


class MixtureStack(nn.Module):
    """Several trained modules as one: the weighted average of their mixtures.

    Args:
        parts: Modules for the same features and targets.
        weights: The weight of each.
        width: Factor of the scales of all components.
    """

    log_weights: Tensor

    def __init__(
        self,
        parts: Sequence[MixtureDensityNetwork],
        weights: np.ndarray,
        width: float = 1.0,
    ) -> None:
        super().__init__()
        self.width = width
        self.parts = nn.ModuleList(parts)
        self.register_buffer("log_weights", torch.from_numpy(np.log(np.array(weights, np.float64))))
        self.target_location, self.target_scale = parts[0].target_location, parts[0].target_scale

    def forward(self, x: Tensor) -> MixtureParameters:
        """Return logits, means and scales of each row, in the dtype of x."""
        mixtures = [part(x) for part in self.parts]
        logits = [
            mixture.logits.log_softmax(-1) + weight.to(x.dtype)
            for mixture, weight in zip(mixtures, self.log_weights.unbind(), strict=True)
        ]
        means, scales = ([part[index] for part in mixtures] for index in (1, 2))
        scale = self.width * torch.cat(scales, 1)
        return MixtureParameters(torch.cat(logits, 1), torch.cat(means, 1), scale)

    def predict(self, x: Tensor) -> Tensor:
        """Return the conditional mean, (rows, dim)."""
        return _mean(self(x))


def average(members: MixtureParameters) -> MixtureParameters:
    """Return the average of mixtures (members, rows, ...) as one mixture for each row."""
    log_weights = members.logits.log_softmax(-1) - math.log(members.logits.shape[0])
    parts = (log_weights, members.mean, members.scale)
    return MixtureParameters(*(part.transpose(0, 1).flatten(1, 2) for part in parts))


def dense_network(layers: Sequence[Layer], activation: str, dropout: float) -> nn.Sequential:
    """Return a multi-layer perceptron with the given weights, or several side by side.

    Args:
        layers: "weight" and "bias" of each layer; "norm_weight" and "norm_bias" where a layer
            normalization precedes the activation. All may have a first axis of members, which
            the output then has too.
        activation: "gelu", "relu", "silu" or "tanh".
        dropout: Fraction of hidden units to drop in training mode.
    """
    parts: list[nn.Module] = []
    for index, layer in enumerate(layers):
        parts.append(Dense(layer["weight"], layer["bias"]))
        if index == len(layers) - 1:
            break
        if "norm_weight" in layer:
            parts.append(LayerNorm(layer["norm_weight"], layer["norm_bias"]))
        parts.append(_ACTIVATIONS[activation]())
        if dropout > 0:
            parts.append(nn.Dropout(dropout))
    return nn.Sequential(*parts)


def _mean(mixture: MixtureParameters) -> Tensor:
    return (torch.softmax(mixture.logits, -1).unsqueeze(-1) * mixture.mean).sum(-2)


def _parameter(array: np.ndarray) -> nn.Parameter:
    return nn.Parameter(torch.tensor(array, dtype=torch.get_default_dtype()))
