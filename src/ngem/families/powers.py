"""Powers of positive numbers: exact where they can be, cheap where they follow a schedule."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Power

_EXACT: dict[float, Callable] = {
    -1: lambda x: 1 / x,
    -0.5: jax.lax.rsqrt,
    0: jnp.ones_like,
    0.5: jnp.sqrt,
    1: lambda x: x,
    2: jnp.square,
}


def power_of(x: Float[Array, "..."], exponent: Power) -> Float[Array, "..."]:
    """Return x ** exponent for positive x, exactly 1 at exponent 0 and x at exponent 1."""
    if isinstance(exponent, int | float):
        return _EXACT[exponent](x) if exponent in _EXACT else _by_logarithm(x, exponent)
    # A schedule ends at 0, where nothing is left to compute. Until then the branch keeps XLA from
    # computing the powers again for each element that they multiply. XLA vectorizes one long axis,
    # not a short last one, so the array is flattened.
    flat = jax.lax.cond(
        exponent == 0, lambda x, _: jnp.ones_like(x), _by_logarithm, x.reshape(-1), exponent
    )
    return flat.reshape(x.shape)


def _by_logarithm(x: Float[Array, "..."], exponent: Power) -> Float[Array, "..."]:
    """Return x ** exponent; cheaper than jnp.power where a density needs the logarithm too."""
    return jnp.exp(jnp.asarray(exponent, x.dtype) * jnp.log(x))


def power_of_pair(
    first: Float[Array, "..."],
    cross: Float[Array, "..."],
    second: Float[Array, "..."],
    exponent: Power,
) -> tuple[Array, Array, Array]:
    """Return the entries of [[first, cross], [cross, second]] ** exponent, element by element.

    The matrices are positive definite. At exponent 0 the result is exactly the identity.
    """
    unit = 0.5 * (first + second)
    gap, cross = 0.5 * (first - second) / unit, cross / unit
    # Both are parts of one matrix of trace 2, so no square overflows.
    radius = jnp.sqrt(gap**2 + cross**2)
    determinant = (first / unit) * (second / unit) - cross**2
    least = jnp.finfo(unit.dtype).eps
    large = power_of(unit * (1 + radius), exponent)
    small = power_of(unit * jnp.maximum(determinant / (1 + radius), least), exponent)
    middle = 0.5 * (large + small)
    slope = jnp.where(radius > 0, 0.5 * (large - small) / jnp.where(radius > 0, radius, 1.0), 0.0)
    return middle + slope * gap, slope * cross, middle - slope * gap
