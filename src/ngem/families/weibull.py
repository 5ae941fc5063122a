"""The Weibull distribution: positive targets such as times until something fails."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .gumbel import Gumbel
from .independent import LocationScale
from .positive import AbstractPositive

#: Steps of Newton's method from a relative spread to the scale; it starts within 20 percent.
_STEPS = 12


@dataclass(frozen=True)
class Weibull(AbstractPositive):
    """P(Y > y) = exp(-(y / s)^k): log(Y) has a Gumbel distribution with a long tail below.

    The scale is 1 / k. The location is log(s) + (1 - gamma) / k, with gamma that of Euler, so that
    the Fisher information 1/scale^2 and pi^2/(6 scale^2) has no cross term.
    """

    names: ClassVar[tuple[str, str]] = ("weibull", "diag")

    @property
    def base(self) -> Gumbel:
        return Gumbel(self.scale_floor, side=-1.0)

    def log_moment(self, params: LocationScale, order: float) -> Float[Array, "dim *rows"]:
        log_size = params.mean - (1 - float(np.euler_gamma)) * params.scale
        return order * log_size + jax.scipy.special.gammaln(1 + order * params.scale)

    def squared_variation(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return jnp.expm1(_log_ratio(params.scale))

    def scale_of_variation(self, squared: Float[Array, " dim"]) -> Float[Array, " dim"]:
        wanted = jnp.log1p(squared)

        # In the logarithm of the scale the function is nearly a line.
        def step(_: Array, log_scale: Array) -> Array:
            value, slope = jax.jvp(
                lambda x: jnp.log(_log_ratio(jnp.exp(x))), (log_scale,), (jnp.ones_like(log_scale),)
            )
            return log_scale - (value - jnp.log(wanted)) / slope

        start = 0.5 * jnp.log(wanted * 6 / np.pi**2)
        return jnp.exp(jax.lax.fori_loop(0, _STEPS, step, start))


def _log_ratio(scale: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return log(E[Y^2] / E[Y]^2) = lgamma(1 + 2 s) - 2 lgamma(1 + s); a series for small s."""
    small = scale < 0.02
    inside = jnp.where(small, 1.0, scale)
    direct = jax.scipy.special.gammaln(1 + 2 * inside) - 2 * jax.scipy.special.gammaln(1 + inside)
    s = jnp.where(small, scale, 0.0)
    # lgamma(1 + x) = -gamma x + zeta(2) x^2 / 2 - zeta(3) x^3 / 3 + zeta(4) x^4 / 4 - ...
    zetas = (1.6449340668482264, 1.2020569031595942, 1.0823232337111382, 1.0369277551433699)
    series = sum((-1) ** n * zeta / n * (2**n - 2) * s**n for n, zeta in enumerate(zetas, start=2))
    return jnp.where(small, series, direct)
