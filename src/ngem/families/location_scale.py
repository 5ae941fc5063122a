"""Families with independent coordinates that have a location and a scale."""

import abc
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .independent import AbstractIndependent, LocationScale


@dataclass(frozen=True)
class AbstractLocationScale(AbstractIndependent):
    """Independent coordinates y_d = location_d + scale_d e_d, with e of a fixed shape.

    A family is a few numbers and functions of the standardized residual
    z = (y - location) / scale. Its Fisher information is diagonal, F(location) = a / scale^2 and
    F(scale) = b / scale^2, where (a, b) is `unit_fisher`: equation (21) for the Gaussian. A skewed
    shape has a diagonal information too, if its origin is chosen so. The location, called `mean`
    in the parameters, is then not the expectation: that is location + `unit_mean` scale.
    """

    @property
    @abc.abstractmethod
    def unit_fisher(self) -> tuple[float, float]:
        """Fisher information of location and scale at scale 1."""

    @property
    def unit_mean(self) -> float:
        """Expectation at location 0 and scale 1; 0 for a symmetric shape."""
        return 0.0

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

    def unit_log_tail(
        self, z: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return the log probability above z where `is_above`, and below z elsewhere.

        The default is for a symmetric shape.
        """
        return self.unit_log_cdf(jnp.where(is_above, -z, z))

    @abc.abstractmethod
    def unit_quantile(self, q: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the inverse of `unit_cdf`."""

    @abc.abstractmethod
    def unit_sample(self, key: PRNGKeyArray, like: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Return independent draws at scale 1 in the shape and dtype of `like`."""

    def information(self, params: LocationScale) -> tuple[Any, Any]:
        del params
        return self.unit_fisher

    def each_log_prob(self, params: LocationScale, y: Float[Array, "..."]) -> Float[Array, "..."]:
        z = (y - params.mean) / params.scale
        return self.unit_log_prob(z) - jnp.log(params.scale)

    def each_cdf(self, params: LocationScale, y: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.unit_cdf((y - params.mean) / params.scale)

    def each_log_tail(
        self, params: LocationScale, y: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        return self.unit_log_tail((y - params.mean) / params.scale, is_above)

    def each_quantile(self, params: LocationScale, q: Float[Array, "..."]) -> Float[Array, "..."]:
        return params.mean + params.scale * self.unit_quantile(q)

    def sample(self, params: LocationScale, key: PRNGKeyArray) -> Float[Array, " dim"]:
        return params.mean + params.scale * self.unit_sample(key, params.mean)

    def mean(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return self._shifted(params.mean, params.scale)

    def variance(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return self.unit_variance * params.scale**2

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> LocationScale:
        scale = jnp.sqrt(variance / self.unit_variance)
        return LocationScale(self._shifted(mean, -scale), scale)

    def _shifted(self, location: Float[Array, "..."], scale: Float[Array, "..."]) -> Array:
        """Return location + unit_mean scale; not one bit changes where the mean is zero."""
        return location + self.unit_mean * scale if self.unit_mean else location

    def rescale(self, params: LocationScale, location: Any, scale: Any) -> LocationScale:
        return LocationScale(location + scale * params.mean, scale * params.scale)

    def bound(
        self, params: LocationScale, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> LocationScale:
        largest = (high - low) / self.unit_variance**0.5
        scale = jnp.minimum(params.scale, largest)
        if not self.unit_mean:
            return LocationScale(jnp.clip(params.mean, low, high), scale)
        mean = self.mean(params)
        is_inside = (mean >= low) & (mean <= high) & (params.scale <= largest)
        moved = self._shifted(jnp.clip(mean, low, high), -scale)
        # Rounding must not move a component that needs no bound.
        return LocationScale(jnp.where(is_inside, params.mean, moved), scale)
