"""The Gumbel distribution with independent coordinates: skewed, the law of extremes."""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .location_scale import AbstractLocationScale

# The information of location and scale has no cross term if the origin is moved by this.
_ORIGIN = float(np.euler_gamma) - 1


@dataclass(frozen=True)
class Gumbel(AbstractLocationScale):
    """Density exp(-x - exp(-x)) / scale with x = side z + gamma - 1, gamma that of Euler.

    Fisher information 1/scale^2 for the location and pi^2/(6 scale^2) for the scale, without a
    cross term. The expectation is location + side scale, the variance pi^2/6 scale^2.

    Attributes:
        side: 1 for a long tail above, as largest values have, and -1 for one below.
    """

    names: ClassVar[tuple[str, str]] = ("gumbel", "diag")
    options: ClassVar[tuple[str, ...]] = ("side",)

    side: float = 1.0

    def __post_init__(self) -> None:
        if self.side not in (-1, 1):
            raise ValueError(
                f"side of family 'gumbel' must be 1 or -1, got {self.side!r}; 1 for a long tail "
                "above, for example gumbel(1)."
            )

    @property
    def unit_fisher(self) -> tuple[float, float]:
        return 1.0, math.pi**2 / 6

    @property
    def unit_mean(self) -> float:
        return float(self.side)

    @property
    def unit_variance(self) -> float:
        return math.pi**2 / 6

    def _x(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.side * z + _ORIGIN

    def unit_log_prob(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        x = self._x(z)
        # exp(80) is finite in single precision, and its square, which a derivative may need, not.
        return -x - jnp.exp(jnp.minimum(-x, 80.0))

    def unit_cdf(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        below = jnp.exp(-jnp.exp(-self._x(z)))
        above = -jnp.expm1(-jnp.exp(-self._x(z)))
        return below if self.side > 0 else above

    def unit_log_cdf(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.unit_log_tail(z, jnp.zeros(z.shape, bool))

    def unit_log_tail(
        self, z: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        x = self._x(z)
        is_long = is_above if self.side > 0 else ~is_above
        # Both formulas must stay finite where the other one counts.
        rate = jnp.exp(-jnp.clip(x, -80.0, 80.0))
        # 1 - exp(-rate) for a small rate, whose logarithm is -x up to half the rate.
        small = jnp.minimum(rate, 1e-4)
        large = jnp.log(-jnp.expm1(-jnp.maximum(rate, 1e-4)))
        long = jnp.where(rate < 1e-4, -x - 0.5 * small, large)
        return jnp.where(is_long, long, -rate)

    def unit_quantile(self, q: Float[Array, "..."]) -> Float[Array, "..."]:
        rate = -jnp.log(q) if self.side > 0 else -jnp.log1p(-q)
        return self.side * (-jnp.log(rate) - _ORIGIN)

    def unit_sample(self, key: PRNGKeyArray, like: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.side * (jax.random.gumbel(key, like.shape, like.dtype) - _ORIGIN)
