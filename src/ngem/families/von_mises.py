"""The von Mises distribution: directions, times of day, days of the year."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Power
from .base import AbstractFamily
from .powers import power_of

#: Largest parameter: concentrations up to ten thousand, deviations down to half a degree.
_LARGEST = 1e4

#: Above this concentration a series replaces a difference that loses its digits.
_CONCENTRATED = 50.0

#: Nodes of Gauss and Legendre on (0, 1), for the distribution function and the variance.
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_NODES, _WEIGHTS = 0.5 * (1 + _POINTS), 0.5 * _WEIGHTS

#: Halvings of a bracket.
_STEPS = 60


class Direction(NamedTuple):
    """concentration (cos, sin)(mean direction) of each coordinate, or gradients in them."""

    cosine: Float[Array, "..."]
    sine: Float[Array, "..."]


@dataclass(frozen=True)
class VonMises(AbstractFamily):
    """Density proportional to exp(k cos(angle - mean direction)), with independent coordinates.

    Its parameters are the natural ones, k cos and k sin of the mean direction: they have no cut,
    and zero is the uniform distribution. With A = I1(k) / I0(k), the Fisher information is A' along
    the mean direction and A / k across it.

    Attributes:
        period: Length of the circle in units of the targets: 360 degrees, 24 hours.
        cut: Where the circle is cut open: quantiles and the distribution function begin there.
    """

    names: ClassVar[tuple[str, str]] = ("von-mises", "diag")
    options: ClassVar[tuple[str, ...]] = ("period", "cut")
    admits_shift: ClassVar[bool] = False
    admits_scale: ClassVar[bool] = False
    has_slow_cdf: ClassVar[bool] = True

    period: float = 360.0
    cut: float = 0.0

    def __post_init__(self) -> None:
        if not (1e-6 <= self.period <= 1e6 and abs(self.cut) <= 1e6):
            raise ValueError(
                f"family 'von-mises' must have a period from 1e-6 to 1e6 and a cut, got "
                f"{self.period!r} and {self.cut!r}; for example von-mises(360), or "
                "von-mises(24, -12)."
            )

    @property
    def circle(self) -> float | None:
        return self.period

    @property
    def ends(self) -> tuple[float, float]:
        return self.cut, self.cut + self.period

    @property
    def takes_rows(self) -> bool:
        return True

    @property
    def has_boxes(self) -> bool:
        return True

    def check_targets(self, y: np.ndarray, name: str = "y") -> None:
        low, high = self.cut, self.cut + self.period
        outside = ~((y >= low) & (y <= high))
        if outside.any():
            row, column = np.argwhere(outside)[0]
            raise ValueError(
                f"{name} must be from {low:g} to {high:g} for family={self.name!r}, got "
                f"{y[row, column]:g} in row {row}; name the period and the cut of your unit, for "
                "example von-mises(6.283185307, -3.141592654)."
            )

    def num_raw(self, dim: int) -> int:
        return 2 * dim

    def raw_kinds(self, dim: int) -> tuple[str, ...]:
        return ("mean",) * (2 * dim)

    def constrain(self, raw: Float[Array, "raw *rows"], dim: int) -> Direction:
        return Direction(*jax.lax.split(jnp.clip(raw, -_LARGEST, _LARGEST), (dim, dim)))

    def unconstrain(self, params: Direction) -> Float[Array, " raw"]:
        return jnp.concatenate(params)

    def log_prob(self, params: Direction, y: Float[Array, "dim *rows"]) -> Float[Array, "*rows"]:
        return jnp.sum(self._each_log_prob(params, y), axis=0)

    def _each_log_prob(self, params: Direction, y: Float[Array, "..."]) -> Float[Array, "..."]:
        k, angle = _concentration(params), self._angle(y)
        along = params.cosine * jnp.cos(angle) + params.sine * jnp.sin(angle)
        return along - k - jnp.log(jax.scipy.special.i0e(k)) - math.log(self.period)

    def fisher_solve(
        self, params: Direction, grad: Direction, power: Power, coordinates: str = "scale"
    ) -> Direction:
        del coordinates  # there is no scale
        k = _concentration(params)
        along, across = (power_of(part, -power) for part in _information(k))
        cosine, sine = params.cosine / k, params.sine / k
        projected = (along - across) * (cosine * grad.cosine + sine * grad.sine)
        return Direction(
            across * grad.cosine + projected * cosine, across * grad.sine + projected * sine
        )

    def fisher_solve_each(
        self, params: Direction, grad: Direction, power: Power, coordinates: str
    ) -> Direction:
        return self.fisher_solve(params, grad, power, coordinates)

    def raw_fisher_diagonal(self, params: Direction) -> Float[Array, "raw *rows"]:
        k = _concentration(params)
        along, across = _information(k)
        squares = [(part / k) ** 2 for part in params]
        return jnp.concatenate([across + (along - across) * square for square in squares])

    def sample(self, params: Direction, key: PRNGKeyArray) -> Float[Array, " dim"]:
        """Return draws by the inverse of the distribution function around the mean direction."""
        k = _concentration(params)
        level = jax.random.uniform(key, k.shape, k.dtype)

        def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = 0.5 * (ends[0] + ends[1])
            is_below = _centered_cdf(k, middle) < level
            return jnp.where(is_below, middle, ends[0]), jnp.where(is_below, ends[1], middle)

        ends = (jnp.full_like(k, -math.pi), jnp.full_like(k, math.pi))
        low, high = jax.lax.fori_loop(0, _STEPS // 2, halve, ends)
        return self._wrapped(self._direction(params) + 0.5 * (low + high))

    def mean(self, params: Direction) -> Float[Array, "dim *rows"]:
        """Return the mean direction, from the cut on."""
        return self._wrapped(self._direction(params))

    def mean_parts(self, params: Direction) -> Float[Array, "dim part"]:
        k = _concentration(params)
        ratio = _across(k)  # A / k
        return jnp.stack([params.cosine * ratio, params.sine * ratio], axis=-1)

    def mean_of_parts(self, parts: Float[Array, "... part"]) -> Float[Array, "..."]:
        return self._wrapped(self._direction(Direction(parts[..., 0], parts[..., 1])))

    def difference(self, one: Any, other: Any) -> Any:
        lib = jnp if isinstance(one, jax.Array) or isinstance(other, jax.Array) else np
        half = self.period / 2
        return lib.mod(one - other + half, self.period) - half

    def variance(self, params: Direction) -> Float[Array, "dim *rows"]:
        """Return the mean squared distance on the circle from the mean direction."""
        return (self.period / (2 * math.pi)) ** 2 * _unit_variance(_concentration(params))

    def from_moments(self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]) -> Direction:
        """Return parameters with these moments; the uniform distribution if it is too wide."""
        wanted = variance * (2 * math.pi / self.period) ** 2

        def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = 0.5 * (ends[0] + ends[1])
            is_wide = _unit_variance(jnp.exp(middle)) > wanted
            return jnp.where(is_wide, middle, ends[0]), jnp.where(is_wide, ends[1], middle)

        ends = (jnp.full_like(wanted, -16.0), jnp.full_like(wanted, math.log(_LARGEST)))
        low, high = jax.lax.fori_loop(0, _STEPS, halve, ends)
        return _toward(jnp.exp(0.5 * (low + high)), self._angle(mean))

    def from_cluster(
        self,
        y: Float[Array, "batch dim"],
        counts: Float[Array, " batch"],
        mean: Float[Array, " dim"],
        variance: Float[Array, " dim"],
    ) -> Direction:
        """Return parameters from the mean of directions, whatever the cut is."""
        del mean, variance
        angle, total = self._angle(y), jnp.sum(counts) + 0.5
        resultant = Direction(counts @ jnp.cos(angle) / total, counts @ jnp.sin(angle) / total)
        return _toward(_invert_ratio(_concentration(resultant)), self._direction(resultant))

    def rescale(self, params: Direction, location: Any, scale: Any) -> Direction:
        del location, scale  # always zero and one
        return params

    def cdf(self, params: Direction, y: Float[Array, " 1"]) -> Float[Array, ""]:
        at = jnp.clip(y, self.cut, self.cut + self.period)
        start = jnp.full_like(at, self.cut)
        return jnp.clip(self._masses(params, start, at)[0], 0.0, 1.0)

    def quantile(self, params: Direction, q: Float[Array, ""]) -> Float[Array, ""]:
        def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = 0.5 * (ends[0] + ends[1])
            is_below = self.cdf(params, middle[None]) < q
            return jnp.where(is_below, middle, ends[0]), jnp.where(is_below, ends[1], middle)

        ends = (jnp.full_like(q, self.cut), jnp.full_like(q, self.cut + self.period))
        low, high = jax.lax.fori_loop(0, _STEPS, halve, ends)
        return 0.5 * (low + high)

    def landmarks(self, params: Direction, at: Float[Array, " points"]) -> Float[Array, " points"]:
        reach = jnp.clip(jnp.sqrt(self.variance(params)) * at, -self.period / 2, self.period / 2)
        points = jnp.sort(jnp.mod(self.mean(params) + reach - self.cut, self.period) + self.cut)
        return points.at[0].set(self.cut).at[-1].set(self.cut + self.period)

    def log_observed(
        self, params: Direction, lower: Float[Array, "dim *rows"], upper: Float[Array, "dim *rows"]
    ) -> Float[Array, "*rows"]:
        is_known = lower == upper
        density = self._each_log_prob(params, jnp.where(is_known, lower, 0.0))
        ends = jnp.where(is_known, 0.0, lower), jnp.where(is_known, 1.0, upper)
        return jnp.sum(jnp.where(is_known, density, self._log_masses(params, *ends)), axis=0)

    def log_mass(
        self, params: Direction, lower: Float[Array, "dim *rows"], upper: Float[Array, "dim *rows"]
    ) -> Float[Array, "*rows"]:
        return jnp.sum(self._log_masses(params, lower, upper), axis=0)

    def _log_masses(
        self, params: Direction, lower: Float[Array, "..."], upper: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return log probabilities of arcs: short ones by the density at their middle."""
        width = jnp.minimum(upper - lower, self.period)
        middle = jnp.where(width < self.period, lower + 0.5 * width, 0.0)
        density = self._each_log_prob(params, middle) + jnp.log(width)
        whole = width >= self.period
        ends = jnp.where(whole, 0.0, lower), jnp.where(whole, 1.0, upper)
        mass = jnp.where(whole, 1.0, self._masses(params, *ends))
        floor = 1e-6  # differences of probabilities lose their digits below
        large = jnp.log(jnp.where(mass > floor, mass, 1.0))
        return jnp.where(mass > floor, large, density)

    def _masses(
        self, params: Direction, lower: Float[Array, "..."], upper: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return the probability of an arc, which may reach over the cut."""
        k, mean = _concentration(params), self._direction(params)
        below, above = (_unwrapped_cdf(k, self._angle(end) - mean) for end in (lower, upper))
        return above - below

    def scales(self, params: Direction) -> Float[Array, " dim"]:
        return self.period / (2 * math.pi) / jnp.sqrt(1 + _concentration(params))

    def widen(self, params: Direction, smallest: Float[Array, " dim"]) -> Direction:
        """Return the parameters as they are: concentrations are bounded."""
        del smallest
        return params

    def bound(
        self, params: Direction, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> Direction:
        """Return the parameters as they are: a circle has no ends."""
        del low, high
        return params

    def _angle(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        return (2 * math.pi / self.period) * y

    def _direction(self, params: Direction) -> Float[Array, "..."]:
        """Return the angle of the mean direction; zero for the uniform distribution."""
        is_zero = (params.cosine == 0) & (params.sine == 0)
        return jnp.arctan2(params.sine, jnp.where(is_zero, 1.0, params.cosine))

    def _wrapped(self, angle: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return an angle in units of the targets, from the cut on."""
        y = angle * (self.period / (2 * math.pi))
        return jnp.mod(y - self.cut, self.period) + self.cut


def _concentration(params: Direction) -> Float[Array, "..."]:
    # The constant keeps the derivative finite at zero.
    return jnp.sqrt(params.cosine**2 + params.sine**2 + 1e-20)


def _toward(k: Float[Array, "..."], angle: Float[Array, "..."]) -> Direction:
    return Direction(k * jnp.cos(angle), k * jnp.sin(angle))


def _across(k: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return A(k) / k = I1(k) / (k I0(k)), the information across the mean direction."""
    return jax.scipy.special.i1e(k) / jax.scipy.special.i0e(k) / k


def _information(k: Float[Array, "..."]) -> tuple[Array, Array]:
    """Return the information along the mean direction, A' = 1 - A / k - A^2, and across it."""
    across = _across(k)
    large = k > _CONCENTRATED
    small = jnp.where(large, 1.0, k)
    ratio = _across(small)
    direct = 1 - ratio - (small * ratio) ** 2
    x = 1 / jnp.where(large, k, _CONCENTRATED)
    series = 1 / 2 + x * (1 / 4 + x * (3 / 8 + x * (25 / 32 + x * (65 / 32 + x * 3219 / 512))))
    return jnp.where(large, x**2 * series, direct), across


def _invert_ratio(ratio: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return about the concentration with A(k) = ratio (Best and Fisher, 1981), for a start."""
    r = jnp.clip(ratio, 0.0, 0.999)
    low = 2 * r + r**3 + 5 * r**5 / 6
    middle = -0.4 + 1.39 * r + 0.43 / (1 - r)
    high = 1 / (r**3 - 4 * r**2 + 3 * jnp.maximum(r, 0.5))
    return jnp.where(r < 0.53, low, jnp.where(r < 0.85, middle, high))


def _integrate(k: Float[Array, "..."], reach: Float[Array, "..."], order: int) -> Array:
    """Return the integral of t^order exp(k (cos(t) - 1)) from 0 to reach, over 2 pi I0(k)."""
    # Beyond twelve standard deviations nothing is left.
    end = jnp.minimum(reach, jnp.minimum(math.pi, 12 / jnp.sqrt(k)))
    nodes, weights = (jnp.asarray(part, end.dtype) for part in (_NODES, _WEIGHTS))

    def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
        t = node[0] * end
        return total + node[1] * t**order * jnp.exp(-2 * k * jnp.sin(0.5 * t) ** 2), None

    total = jax.lax.scan(add, jnp.zeros_like(end), (nodes, weights))[0]
    return end * total / (2 * math.pi * jax.scipy.special.i0e(k))


def _unit_variance(k: Float[Array, "..."]) -> Float[Array, "..."]:
    return 2 * _integrate(k, jnp.full_like(k, math.pi), 2)


def _centered_cdf(k: Float[Array, "..."], angle: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the probability from -pi to an angle of at most pi around the mean direction."""
    k, angle = jnp.broadcast_arrays(k, angle)
    half = _integrate(k, jnp.abs(angle), 0)
    return jnp.where(angle < 0, 0.5 - half, 0.5 + half)


def _unwrapped_cdf(k: Float[Array, "..."], angle: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the same for any angle: one more for each turn."""
    turns = jax.lax.stop_gradient(jnp.round(angle / (2 * math.pi)))
    return turns + _centered_cdf(k, angle - 2 * math.pi * turns)
