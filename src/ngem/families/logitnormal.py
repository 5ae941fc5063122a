"""The logit-normal distribution: targets between two bounds whose logits are Gaussian."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .diagonal import DiagonalGaussian
from .independent import LocationScale
from .interval import AbstractInterval
from .special import expect_gaussian

#: Steps of Newton's method from moments to parameters.
_STEPS = 40


@dataclass(frozen=True)
class LogitNormal(AbstractInterval):
    """log((Y - lower) / (upper - Y)) ~ N(mean, scale^2); Fisher information as of the Gaussian.

    Its moments have no closed form; they are a sum over 129 points.
    """

    names: ClassVar[tuple[str, str]] = ("logitnormal", "diag")

    @property
    def base(self) -> DiagonalGaussian:
        return DiagonalGaussian(self.scale_floor)

    def mean(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return self.lower + (self.upper - self.lower) * _expected(jax.nn.sigmoid, params)

    def variance(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return (self.upper - self.lower) ** 2 * _unit_variance(params)

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> LocationScale:
        width = self.upper - self.lower
        return jax.vmap(_solve_moments)((mean - self.lower) / width, variance / width**2)


def _expected(function: Callable, params: LocationScale) -> Float[Array, "..."]:
    """Return E[function(Z)] for Z ~ N(mean, scale^2), of each coordinate.

    At a scale of 10, where nearly all mass is at both ends, moments are right to 1e-6.
    """
    at = lambda z: function(params.mean + params.scale * z)  # noqa: E731
    return expect_gaussian(at, params.mean)


def _unit_variance(params: LocationScale) -> Float[Array, "..."]:
    mean = _expected(jax.nn.sigmoid, params)
    return _expected(lambda z: (jax.nn.sigmoid(z) - mean) ** 2, params)


def _solve_moments(mean: Float[Array, ""], variance: Float[Array, ""]) -> LocationScale:
    """Return location and scale with these moments on (0, 1), by damped Newton's method."""
    wanted = jnp.stack([jax.scipy.special.logit(mean), jnp.log(variance)])

    def moments(at: Float[Array, " 2"]) -> Float[Array, " 2"]:
        params = LocationScale(at[0], jnp.exp(at[1]))
        own = _expected(jax.nn.sigmoid, params)
        return jnp.stack([jax.scipy.special.logit(own), jnp.log(_unit_variance(params))])

    def step(_: Array, at: Float[Array, " 2"]) -> Float[Array, " 2"]:
        move = jnp.linalg.solve(jax.jacfwd(moments)(at), moments(at) - wanted)
        return at - jnp.clip(move, -0.5, 0.5)

    # Near the middle, a standard deviation of y is slope times one of z.
    slope = mean * (1 - mean)
    start = jnp.stack([wanted[0], 0.5 * jnp.log(variance) - jnp.log(slope)])
    at = jax.lax.fori_loop(0, _STEPS, step, start)
    return LocationScale(at[0], jnp.exp(at[1]))
