"""The last layer of a mixture density network, from features to a mixture."""

import torch
from torch import Tensor, nn

from .. import _defaults
from . import _checks
from ._families import COVARIANCES, AbstractGaussian
from ._mixture import MixtureParameters

# Far outside the data a network extrapolates without limit. Up to exp(40) the square of a scale is
# finite in single precision, so a prediction there is wide rather than NaN.
_LARGEST = 40.0

#: Names of covariances, and the shape that scales have then.
_SCALES = {"diag": "diag", "full": "full", "spherical": "diag", "tied": "full"}


class RawToMixture(nn.Module):
    """A layer without weights, from raw outputs to mixtures.

    Raw outputs are the logits, then for each component its mean and its scale. The order is that of
    the JAX networks, so weights can be copied from one to the other.

    Args:
        n_components: Number of components.
        dim: Number of target columns.
        covariance: "diag" for standard deviations, "full" for lower Cholesky factors; "spherical"
            for one standard deviation in all columns, "tied" for one factor of all components.
        scale_floor: The smallest scale that can be expressed.
    """

    index: Tensor

    def __init__(
        self,
        n_components: int,
        dim: int,
        covariance: str = "diag",
        scale_floor: float = _defaults.SCALE_FLOOR,
    ) -> None:
        super().__init__()
        self.n_components = n_components
        self.dim = dim
        self.covariance = _checks.check_choice("covariance", covariance, _SCALES)
        self.scale_floor = scale_floor
        self.register_buffer("index", self.family.entry_index(dim), persistent=False)

    @property
    def family(self) -> AbstractGaussian:
        """The distribution of the components."""
        return COVARIANCES[_SCALES[self.covariance]]

    @property
    def num_raw(self) -> int:
        """The number of raw outputs that describe a mixture."""
        count, n_scale = self.n_components, self.family.num_raw(self.dim)
        if self.covariance == "tied":
            return count * (1 + self.dim) + n_scale
        return count * (1 + self.dim + (1 if self.covariance == "spherical" else n_scale))

    def forward(self, raw: Tensor) -> MixtureParameters:
        """Return the mixture that each row of raw outputs describes."""
        if raw.shape[-1] != self.num_raw:
            raise ValueError(
                f"raw must have shape (..., {self.num_raw}) for {self.n_components} components "
                f"over {self.dim} target columns, got {tuple(raw.shape)}; size the last layer by "
                "num_raw."
            )
        logits, rest = raw[..., : self.n_components], raw[..., self.n_components :]
        rest = self._each(rest)
        mean, log_scale = rest[..., : self.dim], rest[..., self.dim : 2 * self.dim]
        # Autocast would round the scale to three digits.
        if log_scale.dtype in (torch.bfloat16, torch.float16):
            log_scale = log_scale.float()
        positive = log_scale.clamp(max=_LARGEST).exp() + self.scale_floor
        scale = self.family.assemble(positive, rest[..., 2 * self.dim :], self.index)
        return MixtureParameters(logits, mean, scale)

    def _each(self, rest: Tensor) -> Tensor:
        """Return the raw outputs of each component, those that are shared repeated."""
        count, dim = self.n_components, self.dim
        if self.covariance == "tied":
            own = rest[..., : count * dim].unflatten(-1, (count, dim))
            shared = rest[..., count * dim :].unsqueeze(-2)
            return torch.cat([own, shared.expand(*own.shape[:-1], -1)], -1)
        rest = rest.unflatten(-1, (count, -1))
        if self.covariance == "spherical":
            return torch.cat([rest[..., :dim], rest[..., dim:].expand(*rest.shape[:-1], dim)], -1)
        return rest

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
        covariance: "diag", "full", "spherical" or "tied", as for `RawToMixture`.
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
    ) -> None:
        super().__init__()
        self.mixture = RawToMixture(n_components, dim, covariance, scale_floor)
        self.linear = nn.Linear(in_features, self.mixture.num_raw)

    def forward(self, features: Tensor) -> MixtureParameters:
        """Return the mixture of each row of features."""
        return self.mixture(self.linear(features))
