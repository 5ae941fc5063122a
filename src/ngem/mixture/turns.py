"""Where one-dimensional densities turn: their modes and the antimodes between them.

Points are the first axis of every array. More axes may follow, with one entry for each density.
Rows as the last axis are fast: vector instructions then work on many densities at a time.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from .roots import Elementwise, find_root

Result = TypeVar("Result")

# Most densities turn less often, however many components they have.
_FEW = 15

# Rounding can make more turns where a density is nearly flat. It makes them in pairs.
_SPARE = 10


class Survey(NamedTuple):
    """The log density at ascending points, the first and the last of them twice.

    Before the points the density is taken to rise, and after them to fall.
    """

    x: Float[Array, "point *rows"]
    height: Float[Array, "point *rows"]
    slope: Float[Array, "point *rows"]
    bend: Float[Array, "point *rows"]
    rises: Bool[Array, "point *rows"]


class Turns(NamedTuple):
    """Turns of a density in ascending order: mode, antimode, ..., mode.

    Attributes:
        x: Locations; the last point of the survey where there are no more.
        cell: Number of the surveyed point before each turn.
        found: Whether this is a turn.
    """

    x: Float[Array, "turn *rows"]
    cell: Int[Array, "turn *rows"]
    found: Bool[Array, "turn *rows"]


def survey(log_prob: Elementwise, grid: Float[Array, "grid *rows"]) -> Survey:
    """Evaluate the log density and its first two derivatives at every point, once.

    Args:
        log_prob: Log density, element by element.
        grid: Ascending points, dense where the density can bend.
    """
    grid = lax.stop_gradient(grid)
    x = jnp.concatenate([grid[:1], grid, grid[-1:]])
    (height, slope), (_, bend) = with_slope(lambda at: with_slope(detach(log_prob), at), x)
    slope = slope.at[0].set(1.0).at[-1].set(-1.0)
    return Survey(x, height, slope, bend, _rises(x, slope))


def with_room_for_turns(
    seen: Survey, n_components: int, program: Callable[[int], Result]
) -> Result:
    """Run a program with room for as many turns as its densities can have.

    Args:
        seen: The densities.
        n_components: Components of each density, and about as many modes at most.
        program: Takes an odd number of turns. Its result has the same shape for any number.
    """
    few, most = few_turns(n_components), _most_turns(n_components)
    if few == most:
        return program(most)
    enough = jnp.all(turns_at_most(seen, few))
    return lax.cond(enough, lambda: program(few), lambda: program(most))


def few_turns(n_components: int) -> int:
    """Return a number of turns that nearly all densities keep to, however many components."""
    most = _most_turns(n_components)
    return most if most <= 2 * _FEW else _FEW


def turns_at_most(seen: Survey, n_turns: int) -> Bool[Array, "*rows"]:
    """Return which densities turn no more often; a dip of the slope may be two turns."""
    return jnp.sum(_crosses(seen), axis=0) + 2 * jnp.sum(_dips(seen), axis=0) <= n_turns


def _most_turns(n_components: int) -> int:
    return 2 * n_components - 1 + _SPARE


def find_turns(log_prob: Elementwise, seen: Survey, n_turns: int) -> Turns:
    """Return where the density turns, without derivatives in what log_prob closes over.

    Changes of sign of s(x) = d log p(x) / dx.

    Args:
        log_prob: Log density, element by element.
        seen: The density at points between which it turns at most twice.
        n_turns: How many to return; those furthest right are lost if there are more.
    """
    points, cell = _narrow(detach(log_prob), seen, n_turns)
    at = _first(points.rises[:-1] != points.rises[1:], n_turns)
    left, right = take(points, at), take(points, at + 1)
    ends = (left.slope, right.slope)
    x = find_root(derivative(detach(log_prob)), left.x, right.x, ends=ends)
    return Turns(x, take(cell, at), at < points.x.shape[0] - 1)


def _narrow(
    log_prob: Elementwise, seen: Survey, n_cells: int
) -> tuple[Survey, Int[Array, "point *rows"]]:
    """Return the ends of all cells with turns, with a point between two turns of one cell.

    Two turns inside one cell leave the sign of the slope unchanged at its ends. Between the two
    the slope has an extremum, and its rough location is enough to separate them.
    """
    dips = _dips(seen)
    cell = _first(_crosses(seen) | dips, n_cells)
    left, right = take(seen, cell), take(seen, cell + 1)
    is_dip = take(dips, cell) & (cell < dips.shape[0])
    ends = (left.bend, right.bend)
    upper = jnp.where(is_dip, right.x, left.x)
    x = find_root(derivative(derivative(log_prob)), left.x, upper, ends=ends, max_iters=8)
    slope = jnp.where(is_dip, derivative(log_prob)(x), left.slope)
    middle = left._replace(x=x, slope=slope, rises=jnp.where(is_dip, slope > 0, left.rises))
    return jax.tree.map(_interleave, left, middle, right), _interleave(cell, cell, cell)


def _crosses(seen: Survey) -> Bool[Array, "cell *rows"]:
    """Return in which cells the slope changes its sign."""
    return seen.rises[:-1] != seen.rises[1:]


def _dips(seen: Survey) -> Bool[Array, "cell *rows"]:
    """Return in which cells the slope keeps its sign at the ends, but may change it between.

    Lines from both ends, twice as steep as the slope is there, meet beyond zero. Cells where the
    density underflows relative to its maximum do not count: nobody could see such a mode.
    """
    sign = jnp.where(seen.rises[:-1], 1.0, -1.0).astype(seen.x.dtype)
    left, right = sign * seen.slope[:-1], sign * seen.slope[1:]
    falls, rises = -2 * sign * seen.bend[:-1], 2 * sign * seen.bend[1:]
    lowest = left / falls + right / rises < jnp.diff(seen.x, axis=0)
    faint = jnp.max(seen.height, axis=0) + jnp.log(jnp.finfo(seen.x.dtype).tiny)
    visible = jnp.maximum(seen.height[:-1], seen.height[1:]) > faint[None]
    return (falls > 0) & (rises > 0) & lowest & visible & ~_crosses(seen)


def _rises(
    x: Float[Array, "point *rows"], slope: Float[Array, "point *rows"]
) -> Bool[Array, "point *rows"]:
    """Return whether the density rises at each point; where it is flat, as at the point before.

    Flat means that the log density changes by no more than rounding to the neighboring points.
    """
    width = jnp.diff(x, axis=0)
    none = jnp.full_like(x[:1], jnp.inf)
    reach = jnp.maximum(jnp.concatenate([none, width]), jnp.concatenate([width, none]))
    is_steep = jnp.abs(slope) * reach > 4 * float(jnp.finfo(x.dtype).eps)

    def step(before: Array, point: tuple[Array, Array]) -> tuple[Array, Array]:
        rises = jnp.where(point[0], point[1] > 0, before)
        return rises, rises

    return lax.scan(step, jnp.ones(x.shape[1:], bool), (is_steep, slope))[1]


def _first(flags: Bool[Array, "point *rows"], n: int) -> Int[Array, "n *rows"]:
    """Return the numbers of the first n points with a flag; past the end where there are fewer."""
    size = flags.shape[0]
    number = jnp.arange(size).reshape(size, *(1 for _ in flags.shape[1:]))

    # One pass for each is faster than one cumulative sum, which has no vector instructions.
    def step(before: Array, _: None) -> tuple[Array, Array]:
        after = jnp.where(flags & (number > before[None]), number, size)
        found = jnp.min(after, axis=0)
        return found, found

    none = jnp.full(flags.shape[1:], -1, number.dtype)
    return lax.scan(step, none, None, length=n)[1]


def take(tree: PyTree[Array], index: Int[Array, "n *rows"]) -> PyTree[Array]:
    """Return the points with these numbers, or the nearest ones that there are."""

    def of(leaf: Array) -> Array:
        inside = jnp.clip(index, 0, leaf.shape[0] - 1)
        return jnp.take_along_axis(leaf, inside, axis=0)

    return jax.tree.map(of, tree)


def _interleave(*parts: Array) -> Array:
    """Return the first points of all parts, then the second ones, and so on."""
    return jnp.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:])


def derivative(f: Elementwise) -> Elementwise:
    """Return the derivative of an elementwise function."""
    return lambda x: with_slope(f, x)[1]


def with_slope(f: Callable, x: Float[Array, "..."]) -> tuple:
    """Return a function of each element, and its derivative."""
    return jax.jvp(f, (x,), (jnp.ones_like(x),))


def detach(f: Elementwise) -> Elementwise:
    """Return f with all that it closes over held constant."""

    def detached(x: Float[Array, "..."]) -> Float[Array, "..."]:
        converted, constants = jax.closure_convert(f, x)
        return converted(x, *lax.stop_gradient(constants))

    return detached
