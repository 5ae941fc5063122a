"""Families with independent coordinates that have a location, a scale and a shape."""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._types import Power
from .independent import AbstractCoordinates
from .special import invert_cdf


class LocationScaleShape(NamedTuple):
    """A location, a scale and a shape for each coordinate, or gradients with respect to them."""

    mean: Float[Array, "..."]
    scale: Float[Array, "..."]
    shape: Float[Array, "..."]


class ShapedInformation(NamedTuple):
    """Entries of the Fisher information at scale 1; the shape is tied to one other parameter."""

    location: Float[Array, "..."]
    scale: Float[Array, "..."]
    shape: Float[Array, "..."]
    cross: Float[Array, "..."]


@dataclass(frozen=True)
class AbstractShaped(AbstractCoordinates):
    """Coordinates y_d = location_d + scale_d e_d, with e of a shape that is learned.

    A family is a few functions of the standardized residual z = (y - location) / scale and of the
    shape, a number between two bounds.

    Attributes:
        shapes: The smallest and the largest shape.
    """

    shapes: ClassVar[tuple[float, float]]

    @abc.abstractmethod
    def information(self, shape: Float[Array, "..."]) -> ShapedInformation:
        """Return the Fisher information at scale 1."""

    @abc.abstractmethod
    def unit_moments(self, shape: Float[Array, "..."]) -> tuple[Array, Array]:
        """Return mean and variance at location 0 and scale 1."""

    @abc.abstractmethod
    def unit_log_prob(
        self, shape: Float[Array, "..."], z: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return the log density at scale 1."""

    @abc.abstractmethod
    def unit_log_tail(
        self, shape: Float[Array, "..."], z: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return the log probability above z where `is_above`, and below z elsewhere."""

    @abc.abstractmethod
    def unit_sample(self, shape: Float[Array, " dim"], key: PRNGKeyArray) -> Float[Array, " dim"]:
        """Return independent draws at scale 1."""

    def unit_quantile(
        self, shape: Float[Array, "..."], q: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return the inverse of the distribution function at scale 1."""
        return invert_cdf(
            lambda z, is_above: self.unit_log_tail(shape, z, is_above),
            lambda z: self.unit_log_prob(shape, z),
            jnp.broadcast_to(q, jnp.broadcast_shapes(q.shape, shape.shape)),
        )

    def num_raw(self, dim: int) -> int:
        return 3 * dim

    def constrain(self, raw: Float[Array, "raw *rows"], dim: int) -> LocationScaleShape:
        mean, raw_scale, shape = jax.lax.split(raw, (dim, dim, dim))
        return LocationScaleShape(mean, self.positive(raw_scale), jnp.clip(shape, *self.shapes))

    def unconstrain(self, params: LocationScaleShape) -> Float[Array, " raw"]:
        return jnp.concatenate([params.mean, self.raw_positive(params.scale), params.shape])

    def fisher_solve_each(
        self, params: LocationScaleShape, grad: LocationScaleShape, power: Power, coordinates: str
    ) -> LocationScaleShape:
        return self.fisher_solve(params, grad, power, coordinates)

    def raw_fisher_diagonal(self, params: LocationScaleShape) -> Float[Array, "raw *rows"]:
        information = self.information(params.shape)
        slope = self.positive_slope(params.scale) / params.scale
        return jnp.concatenate(
            [
                information.location / params.scale**2,
                information.scale * slope**2,
                information.shape,
            ]
        )

    def scales(self, params: LocationScaleShape) -> Float[Array, " dim"]:
        return params.scale

    def each_log_prob(
        self, params: LocationScaleShape, y: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        z = (y - params.mean) / params.scale
        return self.unit_log_prob(params.shape, z) - jnp.log(params.scale)

    def each_cdf(self, params: LocationScaleShape, y: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.exp(self.each_log_tail(params, y, jnp.zeros(jnp.shape(y), bool)))

    def each_log_tail(
        self, params: LocationScaleShape, y: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        return self.unit_log_tail(params.shape, (y - params.mean) / params.scale, is_above)

    def each_quantile(
        self, params: LocationScaleShape, q: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        return params.mean + params.scale * self.unit_quantile(params.shape, q)

    def sample(self, params: LocationScaleShape, key: PRNGKeyArray) -> Float[Array, " dim"]:
        return params.mean + params.scale * self.unit_sample(params.shape, key)

    def mean(self, params: LocationScaleShape) -> Float[Array, "dim *rows"]:
        return params.mean + params.scale * self.unit_moments(params.shape)[0]

    def variance(self, params: LocationScaleShape) -> Float[Array, "dim *rows"]:
        return params.scale**2 * self.unit_moments(params.shape)[1]

    @property
    def usual_shape(self) -> float:
        """The shape of densities that are known by two moments."""
        return 0.0

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> LocationScaleShape:
        shape = jnp.full_like(mean, self.usual_shape)
        own = self.unit_moments(shape)
        scale = jnp.sqrt(variance / own[1])
        return LocationScaleShape(mean - scale * own[0], scale, shape)

    def rescale(self, params: LocationScaleShape, location: Any, scale: Any) -> LocationScaleShape:
        return LocationScaleShape(
            location + scale * params.mean, scale * params.scale, params.shape
        )

    def bound(
        self, params: LocationScaleShape, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> LocationScaleShape:
        own_mean, own_variance = self.unit_moments(params.shape)
        scale = jnp.minimum(params.scale, (high - low) / jnp.sqrt(own_variance))
        mean = self.mean(params)
        is_inside = (mean >= low) & (mean <= high) & (scale == params.scale)
        # Rounding must not move a component that needs no bound.
        moved = jnp.where(is_inside, params.mean, jnp.clip(mean, low, high) - scale * own_mean)
        return LocationScaleShape(moved, scale, params.shape)
