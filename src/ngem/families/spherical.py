"""The Gaussian with one scale for all coordinates."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Power
from .diagonal import AbstractDiagonalGaussian
from .independent import LocationScale
from .powers import power_of


@dataclass(frozen=True)
class SphericalGaussian(AbstractDiagonalGaussian):
    """N(mean, scale^2 I), with one raw output for the scale.

    Its parameters are those of independent coordinates, with equal scales. So units of their own
    for each target are no exception: scales are then equal in units of the targets that a network
    learns. The Fisher information of the one scale is dim 2/scale^2.
    """

    names: ClassVar[tuple[str, str]] = ("gaussian", "spherical")

    def num_raw(self, dim: int) -> int:
        return dim + 1

    def constrain(self, raw: Float[Array, "raw *rows"], dim: int) -> LocationScale:
        mean, raw_scale = jax.lax.split(raw, (dim, 1))
        return LocationScale(mean, jnp.broadcast_to(self.positive(raw_scale), mean.shape))

    def unconstrain(self, params: LocationScale) -> Float[Array, " raw"]:
        """Return the raw outputs; of different scales, the one with their mean variance."""
        # Squares in units of the largest do not overflow.
        largest = jnp.max(params.scale)
        scale = largest * jnp.sqrt(jnp.mean((params.scale / largest) ** 2))
        return jnp.concatenate([params.mean, self.raw_positive(scale)[None]])

    def fisher_solve(
        self, params: LocationScale, grad: LocationScale, power: Power, coordinates: str = "scale"
    ) -> LocationScale:
        """Return F^-power grad.

        The gradient of the one scale is the sum over coordinates, which the chain rule takes. So
        each of them is multiplied by the inverse information of that scale.
        """
        return self._shared(super().fisher_solve(params, grad, power, coordinates), power, axis=0)

    def fisher_solve_each(
        self, params: LocationScale, grad: LocationScale, power: Power, coordinates: str
    ) -> LocationScale:
        solved = super().fisher_solve(params, grad, power, coordinates)
        return self._shared(solved, power, axis=1)

    def _shared(self, solved: LocationScale, power: Power, axis: int) -> LocationScale:
        dim = jnp.asarray(solved.scale.shape[axis], solved.scale.dtype)
        return solved._replace(scale=solved.scale * power_of(dim, -power))

    def raw_fisher_diagonal(self, params: LocationScale) -> Float[Array, "raw *rows"]:
        each = super().raw_fisher_diagonal(params)
        for_mean, for_scale = jnp.split(each, 2)
        return jnp.concatenate([for_mean, jnp.sum(for_scale, axis=0, keepdims=True)])
