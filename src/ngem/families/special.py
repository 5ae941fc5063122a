"""Special functions that JAX lacks, or that lose digits in it."""

from collections.abc import Callable
from functools import reduce

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

#: Steps of a search for a quantile: its bracket is doubled, then halved.
_ITERATIONS = 110

#: Arguments below this are moved up by recurrence before an asymptotic series is used.
_STEPS = 8

#: Nodes of the trapezoidal rule against a Gaussian, which converges exponentially for what is
#: smooth.
_NORMAL_NODES = np.linspace(-8.5, 8.5, 129)
_NORMAL_WEIGHTS = np.exp(-0.5 * _NORMAL_NODES**2) / np.sum(np.exp(-0.5 * _NORMAL_NODES**2))


def expect_gaussian(function: Callable, like: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return E[function(Z)] for a standard normal number Z, in the shape and dtype of `like`."""

    def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
        return total + node[1] * function(node[0]), None

    nodes, weights = (jnp.asarray(part, like.dtype) for part in (_NORMAL_NODES, _NORMAL_WEIGHTS))
    return lax.scan(add, jnp.zeros_like(like), (nodes, weights))[0]


def invert_cdf(log_tail: Callable, log_prob: Callable, q: Float[Array, "..."]) -> Array:
    """Return the inverse of a distribution function on the real line, element by element.

    By bisection of the nearer tail, from the origin outward, and a last step of Newton's method,
    through which derivatives are exact. 0 gives -inf and 1 gives inf.

    Args:
        log_tail: Log probability above a point where its second argument is true, else below.
        log_prob: Log density.
        q: Probabilities.
    """
    is_above = q > 0.5
    nearer = jnp.where(is_above, 1 - q, q)
    inside = (q > 0) & (q < 1)
    level = jnp.log(jnp.where(inside, nearer, 0.25))
    fixed = lax.stop_gradient(level)
    sign = jnp.where(is_above, 1.0, -1.0).astype(q.dtype)

    def shrink(_: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        """Double the outer end until it is far enough out, then halve the bracket."""
        low, high, is_bounded = state
        x = jnp.where(is_bounded, 0.5 * (low + high), high)
        # Whether the tail beyond is still heavier than asked for.
        is_inner = log_tail(sign * x, is_above) > fixed
        grown = jnp.where(is_bounded, high, 2 * high)
        return (
            jnp.where(is_inner, x, low),
            jnp.where(is_inner, grown, x),
            is_bounded | ~is_inner,
        )

    ones = jnp.ones_like(level)
    # The origin need not be the median: the bracket begins on its other side.
    start = (-64 * ones, ones, jnp.zeros(level.shape, bool))
    ends = lax.fori_loop(0, _ITERATIONS, shrink, start)
    x = lax.stop_gradient(sign * 0.5 * (ends[0] + ends[1]))
    tail = log_tail(x, is_above)
    # The slope of the logarithm of a tail is its density over its probability.
    slope = lax.stop_gradient(sign * jnp.exp(log_prob(x) - tail))
    x = x + (tail - level) / jnp.where(slope == 0, 1.0, slope)
    outside = jnp.where(q <= 0, -jnp.inf, jnp.inf).astype(x.dtype)
    return jnp.where(inside, x, outside)


def stirling_rest(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi) / 2), which goes to 0 as 1 / (12 x).

    The difference of the two would lose all digits for large x.
    """
    is_large = x > _STEPS
    small = jnp.where(is_large, 1.0, x)
    moved = small + _STEPS
    inverse = 1 / jnp.where(is_large, x, moved)
    square = inverse**2
    last = 1 / 1260 - square * (1 / 1680 - square / 1188)
    series = inverse * (1 / 12 - square * (1 / 360 - square * last))
    # Small ones by lgamma(x) = lgamma(x + n) - log(x (x + 1) ... (x + n - 1)): the lgamma of XLA
    # and its derivative take several times as long.
    ratios = [(small + step) / moved for step in range(1, _STEPS)]
    shift = (small + 0.5) * jnp.log1p(_STEPS / small) - _STEPS
    return jnp.where(is_large, series, series + shift - jnp.log(reduce(jnp.multiply, ratios)))


def trigamma(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the second derivative of lgamma, for positive x."""
    total = jnp.zeros_like(x)
    for step in range(_STEPS):
        total = total + 1 / (x + step) ** 2
    return total + 1 / (x + _STEPS) + trigamma_rest(x + _STEPS)


def trigamma_rest(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return trigamma(x) - 1 / x by its asymptotic series, for x of at least 8."""
    inverse = 1 / x
    square = inverse**2
    odd = 1 / 6 - square * (1 / 30 - square * (1 / 42 - square * (1 / 30 - square * 5 / 66)))
    return square * (0.5 + inverse * odd)


def excess_trigamma(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return x^2 (trigamma(x) - 1 / x), between 1 for small x and 1 / 2 for large x."""
    is_large = x > _STEPS
    large, small = jnp.where(is_large, x, _STEPS), jnp.where(is_large, 1.0, x)
    direct = 1 + small**2 * trigamma(small + 1) - small
    return jnp.where(is_large, large**2 * trigamma_rest(large), direct)


def exp_excess(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return exp(x) - 1 - x, by its series for small x."""
    small = jnp.abs(x) < 0.1
    inside = jnp.where(small, 1.0, jnp.minimum(x, 80.0))
    s = jnp.where(small, x, 0.0)
    series = s**2 / 2 * (1 + s / 3 * (1 + s / 4 * (1 + s / 5 * (1 + s / 6 * (1 + s / 7)))))
    direct = jnp.expm1(inside) - jnp.where(small, 1.0, x)
    return jnp.where(small, series, direct)


def invert_steps(
    cdf: Callable, low: Float[Array, "..."], high: Float[Array, "..."], q: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Return the least integer at which a distribution function reaches q, element by element.

    By bisection over integers. 0 gives the lower bracket, 1 gives inf.

    Args:
        cdf: Distribution function of integers.
        low: An integer below each quantile.
        high: An integer at or above each quantile.
        q: Probabilities.
    """

    def proceed(ends: tuple[Array, Array]) -> Array:
        # Neighboring floats above 2^24 are more than one apart in single precision.
        return jnp.any(jnp.floor(0.5 * (ends[0] + ends[1])) > ends[0])

    def halve(ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = jnp.floor(0.5 * (ends[0] + ends[1]))
        is_below = cdf(middle) < q
        moves = middle > ends[0]
        return (
            jnp.where(moves & is_below, middle, ends[0]),
            jnp.where(moves & ~is_below, middle, ends[1]),
        )

    low, high, q = jnp.broadcast_arrays(low, high, q)
    low, high, q = lax.stop_gradient((low, high, q))
    return jnp.where(q < 1, lax.while_loop(proceed, halve, (low, high))[1], jnp.inf)
