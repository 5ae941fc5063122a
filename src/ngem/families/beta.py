"""The beta distribution: targets between two bounds."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .independent import AbstractIndependent, LocationScale
from .interval import AbstractInterval
from .special import excess_trigamma, invert_cdf, stirling_rest, trigamma

_LOG_SQRT_2PI = 0.9189385332046727

#: Steps of Newton's method from moments of the logit to parameters.
_STEPS = 16


@dataclass(frozen=True)
class LogitBeta(AbstractIndependent):
    """The logit of a beta variable with mean m = sigmoid(location).

    Its shapes are a = m / s^2 and b = (1 - m) / s^2, with s the scale.
    With e(x) = x^2 (trigamma(x) - 1 / x), between 1/2 and 1, the Fisher information times s^2 is
    m (1 - m) + s^2 ((1 - m)^2 e(a) + m^2 e(b)) for the location, 4 (e(a) + e(b) - e(a + b)) for the
    scale s, and -2 s ((1 - m) e(a) - m e(b)) between them. Units cannot change.
    """

    names: ClassVar[tuple[str, str]] = ("logit-beta", "diag")
    admits_shift: ClassVar[bool] = False
    admits_scale: ClassVar[bool] = False

    def information(self, params: LocationScale) -> tuple[Any, Any]:
        mean, rest, (of_a, of_b, of_sum) = self._excesses(params)
        location = mean * rest + params.scale**2 * (rest**2 * of_a + mean**2 * of_b)
        return location, 4 * (of_a + of_b - of_sum)

    def cross_information(self, params: LocationScale) -> Any:
        mean, rest, (of_a, of_b, _) = self._excesses(params)
        return -2 * params.scale * (rest * of_a - mean * of_b)

    def _excesses(self, params: LocationScale) -> tuple[Array, Array, list[Array]]:
        mean, rest = _both(params.mean)
        a, b = _shapes(params)
        return mean, rest, [excess_trigamma(shape) for shape in (a, b, params.scale**-2)]

    def each_log_prob(self, params: LocationScale, y: Float[Array, "..."]) -> Float[Array, "..."]:
        a, b = _shapes(params)
        total = params.scale**-2
        # The terms of Stirling's formula that are left, so that large shapes lose no digits.
        constant = 0.5 * (jnp.log(a) + jnp.log(b) - jnp.log(total)) - _LOG_SQRT_2PI
        rest = stirling_rest(total) - stirling_rest(a) - stirling_rest(b)
        gain = a * (jax.nn.log_sigmoid(y) - jax.nn.log_sigmoid(params.mean))
        loss = b * (jax.nn.log_sigmoid(-y) - jax.nn.log_sigmoid(-params.mean))
        return constant + rest + gain + loss

    def each_cdf(self, params: LocationScale, y: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.exp(self.each_log_tail(params, y, jnp.zeros(y.shape, bool)))

    def each_log_tail(
        self, params: LocationScale, y: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return the logarithm of a tail, cut off where the tail underflows."""
        a, b = _shapes(params)
        first, second = jnp.where(is_above, b, a), jnp.where(is_above, a, b)
        at = jax.nn.sigmoid(jnp.where(is_above, -y, y))
        first, second, at = jnp.broadcast_arrays(first, second, at)
        tail = jax.scipy.special.betainc(first, second, at)
        return jnp.log(jnp.maximum(tail, jnp.finfo(tail.dtype).tiny))

    def each_quantile(self, params: LocationScale, q: Float[Array, "..."]) -> Float[Array, "..."]:
        center, width = self.mean(params), jnp.sqrt(self.variance(params))
        z = invert_cdf(
            lambda z, is_above: self.each_log_tail(params, center + width * z, is_above),
            lambda z: self.each_log_prob(params, center + width * z) + jnp.log(width),
            jnp.broadcast_to(q, jnp.broadcast_shapes(q.shape, width.shape)),
        )
        return center + width * z

    def log_observed(
        self, params: LocationScale, lower: Float[Array, "..."], upper: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        raise NotImplementedError(
            "rounded, censored and missing targets need the derivative of a tail, which the beta "
            "family does not have; use family='logitnormal'."
        )

    def sample(self, params: LocationScale, key: PRNGKeyArray) -> Float[Array, " dim"]:
        keys, shapes = jax.random.split(key), _shapes(params)
        up, down = (
            jax.random.loggamma(one, shape) for one, shape in zip(keys, shapes, strict=True)
        )
        return up - down

    def mean(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        a, b = _shapes(params)
        return jax.scipy.special.digamma(a) - jax.scipy.special.digamma(b)

    def variance(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        a, b = _shapes(params)
        return trigamma(a) + trigamma(b)

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> LocationScale:
        return jax.vmap(self._solve_moments)(mean, variance)

    def _solve_moments(self, mean: Float[Array, ""], variance: Float[Array, ""]) -> LocationScale:
        """Return the parameters with these moments of the logit, by Newton's method."""
        wanted = jnp.stack([mean, jnp.log(variance)])

        def moments(at: Float[Array, " 2"]) -> Float[Array, " 2"]:
            params = LocationScale(at[0], jnp.exp(at[1]))
            return jnp.stack([self.mean(params), jnp.log(self.variance(params))])

        def step(_: Array, at: Float[Array, " 2"]) -> Float[Array, " 2"]:
            (p, q), (r, s) = jax.jacfwd(moments)(at)
            first, second = moments(at) - wanted
            move = jnp.stack([s * first - q * second, p * second - r * first]) / (p * s - q * r)
            return at - jnp.clip(move, -1.0, 1.0)

        weight, rest = _both(mean)
        start = jnp.stack([mean, 0.5 * jnp.log(jnp.minimum(variance, 1.0) * weight * rest)])
        at = jax.lax.fori_loop(0, _STEPS, step, start)
        return LocationScale(at[0], jnp.exp(at[1]))

    def rescale(self, params: LocationScale, location: Any, scale: Any) -> LocationScale:
        del location, scale  # always zero and one
        return params

    def bound(
        self, params: LocationScale, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> LocationScale:
        mean, variance, largest = self.mean(params), self.variance(params), (high - low) ** 2
        is_inside = (mean >= low) & (mean <= high) & (variance <= largest)
        moved = self.from_moments(jnp.clip(mean, low, high), jnp.minimum(variance, largest))
        return jax.tree.map(lambda own, new: jnp.where(is_inside, own, new), params, moved)


@dataclass(frozen=True)
class Beta(AbstractInterval):
    """A beta distribution on (lower, upper): location logit of the mean, scale 1 / sqrt(a + b).

    See `LogitBeta` for the Fisher information.
    """

    names: ClassVar[tuple[str, str]] = ("beta", "diag")

    @property
    def base(self) -> LogitBeta:
        return LogitBeta(self.scale_floor)

    def mean(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return self.lower + (self.upper - self.lower) * jax.nn.sigmoid(params.mean)

    def variance(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        mean, rest = _both(params.mean)
        # Without a quotient of two infinite numbers where the scale is huge.
        return (self.upper - self.lower) ** 2 * mean * rest / (1 + params.scale**-2)

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> LocationScale:
        width = self.upper - self.lower
        unit = (mean - self.lower) / width
        total = unit * (1 - unit) * width**2 / variance - 1
        return LocationScale(jax.scipy.special.logit(unit), total**-0.5)


def _both(location: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Return a mean from its logit, and one minus the mean, both with all digits."""
    return jax.nn.sigmoid(location), jax.nn.sigmoid(-location)


def _shapes(params: LocationScale) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    mean, rest = _both(params.mean)
    total, least = params.scale**-2, jnp.finfo(params.scale.dtype).tiny ** 0.5
    return jnp.maximum(total * mean, least), jnp.maximum(total * rest, least)
