"""The negative binomial distribution: counts whose variance exceeds their mean."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .counts import LARGEST_LOCATION, AbstractCount
from .independent import AbstractTwoParameters, LocationScale
from .poisson import poisson_tail
from .special import stirling_rest

#: Nodes of Gauss and Legendre on (0, 1) for the Fisher information of the scale.
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_NODES, _WEIGHTS = 0.5 * (1 + _POINTS), 0.5 * _WEIGHTS

#: Logarithm of what the rest of that integral is below.
_NEGLIGIBLE = 22.0

#: Smallest information, whose inverse is finite in single precision.
_LEAST = 1e-25

#: Variance over mean, minus one, below which tails are those of a Poisson distribution.
_POISSON = 1e-4


@dataclass(frozen=True)
class NegativeBinomial(AbstractCount, AbstractTwoParameters):
    """Counts with mean m = exp(location) and variance m + scale^2 m^2.

    A Poisson distribution whose rate is a gamma variable: the scale is the coefficient of variation
    of the rate. Fisher information m / (1 + scale^2 m) for the location and, without a cross term,
    that of `_scale_information` for the scale, which is an integral. Tails have no derivative in
    the scale, so that counts must be known: there is no censoring.
    """

    names: ClassVar[tuple[str, str]] = ("negative-binomial", "diag")

    def constrain(self, raw: Float[Array, "raw *rows"], dim: int) -> LocationScale:
        location, raw_scale = jax.lax.split(raw, (dim, dim))
        bounded = jnp.clip(location, -LARGEST_LOCATION, LARGEST_LOCATION)
        # Scales beyond exp(9) give all but 1e-7 of the probability to zero.
        return LocationScale(bounded, self.positive(jnp.minimum(raw_scale, 9.0)))

    def information(self, params: LocationScale) -> tuple[Any, Any]:
        squared = params.scale**2
        excess = squared * jnp.exp(params.mean)
        for_scale = _scale_information(1 / squared, excess)
        return jnp.maximum(excess / (1 + excess), _LEAST), jnp.maximum(for_scale, _LEAST)

    def each_log_prob(self, params: LocationScale, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the log probability, by Stirling's formula and its rest.

        With r = 1 / scale^2, w = y / (r + y) and d = location - log(y), it is
        -(r + y) (log(1 + w (exp(d) - 1)) - w d) minus terms without the mean.
        """
        r = params.scale**-2
        at = jnp.where(y > 0, y, 1.0)
        fraction, offset = at / (r + at), params.mean - jnp.log(at)
        gap = jnp.log1p(fraction * jnp.expm1(offset)) - fraction * offset
        constant = -0.5 * (jnp.log1p(at / r) + jnp.log(2 * math.pi * at))
        rests = stirling_rest(r + at) - stirling_rest(r) - stirling_rest(at)
        none = -r * jnp.log1p(jnp.exp(params.mean) / r)
        return jnp.where(y > 0, constant + rests - (r + at) * gap, none)

    def each_tail(
        self, params: LocationScale, y: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        location, scale, y = jnp.broadcast_arrays(params.mean, params.scale, y)
        location, scale = jax.lax.stop_gradient((location, scale))
        excess = scale**2 * jnp.exp(location)
        is_poisson = (excess < _POISSON) | (scale < 1e-3)
        r = jnp.where(is_poisson, 1.0, scale) ** -2
        below = jax.scipy.special.betainc(r, y + 1, 1 / (1 + excess))
        above = jax.scipy.special.betainc(y + 1, r, excess / (1 + excess))
        limit = poisson_tail(location, y, is_above)
        return jnp.where(is_poisson, limit, jnp.where(is_above, above, below))

    def log_observed(
        self,
        params: LocationScale,
        lower: Float[Array, "dim *rows"],
        upper: Float[Array, "dim *rows"],
    ) -> Float[Array, "*rows"]:
        raise NotImplementedError(
            "counts of family 'negative-binomial' must be known exactly, got intervals; try "
            "family='poisson', which takes censored counts, or no resolution."
        )

    def sample(self, params: LocationScale, key: PRNGKeyArray) -> Float[Array, " dim"]:
        rate_key, count_key = jax.random.split(key)
        r = params.scale**-2
        log_rate = params.mean + jax.random.loggamma(rate_key, r, dtype=r.dtype) - jnp.log(r)
        # Draws are 32-bit integers.
        rate = jnp.exp(jnp.clip(log_rate, -80.0, math.log(2e9)))
        return jax.random.poisson(count_key, rate).astype(rate.dtype)

    def mean(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return jnp.exp(params.mean)

    def variance(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        mean = jnp.exp(params.mean)
        return mean + (params.scale * mean) ** 2

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> LocationScale:
        mean = self.possible_mean(mean, variance)
        return LocationScale(jnp.log(mean), self._scale(mean, variance))

    def bound(
        self, params: LocationScale, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> LocationScale:
        least, most = (jnp.log(jnp.maximum(end, 1e-12)) for end in (low, high))
        location = jnp.clip(params.mean, least, most)
        largest = self._scale(jnp.exp(location), (high - low) ** 2)
        return LocationScale(location, jnp.minimum(params.scale, largest))

    def _scale(self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]) -> Array:
        """Return the scale with this variance; a small one where it is below the mean."""
        excess = jnp.maximum(variance - mean, 1e-3 * mean) / mean**2
        return jnp.clip(jnp.sqrt(excess), 2 * self.scale_floor + 1e-3, 1e3)


def _scale_information(r: Float[Array, "..."], c: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the Fisher information of the scale, times scale^2, with c = mean / r.

    Four times that of log(r), which is the sum over j >= 1 of P(Y > j) r j / ((r + j)^2 (r + j -
    1)). The sum is the integral over y from 0 to 1 of r y^r (rho - log(1 + rho)) / (1 - y)^2, with
    rho = c (1 - y) / (1 + c y). All of it is positive, so that no digits cancel. The variable here
    is t = -log(y).
    """
    reach = jnp.minimum(_NEGLIGIBLE / r, jnp.log1p(c)) + _NEGLIGIBLE / (1 + r)
    nodes, weights = (jnp.asarray(part, reach.dtype) for part in (_NODES, _WEIGHTS))

    def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
        t = node[0] * reach
        ratio = c / (1 + c * jnp.exp(-t))
        # The root of the exponential first: the square of the ratio may overflow.
        factor = (ratio * jnp.exp(-0.5 * (r + 1) * t)) ** 2
        return total + node[1] * factor * _log_excess(-ratio * jnp.expm1(-t)), None

    # A loop, because 32 copies of all this would take long to compile.
    return 4 * r * reach * jax.lax.scan(add, jnp.zeros_like(reach), (nodes, weights))[0]


def _log_excess(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return (x - log(1 + x)) / x^2 for x >= 0, by its series for small x."""
    small = x < 0.05
    s = jnp.where(small, x, 0.0)
    series = 1 / 2 - s * (1 / 3 - s * (1 / 4 - s * (1 / 5 - s * (1 / 6 - s * (1 / 7 - s / 8)))))
    large = jnp.where(small, 1.0, x)
    return jnp.where(small, series, (1 - jnp.log1p(large) / large) / large)
