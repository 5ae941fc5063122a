"""Families of counts: probabilities of the integers from zero on."""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._types import Params, Power
from .base import AbstractFamily
from .powers import power_of
from .special import invert_steps

#: Locations are logarithms or logits of a mean; beyond this, exponentials and their squares would
#: overflow in single precision.
LARGEST_LOCATION = 30.0

#: A mean that is not positive becomes this many standard deviations, when a start asks for one.
_LEAST_MEAN = 0.02

#: Probabilities below this are cut off, so that logarithms are finite in single precision.
_TINIEST = 1e-37


class Location(NamedTuple):
    """A location for each coordinate, or the gradient with respect to it."""

    mean: Float[Array, "..."]


@dataclass(frozen=True)
class AbstractCount(AbstractFamily):
    """A distribution of integers from zero on, with independent coordinates.

    Functions of one coordinate begin with `each_`. They work element by element, on arrays with any
    axes. Counts have no units: they are neither shifted nor multiplied.
    """

    admits_shift: ClassVar[bool] = False
    admits_scale: ClassVar[bool] = False
    is_discrete: ClassVar[bool] = True

    @abc.abstractmethod
    def each_log_prob(self, params: Any, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the log probability of each coordinate, an integer of at least 0."""

    @abc.abstractmethod
    def each_tail(
        self, params: Any, y: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return P(Y > y) where `is_above`, else P(Y <= y), for integers of at least 0."""

    @property
    def most(self) -> float:
        """The largest possible count."""
        return np.inf

    @property
    def ends(self) -> tuple[float, float]:
        return 0.0, self.most

    @property
    def takes_rows(self) -> bool:
        return True

    @property
    def has_boxes(self) -> bool:
        return True

    def check_targets(self, y: np.ndarray, name: str = "y") -> None:
        possible = (y >= 0) & (y <= self.most) & (y == np.floor(y))
        if not possible.all():
            row, column = np.argwhere(~possible)[0]
            where = "whole numbers from 0 on" if np.isinf(self.most) else f"0, 1, ... {self.most:g}"
            raise ValueError(
                f"{name} must be {where} for family={self.name!r}, got {y[row, column]:g} in "
                f"row {row}; {self._try_instead}."
            )

    def is_possible(self, y: Float[Array, "..."]) -> Bool[Array, "..."]:
        """Return where a number is a possible count."""
        return (y >= 0) & (y <= self.most) & (y == jnp.floor(y))

    def log_prob(self, params: Any, y: Float[Array, "dim *rows"]) -> Float[Array, "*rows"]:
        possible = self.is_possible(y)
        log_prob = self.each_log_prob(params, jnp.where(possible, y, 0.0))
        return jnp.sum(jnp.where(possible, log_prob, -jnp.inf), axis=0)

    def each_cdf(self, params: Any, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return P(Y <= y) of each coordinate."""
        at = jnp.clip(jnp.floor(y), 0.0, self.most)
        below = self.each_tail(params, at, jnp.zeros(jnp.shape(at), bool))
        return jnp.where(y < 0, 0.0, jnp.where(y >= self.most, 1.0, below))

    def cdf(self, params: Any, y: Float[Array, " 1"]) -> Float[Array, ""]:
        return self.each_cdf(params, y)[0]

    def cdf_before(self, params: Any, y: Float[Array, " 1"]) -> Float[Array, ""]:
        return self.each_cdf(params, jnp.ceil(y) - 1)[0]

    def quantile(self, params: Any, q: Float[Array, ""]) -> Float[Array, ""]:
        own = jax.tree.map(lambda leaf: leaf[0], params)
        low, high = self.bracket(params, q)
        return invert_steps(lambda y: self.each_cdf(own, y), low, high, q)

    def bracket(self, params: Any, q: Float[Array, ""]) -> Float[Array, " 2"]:
        """Return an integer below a quantile and one at or above it, by Cantelli's inequality."""
        mean, std = self.mean(params)[0], jnp.sqrt(self.variance(params)[0])
        inside = jnp.clip(q, 1e-12, 1 - jnp.finfo(q.dtype).eps)
        odds = jnp.sqrt(inside / (1 - inside))
        low = jnp.maximum(jnp.floor(mean - std / odds) - 2, -1.0)
        high = jnp.ceil(mean + std * odds) + 2
        return jnp.stack([low, jnp.minimum(high, self.most)])

    def rescale(self, params: Any, location: Any, scale: Any) -> Any:
        del location, scale  # always zero and one
        return params

    def log_observed(
        self, params: Any, lower: Float[Array, "dim *rows"], upper: Float[Array, "dim *rows"]
    ) -> Float[Array, "*rows"]:
        return jnp.sum(self._log_masses(params, lower, upper), axis=0)

    def log_mass(
        self, params: Any, lower: Float[Array, "dim *rows"], upper: Float[Array, "dim *rows"]
    ) -> Float[Array, "*rows"]:
        return jnp.sum(self._log_masses(params, lower, upper), axis=0)

    def _log_masses(
        self, params: Any, lower: Float[Array, "..."], upper: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return the log probability of the integers from lower to upper, of each coordinate."""
        first = jnp.clip(jnp.ceil(lower), 0.0, self.most)
        last = jnp.clip(jnp.floor(upper), 0.0, self.most)
        single = first == last
        one = self.each_log_prob(params, jnp.where(single, first, 0.0))
        # An interval above the mean is a difference of upper tails, which keep their digits.
        is_above = first + last > 2 * self.mean(params)
        below_first = self.each_tail(params, jnp.maximum(first - 1, 0.0), is_above)
        below_first = jnp.where(first > 0, below_first, is_above.astype(below_first.dtype))
        below_last = self.each_tail(params, last, is_above)
        mass = jnp.where(is_above, below_first - below_last, below_last - below_first)
        log_mass = jnp.log(jnp.where(single, 1.0, jnp.maximum(mass, _TINIEST)))
        return jnp.where(single, one, log_mass)

    def widen(self, params: Any, smallest: Float[Array, " dim"]) -> Any:
        """Return the parameters as they are: integers are far enough apart."""
        del smallest
        return params

    def possible_mean(
        self, mean: Float[Array, "..."], variance: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return a mean that counts can have, near the one asked for."""
        return jnp.maximum(mean, _LEAST_MEAN * jnp.sqrt(variance) + 1e-6)


@dataclass(frozen=True)
class AbstractOneParameter(AbstractCount):
    """Counts with one parameter for each coordinate, a location on the whole real line."""

    @abc.abstractmethod
    def information(self, params: Location) -> Float[Array, "..."]:
        """Return the Fisher information of the location."""

    def num_raw(self, dim: int) -> int:
        return dim

    def constrain(self, raw: Float[Array, "raw *rows"], dim: int) -> Location:
        del dim
        return Location(jnp.clip(raw, -LARGEST_LOCATION, LARGEST_LOCATION))

    def unconstrain(self, params: Location) -> Float[Array, " raw"]:
        return params.mean

    def fisher_solve(
        self, params: Location, grad: Location, power: Power, coordinates: str = "scale"
    ) -> Location:
        del coordinates  # there is no scale
        return Location(grad.mean * power_of(self.information(params), -power))

    def fisher_solve_each(
        self, params: Location, grad: Location, power: Power, coordinates: str
    ) -> Params:
        return self.fisher_solve(params, grad, power, coordinates)

    def raw_fisher_diagonal(self, params: Location) -> Float[Array, "raw *rows"]:
        return self.information(params)

    def scales(self, params: Location) -> Float[Array, " dim"]:
        """Return standard deviations: there is no scale that could shrink."""
        return jnp.sqrt(self.variance(params)) + self.scale_floor
