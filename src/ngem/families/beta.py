"""The beta distribution: shares and scores between two bounds."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .independent import AbstractIndependent, LocationScale
from .interval import AbstractInterval
from .special import excess_trigamma, stirling_rest, trigamma

_LOG_SQRT_2PI = 0.9189385332046727

#: Largest location in absolute value: the mean keeps apart from both bounds.
_LARGEST_LOCATION = 30.0

#: Nodes of the double exponential rule on (0, inf), for integrands that end as exponentials.
_STEPS = np.arange(-3.4, 5.0, 0.1)
_NODES = np.exp(_STEPS - np.exp(-_STEPS))
_WEIGHTS = 0.1 * _NODES * (1 + np.exp(-_STEPS))

#: Steps of Newton's method from moments to parameters.
_NEWTON_STEPS = 30


@dataclass(frozen=True)
class LogitBeta(AbstractIndependent):
    """The logit of a beta variable with parameters a and b.

    Location log(a / b), the logit of the mean, and scale^2 = 1 / a + 1 / b: for small scales it
    approaches the Gaussian with this location and scale, and far from the middle the logarithm of a
    gamma variable. The Fisher information is closed, with a cross term. With e(x) = x^2
    (trigamma(x) - 1 / x), m the mean and n = a + b, it is

        location        1 / scale^2 + m^2 e(a) + (1 - m)^2 e(b) - (1 - 2 m)^2 e(n)
        log(scale)      4 (e(a) + e(b) - e(n))
        across          2 ((1 - m) (e(b) - e(n)) - m (e(a) - e(n)))

    The distribution function is an integral of the density by 84 nodes, so it has derivatives. It
    is exact to rounding for mild shapes, and to 1e-3 where a parameter is huge or tiny.
    Units may be neither shifted nor multiplied.
    """

    names: ClassVar[tuple[str, str]] = ("logit-beta", "diag")
    admits_shift: ClassVar[bool] = False
    admits_scale: ClassVar[bool] = False

    def constrain(self, raw: Float[Array, "raw *rows"], dim: int) -> LocationScale:
        params = super().constrain(raw, dim)
        bounded = jnp.clip(params.mean, -_LARGEST_LOCATION, _LARGEST_LOCATION)
        return params._replace(mean=bounded)

    def information(self, params: LocationScale) -> tuple[Any, Any]:
        m, rest, e_a, e_b, e_n = _excesses(params)
        excess = m**2 * e_a + rest**2 * e_b - (rest - m) ** 2 * e_n
        # The excess is positive; rounding must not make it negative.
        return 1 + params.scale**2 * jnp.maximum(excess, 0.0), 4 * (e_a + e_b - e_n)

    def cross_information(self, params: LocationScale) -> Array:
        m, rest, e_a, e_b, e_n = _excesses(params)
        return 2 * params.scale * (rest * (e_b - e_n) - m * (e_a - e_n))

    def each_log_prob(self, params: LocationScale, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the log density as that of a Gaussian with rests that vanish for small scales."""
        a, b = _shapes(params)
        rests = stirling_rest(a) + stirling_rest(b) - stirling_rest(a + b)
        return _log_kernel(params, y) - jnp.log(params.scale) - _LOG_SQRT_2PI - rests

    def each_cdf(self, params: LocationScale, y: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.exp(self.each_log_tail(params, y, jnp.zeros(jnp.shape(y), bool)))

    def each_log_tail(
        self, params: LocationScale, y: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        location, scale, y, is_above = jnp.broadcast_arrays(params.mean, params.scale, y, is_above)
        # The tail beyond y, away from the location; the other one is what it leaves.
        side = jnp.where(y > location, -1.0, 1.0).astype(y.dtype)
        outer = _log_lower_tail(LocationScale(side * location, scale), side * y)
        is_outer = is_above == (side < 0)
        inner = jnp.log1p(-jnp.exp(jnp.where(is_outer, -1.0, jnp.minimum(outer, -1e-7))))
        return jnp.where(is_outer, outer, inner)

    def bracket(self, params: LocationScale, q: Float[Array, ""]) -> Float[Array, " 2"]:
        """Return two points around a quantile by Cantelli's inequality."""
        mean, std = self.mean(params)[0], jnp.sqrt(self.variance(params)[0])
        inside = jnp.clip(q, jnp.finfo(q.dtype).tiny, 1 - jnp.finfo(q.dtype).eps)
        odds = jnp.sqrt(inside) / jnp.sqrt(1 - inside)
        ends = jnp.stack([mean - std / odds, mean + std * odds])
        return jnp.where(q <= 0, -jnp.inf, jnp.where(q >= 1, jnp.inf, ends))

    def sample(self, params: LocationScale, key: PRNGKeyArray) -> Float[Array, " dim"]:
        keys = jax.random.split(key)
        a, b = _shapes(params)
        first = jax.random.loggamma(keys[0], a, dtype=a.dtype)
        return first - jax.random.loggamma(keys[1], b, dtype=b.dtype)

    def mean(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return _logit_moments(params)[0]

    def variance(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return _logit_moments(params)[1]

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> LocationScale:
        return jax.vmap(_solve_moments)(mean, variance)

    def rescale(self, params: LocationScale, location: Any, scale: Any) -> LocationScale:
        del location, scale  # always zero and one
        return params


@dataclass(frozen=True)
class Beta(AbstractInterval):
    """A beta distribution: location logit of the mean m, and variance m (1 - m) / (a + b + 1).

    The scale is sqrt(1 / a + 1 / b). See `LogitBeta` for the Fisher information.
    """

    names: ClassVar[tuple[str, str]] = ("beta", "diag")

    @property
    def base(self) -> LogitBeta:
        return LogitBeta(self.scale_floor)

    def bracket(self, params: LocationScale, q: Float[Array, ""]) -> Float[Array, " 2"]:
        return self._backward(self.base.bracket(params, q))

    def mean(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return self.lower + (self.upper - self.lower) * jax.nn.sigmoid(params.mean)

    def variance(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        a, b = _shapes(params)
        product = jax.nn.sigmoid(params.mean) * jax.nn.sigmoid(-params.mean)
        return (self.upper - self.lower) ** 2 * product / (a + b + 1)

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> LocationScale:
        width = self.upper - self.lower
        m, squared = (mean - self.lower) / width, variance / width**2
        total = jnp.maximum(m * (1 - m) / squared - 1, 1e-3)
        return LocationScale(jax.scipy.special.logit(m), 1 / jnp.sqrt(total * m * (1 - m)))


def _shapes(params: LocationScale) -> tuple[Array, Array]:
    """Return a and b."""
    precision = params.scale**-2
    return precision * (1 + jnp.exp(params.mean)), precision * (1 + jnp.exp(-params.mean))


def _log_kernel(params: LocationScale, y: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the part of the log density that depends on y; zero at the location."""
    a, b = _shapes(params)
    # From the side of the smaller mean, whose complement keeps its digits.
    sign = jnp.where(params.mean > 0, -1.0, 1.0).astype(params.mean.dtype)
    at, offset = sign * params.mean, sign * (y - params.mean)
    m, is_near = jax.nn.sigmoid(at), jnp.abs(offset) < 1
    near = jnp.log1p(m * jnp.expm1(jnp.where(is_near, offset, 0.0)))
    far = jnp.logaddexp(jax.nn.log_sigmoid(-at), jax.nn.log_sigmoid(at) + offset)
    return -(a + b) * (jnp.where(is_near, near, far) - m * offset)


def _excesses(params: LocationScale) -> tuple[Array, ...]:
    """Return m, 1 - m, e(a), e(b) and e(a + b)."""
    a, b = _shapes(params)
    means = jax.nn.sigmoid(params.mean), jax.nn.sigmoid(-params.mean)
    return (*means, *map(excess_trigamma, (a, b, a + b)))


def _logit_moments(params: LocationScale) -> tuple[Array, Array]:
    """Return mean and variance of the logit."""
    a, b = _shapes(params)
    return digamma(a) - digamma(b), trigamma(a) + trigamma(b)


def _solve_moments(mean: Float[Array, ""], variance: Float[Array, ""]) -> LocationScale:
    """Return parameters whose logit has these moments, by damped Newton's method."""

    def moments(at: Float[Array, " 2"]) -> Float[Array, " 2"]:
        own = _logit_moments(LocationScale(at[0], jnp.exp(at[1])))
        return jnp.stack([own[0], jnp.log(own[1])])

    def step(_: Array, at: Float[Array, " 2"]) -> Float[Array, " 2"]:
        (aa, ab), (ba, bb) = jax.jacfwd(moments)(at)
        first, second = moments(at) - wanted
        moves = jnp.stack([bb * first - ab * second, aa * second - ba * first])
        return at - jnp.clip(moves / (aa * bb - ab * ba), -1.0, 1.0)

    wanted = jnp.stack([mean, jnp.log(variance)])
    start = jnp.stack([mean, 0.5 * jnp.log(jnp.minimum(variance, jnp.sqrt(variance)))])
    at = jax.lax.fori_loop(0, _NEWTON_STEPS, step, start)
    return LocationScale(at[0], jnp.exp(at[1]))


def _log_lower_tail(params: LocationScale, y: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return log P(Z <= y) for y below the location, which is the mode: there the density rises."""
    a, b = _shapes(params)
    level = jax.nn.sigmoid(y)
    slope = jnp.maximum(a - (a + b) * level, 0.0)
    bend = (a + b) * level * jax.nn.sigmoid(-y)
    # About the distance after which the density is much smaller.
    width = 1 / (slope + jnp.minimum(bend, jnp.sqrt(bend)) + 1e-30)
    width = jax.lax.stop_gradient(jnp.minimum(width, jnp.maximum(y, 0.0) + 1 / a + 1))
    here = _log_kernel(params, y)
    nodes, weights = (jnp.asarray(part, y.dtype) for part in (_NODES, _WEIGHTS))

    def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
        inside = _log_kernel(params, y - width * node[0])
        return total + node[1] * jnp.exp(inside - here), None

    total = jax.lax.scan(add, jnp.zeros_like(y), (nodes, weights))[0]
    return LogitBeta().each_log_prob(params, y) + jnp.log(width) + jnp.log(total)
