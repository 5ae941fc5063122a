"""Families of positive targets: their logarithms have a location and a scale."""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .independent import LocationScale
from .links import Log
from .transformed import AbstractTransformed

#: Logarithms of moments are cut off here, so that a prediction far from the data is huge, not NaN.
_LARGEST = 85.0


@dataclass(frozen=True)
class AbstractPositive(AbstractTransformed):
    """A distribution of positive numbers. Units may change by a factor, and by no shift.

    The scale of the logarithm is what relative spread is: a factor leaves it as it is.
    """

    admits_shift: ClassVar[bool] = False

    @property
    def link(self) -> Log:
        return Log()

    @abc.abstractmethod
    def log_moment(self, params: LocationScale, order: float) -> Float[Array, "dim *rows"]:
        """Return log E[Y^order], for order 1 or 2."""

    @abc.abstractmethod
    def squared_variation(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        """Return variance / mean^2."""

    @abc.abstractmethod
    def scale_of_variation(self, squared: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Return the scale that has a given variance / mean^2."""

    def mean(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return jnp.exp(jnp.minimum(self.log_moment(params, 1.0), _LARGEST))

    def variance(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        mean = self.mean(params)
        return jnp.minimum(self.squared_variation(params), 1e30) * mean * mean

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> LocationScale:
        scale = self.scale_of_variation(variance / mean**2)
        log_mean = self.log_moment(LocationScale(jnp.zeros_like(mean), scale), 1.0)
        return LocationScale(jnp.log(mean) - log_mean, scale)

    def rescale(self, params: LocationScale, location: Any, scale: Any) -> LocationScale:
        del location  # always zero: there is no shift
        log = jnp.log if isinstance(scale, jax.Array) else np.log
        return LocationScale(params.mean + log(scale), params.scale)


@dataclass(frozen=True)
class AbstractWithVariation(AbstractPositive):
    """A distribution whose location is the log of the mean, and its scale std / mean."""

    def log_moment(self, params: LocationScale, order: float) -> Float[Array, "dim *rows"]:
        spread = jnp.log1p(params.scale**2) if order == 2 else 0.0
        return order * params.mean + spread

    def squared_variation(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return params.scale**2

    def scale_of_variation(self, squared: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return jnp.sqrt(squared)
