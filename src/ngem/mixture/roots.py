"""A root finder that keeps its bracket, maps over arrays and needs no derivative."""

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
