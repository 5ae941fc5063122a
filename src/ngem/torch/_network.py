"""A trained estimator as a module: from a user's features to mixtures in the user's units."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

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

#: Arrays of one layer: weight and bias, and those of a layer normalization if one follows.
Layer = Mapping[str, np.ndarray]


class Features(nn.Module):
    """Imputes missing values, adds their indicators and standardizes, in double precision."""

    fill: Tensor
    flagged: Tensor
    location: Tensor
    scale: Tensor

    def __init__(
        self, fill: np.ndarray, flagged: np.ndarray, location: np.ndarray, scale: np.ndarray
    ) -> None:
        super().__init__()
        for name, value in (("fill", fill), ("location", location), ("scale", scale)):
            self.register_buffer(name, torch.from_numpy(np.array(value, np.float64)))
        self.register_buffer("flagged", torch.from_numpy(np.array(flagged, np.int64)))

    def forward(self, x: Tensor) -> Tensor:
        """Return the inputs of the network, (rows, inputs)."""
        if x.dim() != 2 or x.shape[1] != len(self.fill):
            raise ValueError(
                f"x must have shape (rows, {len(self.fill)}), got {tuple(x.shape)}; for one row "
                "pass x.unsqueeze(0)."
            )
        x = x.to(self.fill.dtype)
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


class MixtureDensityNetwork(nn.Module):
    """A trained estimator as a module: features in, mixtures in the user's units out.

    Attributes:
        features: From the user's features to the inputs of the network.
        body: From inputs to raw outputs.
        mixture: From raw outputs to a mixture over standardized targets.
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
    ) -> None:
        super().__init__()
        self.features = features
        self.body = body
        self.mixture = mixture
        self.register_buffer("target_location", torch.from_numpy(np.array(location, np.float64)))
        self.register_buffer("target_scale", torch.from_numpy(np.array(scale, np.float64)))

    def forward(self, x: Tensor) -> MixtureParameters:
        """Return logits, means and scales of each row, in the dtype of x."""
        inputs = self.features(x).to(next(self.body.parameters()).dtype)
        logits, mean, scale = self.mixture(self.body(inputs))
        mean = self.target_location + self.target_scale * mean.to(self.target_scale.dtype)
        scale = self.mixture.family.rescale(scale.to(self.target_scale.dtype), self.target_scale)
        return MixtureParameters(*(part.to(x.dtype) for part in (logits, mean, scale)))

    def predict(self, x: Tensor) -> Tensor:
        """Return the conditional mean, (rows, dim)."""
        logits, mean, _ = self(x)
        return (torch.softmax(logits, -1).unsqueeze(-1) * mean).sum(-2)


def dense_network(layers: Sequence[Layer], activation: str, dropout: float) -> nn.Sequential:
    """Return a multi-layer perceptron with the given weights.

    Args:
        layers: "weight" and "bias" of each layer; "norm_weight" and "norm_bias" where a layer
            normalization precedes the activation.
        activation: "gelu", "relu", "silu" or "tanh".
        dropout: Fraction of hidden units to drop in training mode.
    """
    parts: list[nn.Module] = []
    for index, layer in enumerate(layers):
        parts.append(
            _with_arrays(nn.Linear(*layer["weight"].shape[::-1]), layer["weight"], layer["bias"])
        )
        if index == len(layers) - 1:
            break
        if "norm_weight" in layer:
            norm = nn.LayerNorm(len(layer["norm_weight"]))
            parts.append(_with_arrays(norm, layer["norm_weight"], layer["norm_bias"]))
        parts.append(_ACTIVATIONS[activation]())
        if dropout > 0:
            parts.append(nn.Dropout(dropout))
    return nn.Sequential(*parts)


def _with_arrays(module: nn.Module, weight: np.ndarray, bias: np.ndarray) -> nn.Module:
    module.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
    return module
