"""The logistic distribution with independent coordinates: heavier tails than the Gaussian."""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from .location_scale import AbstractLocationScale


@dataclass(frozen=True)
class Logistic(AbstractLocationScale):
    """Density sigmoid(z) sigmoid(-z) / scale; variance pi^2/3 scale^2.

    Fisher information 1/(3 scale^2) for the location and (3 + pi^2)/(9 scale^2) for the scale.
    """

    names: ClassVar[tuple[str, str]] = ("logistic", "diag")

    @property
    def unit_fisher(self) -> tuple[float, float]:
        return 1 / 3, (3 + math.pi**2) / 9

    @property
    def unit_variance(self) -> float:
        return math.pi**2 / 3

    def unit_log_prob(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        # One logarithm in place of two. Nothing cancels: for large z this is z - 2 z.
        return z - 2 * jax.nn.softplus(z)

    def unit_cdf(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jax.nn.sigmoid(z)

    def unit_log_cdf(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jax.nn.log_sigmoid(z)

    def unit_quantile(self, q: Float[Array, "..."]) -> Float[Array, "..."]:
        return jax.scipy.special.logit(q)

    def unit_sample(self, key: PRNGKeyArray, like: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return jax.random.logistic(key, like.shape, like.dtype)
