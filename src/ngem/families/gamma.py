"""The gamma distribution: positive targets whose spread is proportional to their mean."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .independent import AbstractIndependent, LocationScale
from .positive import AbstractWithVariation
from .special import excess_trigamma, exp_excess, invert_cdf, stirling_rest, trigamma

#: Steps of Newton's method from the variance of the logarithm to the scale.
_STEPS = 12

#: Logarithm of the smallest argument of an incomplete gamma function.
_LEAST_OFFSET = 80.0

_LOG_SQRT_2PI = 0.9189385332046727


@dataclass(frozen=True)
class LogGamma(AbstractIndependent):
    """The logarithm of a gamma variable with mean exp(location) and shape 1 / scale^2.

    Fisher information 1/scale^2 for the location, as of the Gaussian, which it approaches for small
    scales; 4 a^2 (trigamma(a) - 1 / a) / scale^2 for the scale with a the shape, from 2/scale^2 to
    4/scale^2. There is no cross term. Units may be shifted, but not multiplied.
    """

    names: ClassVar[tuple[str, str]] = ("log-gamma", "diag")
    admits_scale: ClassVar[bool] = False

    def information(self, params: LocationScale) -> tuple[Any, Any]:
        return 1.0, 4 * excess_trigamma(params.scale**-2)

    def each_log_prob(self, params: LocationScale, y: Float[Array, "..."]) -> Float[Array, "..."]:
        shape, offset = params.scale**-2, y - params.mean
        constant = -jnp.log(params.scale) - _LOG_SQRT_2PI - stirling_rest(shape)
        return constant - shape * exp_excess(offset)

    def each_cdf(self, params: LocationScale, y: Float[Array, "..."]) -> Float[Array, "..."]:
        shape, at = self._gamma(params, y)
        return jax.scipy.special.gammainc(shape, at)

    def each_log_tail(
        self, params: LocationScale, y: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return the logarithm of a tail, cut off where the tail underflows."""
        shape, at = self._gamma(params, y)
        above = jax.scipy.special.gammaincc(shape, at)
        below = jax.scipy.special.gammainc(shape, at)
        tail = jnp.where(is_above, above, below)
        log_tail = jnp.log(jnp.maximum(tail, jnp.finfo(tail.dtype).tiny))
        # Below what an exponential can be, the first term of the series is exact.
        offset = jnp.minimum(y - params.mean, -_LEAST_OFFSET)
        log_below = shape * (offset + jnp.log(shape)) - jax.scipy.special.gammaln(shape + 1)
        series = jnp.where(is_above, jnp.log1p(-jnp.exp(log_below)), log_below)
        return jnp.where(y - params.mean < -_LEAST_OFFSET, series, log_tail)

    def _gamma(self, params: LocationScale, y: Float[Array, "..."]) -> tuple[Array, Array]:
        shape = params.scale**-2
        shape, offset = jnp.broadcast_arrays(shape, y - params.mean)
        return shape, shape * jnp.exp(jnp.clip(offset, -_LEAST_OFFSET, 80.0))

    def each_quantile(self, params: LocationScale, q: Float[Array, "..."]) -> Float[Array, "..."]:
        unit = LocationScale(jnp.zeros_like(params.scale), params.scale)

        def scaled(z: Float[Array, "..."]) -> Float[Array, "..."]:
            return params.scale * z

        z = invert_cdf(
            lambda z, is_above: self.each_log_tail(unit, scaled(z), is_above),
            lambda z: self.each_log_prob(unit, scaled(z)) + jnp.log(params.scale),
            jnp.broadcast_to(q, jnp.broadcast_shapes(q.shape, params.scale.shape)),
        )
        return params.mean + scaled(z)

    def sample(self, params: LocationScale, key: PRNGKeyArray) -> Float[Array, " dim"]:
        shape = params.scale**-2
        return params.mean + jax.random.loggamma(key, shape, dtype=shape.dtype) - jnp.log(shape)

    def mean(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        shape = params.scale**-2
        return params.mean + jax.scipy.special.digamma(shape) - jnp.log(shape)

    def variance(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return trigamma(params.scale**-2)

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> LocationScale:
        scale = _scale_of_variance(variance)
        own = self.mean(LocationScale(jnp.zeros_like(mean), scale))
        return LocationScale(mean - own, scale)

    def rescale(self, params: LocationScale, location: Any, scale: Any) -> LocationScale:
        del scale  # always one
        return LocationScale(params.mean + location, params.scale)

    def bound(
        self, params: LocationScale, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> LocationScale:
        largest = _scale_of_variance((high - low) ** 2)
        scale = jnp.minimum(params.scale, largest)
        mean, own = self.mean(params), self.mean(LocationScale(jnp.zeros_like(scale), scale))
        is_inside = (mean >= low) & (mean <= high) & (params.scale <= largest)
        # Rounding must not move a component that needs no bound.
        moved = jnp.where(is_inside, params.mean, jnp.clip(mean, low, high) - own)
        return LocationScale(moved, scale)


@dataclass(frozen=True)
class Gamma(AbstractWithVariation):
    """A gamma distribution: location log of the mean, scale the coefficient of variation.

    The shape is 1 / scale^2. See `LogGamma` for the Fisher information.
    """

    names: ClassVar[tuple[str, str]] = ("gamma", "diag")

    @property
    def base(self) -> LogGamma:
        return LogGamma(self.scale_floor)


def _scale_of_variance(variance: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the scale at which the logarithm of a gamma variable has this variance.

    trigamma(1 / s^2) = variance by Newton's method in the logarithm of s, where the function is
    nearly a line: s^2 for small s, s^4 for large.
    """

    def step(_: Array, log_scale: Array) -> Array:
        value, slope = jax.jvp(
            lambda x: jnp.log(trigamma(jnp.exp(-2 * x))), (log_scale,), (jnp.ones_like(log_scale),)
        )
        return log_scale - (value - jnp.log(variance)) / slope

    start = 0.5 * jnp.log(jnp.minimum(variance, jnp.sqrt(variance)))
    return jnp.exp(jax.lax.fori_loop(0, _STEPS, step, start))
