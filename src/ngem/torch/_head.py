"""The last layer of a mixture density network, and what its raw outputs mean."""

import torch
from torch import Tensor, nn

from .. import _defaults
from . import _checks
from ._mixture import MixtureParameters

# Far outside the data a network extrapolates without limit. Up to exp(40) the square of a scale is
# still finite in single precision, so a prediction there is wide rather than NaN.
_LARGEST = 40.0

COVARIANCES = ("diag", "full")


class RawToMixture(nn.Module):
    """From raw outputs to mixtures: logits first, then mean and scale of each component.

    The order is that of our JAX networks, so that weights can be moved from one to the other.

    Args:
        n_components: Number of components.
        dim: Number of target columns.
        covariance: "diag" for standard deviations, "full" for lower Cholesky factors.
        scale_floor: The smallest scale that can be expressed.
    """

    place: Tensor

    def __init__(
        self,
        n_components: int,
        dim: int,
        covariance: str = "diag",
        scale_floor: float = _defaults.SCALE_FLOOR,
    ):
        super().__init__()
        self.n_components = n_components
        self.dim = dim
        self.covariance = _checks.check_choice("covariance", covariance, COVARIANCES)
        self.scale_floor = scale_floor
        # Where in (diagonal, below, zero) each entry of a Cholesky factor is found.
        n_below = dim * (dim - 1) // 2
        place = torch.full((dim, dim), dim + n_below)
        place[tuple(torch.tril_indices(dim, dim, -1))] = dim + torch.arange(n_below)
        place.fill_diagonal_(0).add_(torch.diag(torch.arange(dim)))
        self.register_buffer("place", place.flatten(), persistent=False)

    @property
    def num_raw(self) -> int:
        """How many raw outputs describe a mixture."""
        below = self.dim * (self.dim - 1) // 2 if self.covariance == "full" else 0
        return self.n_components * (1 + 2 * self.dim + below)

    def forward(self, raw: Tensor) -> MixtureParameters:
        """Return the mixtures that raw outputs stand for."""
        if raw.shape[-1] != self.num_raw:
            raise ValueError(
                f"raw must have shape (..., {self.num_raw}) for {self.n_components} components "
                f"over {self.dim} target columns, got {tuple(raw.shape)}; size the last layer by "
                "num_raw."
            )
        logits, rest = raw[..., : self.n_components], raw[..., self.n_components :]
        rest = rest.unflatten(-1, (self.n_components, -1))
        mean, spread = rest[..., : self.dim], rest[..., self.dim : 2 * self.dim]
        # Under autocast what follows would be rounded to three digits.
        spread = spread.float() if spread.dtype in (torch.bfloat16, torch.float16) else spread
        scale = spread.clamp(max=_LARGEST).exp() + self.scale_floor
        if self.covariance == "diag":
            return MixtureParameters(logits, mean, scale)
        below = rest[..., 2 * self.dim :].to(scale.dtype)
        entries = torch.cat([scale, below, torch.zeros_like(scale[..., :1])], -1)
        factor = entries.index_select(-1, self.place).unflatten(-1, (self.dim, self.dim))
        return MixtureParameters(logits, mean, factor)

    def extra_repr(self) -> str:
        return (
            f"n_components={self.n_components}, dim={self.dim}, covariance={self.covariance!r}, "
            f"scale_floor={self.scale_floor}"
        )


class MixtureDensityHead(nn.Module):
    """A linear layer from features to a mixture's logits, means and scales.

    Args:
        in_features: Number of features.
        n_components: Number of components.
        dim: Number of target columns.
        covariance: "diag" for standard deviations, "full" for lower Cholesky factors.
        scale_floor: The smallest scale that can be expressed.

    >>> head = MixtureDensityHead(64, n_components=5, dim=2)
    >>> logits, mean, scale = head(torch.zeros(8, 64))
    >>> logits.shape, mean.shape, scale.shape
    (torch.Size([8, 5]), torch.Size([8, 5, 2]), torch.Size([8, 5, 2]))
    """

    def __init__(
        self,
        in_features: int,
        n_components: int,
        dim: int,
        covariance: str = "diag",
        scale_floor: float = _defaults.SCALE_FLOOR,
    ):
        super().__init__()
        self.mixture = RawToMixture(n_components, dim, covariance, scale_floor)
        self.linear = nn.Linear(in_features, self.mixture.num_raw)

    def forward(self, features: Tensor) -> MixtureParameters:
        """Return the mixture of each row of features."""
        return self.mixture(self.linear(features))
