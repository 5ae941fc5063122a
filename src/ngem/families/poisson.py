"""The Poisson distribution: counts whose variance is their mean."""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .counts import AbstractOneParameter, Location
from .special import exp_excess, stirling_rest


def poisson_log_prob(location: Float[Array, "..."], y: Float[Array, "..."]) -> Array:
    """Return the log probability of counts with mean exp(location).

    -y (exp(d) - 1 - d) - log(2 pi y) / 2 - rest(y) with d = location - log(y): the factorial by
    Stirling's formula and its rest, so that large counts keep their digits.
    """
    at = jnp.where(y > 0, y, 1.0)
    some = -at * exp_excess(location - jnp.log(at)) - 0.5 * jnp.log(2 * math.pi * at)
    return jnp.where(y > 0, some - stirling_rest(at), -jnp.exp(location))


def poisson_tail(
    location: Float[Array, "..."], y: Float[Array, "..."], is_above: Bool[Array, "..."]
) -> Float[Array, "..."]:
    """Return P(Y > y) where `is_above`, else P(Y <= y)."""
    mean, after = jnp.broadcast_arrays(jnp.exp(location), y + 1)
    above = jax.scipy.special.gammainc(after, mean)
    return jnp.where(is_above, above, jax.scipy.special.gammaincc(after, mean))


@dataclass(frozen=True)
class Poisson(AbstractOneParameter):
    """Poisson counts: the location is the logarithm of the mean.

    Fisher information of the location: the mean.
    """

    names: ClassVar[tuple[str, str]] = ("poisson", "diag")

    def information(self, params: Location) -> Float[Array, "..."]:
        return jnp.exp(params.mean)

    def each_log_prob(self, params: Location, y: Float[Array, "..."]) -> Float[Array, "..."]:
        return poisson_log_prob(params.mean, y)

    def each_tail(
        self, params: Location, y: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        return poisson_tail(params.mean, y, is_above)

    def sample(self, params: Location, key: PRNGKeyArray) -> Float[Array, " dim"]:
        # Draws are 32-bit integers.
        mean = jnp.minimum(jnp.exp(params.mean), 2e9)
        return jax.random.poisson(key, mean).astype(mean.dtype)

    def mean(self, params: Location) -> Float[Array, "dim *rows"]:
        return jnp.exp(params.mean)

    def variance(self, params: Location) -> Float[Array, "dim *rows"]:
        return jnp.exp(params.mean)

    def from_moments(self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]) -> Location:
        """Return parameters with this mean; the variance is then the mean."""
        return Location(jnp.log(self.possible_mean(mean, variance)))

    def bound(
        self, params: Location, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> Location:
        least, most = (jnp.log(jnp.maximum(end, 1e-12)) for end in (low, high))
        return Location(jnp.clip(params.mean, least, most))
