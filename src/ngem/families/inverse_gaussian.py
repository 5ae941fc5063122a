"""The inverse Gaussian distribution: positive amounts and times with a long tail."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .independent import AbstractIndependent, LocationScale
from .positive import AbstractWithVariation
from .special import expect_gaussian

_LOG_SQRT_2PI = 0.9189385332046727

#: Logarithms further than this from the location are as far as this.
_FARTHEST = 80.0

#: Halvings of a bracket of log(scale), for the scale with a given variance of the logarithm.
_HALVINGS = 60


@dataclass(frozen=True)
class LogInverseGaussian(AbstractIndependent):
    """The logarithm of an inverse Gaussian variable with mean m = exp(location).

    Its scale is the coefficient of variation. With d = z - location, the density is that of a
    Gaussian of 2 sinh(d / 2) times exp(-d / 2). Fisher information (1 + scale^2 / 2) / scale^2 for
    the location, 2 / scale^2 for the scale, and -1 / scale across. Units may be shifted, but not
    multiplied.
    """

    names: ClassVar[tuple[str, str]] = ("log-inverse-gaussian", "diag")
    admits_scale: ClassVar[bool] = False

    def information(self, params: LocationScale) -> tuple[Any, Any]:
        return 1 + 0.5 * params.scale**2, jnp.full_like(params.scale, 2.0)

    def cross_information(self, params: LocationScale) -> Array:
        return -params.scale

    def each_log_prob(self, params: LocationScale, y: Float[Array, "..."]) -> Float[Array, "..."]:
        offset, z, _ = _offsets(params, y)
        return -0.5 * (z**2 + offset) - jnp.log(params.scale) - _LOG_SQRT_2PI

    def each_cdf(self, params: LocationScale, y: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.exp(self.each_log_tail(params, y, jnp.zeros(jnp.shape(y), bool)))

    def each_log_tail(
        self, params: LocationScale, y: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return log(Phi(z) + exp(2 / scale^2) Phi(-c)) below y, with c^2 = z^2 + 4 / scale^2."""
        _, z, c = _offsets(params, y)
        reflected = 2 / params.scale**2 + log_ndtr(-c)
        below = jnp.logaddexp(log_ndtr(z), reflected)
        ratio = jnp.minimum(reflected - log_ndtr(-z), -jnp.finfo(z.dtype).eps)
        above = log_ndtr(-z) + jnp.log(-jnp.expm1(ratio))
        return jnp.where(is_above, above, below)

    def sample(self, params: LocationScale, key: PRNGKeyArray) -> Float[Array, " dim"]:
        """Return draws by the two roots of Michael, Schucany and Haas (1976)."""
        normal_key, root_key = jax.random.split(key)
        z = jax.random.normal(normal_key, params.mean.shape, params.mean.dtype)
        offset = 2 * jnp.arcsinh(0.5 * params.scale * jnp.abs(z))
        is_large = jax.random.bernoulli(root_key, jax.nn.sigmoid(-offset))
        return params.mean + jnp.where(is_large, offset, -offset)

    def mean(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return params.mean + _expected_offset(params.scale, 1)

    def variance(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return _variance(params.scale)

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> LocationScale:
        def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = 0.5 * (ends[0] + ends[1])
            is_small = _variance(jnp.exp(middle)) < variance
            return jnp.where(is_small, middle, ends[0]), jnp.where(is_small, ends[1], middle)

        ends = (jnp.full_like(variance, -12.0), jnp.full_like(variance, 8.0))
        low, high = jax.lax.fori_loop(0, _HALVINGS, halve, ends)
        scale = jnp.exp(0.5 * (low + high))
        return LocationScale(mean - _expected_offset(scale, 1), scale)

    def rescale(self, params: LocationScale, location: Any, scale: Any) -> LocationScale:
        del scale  # always one
        return LocationScale(params.mean + location, params.scale)


@dataclass(frozen=True)
class InverseGaussian(AbstractWithVariation):
    """An inverse Gaussian distribution: location log of the mean.

    The scale is the coefficient of variation, as of the gamma distribution; the tail is longer. See
    `LogInverseGaussian` for the Fisher information.
    """

    names: ClassVar[tuple[str, str]] = ("inverse-gaussian", "diag")

    @property
    def base(self) -> LogInverseGaussian:
        return LogInverseGaussian(self.scale_floor)


def _offsets(params: LocationScale, y: Float[Array, "..."]) -> tuple[Array, Array, Array]:
    """Return d, 2 sinh(d / 2) / scale and 2 cosh(d / 2) / scale."""
    offset = jnp.clip(y - params.mean, -_FARTHEST, _FARTHEST)
    grown, shrunk = jnp.exp(0.5 * offset), jnp.exp(-0.5 * offset)
    return offset, 2 * jnp.sinh(0.5 * offset) / params.scale, (grown + shrunk) / params.scale


def _expected_offset(scale: Float[Array, "..."], order: int) -> Float[Array, "..."]:
    """Return E[d^order]: d or -d by the two roots of a standard normal number z."""

    def both(z: Float[Array, "..."]) -> Float[Array, "..."]:
        offset = 2 * jnp.arcsinh(0.5 * scale * z)
        return offset**order * 2 * jax.nn.sigmoid(-offset)

    return expect_gaussian(both, scale)


def _variance(scale: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the variance of the logarithm.

    E[d] is about -scale^2 / 2, so that no digits cancel for small scales.
    """
    return _expected_offset(scale, 2) - _expected_offset(scale, 1) ** 2
