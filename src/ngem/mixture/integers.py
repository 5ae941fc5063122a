"""Scores and regions of one-dimensional distributions of integers.

Points are the first axis of every array. More axes may follow, with one entry for each row.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from .roots import Elementwise

#: Integers at a time, and most points of a grid. Beyond, each point stands for several integers.
_CHUNK, _MOST = 32, 2048


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

    def masses(
        self, log_prob: Elementwise, x: Float[Array, "point *rows"]
    ) -> Float[Array, "point *rows"]:
        """Return the probability of what each point stands for."""
        middle = jnp.floor(x + 0.5 * (self.step[None] - 1))
        mass = self.step[None] * jnp.exp(log_prob(middle))
        return jnp.where(x <= self.last[None], mass, 0.0)


def _grid(lower: Float[Array, "*rows"], upper: Float[Array, "*rows"], most: int) -> _Grid:
    first, last = (lax.stop_gradient(jnp.floor(jnp.maximum(end, 0.0))) for end in (lower, upper))
    return _Grid(first, last, jnp.maximum(1.0, jnp.ceil((last - first + 1) / most)))


def crps(
    log_prob: Elementwise,
    lower: Float[Array, "*rows"],
    upper: Float[Array, "*rows"],
    y: Float[Array, "*rows"],
) -> Float[Array, "*rows"]:
    """Return the sum over integers n of (P(Y <= n) - 1{n >= y})^2.

    Args:
        log_prob: Log probability of each integer.
        lower: An integer with negligible probability below it.
        upper: An integer with negligible probability above it.
        y: Where the target is.
    """
    grid = _grid(lower, upper, _MOST)
    step = grid.step[None]

    def proceed(state: tuple[Array, Array, Array]) -> Bool[Array, ""]:
        return jnp.any(grid.first + state[0] * _CHUNK * grid.step <= grid.last)

    def add(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        number, before, total = state
        x = grid.chunk(number, _CHUNK)
        mass = grid.masses(log_prob, x)
        # Within a step the distribution function is taken for a line.
        below = before[None] + jnp.cumsum(mass, axis=0) - 0.5 * mass * (1 - 1 / step)
        reached = jnp.clip(x + step - y[None], 0.0, step)
        squares = reached * (1 - below) ** 2 + (step - reached) * below**2
        inside = jnp.where(x <= grid.last[None], squares, 0.0)
        return number + 1, before + jnp.sum(mass, axis=0), total + jnp.sum(inside, axis=0)

    start = (jnp.zeros((), y.dtype), jnp.zeros_like(y), jnp.zeros_like(y))
    total = lax.while_loop(proceed, add, start)[2]
    n_points = jnp.floor((grid.last - grid.first) / grid.step) + 1
    end = grid.first + n_points * grid.step  # the first integer beyond all of the grid
    return total + jnp.maximum(grid.first - y, 0.0) + jnp.maximum(y - end, 0.0)


def highest(
    log_prob: Elementwise,
    lower: Float[Array, "*rows"],
    upper: Float[Array, "*rows"],
    coverage: Float[Array, "*rows"],
    n_intervals: int,
) -> Float[Array, "interval 2 *rows"]:
    """Return the smallest set of integers with at least a given probability, as runs of them.

    Args:
        log_prob: Log probability of each integer.
        lower: An integer with negligible probability below it.
        upper: An integer with negligible probability above it.
        coverage: Probability of the set.
        n_intervals: How many runs to return; the last one reaches to the end of all others.

    Returns:
        First and last integer of each run in ascending order, padded with NaN.
    """
    grid = _grid(lower, upper, _MOST)
    x = grid.chunk(jnp.zeros((), grid.first.dtype), _MOST)
    mass = grid.masses(log_prob, x)
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
    log_prob: Elementwise,
    lower: Float[Array, "*rows"],
    upper: Float[Array, "*rows"],
    y: Float[Array, "*rows"],
) -> Float[Array, "*rows"]:
    """Return the probability of all integers that are at least as probable as y."""
    grid = _grid(lower, upper, _MOST)
    mass = grid.masses(log_prob, grid.chunk(jnp.zeros((), grid.first.dtype), _MOST))
    own = grid.step * jnp.exp(log_prob(y[None])[0])
    # Twice the same probability may differ by rounding.
    counts = mass >= own[None] * (1 - 64 * jnp.finfo(y.dtype).eps.astype(y.dtype))
    return jnp.clip(jnp.sum(jnp.where(counts, mass, 0.0), axis=0), 0.0, 1.0)


def modes(
    log_prob: Elementwise,
    lower: Float[Array, "*rows"],
    upper: Float[Array, "*rows"],
    n_modes: int,
) -> Float[Array, "mode *rows"]:
    """Return integers more probable than both neighbors, the most probable first."""
    grid = _grid(lower, upper, _MOST)
    x = grid.chunk(jnp.zeros((), grid.first.dtype), _MOST)
    mass = grid.masses(log_prob, x)
    edge = jnp.full_like(mass[:1], -1.0)
    rises = mass > jnp.concatenate([edge, mass[:-1]])
    falls = mass >= jnp.concatenate([mass[1:], edge])
    height = jnp.where(rises & falls & (mass > 0), mass, -1.0)
    order = jnp.argsort(-height, axis=0)[:n_modes]
    found = jnp.take_along_axis(height, order, axis=0) > 0
    return jnp.where(found, jnp.take_along_axis(x, order, axis=0), jnp.nan)
