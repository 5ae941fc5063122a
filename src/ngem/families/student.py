"""Student's t distribution with independent coordinates: tails as heavy as one chooses."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._types import Power
from .independent import solve_pair
from .location_scale import AbstractLocationScale
from .powers import power_of
from .shaped import AbstractShaped, LocationScaleShape, ShapedInformation
from .special import invert_cdf, trigamma

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

    def unit_log_prob(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return log_density(self.df, z)

    def unit_cdf(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        tail = jnp.exp(log_lower_tail(self.df, -jnp.abs(z)))
        return jnp.where(z < 0, tail, 1 - tail)

    def unit_log_cdf(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return log_tail(self.df, z, jnp.zeros(jnp.shape(z), bool))

    def unit_quantile(self, q: Float[Array, "..."]) -> Float[Array, "..."]:
        return invert_cdf(self.unit_log_tail, self.unit_log_prob, q)

    def unit_sample(self, key: PRNGKeyArray, like: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return sample(self.df, key, like)


@dataclass(frozen=True)
class LearnedStudent(AbstractShaped):
    """Student's t distribution with degrees of freedom df that are learned.

    The shape is log(df - 2), so that there is a variance; df is at most 57, beyond which a Gaussian
    is about the same. Fisher information as of `Student`; for df it is (trigamma(df / 2) -
    trigamma((df + 1) / 2)) / 4 - (df + 5) / (2 df (df + 1) (df + 3)), and across scale and df it is
    -2 / ((df + 1) (df + 3) scale). Tails have no derivative in df, so that targets must be known:
    there is no censoring.
    """

    names: ClassVar[tuple[str, str]] = ("student-learned", "diag")
    shapes: ClassVar[tuple[float, float]] = (-1.5, 4.0)

    @property
    def usual_shape(self) -> float:
        return math.log(3.0)  # df = 5

    def information(self, shape: Float[Array, "..."]) -> ShapedInformation:
        df, slope = _freedom(shape), jnp.exp(shape)
        both = (df + 1) * (df + 3)
        own = 0.25 * (trigamma(0.5 * df) - trigamma(0.5 * (df + 1))) - (df + 5) / (2 * df * both)
        return ShapedInformation(
            (df + 1) / (df + 3), 2 * df / (df + 3), own * slope**2, -2 * slope / both
        )

    def fisher_solve(
        self,
        params: LocationScaleShape,
        grad: LocationScaleShape,
        power: Power,
        coordinates: str = "scale",
    ) -> LocationScaleShape:
        own, scale = self.information(params.shape), params.scale
        entries = own.shape, own.cross / scale, own.scale / scale**2
        for_location = power_of(scale, 2 * power) * power_of(own.location, -power)
        shape, of_scale = solve_pair(entries, scale, (grad.shape, grad.scale), power, coordinates)
        return LocationScaleShape(grad.mean * for_location, of_scale, shape)

    def unit_moments(self, shape: Float[Array, "..."]) -> tuple[Array, Array]:
        return jnp.zeros_like(shape), _freedom(shape) * jnp.exp(-shape)

    def unit_log_prob(
        self, shape: Float[Array, "..."], z: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        return log_density(_freedom(shape), z)

    def unit_log_tail(
        self, shape: Float[Array, "..."], z: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        shape, z = jnp.broadcast_arrays(jax.lax.stop_gradient(shape), z)
        return log_tail(_freedom(shape), z, is_above)

    def unit_sample(self, shape: Float[Array, " dim"], key: PRNGKeyArray) -> Float[Array, " dim"]:
        return sample(_freedom(shape), key, shape)

    def log_observed(
        self,
        params: LocationScaleShape,
        lower: Float[Array, "dim *rows"],
        upper: Float[Array, "dim *rows"],
    ) -> Float[Array, "*rows"]:
        raise NotImplementedError(
            "targets of family 'student-learned' must be known exactly, got intervals; try "
            "family='student(4)', which takes rounded and censored targets, or no resolution."
        )


def _freedom(shape: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the degrees of freedom."""
    return 2 + jnp.exp(shape)


def log_density(df: float | Array, z: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the log density at scale 1."""
    # An infinite square would make the derivative in df NaN.
    square = jnp.minimum(z**2, jnp.finfo(z.dtype).max)
    return _log_constant(df) - 0.5 * (df + 1) * jnp.log1p(square / df)


def _log_constant(df: Any) -> Any:
    lgamma, log = _functions(df)
    return lgamma((df + 1) / 2) - lgamma(df / 2) - 0.5 * log(df * math.pi)


def _functions(df: Any) -> tuple[Callable, Callable]:
    """Return the logarithms of the gamma function and of a number, for numbers or arrays."""
    if isinstance(df, float | int):
        return math.lgamma, math.log
    return jax.scipy.special.gammaln, jnp.log


def log_tail(
    df: float | Array, z: Float[Array, "..."], is_above: Bool[Array, "..."]
) -> Float[Array, "..."]:
    """Return the log probability above z where `is_above`, and below z elsewhere."""
    lower = log_lower_tail(df, -jnp.abs(z))
    # At zero both branches are log(1/2), and the second has a finite derivative.
    is_outer = jnp.where(is_above, z > 0, z < 0)
    return jnp.where(is_outer, lower, jnp.log1p(-jnp.exp(lower)))


def log_lower_tail(df: float | Array, z: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the log probability below z <= 0, half of I_x(df / 2, 1 / 2).

    x = df / (df + z^2). Far out and near zero the series of that function are exact.
    """
    lgamma, log = _functions(df)
    a, b = df / 2, 0.5
    # In the logarithm, so that squares of huge residuals do not overflow to x = 0.
    log_x = -jnp.logaddexp(0.0, 2 * jnp.log(jnp.maximum(-z, 1e-15)) - log(df))
    x = jnp.exp(log_x)
    is_far, is_near = x < _FAR, x > 1 - _NEAR
    far_x = jnp.where(is_far, x, 0.0)
    # I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) (1 + (a + b) x / (a + 1) + ...)
    series = _series(far_x, [(a + b + n) / (a + 1 + n) for n in range(_TERMS)])
    log_beta = lgamma(a) + lgamma(b) - lgamma(a + b)
    far = a * log_x + b * jnp.log1p(-far_x) - log(a) - log_beta + jnp.log(series)
    # 1/2 + z f(0) 2F1(1/2, a + 1/2; 3/2; -z^2 / df)
    near_z = jnp.where(is_near, z, 0.0)
    ratios = [(n + 0.5) * (a + 0.5 + n) / ((n + 1.5) * (n + 1)) for n in range(_TERMS)]
    odd = near_z * _series(-(near_z**2) / df, ratios)
    near = jnp.log(0.5 + jnp.exp(_log_constant(df)) * odd)
    between = jnp.log(jax.scipy.special.betainc(a, b, jnp.where(is_far | is_near, 0.5, x)))
    return jnp.where(is_near, near, jnp.where(is_far, far, between) - math.log(2))


def sample(
    df: float | Array, key: PRNGKeyArray, like: Float[Array, " dim"]
) -> Float[Array, " dim"]:
    """Return draws by the polar method of Bailey (1994), which rejects none."""
    radius_key, angle_key = jax.random.split(key)
    uniform = jax.random.uniform(radius_key, like.shape, like.dtype, jnp.finfo(like.dtype).tiny)
    angle = 2 * math.pi * jax.random.uniform(angle_key, like.shape, like.dtype)
    radius = jnp.sqrt(df * jnp.expm1(-2 / df * jnp.log(uniform)))
    return radius * jnp.cos(angle)


def _series(x: Float[Array, "..."], ratios: list[Any]) -> Float[Array, "..."]:
    """Return 1 + r_0 x (1 + r_1 x (1 + ...))."""
    total = jnp.ones_like(x)
    for ratio in reversed(ratios):
        total = 1 + ratio * x * total
    return total
