"""The Gaussian with independent coordinates, the paper's component."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .base import AbstractLocationScale

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def gaussian_mean_distance(
    offset: Float[Array, "..."], scale: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Return E|Y| for Y ~ N(offset, scale^2): d (2 Phi(d/s) - 1) + 2 s phi(d/s)."""
    z = offset / scale
    density = jnp.exp(-0.5 * z**2 - _LOG_SQRT_2PI)
    return offset * jax.scipy.special.erf(z / math.sqrt(2)) + 2 * scale * density


@dataclass(frozen=True)
class DiagonalGaussian(AbstractLocationScale):
    """N(mean, diag(scale^2)); Fisher information 1/scale^2 and 2/scale^2, equation (21)."""

    @property
    def unit_fisher(self) -> tuple[float, float]:
        return 1.0, 2.0

    @property
    def unit_variance(self) -> float:
        return 1.0

    def unit_log_prob(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return -0.5 * z**2 - _LOG_SQRT_2PI

    def unit_cdf(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jax.scipy.special.ndtr(z)

    def unit_quantile(self, q: Float[Array, "..."]) -> Float[Array, "..."]:
        return jax.scipy.special.ndtri(q)

    def unit_sample(self, key: PRNGKeyArray, like: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return jax.random.normal(key, like.shape, like.dtype)

    def mean_distance(
        self, offset: Float[Array, "..."], scale: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        return gaussian_mean_distance(offset, scale)
