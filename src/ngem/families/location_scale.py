"""Families with independent coordinates that have a location and a scale."""

import abc
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Power
from .base import AbstractFamily
from .powers import power_of

#: Width of a short interval, in units of the scale; shorter still far from the mean.
_SHORT = 1e-2


class LocationScale(NamedTuple):
    """A location and a scale for each coordinate, or gradients with respect to them."""

    mean: Float[Array, "..."]
    scale: Float[Array, "..."]


@dataclass(frozen=True)
class AbstractLocationScale(AbstractFamily):
    """Independent coordinates y_d = mean_d + scale_d e_d, with e of a fixed symmetric shape.

    A family is three numbers and four functions of the standardized residual
    z = (y - mean) / scale. Its Fisher information is diagonal, F(mean) = a / scale^2 and
    F(scale) = b / scale^2, where (a, b) is `unit_fisher`: equation (21) for the Gaussian.
    """

    @property
    @abc.abstractmethod
    def unit_fisher(self) -> tuple[float, float]:
        """Fisher information of location and scale at scale 1."""

    @property
    @abc.abstractmethod
    def unit_variance(self) -> float:
        """Variance at scale 1."""

    @abc.abstractmethod
    def unit_log_prob(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the log density at scale 1."""

    @abc.abstractmethod
    def unit_cdf(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the cumulative distribution function at scale 1."""

    @abc.abstractmethod
    def unit_log_cdf(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the logarithm of `unit_cdf`, exact far in the lower tail."""

    @abc.abstractmethod
    def unit_quantile(self, q: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the inverse of `unit_cdf`."""

    @abc.abstractmethod
    def unit_sample(self, key: PRNGKeyArray, like: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Return independent draws at scale 1 in the shape and dtype of `like`."""

    @property
    def takes_rows(self) -> bool:
        return True

    def num_raw(self, dim: int) -> int:
        return 2 * dim

    def constrain(self, raw: Float[Array, "raw *rows"], dim: int) -> LocationScale:
        # The gradient of a split is one concatenation; slices would each be padded and added up.
        mean, raw_scale = jax.lax.split(raw, (dim, dim))
        return LocationScale(mean, self.positive(raw_scale))

    def unconstrain(self, params: LocationScale) -> Float[Array, " raw"]:
        return jnp.concatenate([params.mean, self.raw_positive(params.scale)])

    def log_prob(
        self, params: LocationScale, y: Float[Array, "dim *rows"]
    ) -> Float[Array, "*rows"]:
        z = (y - params.mean) / params.scale
        return jnp.sum(self.unit_log_prob(z) - jnp.log(params.scale), axis=0)

    def fisher_solve(
        self, params: LocationScale, grad: LocationScale, power: Power, coordinates: str = "scale"
    ) -> LocationScale:
        """Return F^-power grad, equation (21): scale^(2 power) / (a, b)^power times grad.

        In log(scale) the information is b, in scale^2 / 2 it is b / scale^4.
        """
        metric = power_of(params.scale, 2 * power)
        for_mean, for_scale = (1.0 if info == 1 else info**-power for info in self.unit_fisher)
        if coordinates == "scale":
            for_scale = metric * for_scale
        elif coordinates == "variance":
            for_scale = jnp.minimum(metric, 1) ** 2 * for_scale
        return LocationScale(grad.mean * (metric * for_mean), grad.scale * for_scale)

    def fisher_solve_each(
        self, params: LocationScale, grad: LocationScale, power: Power, coordinates: str
    ) -> LocationScale:
        # Element by element, whatever the axes: the powers of all at once are several times faster.
        return self.fisher_solve(params, grad, power, coordinates)

    def raw_fisher_diagonal(self, params: LocationScale) -> Float[Array, "raw *rows"]:
        for_mean, for_scale = self.unit_fisher
        slope = self.positive_slope(params.scale) / params.scale
        return jnp.concatenate([for_mean / params.scale**2, for_scale * slope**2])

    def sample(self, params: LocationScale, key: PRNGKeyArray) -> Float[Array, " dim"]:
        return params.mean + params.scale * self.unit_sample(key, params.mean)

    def mean(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return params.mean

    def variance(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return self.unit_variance * params.scale**2

    def covariance(self, params: LocationScale) -> Float[Array, "dim dim"]:
        return jnp.diag(self.variance(params))

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> LocationScale:
        return LocationScale(mean, jnp.sqrt(variance / self.unit_variance))

    def marginal(self, params: LocationScale, dims: tuple[int, ...]) -> LocationScale:
        return jax.tree.map(lambda leaf: leaf[jnp.array(dims)], params)

    def rescale(self, params: LocationScale, location: Any, scale: Any) -> LocationScale:
        return LocationScale(location + scale * params.mean, scale * params.scale)

    def cdf(self, params: LocationScale, y: Float[Array, " 1"]) -> Float[Array, ""]:
        return self.unit_cdf((y - params.mean) / params.scale)[0]

    def quantile(self, params: LocationScale, q: Float[Array, ""]) -> Float[Array, ""]:
        return params.mean[0] + params.scale[0] * self.unit_quantile(q)

    def log_observed(
        self,
        params: LocationScale,
        lower: Float[Array, "dim *rows"],
        upper: Float[Array, "dim *rows"],
    ) -> Float[Array, "*rows"]:
        is_known = lower == upper
        z = (jnp.where(is_known, lower, params.mean) - params.mean) / params.scale
        density = self.unit_log_prob(z) - jnp.log(params.scale)
        # Where the mass does not count, any interval will do whose gradient is finite.
        low, high = params.mean - params.scale, params.mean + params.scale
        mass = self._log_masses(
            params, jnp.where(is_known, low, lower), jnp.where(is_known, high, upper)
        )
        return jnp.sum(jnp.where(is_known, density, mass), axis=0)

    def log_mass(
        self,
        params: LocationScale,
        lower: Float[Array, "dim *rows"],
        upper: Float[Array, "dim *rows"],
    ) -> Float[Array, "*rows"]:
        return jnp.sum(self._log_masses(params, lower, upper), axis=0)

    def _log_masses(
        self,
        params: LocationScale,
        lower: Float[Array, "dim *rows"],
        upper: Float[Array, "dim *rows"],
    ) -> Float[Array, "dim *rows"]:
        """Return the log probability of an interval of each coordinate."""
        a, b = ((end - params.mean) / params.scale for end in (lower, upper))
        # The shape is symmetric: an interval above the mean has the mass of its mirror image,
        # which lies in the lower tail, where logarithms of the distribution function are exact.
        is_above = a + b > 0
        a, b = jnp.where(is_above, -b, a), jnp.where(is_above, -a, b)
        # The difference of two logarithms loses the digits of a short interval. There the density
        # hardly changes.
        middle, width = 0.5 * (a + b), b - a
        is_short = width * jnp.maximum(jnp.abs(middle), 1) < _SHORT
        inside = jnp.where(is_short, width, 1.0)
        short = self.unit_log_prob(jnp.where(is_short, middle, 0.0)) + jnp.log(inside)
        from_b = self.unit_log_cdf(jnp.where(is_short, 1.0, b))
        gap = self.unit_log_cdf(jnp.where(is_short, 0.0, a)) - from_b
        return jnp.where(is_short, short, from_b + jnp.log(-jnp.expm1(gap)))

    def scales(self, params: LocationScale) -> Float[Array, " dim"]:
        return params.scale

    def widen(self, params: LocationScale, smallest: Float[Array, " dim"]) -> LocationScale:
        return LocationScale(params.mean, jnp.maximum(params.scale, smallest))

    def bound(
        self, params: LocationScale, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> LocationScale:
        largest = (high - low) / self.unit_variance**0.5
        return LocationScale(jnp.clip(params.mean, low, high), jnp.minimum(params.scale, largest))
