"""Quantiles, modes and highest-density regions of one-dimensional densities.

Modes and regions have points as the first axis of every array. More axes may follow, with one entry
for each density.
"""

from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .curve import Curve
from .roots import Elementwise, find_root, newton_root
from .turns import (
    Survey,
    Turns,
    derivative,
    detach,
    few_turns,
    find_turns,
    survey,
    take,
    turns_at_most,
    with_room_for_turns,
    with_slope,
)

#: Answers, and for which densities they are right: the others turn too often.
Quick: TypeAlias = tuple[Float[Array, "..."], Bool[Array, "..."]]

# Rounding units that a log density and a sum of probabilities may be wrong by.
_ROUNDING = 16

# Nodes and weights of Gauss and Legendre on (0, 1).
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_NODES = (0.5 * (_POINTS + 1), 0.5 * _WEIGHTS)

# From values at these nodes to the integral from 0 to each node, exact for polynomials.
_POWERS = np.arange(len(_POINTS))
_TO_INTEGRALS = (_NODES[0][:, None] ** (_POWERS + 1) / (_POWERS + 1)) @ np.linalg.inv(
    _NODES[0][:, None] ** _POWERS
)

# Halvings of the range of log thresholds for a first guess.
_GUESSES = 18


def quantile(
    cdf: Elementwise,
    lower: Float[Array, "..."],
    upper: Float[Array, "..."],
    q: Float[Array, "..."],
    known: Float[Array, "..."] | None = None,
) -> Float[Array, "..."]:
    """Return the x at which the distribution function reaches q, element by element.

    cdf(x) = q, so dx = (dq - d cdf) / cdf'(x): differentiable, also twice, in q and in whatever
    cdf closes over. It is not finite where the density underflows to zero, as in a wide gap.

    Args:
        cdf: Nondecreasing distribution function of each element.
        lower: A point at or below each quantile; for a mixture, its components' smallest quantile.
        upper: A point at or above each quantile; for a mixture, its components' largest quantile.
        q: Probabilities; 0 gives -inf, 1 gives inf, and all else outside (0, 1) gives NaN.
        known: Quantiles at steps of the distribution function, NaN where it has none at q.

    Returns:
        Quantiles, exact in probability up to the spacing of floats.
    """
    lower, upper, q = jnp.broadcast_arrays(lower, upper, q)
    inside = (q > 0) & (q < 1)
    if known is not None:
        inside = inside & jnp.isnan(known)
    level = jnp.where(inside, q, 0.5)
    # Below the spacing of probabilities every difference is rounding.
    spacing = lax.stop_gradient(level) * jnp.finfo(level.dtype).eps.astype(level.dtype)
    x = _root(lambda x: cdf(x) - level, lower, upper, inside, atol=spacing)
    outside = jnp.where(q == 0, -jnp.inf, jnp.where(q == 1, jnp.inf, jnp.nan))
    if known is not None:
        outside = jnp.where(jnp.isnan(known), outside, known)
    return jnp.where(inside, x, outside.astype(x.dtype))


def crps(
    cdf: Elementwise, grid: Float[Array, "grid *rows"], y: Float[Array, "*rows"]
) -> Float[Array, "*rows"]:
    """Return the continuous ranked probability score, by quadrature.

    The integral of F(x)^2 below y and of (1 - F(x))^2 above it. Each cell between two points of the
    grid, one of which is y, has a few nodes of Gauss and Legendre.

    Args:
        cdf: Distribution function of each element.
        grid: Ascending points, dense where the density can bend, with negligible probability beyond
            both ends.
        y: Where the target is.
    """
    x = jnp.sort(jnp.concatenate([lax.stop_gradient(grid), y[None]]), axis=0)
    low, width = x[:-1], jnp.diff(x, axis=0)
    eps = jnp.finfo(y.dtype).eps.astype(y.dtype)

    def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
        at = low + node[0] * width
        below = cdf(at)
        # Rounding leaves a few units of 1 - F, which a cell far out may be wide enough to show.
        above = jnp.where(1 - below < _ROUNDING * eps, 0.0, 1 - below)
        square = jnp.where(at < y[None], below, above) ** 2
        return total + node[1] * jnp.sum(width * square, axis=0), None

    nodes, weights = (jnp.asarray(part, y.dtype) for part in _NODES)
    return lax.scan(add, jnp.zeros_like(y), (nodes, weights))[0]


def crps_of_density(
    log_prob: Elementwise, grid: Float[Array, "grid *rows"], y: Float[Array, "*rows"]
) -> Float[Array, "*rows"]:
    """Return `crps` from the density alone, for a distribution function that is slow.

    The distribution function at the nodes is what the cells before hold, and the integral of the
    polynomial through the density at the nodes of the own cell.

    Args:
        log_prob: Log density of each element.
        grid: Ascending points as for `crps`; there is nothing below the first one.
        y: Where the target is.
    """
    x = jnp.sort(jnp.concatenate([lax.stop_gradient(grid), y[None]]), axis=0)
    low, width = x[:-1], jnp.diff(x, axis=0)
    nodes, weights = (jnp.asarray(part, y.dtype) for part in _NODES)
    density = lax.map(lambda node: jnp.exp(log_prob(low + node * width)), nodes)
    mass = width * jnp.tensordot(weights, density, axes=1)
    through = jnp.cumsum(mass, axis=0)
    inside = width[None] * jnp.tensordot(jnp.asarray(_TO_INTEGRALS, y.dtype), density, axes=1)
    below = ((through - mass)[None] + inside) / through[-1:][None]
    at = low[None] + nodes.reshape(-1, *(1 for _ in low.shape)) * width[None]
    square = jnp.where(at < y[None, None], below, 1 - below) ** 2
    return jnp.tensordot(weights, jnp.sum(width[None] * square, axis=1), axes=1)


def critical_points(
    log_prob: Elementwise, grid: Float[Array, "grid *rows"], n_points: int
) -> Float[Array, "point *rows"]:
    """Return where the density turns, in ascending order: mode, antimode, ..., mode.

    Changes of sign of s(x) = d log p(x) / dx. The density is taken to rise before the grid and
    to fall after it, so an end of the grid can be a mode and there is always at least one.

    Args:
        log_prob: Log density, element by element.
        grid: Ascending points, dense where the density can bend.
        n_points: How many to return; those furthest right are lost if there are more.

    Returns:
        Locations padded with NaN, differentiable in whatever log_prob closes over.
    """
    turns = find_turns(log_prob, survey(log_prob, grid), n_points)
    return jnp.where(turns.found, _follow_turns(log_prob, turns.x), jnp.nan)


def modes(
    log_prob: Elementwise, grid: Float[Array, "grid *rows"], n_modes: int
) -> Float[Array, "mode *rows"]:
    """Return where the density peaks, the highest peak first.

    A peak whose height underflows relative to the highest one is not counted: its component has
    practically no weight.

    Args:
        log_prob: Log density, element by element.
        grid: Ascending points, dense where the density can bend.
        n_modes: How many to return; a Gaussian mixture has at most one per component.

    Returns:
        Locations padded with NaN, differentiable in whatever log_prob closes over.
    """
    seen = survey(log_prob, grid)

    def highest(n_turns: int) -> Float[Array, "mode *rows"]:
        return _highest(log_prob, seen, n_turns, n_modes)

    x = with_room_for_turns(seen, n_modes, highest)
    missing = jnp.isnan(x)
    return jnp.where(missing, x, _follow_turns(log_prob, jnp.where(missing, x[:1], x)))


def quick_modes(log_prob: Elementwise, grid: Float[Array, "grid *rows"], n_modes: int) -> Quick:
    """Return `modes` without derivatives, for densities that do not turn often."""
    seen, few = survey(log_prob, grid), few_turns(n_modes)
    return _highest(log_prob, seen, few, n_modes), turns_at_most(seen, few)


def highest_density(
    curve: Curve,
    grid: Float[Array, "grid *rows"],
    coverage: Float[Array, "*rows"],
    n_intervals: int,
) -> Float[Array, "interval 2 *rows"]:
    """Return the smallest region of given probability, a union of intervals.

    {x: p(x) >= t} with t such that P(p(X) >= t) = coverage. Between neighboring critical points
    p is monotone, so it crosses t at most once there.

    Args:
        curve: Each density; an infinite end stands for that of the grid.
        grid: Ascending points, dense where the density can bend.
        coverage: Probability of the region; outside [0, 1] all is NaN.
        n_intervals: How many to return; no fewer than the density has modes.

    Returns:
        Lower and upper ends in ascending order, padded with NaN, differentiable once in coverage
        and in whatever the callables close over.
    """
    seen = survey(curve.log_prob, grid)

    def region(n_turns: int) -> Float[Array, "interval 2 *rows"]:
        pieces = _pieces(curve, seen, n_turns)
        threshold, crossings = _edge(curve, pieces, coverage)
        x = _follow_region(curve, crossings, coverage)
        return _resized(_intervals(x, pieces.heights >= threshold[None]), n_intervals)

    return _if_possible(with_room_for_turns(seen, n_intervals, region), coverage)


def quick_highest_density(
    curve: Curve,
    grid: Float[Array, "grid *rows"],
    coverage: Float[Array, "*rows"],
    n_intervals: int,
) -> Quick:
    """Return `highest_density` without derivatives, for densities that do not turn often."""
    seen, few = survey(curve.log_prob, grid), few_turns(n_intervals)
    pieces = _pieces(curve, seen, few)
    threshold, crossings = _edge(curve, pieces, coverage)
    intervals = _resized(_intervals(crossings.x, pieces.heights >= threshold[None]), n_intervals)
    return _if_possible(intervals, coverage), turns_at_most(seen, few)


def region_mass(
    curve: Curve,
    grid: Float[Array, "grid *rows"],
    x: Float[Array, "*rows"],
    n_intervals: int,
) -> Float[Array, "*rows"]:
    """Return the probability of the highest-density region whose boundary goes through x.

    P(p(X) >= p(x)), the inverse of `highest_density` in its coverage: the smallest coverage at
    which the region holds x.

    Args:
        curve: Each density; an infinite end stands for that of the grid.
        grid: Ascending points, dense where the density can bend.
        x: The point.
        n_intervals: How many intervals the region may have; no fewer than the density has modes.

    Returns:
        A probability, exact up to rounding and to what lies outside lower and upper.
    """
    seen = survey(curve.log_prob, grid)
    threshold = curve.log_prob(x[None])[0]

    def mass(n_turns: int) -> Float[Array, "*rows"]:
        pieces = _pieces(curve, seen, n_turns)
        at = lax.stop_gradient(threshold)
        crossings = _crossings(detach(curve.log_prob), pieces, at)
        change, slope = _mass_change(curve, crossings)
        value = _mass(detach(curve.cdf), crossings.x)
        return value + change + slope * (threshold - at)

    return jnp.clip(with_room_for_turns(seen, n_intervals, mass), 0.0, 1.0)


def quick_region_mass(
    curve: Curve,
    grid: Float[Array, "grid *rows"],
    x: Float[Array, "*rows"],
    n_intervals: int,
) -> Quick:
    """Return `region_mass` without derivatives, for densities that do not turn often."""
    seen, few = survey(curve.log_prob, grid), few_turns(n_intervals)
    pieces = _pieces(curve, seen, few)
    crossings = _crossings(curve.log_prob, pieces, curve.log_prob(x[None])[0])
    return jnp.clip(_mass(curve.cdf, crossings.x), 0.0, 1.0), turns_at_most(seen, few)


def _highest(
    log_prob: Elementwise, seen: Survey, n_turns: int, n_modes: int
) -> Float[Array, "mode *rows"]:
    """Return the visible modes, the highest one first."""
    turns = find_turns(log_prob, seen, n_turns)
    x, found = turns.x[::2], turns.found[::2]
    height = detach(log_prob)(x)
    height = jnp.where(found & ~jnp.isnan(height), height, -jnp.inf)
    faint = jnp.max(height, axis=0, keepdims=True) + jnp.log(jnp.finfo(x.dtype).tiny)
    visible = height > faint
    order = jnp.argsort(-jnp.where(visible, height, -jnp.inf), axis=0)
    return _resized(take(jnp.where(visible, x, jnp.nan), order), n_modes)


def _if_possible(
    intervals: Float[Array, "interval 2 *rows"], coverage: Float[Array, "*rows"]
) -> Float[Array, "interval 2 *rows"]:
    """Return NaN for coverages that are no probabilities."""
    possible = (coverage >= 0) & (coverage <= 1)
    return jnp.where(possible[None, None], intervals, jnp.nan)


class _Pieces(NamedTuple):
    """Points between which the density is monotone, rising first, and its log at each.

    The surveyed points numbered first to last lie inside each piece.
    """

    seen: Survey
    edges: Float[Array, "edge *rows"]
    heights: Float[Array, "edge *rows"]
    first: Int[Array, "piece *rows"]
    last: Int[Array, "piece *rows"]
    rises: Bool[Array, "piece *rows"]


class _Crossings(NamedTuple):
    """Where pieces meet the threshold; the foot of a piece above it, the top of one below."""

    x: Float[Array, "piece *rows"]
    slope: Float[Array, "piece *rows"]
    crosses: Bool[Array, "piece *rows"]
    density: Float[Array, "piece *rows"]


def _pieces(curve: Curve, seen: Survey, n_turns: int) -> _Pieces:
    """Divide the line at the turns of the density."""
    ends = ((curve.lower, seen.x[0]), (curve.upper, seen.x[-1]))
    lower, upper = (
        lax.stop_gradient(jnp.where(jnp.isinf(end), known, end))[None] for end, known in ends
    )
    turns: Turns = find_turns(curve.log_prob, seen, n_turns)
    inner = jnp.where(turns.found, jnp.clip(turns.x, lower, upper), upper)
    edges = jnp.concatenate([lower, inner, upper])
    heights = detach(curve.log_prob)(edges)
    # On a flat top rounding can put an antimode above the modes beside it.
    heights = heights.at[1::2].max(jnp.maximum(heights[:-1:2], heights[2::2]))
    end = seen.x.shape[0] - 1
    cell = jnp.where(turns.found, turns.cell, end)
    first = jnp.concatenate([jnp.zeros_like(cell[:1]), cell + 1])
    last = jnp.concatenate([cell, jnp.full_like(cell[:1], end)])
    even = (jnp.arange(n_turns + 1) % 2 == 0).reshape(-1, *(1 for _ in lower.shape[1:]))
    return _Pieces(seen, edges, heights, first, last, jnp.broadcast_to(even, first.shape))


def _intervals(
    x: Float[Array, "piece *rows"], above: Bool[Array, "edge *rows"]
) -> Float[Array, "bump 2 *rows"]:
    """Return the intervals whose ends are the crossings, padded with NaN."""
    # An interval reaches over an antimode that lies above the threshold into the next bump.
    apart = jnp.zeros_like(above[:1])
    joins = jnp.concatenate([apart, above[2:-1:2], apart])
    begins = jnp.where(above[1::2] & ~joins[:-1], x[::2], jnp.nan)
    ends = jnp.where(above[1::2] & ~joins[1:], x[1::2], jnp.nan)
    return jnp.stack([jnp.sort(begins, axis=0), jnp.sort(ends, axis=0)], axis=1)


def _edge(
    curve: Curve, pieces: _Pieces, coverage: Float[Array, "*rows"]
) -> tuple[Float[Array, "*rows"], _Crossings]:
    """Return the log density at the edge of a region, and where the pieces meet it."""
    log_prob, cdf = detach(curve.log_prob), detach(curve.cdf)
    threshold = _threshold(log_prob, cdf, pieces, lax.stop_gradient(coverage))
    return threshold, _crossings(log_prob, pieces, threshold)


def _threshold(
    log_prob: Elementwise, cdf: Elementwise, pieces: _Pieces, coverage: Float[Array, "*rows"]
) -> Float[Array, "*rows"]:
    """Return the log density above which the given probability lies."""
    info = jnp.finfo(coverage.dtype)

    def excess(threshold: Float[Array, "*rows"]) -> tuple[Array, Array, Array]:
        crossings = _crossings(log_prob, pieces, threshold)
        # Neighboring floats differ by so much in probability.
        spacing = jnp.where(crossings.crosses, jnp.abs(crossings.x), 0.0) * crossings.density
        error = float(info.eps) * (_ROUNDING + 2 * jnp.sum(spacing, axis=0))
        return _mass(cdf, crossings.x) - coverage, _mass_slope(crossings), error

    highest = jnp.max(pieces.heights, axis=0)
    # Where p < t the probability is at most t (upper - lower), and it must be 1 - coverage. The
    # factor 0.5 allows for probability outside the edges.
    lowest = jnp.log(0.5 * (1 - coverage) / (pieces.edges[-1] - pieces.edges[0]))
    lowest = jnp.maximum(lowest, highest + jnp.log(info.tiny))
    inside = (coverage > 0) & (coverage < 1)
    end = jnp.where(coverage > 0, lowest, highest)
    guess = jnp.where(inside, jnp.clip(_guess(pieces.seen, coverage), lowest, highest), end)
    lowest, highest = jnp.where(inside, lowest, end), jnp.where(inside, highest, end)
    return newton_root(excess, guess, lowest, highest, jnp.zeros_like(inside))


def _guess(seen: Survey, coverage: Float[Array, "*rows"]) -> Float[Array, "*rows"]:
    """Return a threshold from the surveyed points alone, right to about 1e-3 in probability.

    Between two points the density is taken for exponential: the fraction of a cell's probability
    that is above a threshold is then linear in it.
    """
    top = jnp.max(seen.height, axis=0)
    density = jnp.exp(seen.height - top[None])
    low, high = jnp.minimum(density[:-1], density[1:]), jnp.maximum(density[:-1], density[1:])
    width = jnp.diff(seen.x, axis=0)
    # The trapezoidal rule, corrected by the slopes at both ends.
    correction = -width / 12 * jnp.diff(density * seen.slope, axis=0)
    mass = width * jnp.clip(0.5 * (low + high) + correction, low, high)
    tiny = jnp.finfo(density.dtype).tiny
    per_height = mass / jnp.maximum(high - low, tiny)
    wanted = coverage * jnp.sum(mass, axis=0)

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = 0.5 * (ends[0] + ends[1])
        part = jnp.minimum((high - jnp.exp(middle)[None]) * per_height, mass)
        is_low = jnp.sum(jnp.maximum(part, 0.0), axis=0) > wanted
        return jnp.where(is_low, middle, ends[0]), jnp.where(is_low, ends[1], middle)

    ends = (jnp.full_like(top, jnp.log(tiny)), jnp.zeros_like(top))
    lower, upper = lax.fori_loop(0, _GUESSES, halve, ends)
    return top + 0.5 * (lower + upper)


def _crossings(
    log_prob: Elementwise, pieces: _Pieces, threshold: Float[Array, "*rows"]
) -> _Crossings:
    """Return where each piece meets the threshold."""
    level = jnp.broadcast_to(threshold[None], pieces.rises.shape)
    left, right = pieces.heights[:-1] - level, pieces.heights[1:] - level
    crosses = jnp.sign(left) * jnp.sign(right) < 0
    foot_above = jnp.where(pieces.rises, left, right) >= 0
    end = jnp.where(pieces.rises == foot_above, pieces.edges[:-1], pieces.edges[1:])
    lower, upper, start = _bracket(pieces, level)
    lower, upper, start = (jnp.where(crosses, x, end) for x in (lower, upper, start))

    # A step of Newton's method leaves an error of about value^2 / (4 depth), with the distance of
    # the threshold from the nearer turn as depth.
    eps = float(jnp.finfo(level.dtype).eps)
    depth = jnp.minimum(jnp.minimum(jnp.abs(left), jnp.abs(right)), 1.0)
    tolerance = jnp.maximum(jnp.sqrt(eps * depth), _ROUNDING * eps * (1 + jnp.abs(level)))

    def excess(x: Float[Array, "piece *rows"]) -> tuple[Array, Array, Array]:
        height, slope = with_slope(log_prob, x)
        return height - level, slope, tolerance

    x = newton_root(excess, start, lower, upper, pieces.rises)
    return _Crossings(x, derivative(log_prob)(x), crosses, jnp.exp(level))


def _bracket(
    pieces: _Pieces, level: Float[Array, "piece *rows"]
) -> tuple[Float[Array, "piece *rows"], Float[Array, "piece *rows"], Float[Array, "piece *rows"]]:
    """Return neighboring points on either side of each crossing, and one between them."""
    seen, rises = pieces.seen, pieces.rises

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = (ends[0] + ends[1]) // 2
        is_left = (take(seen.height, middle) < level) == rises
        divides = ends[1] - ends[0] > 1
        return (
            jnp.where(divides & is_left, middle, ends[0]),
            jnp.where(divides & ~is_left, middle, ends[1]),
        )

    # The numbers before the first point and after the last stand for the ends of the piece.
    ends = (pieces.first - 1, pieces.last + 1)
    before, after = lax.fori_loop(0, seen.x.shape[0].bit_length() + 1, halve, ends)
    is_edge = (before < pieces.first, after > pieces.last)
    lower = jnp.where(is_edge[0], pieces.edges[:-1], take(seen.x, before))
    upper = jnp.where(is_edge[1], pieces.edges[1:], take(seen.x, after))
    left = jnp.where(is_edge[0], pieces.heights[:-1], take(seen.height, before))
    right = jnp.where(is_edge[1], pieces.heights[1:], take(seen.height, after))
    lower, upper = (jnp.clip(x, pieces.edges[:-1], pieces.edges[1:]) for x in (lower, upper))
    slope = jnp.where(is_edge[0], 0.0, take(seen.slope, before)) * (upper - lower)
    fraction = _parabola_root(level - left, right - left, slope)
    return lower, upper, lower + fraction * (upper - lower)


def _parabola_root(
    level: Float[Array, "..."], end: Float[Array, "..."], slope: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Return where on (0, 1) a parabola has a value, given its slope at 0 and its value at 1.

    slope u + (end - slope) u^2 = level; the value at 0 is zero.
    """
    root = jnp.sqrt(slope**2 + 4 * (end - slope) * level)
    u = 2 * level / (slope + jnp.where(end < 0, -root, root))
    return jnp.where((u >= 0) & (u <= 1), u, 0.5)


def _mass(cdf: Elementwise, x: Float[Array, "piece *rows"]) -> Float[Array, "*rows"]:
    """Return the probability between pairs of crossings."""
    below = cdf(x)
    return jnp.sum(below[1::2] - below[::2], axis=0)


def _mass_slope(crossings: _Crossings) -> Float[Array, "*rows"]:
    """Return the derivative of the probability above the threshold in the threshold."""
    steepness = jnp.where(crossings.crosses, jnp.abs(crossings.slope), jnp.inf)
    return -jnp.sum(crossings.density / steepness, axis=0)


# Derivatives by the implicit function theorem. What follows does not change a value: it adds
# differences that are zero and have the right derivative.


def _follow_turns(
    log_prob: Elementwise, x: Float[Array, "turn *rows"]
) -> Float[Array, "turn *rows"]:
    """Return turns that move with the density: dx = -ds / s'(x)."""
    bend = derivative(derivative(detach(log_prob)))(x)
    return x - _ratio(_change(derivative(log_prob)(x)), bend)


def _follow_region(
    curve: Curve, crossings: _Crossings, coverage: Float[Array, "*rows"]
) -> Float[Array, "piece *rows"]:
    """Return crossings that move with the density and the coverage: dx = (dt - d log p) / s(x)."""
    at = _where_crosses(crossings)
    change, slope = _mass_change(curve, crossings)
    threshold = _ratio(_change(coverage) - change, slope)
    moved = _ratio(threshold[None] - _change(curve.log_prob(at)), crossings.slope)
    return crossings.x + jnp.where(crossings.crosses, moved, 0.0)


def _mass_change(
    curve: Curve, crossings: _Crossings
) -> tuple[Float[Array, "*rows"], Float[Array, "*rows"]]:
    """Return how the probability above a threshold moves with the density and the threshold."""
    at = _where_crosses(crossings)
    moved = _ratio(-_change(curve.log_prob(at)), crossings.slope)
    change = _change(curve.cdf(crossings.x)) + jnp.where(
        crossings.crosses, crossings.density * moved, 0.0
    )
    return jnp.sum(change[1::2] - change[::2], axis=0), _mass_slope(crossings)


def _where_crosses(crossings: _Crossings) -> Float[Array, "piece *rows"]:
    """Return the crossings, with a harmless point in place of the others."""
    crosses = crossings.crosses
    any_crossing = take(crossings.x, jnp.argmax(crosses, axis=0)[None])
    return jnp.where(crosses, crossings.x, any_crossing)


def _change(value: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return zero with the derivative of a value."""
    return value - lax.stop_gradient(value)


def _ratio(change: Float[Array, "..."], slope: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return change / slope, zero where the slope is."""
    slope = lax.stop_gradient(slope)
    return jnp.where(slope == 0, 0.0, change / jnp.where(slope == 0, 1.0, slope))


def _resized(array: Float[Array, "any ..."], size: int) -> Float[Array, "size ..."]:
    """Return the first entries, padded with NaN where there are fewer."""
    missing = max(0, size - array.shape[0])
    widths = [(0, missing)] + [(0, 0)] * (array.ndim - 1)
    return jnp.pad(array[:size], widths, constant_values=jnp.nan)


def _root(
    f: Elementwise,
    lower: Float[Array, "..."],
    upper: Float[Array, "..."],
    where: Bool[Array, "..."],
    **options: Any,
) -> Float[Array, "..."]:
    """Return the root of f with its implicit derivative, -df / f'(x); zero outside `where`."""
    # Elements outside `where` solve x = 0 instead, so that their derivatives stay finite.
    lower = lax.stop_gradient(jnp.where(where, lower, 0.0))
    upper = lax.stop_gradient(jnp.where(where, upper, 0.0))
    return lax.custom_root(
        lambda x: jnp.where(where, f(x), x),
        lower,
        lambda g, _: find_root(g, lower, upper, **options),
        lambda g, y: y / g(jnp.ones_like(y)),
    )
