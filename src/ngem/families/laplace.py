"""The Laplace distribution with independent coordinates: a sharp peak and heavy tails."""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .independent import LocationScale
from .location_scale import AbstractLocationScale

# Scales closer than this ratio: their divided difference would lose too many digits.
_CLOSE = 0.1

# Gauss-Legendre nodes on (0, 1): exact to float64 for so short an interval.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclass(frozen=True)
class Laplace(AbstractLocationScale):
    """Density exp(-|z|) / (2 scale); variance 2 scale^2.

    Fisher information 1/scale^2 for the location and 1/scale^2 for the scale.
    """

    names: ClassVar[tuple[str, str]] = ("laplace", "diag")
    has_crps: ClassVar[bool] = True

    @property
    def unit_fisher(self) -> tuple[float, float]:
        return 1.0, 1.0

    @property
    def unit_variance(self) -> float:
        return 2.0

    def unit_log_prob(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return -jnp.abs(z) - math.log(2)

    def unit_cdf(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        tail = 0.5 * jnp.exp(-jnp.abs(z))
        return jnp.where(z < 0, tail, 1 - tail)

    def unit_log_cdf(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.where(z < 0, z - math.log(2), jnp.log1p(-0.5 * jnp.exp(-jnp.abs(z))))

    def unit_quantile(self, q: Float[Array, "..."]) -> Float[Array, "..."]:
        # Each tail by its own logarithm, so that both keep all digits.
        lower, upper = jnp.log(2 * jnp.minimum(q, 0.5)), -jnp.log(2 * jnp.minimum(1 - q, 0.5))
        return jnp.where(q < 0.5, lower, upper)

    def unit_sample(self, key: PRNGKeyArray, like: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return jax.random.laplace(key, like.shape, like.dtype)

    def mean_distance(self, params: LocationScale, y: Float[Array, ""]) -> Float[Array, ""]:
        """Return E|Y - y| = d + b exp(-d / b), with d the distance from y to the location."""
        distance, scale = jnp.abs(y - params.mean[0]), params.scale[0]
        return distance + scale * jnp.exp(-distance / scale)

    def mean_distance_between(
        self, params: LocationScale, other: LocationScale
    ) -> Float[Array, ""]:
        """Return E|Y - Y'| = d + (g(a) - g(b)) / (a^2 - b^2), with g(s) = s^3 exp(-d / s).

        Y - Y' has the density (a^2 L_a - b^2 L_b) / (a^2 - b^2), L_s that of Laplace(0, s).
        """
        # In units of the larger scale, so that cubes neither overflow nor underflow.
        unit = jnp.maximum(params.scale[0], other.scale[0])
        distance = jnp.abs(params.mean[0] - other.mean[0]) / unit
        a, b = params.scale[0] / unit, other.scale[0] / unit
        near = jnp.abs(a - b) < _CLOSE
        gap = jnp.where(near, 1.0, a - b)
        apart = (_cubic(distance, a) - _cubic(distance, b)) / gap
        ratio = jnp.where(near, _mean_slope(distance, a, b), apart)
        return unit * (distance + ratio / (a + b))


def _cubic(distance: Float[Array, ""], scale: Float[Array, ""]) -> Float[Array, ""]:
    return scale**3 * jnp.exp(-distance / scale)


def _mean_slope(
    distance: Float[Array, ""], a: Float[Array, ""], b: Float[Array, ""]
) -> Float[Array, ""]:
    """Return the mean of g'(s) = (3 s^2 + d s) exp(-d / s) between two scales, by quadrature."""
    total = jnp.zeros_like(distance)
    for node, weight in zip(0.5 * (1 + _NODES), 0.5 * _WEIGHTS, strict=True):
        s = b + float(node) * (a - b)
        total += float(weight) * (3 * s**2 + distance * s) * jnp.exp(-distance / s)
    return total
