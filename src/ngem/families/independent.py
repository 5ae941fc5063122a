"""Families with independent coordinates, each of which has a location and a scale."""

import abc
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._types import Params, Power
from .base import AbstractFamily
from .powers import power_of, power_of_pair
from .special import invert_cdf

#: Width of a short interval, in units of the scale; shorter still far from the mean.
_SHORT = 1e-2


class LocationScale(NamedTuple):
    """A location and a scale for each coordinate, or gradients with respect to them."""

    mean: Float[Array, "..."]
    scale: Float[Array, "..."]


@dataclass(frozen=True)
class AbstractTwoParameters(AbstractFamily):
    """Independent coordinates with a location and a scale.

    F(location) = a / scale^2 and F(scale) = b / scale^2. The numbers (a, b) are `information`,
    which may depend on the parameters. Most families have no cross term.
    """

    @abc.abstractmethod
    def information(self, params: LocationScale) -> tuple[Any, Any]:
        """Return the Fisher information of location and scale, both times scale^2."""

    def cross_information(self, params: LocationScale) -> Array | None:
        """Return the Fisher information between the two, times scale^2; None if there is none."""
        del params
        return None

    def num_raw(self, dim: int) -> int:
        return 2 * dim

    def constrain(self, raw: Float[Array, "raw *rows"], dim: int) -> LocationScale:
        # The gradient of a split is one concatenation; slices would each be padded and added up.
        mean, raw_scale = jax.lax.split(raw, (dim, dim))
        return LocationScale(mean, self.positive(raw_scale))

    def unconstrain(self, params: LocationScale) -> Float[Array, " raw"]:
        return jnp.concatenate([params.mean, self.raw_positive(params.scale)])

    def fisher_solve(
        self, params: LocationScale, grad: LocationScale, power: Power, coordinates: str = "scale"
    ) -> LocationScale:
        """Return F^-power grad, equation (21): scale^(2 power) / (a, b)^power times grad.

        In log(scale) the information is b, in scale^2 / 2 it is b / scale^4.
        """
        cross = self.cross_information(params)
        if cross is not None:
            first, second = self.information(params)
            entries = first / params.scale**2, cross / params.scale**2, second / params.scale**2
            return LocationScale(*solve_pair(entries, params.scale, grad, power, coordinates))
        metric = power_of(params.scale, 2 * power)
        for_mean, for_scale = (_inverse_power(info, power) for info in self.information(params))
        for_scale = in_coordinates(metric, for_scale, coordinates)
        return LocationScale(grad.mean * (metric * for_mean), grad.scale * for_scale)

    def fisher_solve_each(
        self, params: LocationScale, grad: LocationScale, power: Power, coordinates: str
    ) -> LocationScale:
        # Element by element, whatever the axes: the powers of all at once are several times faster.
        return self.fisher_solve(params, grad, power, coordinates)

    def raw_fisher_diagonal(self, params: LocationScale) -> Float[Array, "raw *rows"]:
        for_mean, for_scale = self.information(params)
        slope = self.positive_slope(params.scale) / params.scale
        return jnp.concatenate([for_mean / params.scale**2, for_scale * slope**2])

    def scales(self, params: LocationScale) -> Float[Array, " dim"]:
        return params.scale


@dataclass(frozen=True)
class AbstractCoordinates(AbstractFamily):
    """A density with independent coordinates, each of which has a location and a scale.

    Functions of one coordinate begin with `each_`. They work element by element, on arrays with any
    axes. Parameters have the fields `mean` and `scale`, and may have more.
    """

    @property
    def takes_rows(self) -> bool:
        return True

    @property
    def has_boxes(self) -> bool:
        return True

    def widen(self, params: Params, smallest: Float[Array, " dim"]) -> Params:
        return params._replace(scale=jnp.maximum(params.scale, smallest))

    @abc.abstractmethod
    def each_log_prob(self, params: Params, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the log density of each coordinate."""

    @abc.abstractmethod
    def each_cdf(self, params: Params, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the distribution function of each coordinate."""

    @abc.abstractmethod
    def each_log_tail(
        self, params: Params, y: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return the log probability above y where `is_above`, and below y elsewhere."""

    @abc.abstractmethod
    def each_quantile(self, params: Params, q: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the inverse of `each_cdf`."""

    def log_prob(self, params: Params, y: Float[Array, "dim *rows"]) -> Float[Array, "*rows"]:
        return jnp.sum(self.each_log_prob(params, y), axis=0)

    def cdf(self, params: Params, y: Float[Array, " 1"]) -> Float[Array, ""]:
        return self.each_cdf(params, y)[0]

    def quantile(self, params: Params, q: Float[Array, ""]) -> Float[Array, ""]:
        return self.each_quantile(jax.tree.map(lambda leaf: leaf[0], params), q)

    def log_observed(
        self,
        params: Params,
        lower: Float[Array, "dim *rows"],
        upper: Float[Array, "dim *rows"],
    ) -> Float[Array, "*rows"]:
        is_known = lower == upper
        density = self.each_log_prob(params, jnp.where(is_known, lower, params.mean))
        # Where the mass does not count, any interval will do whose gradient is finite.
        low, high = params.mean - params.scale, params.mean + params.scale
        mass = self._log_masses(
            params, jnp.where(is_known, low, lower), jnp.where(is_known, high, upper)
        )
        return jnp.sum(jnp.where(is_known, density, mass), axis=0)

    def log_mass(
        self,
        params: Params,
        lower: Float[Array, "dim *rows"],
        upper: Float[Array, "dim *rows"],
    ) -> Float[Array, "*rows"]:
        return jnp.sum(self._log_masses(params, lower, upper), axis=0)

    def _log_masses(
        self,
        params: Params,
        lower: Float[Array, "dim *rows"],
        upper: Float[Array, "dim *rows"],
    ) -> Float[Array, "dim *rows"]:
        """Return the log probability of an interval of each coordinate."""
        a, b = ((end - params.mean) / params.scale for end in (lower, upper))
        # An interval above the origin is a difference of upper tails, where their logarithms are
        # exact; one below it is a difference of lower tails.
        is_above = a + b > 0
        # The difference of two logarithms loses the digits of a short interval. There the density
        # hardly changes.
        middle, width = lower + 0.5 * (upper - lower), b - a
        is_short = width * jnp.maximum(jnp.abs(0.5 * (a + b)), 1) < _SHORT
        inside = jnp.where(is_short, upper - lower, 1.0)
        at = jnp.where(is_short, middle, params.mean)
        short = self.each_log_prob(params, at) + jnp.log(inside)
        near, far = jnp.where(is_above, lower, upper), jnp.where(is_above, upper, lower)
        away = params.mean + jnp.where(is_above, 1.0, -1.0).astype(a.dtype) * params.scale
        from_near = self.each_log_tail(params, jnp.where(is_short, params.mean, near), is_above)
        beyond = self.each_log_tail(params, jnp.where(is_short, away, far), is_above)
        return jnp.where(is_short, short, from_near + jnp.log(-jnp.expm1(beyond - from_near)))


@dataclass(frozen=True)
class AbstractIndependent(AbstractCoordinates, AbstractTwoParameters):
    """A density with independent coordinates that have a location and a scale."""

    def each_quantile(self, params: LocationScale, q: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the inverse of `each_cdf`, by a search where it has no closed form."""

        def place(z: Float[Array, "..."]) -> Float[Array, "..."]:
            return params.mean + params.scale * z

        z = invert_cdf(
            lambda z, is_above: self.each_log_tail(params, place(z), is_above),
            lambda z: self.each_log_prob(params, place(z)) + jnp.log(params.scale),
            jnp.broadcast_to(q, jnp.broadcast_shapes(q.shape, params.scale.shape)),
        )
        return place(z)

    def bound(
        self, params: LocationScale, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> LocationScale:
        mean, variance, most = self.mean(params), self.variance(params), (high - low) ** 2
        is_inside = (mean >= low) & (mean <= high) & (variance <= most)
        moved = self.from_moments(jnp.clip(mean, low, high), jnp.minimum(variance, most))
        # Rounding must not move a component that needs no bound.
        return jax.tree.map(lambda own, other: jnp.where(is_inside, own, other), params, moved)


def in_coordinates(metric: Float[Array, "..."], for_scale: Any, coordinates: str) -> Any:
    """Return what multiplies the gradient of a scale, in coordinates of the scale.

    Args:
        metric: scale^(2 power).
        for_scale: Information at scale 1 to the power of -power.
        coordinates: Their name.
    """
    if coordinates == "scale":
        return metric * for_scale
    return jnp.minimum(metric, 1) ** 2 * for_scale if coordinates == "variance" else for_scale


def solve_pair(
    information: tuple[Array, Array, Array],
    scale: Float[Array, "..."],
    grads: tuple[Array, Array],
    power: Power,
    coordinates: str,
) -> tuple[Array, Array]:
    """Return F^-power of the gradients of another parameter and of the scale.

    Args:
        information: Entries of F: of the other parameter, across, of the scale.
        scale: The scale.
        grads: Gradients of both.
        power: Strength.
        coordinates: Coordinates of the scale in which F is taken.
    """
    first, cross, second = information
    # How the scale changes with its coordinate.
    unit = jnp.ones_like(scale)
    if coordinates == "log_scale":
        unit = scale
    elif coordinates == "variance":
        unit = jnp.where(scale < 1, 1 / scale, scale)
    own, across, of_scale = power_of_pair(first, cross * unit, second * unit**2, -power)
    return own * grads[0] + across * unit * grads[1], across / unit * grads[0] + of_scale * grads[1]


def _inverse_power(info: Any, power: Power) -> Any:
    """Return info^-power, for a number or for an array with one for each coordinate."""
    if isinstance(info, float):
        return 1.0 if info == 1 else info**-power
    return power_of(info, -power)
