"""Quantiles, modes and highest-density regions of a one-dimensional density."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from .roots import Elementwise, find_root

# Rounding can split a nearly flat top into two modes. The spare slots leave room for real modes.
_SPARE_MODES = 2


def quantile(
    cdf: Elementwise,
    lower: Float[Array, "..."],
    upper: Float[Array, "..."],
    q: Float[Array, "..."],
) -> Float[Array, "..."]:
    """Return the x at which the distribution function reaches q, element by element.

    cdf(x) = q, so dx = (dq - d cdf) / cdf'(x): differentiable, also twice, in q and in whatever
    cdf closes over. It is not finite where the density underflows to zero, as in a wide gap.

    Args:
        cdf: Nondecreasing distribution function of each element.
        lower: A point at or below each quantile; for a mixture, its components' smallest quantile.
        upper: A point at or above each quantile; for a mixture, its components' largest quantile.
        q: Probabilities; 0 gives -inf, 1 gives inf, and all else outside (0, 1) gives NaN.

    Returns:
        Quantiles, exact in probability up to the spacing of floats.
    """
    lower, upper, q = jnp.broadcast_arrays(lower, upper, q)
    inside = (q > 0) & (q < 1)
    level = jnp.where(inside, q, 0.5)
    # Below the spacing of probabilities every difference is rounding.
    spacing = lax.stop_gradient(level) * jnp.finfo(level.dtype).eps.astype(level.dtype)
    x = _root(lambda x: cdf(x) - level, lower, upper, inside, atol=spacing)
    outside = jnp.where(q == 0, -jnp.inf, jnp.where(q == 1, jnp.inf, jnp.nan))
    return jnp.where(inside, x, outside.astype(x.dtype))


def critical_points(
    log_prob: Elementwise, grid: Float[Array, " grid"], n_points: int
) -> Float[Array, " point"]:
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
    grid = lax.stop_gradient(grid)
    points = _refine(_detach(log_prob), grid)
    slope = _derivative(_detach(log_prob))(points)
    # One more point on either side, where the density has risen so far and falls from then on.
    points = jnp.concatenate([points[:1], points, points[-1:]])
    slope = jnp.concatenate([jnp.ones_like(slope[:1]), slope, -jnp.ones_like(slope[:1])])
    rises = _rises(slope)
    turn = jnp.cumsum(rises[:-1] != rises[1:])
    left = jnp.searchsorted(turn, jnp.arange(1, n_points + 1), method="compare_all")
    lower, upper = points[left], points[left + 1]
    ends = (slope[left], slope[left + 1])
    x = _root(_derivative(log_prob), lower, upper, lower < upper, ends=ends)
    return jnp.where(left < turn.size, jnp.where(lower < upper, x, lower), jnp.nan)


def modes(
    log_prob: Elementwise, grid: Float[Array, " grid"], n_modes: int
) -> Float[Array, " mode"]:
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
    peaks = critical_points(log_prob, grid, _n_points(n_modes))[::2]
    height = lax.stop_gradient(log_prob(jnp.where(jnp.isnan(peaks), grid[0], peaks)))
    height = jnp.where(jnp.isnan(peaks) | jnp.isnan(height), -jnp.inf, height)
    visible = height > jnp.max(height) + jnp.log(jnp.finfo(grid.dtype).tiny)
    order = jnp.argsort(-jnp.where(visible, height, -jnp.inf))[:n_modes]
    return jnp.where(visible, peaks, jnp.nan)[order]


def highest_density(
    log_prob: Elementwise,
    cdf: Elementwise,
    grid: Float[Array, " grid"],
    lower: Float[Array, ""],
    upper: Float[Array, ""],
    coverage: Float[Array, ""],
    n_intervals: int,
) -> Float[Array, "interval 2"]:
    """Return the smallest region of given probability, a union of intervals.

    {x: p(x) >= t} with t such that P(p(X) >= t) = coverage. Between neighboring critical points
    p is monotone, so it crosses t at most once there.

    Args:
        log_prob: Log density, element by element.
        cdf: Its distribution function.
        grid: Ascending points, dense where the density can bend.
        lower: A point with negligible probability to its left; if infinite, the grid's first.
        upper: A point with negligible probability to its right; if infinite, the grid's last.
        coverage: Probability of the region; outside [0, 1] all is NaN.
        n_intervals: How many to return; no fewer than the density has modes.

    Returns:
        Lower and upper ends in ascending order, padded with NaN, differentiable in coverage and
        in whatever the callables close over.
    """
    edges, heights = _pieces(log_prob, grid, lower, upper, n_intervals)
    threshold = _threshold(log_prob, cdf, edges, heights, coverage)
    x = _crossings(log_prob, edges, heights, threshold)
    above = heights >= threshold
    # An interval reaches over an antimode that lies above the threshold into the next bump.
    joins = jnp.concatenate([jnp.array([False]), above[2:-1:2], jnp.array([False])])
    begins = jnp.where(above[1::2] & ~joins[:-1], x[::2], jnp.nan)
    ends = jnp.where(above[1::2] & ~joins[1:], x[1::2], jnp.nan)
    region = jnp.stack([jnp.sort(begins), jnp.sort(ends)], axis=-1)[:n_intervals]
    return jnp.where((coverage >= 0) & (coverage <= 1), region, jnp.nan)


def region_mass(
    log_prob: Elementwise,
    cdf: Elementwise,
    grid: Float[Array, " grid"],
    lower: Float[Array, ""],
    upper: Float[Array, ""],
    x: Float[Array, ""],
    n_intervals: int,
) -> Float[Array, ""]:
    """Return the probability of the highest-density region whose boundary goes through x.

    P(p(X) >= p(x)), the inverse of `highest_density` in its coverage: the smallest coverage at
    which the region holds x.

    Args:
        log_prob: Log density, element by element.
        cdf: Its distribution function.
        grid: Ascending points, dense where the density can bend.
        lower: A point with negligible probability to its left; if infinite, the grid's first.
        upper: A point with negligible probability to its right; if infinite, the grid's last.
        x: The point.
        n_intervals: How many intervals the region may have; no fewer than the density has modes.

    Returns:
        A probability, exact up to rounding and to what lies outside lower and upper.
    """
    edges, heights = _pieces(log_prob, grid, lower, upper, n_intervals)
    return jnp.clip(_mass_above(log_prob, cdf, edges, heights, log_prob(x)), 0.0, 1.0)


def _pieces(
    log_prob: Elementwise,
    grid: Float[Array, " grid"],
    lower: Float[Array, ""],
    upper: Float[Array, ""],
    n_intervals: int,
) -> tuple[Float[Array, " edge"], Float[Array, " edge"]]:
    """Return points between which the density is monotone, rising first, and its log at each."""
    lower = lax.stop_gradient(jnp.where(jnp.isinf(lower), grid[0], lower))
    upper = lax.stop_gradient(jnp.where(jnp.isinf(upper), grid[-1], upper))
    turns = lax.stop_gradient(critical_points(log_prob, grid, _n_points(n_intervals)))
    turns = jnp.clip(jnp.where(jnp.isnan(turns), upper, turns), lower, upper)
    edges = jnp.concatenate([lower[None], turns, upper[None]])
    heights = _detach(log_prob)(edges)
    # On a flat top rounding can put an antimode above the modes beside it.
    heights = heights.at[1::2].max(jnp.maximum(heights[:-1:2], heights[2::2]))
    return edges, heights


def _mass_above(
    log_prob: Elementwise,
    cdf: Elementwise,
    edges: Float[Array, " edge"],
    heights: Float[Array, " edge"],
    threshold: Float[Array, ""],
) -> Float[Array, ""]:
    """Return the probability of a log density of at least the threshold."""
    below = cdf(_crossings(log_prob, edges, heights, threshold))
    return jnp.sum(below[1::2] - below[::2])


def _threshold(
    log_prob: Elementwise,
    cdf: Elementwise,
    edges: Float[Array, " edge"],
    heights: Float[Array, " edge"],
    coverage: Float[Array, ""],
) -> Float[Array, ""]:
    """Return the log density above which the given probability lies."""

    def excess(threshold: Float[Array, ""]) -> Float[Array, ""]:
        return _mass_above(log_prob, cdf, edges, heights, threshold) - coverage

    info = jnp.finfo(edges.dtype)
    highest = jnp.max(heights)
    # Where p < t the probability is at most t (upper - lower), and it must be 1 - coverage. The
    # factor 0.5 allows for probability outside the edges.
    lowest = jnp.log(0.5 * (1 - coverage) / (edges[-1] - edges[0]))
    lowest = lax.stop_gradient(jnp.maximum(lowest, highest + jnp.log(info.tiny)))
    inside = (coverage > 0) & (coverage < 1)
    # At these two thresholds the region holds practically everything and nothing.
    ends = (1 - coverage, -coverage)
    threshold = _root(excess, lowest, highest, inside, ends=ends, atol=4 * float(info.eps))
    return jnp.where(inside, threshold, jnp.where(coverage > 0, lowest, highest))


def _crossings(
    log_prob: Elementwise,
    edges: Float[Array, " edge"],
    heights: Float[Array, " edge"],
    threshold: Float[Array, ""],
) -> Float[Array, " piece"]:
    """Return where each piece meets the threshold: its foot if all is above, its top if none is."""
    ends = (heights[:-1] - threshold, heights[1:] - threshold)
    rises = jnp.arange(edges.size - 1) % 2 == 0
    foot_above = jnp.where(rises, *ends) >= 0
    crosses = jnp.sign(ends[0]) * jnp.sign(ends[1]) < 0
    x = _root(lambda x: log_prob(x) - threshold, edges[:-1], edges[1:], crosses, ends=ends)
    return jnp.where(crosses, x, jnp.where(rises == foot_above, edges[:-1], edges[1:]))


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


def _refine(log_prob: Elementwise, grid: Float[Array, " grid"]) -> Float[Array, " point"]:
    """Add to the grid the points where the slope of log p is steepest or flattest."""
    # Two turns inside one cell leave the sign of the slope unchanged at its ends. Between the two
    # the slope has an extremum, and its rough location is enough to separate them.
    curvature = _derivative(_derivative(log_prob))
    at_grid = curvature(grid)
    ends = (at_grid[:-1], at_grid[1:])
    bends = find_root(curvature, grid[:-1], grid[1:], ends=ends, max_iters=8)
    return jnp.sort(jnp.concatenate([grid, bends]))


def _rises(slope: Float[Array, " point"]) -> Bool[Array, " point"]:
    """Return whether the density rises at each point; where it is flat, as at the point before."""
    steep = (slope > 0) | (slope < 0)
    last = lax.cummax(jnp.where(steep, jnp.arange(slope.size), 0))
    return slope[last] > 0


def _derivative(f: Elementwise) -> Elementwise:
    """Return the derivative of an elementwise function."""
    return lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]


def _detach(f: Elementwise) -> Elementwise:
    """Return f with all that it closes over held constant."""

    def detached(x: Float[Array, "..."]) -> Float[Array, "..."]:
        converted, constants = jax.closure_convert(f, x)
        return converted(x, *lax.stop_gradient(constants))

    return detached


def _n_points(n_modes: int) -> int:
    """Return how many critical points to look for: modes and the antimodes between them."""
    return 2 * (n_modes + _SPARE_MODES) - 1
