"""The log-normal distribution: positive targets whose logarithms are Gaussian."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from .diagonal import DiagonalGaussian
from .independent import LocationScale
from .positive import AbstractPositive


@dataclass(frozen=True)
class LogNormal(AbstractPositive):
    """log(Y) ~ N(mean, scale^2); Fisher information 1/scale^2 and 2/scale^2, as of the Gaussian."""

    names: ClassVar[tuple[str, str]] = ("lognormal", "diag")

    @property
    def base(self) -> DiagonalGaussian:
        return DiagonalGaussian(self.scale_floor)

    def log_moment(self, params: LocationScale, order: float) -> Float[Array, "dim *rows"]:
        return order * params.mean + 0.5 * (order * params.scale) ** 2

    def squared_variation(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return jnp.expm1(params.scale**2)

    def scale_of_variation(self, squared: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return jnp.sqrt(jnp.log1p(squared))
