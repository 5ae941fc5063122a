"""Student's t distribution with independent coordinates: tails as heavy as one chooses."""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .location_scale import AbstractLocationScale
from .special import invert_cdf

#: Series replace the incomplete beta function below and above these arguments; their terms.
_FAR, _NEAR, _TERMS = 0.1, 0.1, 24


@dataclass(frozen=True)
class Student(AbstractLocationScale):
    """Density proportional to (1 + z^2 / df)^(-(df + 1) / 2) / scale.

    Fisher information (df + 1)/((df + 3) scale^2) for the location and 2 df/((df + 3) scale^2) for
    the scale. The degrees of freedom are a setting, the same for all components.

    Attributes:
        df: Degrees of freedom, above 2 so that there is a variance; the fewer, the heavier tails.
    """

    names: ClassVar[tuple[str, str]] = ("student", "diag")
    options: ClassVar[tuple[str, ...]] = ("df",)

    df: float = 5.0

    def __post_init__(self) -> None:
        if not 2 < self.df <= 1e6:
            raise ValueError(
                f"df of family 'student' must be a number above 2 and at most 1e6, got {self.df!r};"
                " for example student(5). Above 100 the Gaussian family is the same."
            )

    @property
    def unit_fisher(self) -> tuple[float, float]:
        return (self.df + 1) / (self.df + 3), 2 * self.df / (self.df + 3)

    @property
    def unit_variance(self) -> float:
        return self.df / (self.df - 2)

    @property
    def _log_constant(self) -> float:
        half = math.lgamma((self.df + 1) / 2) - math.lgamma(self.df / 2)
        return half - 0.5 * math.log(self.df * math.pi)

    def unit_log_prob(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return self._log_constant - 0.5 * (self.df + 1) * jnp.log1p(z**2 / self.df)

    def unit_cdf(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        tail = jnp.exp(self._log_lower_tail(-jnp.abs(z)))
        return jnp.where(z < 0, tail, 1 - tail)

    def unit_log_cdf(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        lower = self._log_lower_tail(-jnp.abs(z))
        # At zero both branches are log(1/2), and the second has a finite derivative.
        return jnp.where(z < 0, lower, jnp.log1p(-jnp.exp(lower)))

    def _log_lower_tail(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the log probability below z <= 0, half of I_x(df / 2, 1 / 2).

        x = df / (df + z^2). Far out and near zero the series of that function are exact.
        """
        a, b = self.df / 2, 0.5
        # In the logarithm, so that squares of huge residuals do not overflow to x = 0.
        log_x = -jnp.logaddexp(0.0, 2 * jnp.log(jnp.maximum(-z, 1e-15)) - math.log(self.df))
        x = jnp.exp(log_x)
        is_far, is_near = x < _FAR, x > 1 - _NEAR
        far_x = jnp.where(is_far, x, 0.0)
        # I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) (1 + (a + b) x / (a + 1) + ...)
        series = _series(far_x, [(a + b + n) / (a + 1 + n) for n in range(_TERMS)])
        log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
        far = a * log_x + b * jnp.log1p(-far_x) - math.log(a) - log_beta + jnp.log(series)
        # 1/2 + z f(0) 2F1(1/2, a + 1/2; 3/2; -z^2 / df)
        near_z = jnp.where(is_near, z, 0.0)
        ratios = [(n + 0.5) * (a + 0.5 + n) / ((n + 1.5) * (n + 1)) for n in range(_TERMS)]
        odd = near_z * _series(-(near_z**2) / self.df, ratios)
        near = jnp.log(0.5 + math.exp(self._log_constant) * odd)
        between = jnp.log(jax.scipy.special.betainc(a, b, jnp.where(is_far | is_near, 0.5, x)))
        return jnp.where(is_near, near, jnp.where(is_far, far, between) - math.log(2))

    def unit_quantile(self, q: Float[Array, "..."]) -> Float[Array, "..."]:
        return invert_cdf(self.unit_log_tail, self.unit_log_prob, q)

    def unit_sample(self, key: PRNGKeyArray, like: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Return draws by the polar method of Bailey (1994), which rejects none."""
        radius_key, angle_key = jax.random.split(key)
        uniform = jax.random.uniform(radius_key, like.shape, like.dtype, jnp.finfo(like.dtype).tiny)
        angle = 2 * math.pi * jax.random.uniform(angle_key, like.shape, like.dtype)
        radius = jnp.sqrt(self.df * jnp.expm1(-2 / self.df * jnp.log(uniform)))
        return radius * jnp.cos(angle)


def _series(x: Float[Array, "..."], ratios: list[float]) -> Float[Array, "..."]:
    """Return 1 + r_0 x (1 + r_1 x (1 + ...))."""
    total = jnp.ones_like(x)
    for ratio in reversed(ratios):
        total = 1 + ratio * x * total
    return total
