"""Root finders that keep their brackets and map over arrays, with and without a derivative."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

Elementwise: TypeAlias = Callable[[Float[Array, "..."]], Float[Array, "..."]]


class _Bracket(NamedTuple):
    """The newest point a, the point b on the other side of the root, and c, the one before."""

    a: Float[Array, "..."]
    b: Float[Array, "..."]
    c: Float[Array, "..."]
    fa: Float[Array, "..."]
    fb: Float[Array, "..."]
    fc: Float[Array, "..."]

    def best(self) -> Float[Array, "..."]:
        return jnp.where(jnp.abs(self.fa) < jnp.abs(self.fb), self.a, self.b)


def find_root(
    f: Elementwise,
    lower: Float[Array, "..."],
    upper: Float[Array, "..."],
    *,
    ends: tuple[Float[Array, "..."], Float[Array, "..."]] | None = None,
    max_iters: int = 100,
    atol: float | Float[Array, "..."] = 0.0,
) -> Float[Array, "..."]:
    """Return where f crosses zero between lower and upper, element by element.

    Chandrupatla (1997), Adv. Eng. Softw. 28(3): inverse quadratic interpolation where the last
    three points show it to be safe, bisection otherwise. Stops at neighboring floats, at
    |f| <= atol, or after max_iters. The loop has no reverse-mode derivative of its own.

    Args:
        f: Maps an array to an array of the same shape, each element on its own.
        lower: One end of each bracket.
        upper: The other end; either may be the larger.
        ends: f at lower and at upper, if the caller has them. Their signs must be right.
        max_iters: Most evaluations of f after the two at the ends.
        atol: Values of f this small count as zero.

    Returns:
        The root; without a change of sign the end where |f| is smaller; NaN where f gave NaN.
    """
    lower, upper = jnp.broadcast_arrays(lower, upper)
    fa, fb = ends or (f(lower), f(upper))

    def proceed(state: tuple[_Bracket, Int[Array, ""]]) -> Bool[Array, ""]:
        return jnp.any(_unfinished(state[0], atol)) & (state[1] < max_iters)

    def shrink(state: tuple[_Bracket, Int[Array, ""]]) -> tuple[_Bracket, Int[Array, ""]]:
        return _shrink(f, state[0], atol), state[1] + 1

    start = _Bracket(lower, upper, upper, fa, fb, fb)
    end, _ = lax.while_loop(proceed, shrink, (start, jnp.asarray(0)))
    failed = (lower != upper) & (jnp.isnan(end.fa) | jnp.isnan(end.fb))
    return jnp.where(failed, jnp.nan, end.best())


class _Step(NamedTuple):
    """A point inside its bracket, and the sizes of f at the bracket's ends."""

    x: Float[Array, "..."]
    lower: Float[Array, "..."]
    upper: Float[Array, "..."]
    at_lower: Float[Array, "..."]
    at_upper: Float[Array, "..."]
    finished: Bool[Array, "..."]


def newton_root(
    f: Callable[[Float[Array, "..."]], tuple[Array, Array, Array]],
    start: Float[Array, "..."],
    lower: Float[Array, "..."],
    upper: Float[Array, "..."],
    rises: Bool[Array, "..."],
    *,
    max_iters: int = 100,
) -> Float[Array, "..."]:
    """Return where a monotone f crosses zero between lower and upper, element by element.

    Newton's method, or bisection where a step leaves the bracket or does not quarter f on its side.
    The loop has no reverse-mode derivative of its own.

    Args:
        f: Returns values, slopes and tolerances. At a value within its tolerance one more step is
            taken, and that is the end.
        start: Where to begin, inside the bracket.
        lower: Lower end of each bracket.
        upper: Upper end.
        rises: Whether f rises, rather than falls, with x.
        max_iters: Most evaluations of f.

    Returns:
        The root; `start` where the bracket is empty or f gave NaN.
    """

    def proceed(state: tuple[_Step, Int[Array, ""]]) -> Bool[Array, ""]:
        return ~jnp.all(state[0].finished) & (state[1] < max_iters)

    def step(state: tuple[_Step, Int[Array, ""]]) -> tuple[_Step, Int[Array, ""]]:
        return _newton_step(state[0], rises, *f(state[0].x)), state[1] + 1

    unknown = jnp.full_like(start, jnp.inf)
    first = _Step(start, lower, upper, unknown, unknown, ~(lower < upper))
    end, _ = lax.while_loop(proceed, step, (first, jnp.asarray(0)))
    return end.x


def _newton_step(p: _Step, rises: Array, value: Array, slope: Array, tolerance: Array) -> _Step:
    """Shrink each bracket to the side of x that holds the root, and choose the next x."""
    size, is_right = jnp.abs(value), (value > 0) == rises
    shrank = size < 0.25 * jnp.where(is_right, p.at_upper, p.at_lower)
    lower, upper = jnp.where(is_right, p.lower, p.x), jnp.where(is_right, p.x, p.upper)
    at_lower = jnp.where(is_right, p.at_lower, size)
    at_upper = jnp.where(is_right, size, p.at_upper)
    newton, middle = p.x - value / slope, lower + 0.5 * (upper - lower)
    is_inside = (newton > lower) & (newton < upper)
    x = jnp.where(is_inside & shrank, newton, middle)
    # The step is lost in rounding, or no floats are left between the ends of the bracket.
    stuck = (newton == p.x) | ~((x > lower) & (x < upper))
    small = ~(size > tolerance)
    x = jnp.where(p.finished | stuck | (small & ~is_inside), p.x, jnp.where(small, newton, x))
    return _Step(x, lower, upper, at_lower, at_upper, p.finished | stuck | small)


def _shrink(f: Elementwise, p: _Bracket, atol: float | Array) -> _Bracket:
    """Evaluate f once inside each unfinished bracket and keep the part that holds the root."""
    x = jnp.clip(p.a + _step(p) * (p.b - p.a), jnp.minimum(p.a, p.b), jnp.maximum(p.a, p.b))
    fx = f(x)
    same = jnp.sign(fx) == jnp.sign(p.fa)
    b, fb = jnp.where(same, p.b, p.a), jnp.where(same, p.fb, p.fa)
    c, fc = jnp.where(same, p.a, p.b), jnp.where(same, p.fa, p.fb)
    # Finished elements do not change while others continue.
    active, new = _unfinished(p, atol), (x, b, c, fx, fb, fc)
    return _Bracket(*(jnp.where(active, n, o) for n, o in zip(new, p, strict=True)))


def _step(p: _Bracket) -> Float[Array, "..."]:
    """Return the fraction of the way from a to b at which to evaluate f next."""
    xi, phi = (p.a - p.b) / (p.c - p.b), (p.fa - p.fb) / (p.fc - p.fb)
    smooth = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
    quadratic = p.fa / (p.fb - p.fa) * p.fc / (p.fb - p.fc) + (p.c - p.a) / (p.b - p.a) * (
        p.fa / (p.fc - p.fa) * p.fb / (p.fc - p.fb)
    )
    smallest = _resolution(p) / jnp.abs(p.b - p.a)
    return jnp.clip(jnp.where(smooth, quadratic, 0.5), smallest, 1 - smallest)


def _unfinished(p: _Bracket, atol: float | Array) -> Bool[Array, "..."]:
    """Return which brackets still hold a change of sign and can be divided further."""
    crosses = jnp.sign(p.fa) * jnp.sign(p.fb) < 0
    small = jnp.minimum(jnp.abs(p.fa), jnp.abs(p.fb)) <= atol
    return crosses & ~small & (jnp.abs(p.b - p.a) > 2 * _resolution(p))


def _resolution(p: _Bracket) -> Float[Array, "..."]:
    """Return the distance from the best point to its neighbor, at most doubled by rounding."""
    info = jnp.finfo(p.a.dtype)
    return info.eps * jnp.abs(p.best()) + info.tiny
