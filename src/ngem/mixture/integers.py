"""Scores and regions of one-dimensional distributions of integers.

Points are the first axis of every array. More axes may follow, with one entry for each row.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from .curve import Curve

#: Integers at a time, and most points of a grid. Beyond, each point stands for several integers.
_CHUNK, _MOST = 32, 2048

#: Most integers of a sum.
_MOST_TERMS = 16_384


class _Grid(NamedTuple):
    """Integers first, first + step, ...; each point stands for `step` integers."""

    first: Float[Array, "*rows"]
    last: Float[Array, "*rows"]
    step: Float[Array, "*rows"]

    def chunk(self, number: Float[Array, ""], size: int) -> Float[Array, "point *rows"]:
        """Return some of the points."""
        index = number * size + jnp.arange(size, dtype=self.first.dtype)
        index = index.reshape(-1, *(1 for _ in self.first.shape))
        return self.first[None] + index * self.step[None]

    def masses(self, curve: Curve, x: Float[Array, "point *rows"]) -> Float[Array, "point *rows"]:
        """Return the probability of what each point stands for."""
        # Differences of a distribution function are exact and slow, so only where need be.
        mass = lax.cond(
            jnp.any(self.step > 1),
            lambda x: curve.cdf(x + self.step[None] - 1) - curve.cdf(x - 1),
            lambda x: jnp.exp(curve.log_prob(x)),
            x,
        )
        return jnp.where(x <= self.last[None], jnp.maximum(mass, 0.0), 0.0)


def _masses(curve: Curve) -> tuple[_Grid, Float[Array, "point *rows"], Float[Array, "point *rows"]]:
    """Return a grid that holds nearly all probability, its points, and their probabilities."""
    ends = (curve.lower, curve.upper)
    first, last = (lax.stop_gradient(jnp.floor(jnp.maximum(end, 0.0))) for end in ends)
    grid = _Grid(first, last, jnp.maximum(1.0, jnp.ceil((last - first + 1) / _MOST)))
    x = grid.chunk(jnp.zeros((), first.dtype), _MOST)
    return grid, x, grid.masses(curve, x)


def crps(
    curve: Curve,
    y: Float[Array, "*rows"],
) -> Float[Array, "*rows"]:
    """Return the sum over integers n of (P(Y <= n) - 1{n >= y})^2.

    A sum of at most some ten thousand terms; all of what is far in a long tail counts as one.

    Args:
        curve: Probabilities of integers; its ends are integers too.
        y: Where the target is.
    """
    first = lax.stop_gradient(jnp.maximum(curve.lower, 0.0))
    last = jnp.minimum(lax.stop_gradient(curve.upper), first + _MOST_TERMS)
    grid = _Grid(first, last, jnp.ones_like(first))

    def proceed(state: tuple[Array, Array, Array]) -> Bool[Array, ""]:
        return jnp.any(first + state[0] * _CHUNK <= last)

    def add(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        number, before, total = state
        x = grid.chunk(number, _CHUNK)
        mass = jnp.where(x <= last[None], jnp.exp(curve.log_prob(x)), 0.0)
        below = jnp.minimum(before[None] + jnp.cumsum(mass, axis=0), 1.0)
        squares = jnp.where(x >= y[None], 1 - below, below) ** 2
        inside = jnp.where(x <= last[None], squares, 0.0)
        return number + 1, before + jnp.sum(mass, axis=0), total + jnp.sum(inside, axis=0)

    before = curve.cdf((first - 1)[None])[0]
    start = (jnp.zeros((), y.dtype), before, jnp.zeros_like(y))
    total = lax.while_loop(proceed, add, start)[2]
    return total + jnp.maximum(first - y, 0.0) + jnp.maximum(y - last - 1, 0.0)


def highest(
    curve: Curve,
    coverage: Float[Array, "*rows"],
    n_intervals: int,
) -> Float[Array, "interval 2 *rows"]:
    """Return the smallest set of integers with at least a given probability, as runs of them.

    Args:
        curve: Probabilities of integers; its ends are integers too.
        coverage: Probability of the set.
        n_intervals: How many runs to return; the last one reaches to the end of all others.

    Returns:
        First and last integer of each run in ascending order, padded with NaN.
    """
    grid, x, mass = _masses(curve)
    ordered = jnp.sort(mass, axis=0)[::-1]
    # Rounding must not make a set larger than it need be.
    enough = jnp.cumsum(ordered, axis=0) >= coverage[None] * (1 - 1e-6)
    place = jnp.where(jnp.any(enough, axis=0), jnp.argmax(enough, axis=0), _MOST - 1)
    threshold = jnp.take_along_axis(ordered, place[None], axis=0)
    inside = (mass >= threshold) & (mass > 0)
    outside = jnp.zeros_like(inside[:1])
    begins = inside & ~jnp.concatenate([outside, inside[:-1]])
    ends = inside & ~jnp.concatenate([inside[1:], outside])
    firsts = jnp.sort(jnp.where(begins, x, jnp.nan), axis=0)[:n_intervals]
    lasts = jnp.sort(jnp.where(ends, x + grid.step[None] - 1, jnp.nan), axis=0)[:n_intervals]
    furthest = jnp.max(jnp.where(ends, x + grid.step[None] - 1, -jnp.inf), axis=0)
    lasts = lasts.at[-1].set(jnp.where(jnp.isnan(lasts[-1]), jnp.nan, furthest))
    possible = (coverage >= 0) & (coverage <= 1)
    return jnp.where(possible[None, None], jnp.stack([firsts, lasts], axis=1), jnp.nan)


def region_mass(
    curve: Curve,
    y: Float[Array, "*rows"],
) -> Float[Array, "*rows"]:
    """Return the probability of all integers that are at least as probable as y."""
    grid, _, mass = _masses(curve)
    own = jnp.exp(curve.log_prob(y[None])[0]) * grid.step
    # Twice the same probability may differ by rounding.
    counts = mass >= own[None] * (1 - 64 * jnp.finfo(y.dtype).eps.astype(y.dtype))
    return jnp.clip(jnp.sum(jnp.where(counts, mass, 0.0), axis=0), 0.0, 1.0)


def modes(
    curve: Curve,
    n_modes: int,
) -> Float[Array, "mode *rows"]:
    """Return integers more probable than both neighbors, the most probable first."""
    _, x, mass = _masses(curve)
    edge = jnp.full_like(mass[:1], -1.0)
    rises = mass > jnp.concatenate([edge, mass[:-1]])
    falls = mass >= jnp.concatenate([mass[1:], edge])
    height = jnp.where(rises & falls & (mass > 0), mass, -1.0)
    order = jnp.argsort(-height, axis=0)[:n_modes]
    found = jnp.take_along_axis(height, order, axis=0) > 0
    return jnp.where(found, jnp.take_along_axis(x, order, axis=0), jnp.nan)
