"""Families of targets that a link maps to the real line, where another family describes them."""

import abc
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Params
from .base import AbstractFamily
from .links import AbstractLink
from .wrapper import AbstractWrapper

#: Where z is cut off: exp of it is finite in single precision, and so is its square root's inverse.
_LARGEST = 80.0

#: Where intervals without an end are taken to end: no logarithm of a double is as large.
_FAR = 1e4


@dataclass(frozen=True)
class AbstractTransformed(AbstractWrapper):
    """Y with link(Y) of a family `base` on the real line, whose parameters are those of Y.

    The Fisher information, the map from raw outputs and fractional powers are those of the base: a
    one-to-one map of the target does not change them. Networks learn link(Y), in units of its own.
    """

    @property
    @abc.abstractmethod
    def base(self) -> AbstractFamily:
        """The family of link(Y)."""

    @property
    @abc.abstractmethod
    def link(self) -> AbstractLink:
        """From targets to the real line."""

    @property
    def far(self) -> float:
        return 1e30  # its logarithm is far as well

    @property
    def wrapped(self) -> AbstractFamily:
        return self.base

    def merge(self, params: Params, weights: Float[Array, " comp"]) -> Params:
        return self.base.merge(params, weights)

    def divergence(self, params: Params, other: Params) -> Float[Array, ""]:
        return self.base.divergence(params, other)

    def log_prob(self, params: Params, y: Float[Array, "dim *rows"]) -> Float[Array, "*rows"]:
        low, high = self.link.ends
        inside = (y > low) & (y < high)
        # Outside, any point inside will do whose gradient is finite.
        at = jnp.where(inside, y, self._middle(y.dtype))
        density = self.base.log_prob(params, self.link.forward(at))
        log_slope = jnp.sum(self.link.log_slope(at), axis=0)
        return jnp.where(jnp.all(inside, axis=0), density + log_slope, -jnp.inf)

    def sample(self, params: Params, key: PRNGKeyArray) -> Float[Array, " dim"]:
        return self._backward(self.base.sample(params, key))

    def from_cluster(
        self,
        y: Float[Array, "batch dim"],
        counts: Float[Array, " batch"],
        mean: Float[Array, " dim"],
        variance: Float[Array, " dim"],
    ) -> Params:
        """Return parameters from the moments of link(y), which a few huge targets do not decide.

        A cluster of a few targets is as wide as all targets are, by a quarter of a target.
        """
        del mean, variance
        z = self.link.forward(y)
        all_mean, all_variance = jnp.mean(z, axis=0), jnp.var(z, axis=0) + 1e-6
        total = jnp.sum(counts) + 0.25
        own = (counts @ z + 0.25 * all_mean) / total
        squares = counts @ (z - own[None]) ** 2
        return self.base.from_moments(own, (squares + 0.25 * all_variance) / total)

    def cdf(self, params: Params, y: Float[Array, " 1"]) -> Float[Array, ""]:
        low, high = self.link.ends
        inside = (y > low) & (y < high)
        at = jnp.where(inside, y, self._middle(y.dtype))
        below = self.base.cdf(params, self.link.forward(at))
        return jnp.where(inside[0], below, jnp.where(y[0] <= low, 0.0, 1.0).astype(below.dtype))

    def quantile(self, params: Params, q: Float[Array, ""]) -> Float[Array, ""]:
        return self._backward(self.base.quantile(params, q))

    def landmarks(self, params: Params, at: Float[Array, " points"]) -> Float[Array, " points"]:
        return self._backward(self.base.landmarks(params, at))

    def log_observed(
        self, params: Params, lower: Float[Array, "dim *rows"], upper: Float[Array, "dim *rows"]
    ) -> Float[Array, "*rows"]:
        ends = (self._forward(end) for end in (lower, upper))
        is_known = lower == upper
        at = jnp.where(is_known, lower, self._middle(lower.dtype))
        log_slope = jnp.where(is_known, self.link.log_slope(at), 0.0)
        return self.base.log_observed(params, *ends) + jnp.sum(log_slope, axis=0)

    def log_mass(
        self, params: Params, lower: Float[Array, " dim"], upper: Float[Array, " dim"]
    ) -> Float[Array, ""]:
        return self.base.log_mass(params, self._forward(lower), self._forward(upper))

    def widen(self, params: Params, smallest: Float[Array, " dim"]) -> Params:
        """Return the parameters with scales of at least `smallest` at the mean.

        The mean of the base may lie where nothing else is: the logarithm of a very wide gamma
        variable has one near -scale^2.
        """
        near = self.mean(params)
        return self.base.widen(params, smallest * jnp.exp(self.link.log_slope(near)))

    def bound(
        self, params: Params, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> Params:
        """Return the parameters with the base's means and std bounded by those of [low, high]."""
        return self.base.bound(params, self._forward(low), self._forward(high))

    def _forward(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.clip(self.link.forward(y), -_FAR, _FAR)

    def _backward(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return targets strictly inside the interval, also where rounding would reach its end."""
        low, high = self.link.ends
        y = self.link.backward(jnp.clip(z, -_LARGEST, _LARGEST))
        y = jnp.where(jnp.isinf(z), jnp.where(z < 0, low, high).astype(y.dtype), y)
        above = jnp.nextafter(jnp.asarray(low, y.dtype), jnp.asarray(high, y.dtype))
        below = jnp.nextafter(jnp.asarray(high, y.dtype), jnp.asarray(low, y.dtype))
        return jnp.where(jnp.isinf(z), y, jnp.clip(y, above, below))

    def _middle(self, dtype: Any) -> Float[Array, ""]:
        return self.link.backward(jnp.zeros((), dtype))
