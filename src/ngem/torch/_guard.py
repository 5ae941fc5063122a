"""Simple densities beside the networks, which take over far from the training rows."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from .._defaults import CLIP_MARGIN, HALF_TRUST
from ._families import family_of
from ._mixture import MixtureParameters


class Guard(nn.Module):
    """A linear model and wide densities, as those of a fitted estimator: `ngem.nn.Guard`.

    Its arrays are buffers: held-out rows have chosen them, and rows that train would undo that.

    Args:
        arrays: Array for each name below.

    Attributes:
        log_weights: Log weights of the networks, the linear model and each wide density.
        slope: Coefficients of the linear model, (dim, inputs).
        intercept: Its value at zero, (dim,).
        center: Mean of the wide densities, (dim,).
        scale: Scales of the linear model and of each wide density, as in a mixture.
        low: Smallest value of each input in the training rows.
        high: Largest value of each input in the training rows.
        unit: Standard deviation of each input there, 1 for a constant one.
        floor: Smallest mean that a component may have, (dim,).
        ceiling: Largest mean; standard deviations are at most its distance from the floor.
    """

    log_weights: Tensor
    slope: Tensor
    intercept: Tensor
    center: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor
    unit: Tensor
    floor: Tensor
    ceiling: Tensor

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        for name in Guard.__annotations__:
            value = torch.tensor(arrays[name], dtype=torch.get_default_dtype())
            self.register_buffer(name, value)

    def clip(self, x: Tensor) -> Tensor:
        """Return the inputs, smoothly kept within a margin of the range of training rows."""
        inside, margin = x.clamp(self.low, self.high), CLIP_MARGIN * self.unit
        return inside + margin * torch.tanh((x - inside) / margin)

    def log_weights_at(self, x: Tensor) -> Tensor:
        """Return the log weights of each row, which move to the first wide density outside."""
        excess = (x - x.clamp(self.low, self.high)).abs() / self.unit
        distance = torch.where(self.high > self.low, excess, 0.0).amax(-1, keepdim=True)
        trust = 1 / (1 + (distance / HALF_TRUST).square())
        weights = self.log_weights.exp()
        wide = weights[2] + (1 - trust) * (weights[0] + weights[1])
        rest = self.log_weights[3:].expand(x.shape[0], -1)
        return torch.cat([self.log_weights[:2] + trust.log(), wide.log(), rest], -1)

    def forward(self, mixture: MixtureParameters, x: Tensor) -> MixtureParameters:
        """Return the networks' mixture with bounded components and with the simple densities."""
        logits, mean, scale = mixture
        log_weights = self.log_weights_at(x)
        linear = self.clip(x) @ self.slope.mT + self.intercept
        mean = torch.cat([mean, linear.unsqueeze(1)], 1).clamp(self.floor, self.ceiling)
        wide = self.center.expand(x.shape[0], len(self.scale) - 1, -1)
        scale = family_of(mean, scale).bound_scale(scale, self.ceiling - self.floor)
        return MixtureParameters(
            torch.cat([logits + log_weights[:, :1], log_weights[:, 1:]], -1),
            torch.cat([mean, wide], 1),
            torch.cat([scale, self.scale.expand(x.shape[0], *self.scale.shape)], 1),
        )
