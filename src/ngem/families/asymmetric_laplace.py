"""The asymmetric Laplace distribution: two exponentials around a peak, with a learned skew."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._types import Power
from .independent import in_coordinates
from .powers import power_of, power_of_pair
from .shaped import AbstractShaped, LocationScaleShape, ShapedInformation


@dataclass(frozen=True)
class AsymmetricLaplace(AbstractShaped):
    """Exponentials with means scale p below the location and scale (1 - p) above it.

    The shape is the skew, -logit(p); p is also the probability below the location. With q =
    p (1 - p) the density is exp(-|z| / p) or exp(-|z| / (1 - p)) over the scale. Fisher information
    1 / (q scale^2) for the location, 2 q for the skew, 1 / scale across them, and 1 / scale^2 for
    the scale, which is tied to neither.
    """

    names: ClassVar[tuple[str, str]] = ("asymmetric-laplace", "diag")
    shapes: ClassVar[tuple[float, float]] = (-6.0, 6.0)

    def information(self, shape: Float[Array, "..."]) -> ShapedInformation:
        below, above = _sides(shape)
        ones, product = jnp.ones_like(shape), below * above
        return ShapedInformation(1 / product, ones, 2 * product, ones)

    def fisher_solve(
        self,
        params: LocationScaleShape,
        grad: LocationScaleShape,
        power: Power,
        coordinates: str = "scale",
    ) -> LocationScaleShape:
        own, scale = self.information(params.shape), params.scale
        entries = own.location / scale**2, own.cross / scale, own.shape
        first, across, second = power_of_pair(*entries, -power)
        return LocationScaleShape(
            first * grad.mean + across * grad.shape,
            grad.scale * in_coordinates(power_of(scale, 2 * power), 1.0, coordinates),
            across * grad.mean + second * grad.shape,
        )

    def unit_moments(self, shape: Float[Array, "..."]) -> tuple[Array, Array]:
        below, above = _sides(shape)
        return above - below, below**2 + above**2

    def unit_log_prob(
        self, shape: Float[Array, "..."], z: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        below, above = _sides(shape)
        return -jnp.abs(z) / jnp.where(z < 0, below, above)

    def unit_log_tail(
        self, shape: Float[Array, "..."], z: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        sides, is_right = _sides(shape), z >= 0
        mean = jnp.where(is_right, sides[1], sides[0])
        outer = jnp.log(mean) - jnp.abs(z) / mean
        inner = jnp.log1p(-jnp.exp(jnp.where(is_above == is_right, -1.0, outer)))
        return jnp.where(is_above == is_right, outer, inner)

    def unit_quantile(
        self, shape: Float[Array, "..."], q: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        below, above = _sides(shape)
        left = below * jnp.log(jnp.minimum(q, below) / below)
        right = -above * jnp.log(jnp.minimum(1 - q, above) / above)
        return jnp.where(q < below, left, right)

    def landmarks(
        self, params: LocationScaleShape, at: Float[Array, " points"]
    ) -> Float[Array, " points"]:
        """Return points on both sides of the peak, in units of their exponentials."""
        below, above = _sides(params.shape)
        size = 2**0.5 * params.scale * jnp.where(at < 0, below, above)
        return params.mean + size * at

    def unit_sample(self, shape: Float[Array, " dim"], key: PRNGKeyArray) -> Float[Array, " dim"]:
        side_key, size_key = jax.random.split(key)
        below, above = _sides(shape)
        is_left = jax.random.bernoulli(side_key, below)
        size = jax.random.exponential(size_key, shape.shape, shape.dtype)
        return jnp.where(is_left, -below * size, above * size)


def _sides(shape: Float[Array, "..."]) -> tuple[Array, Array]:
    """Return the means of the two exponentials at scale 1, which are the probabilities too."""
    return jax.nn.sigmoid(-shape), jax.nn.sigmoid(shape)
