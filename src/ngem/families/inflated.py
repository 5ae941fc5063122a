"""A family with an atom: one value that has a probability of its own, such as zero."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Params, Power
from .base import AbstractFamily
from .diagonal import DiagonalGaussian
from .powers import power_of
from .wrapper import AbstractWrapper

#: Largest logit of an atom: its probability stays apart from 0 and 1 in single precision.
_LARGEST_LOGIT = 14.0

#: Moments that the other values can have: distance of the mean from a bound in standard deviations,
#: and variance relative to the largest one between two bounds.
_LEAST_MEAN, _MOST_VARIANCE = 0.05, 0.5


class AtomAndRest(NamedTuple):
    """The logit of the atom's probability in each coordinate, and parameters of all else."""

    logit: Float[Array, "..."]
    rest: Params


@dataclass(frozen=True)
class Inflated(AbstractWrapper):
    """Y is the atom with probability p, and else follows another family, in each coordinate.

    A log density here is log p at the atom and log(1 - p) + log f(y) elsewhere. Fisher information
    p (1 - p) for the logit of p, and (1 - p) times that of the other family: whether a target is
    the atom is seen, so there is no cross term.

    Attributes:
        inner: Distribution of all other values, with independent coordinates.
        atom: The value.
        fraction: Fraction of targets that are the atom, for densities that know two moments only.
    """

    names: ClassVar[tuple[str, str]] = ("inflated", "diag")
    admits_shift: ClassVar[bool] = False

    inner: AbstractFamily = field(default_factory=DiagonalGaussian)
    atom: float = 0.0
    fraction: float = 0.5

    def __post_init__(self) -> None:
        if self.inner.is_discrete or self.inner.names[1] != "diag":
            raise ValueError(
                f"an atom must stand beside a density with independent coordinates, got "
                f"{self.inner.name!r}; counts need none, because a component whose mean is near 0 "
                "is one."
            )
        if self.atom in self.inner.atoms:
            raise ValueError(f"atoms must differ, got {self.atom:g} twice; name each of them once.")

    @property
    def name(self) -> str:
        return f"{self.inner.name} + {self.atom:g}"

    @property
    def kind(self) -> Any:
        return type(self), self.inner.kind, self.atom

    @property
    def is_scalable(self) -> bool:
        return self.inner.is_scalable and self.atom == 0

    @property
    def atoms(self) -> tuple[float, ...]:
        return tuple(sorted((*self.inner.atoms, self.atom)))

    @property
    def smooth(self) -> AbstractFamily:
        return self.inner.smooth

    @property
    def wrapped(self) -> AbstractFamily:
        return self.inner

    def rest(self, params: AtomAndRest) -> Params:
        return params.rest

    def with_rest(self, params: AtomAndRest, rest: Params) -> AtomAndRest:
        return params._replace(rest=rest)

    def check_targets(self, y: np.ndarray, name: str = "y") -> None:
        self.inner.check_targets(np.where(y == self.atom, self._harmless, y), name)

    @property
    def _harmless(self) -> float:
        """A value to which the other family gives a density."""
        return float(self.smooth.link.backward(np.zeros(())))

    def num_raw(self, dim: int) -> int:
        return dim + self.inner.num_raw(dim)

    def raw_kinds(self, dim: int) -> tuple[str, ...]:
        return ("mean",) * dim + self.inner.raw_kinds(dim)

    def constrain(self, raw: Float[Array, "raw *rows"], dim: int) -> AtomAndRest:
        logit, rest = jax.lax.split(raw, (dim, self.inner.num_raw(dim)))
        bounded = jnp.clip(logit, -_LARGEST_LOGIT, _LARGEST_LOGIT)
        return AtomAndRest(bounded, self.inner.constrain(rest, dim))

    def unconstrain(self, params: AtomAndRest) -> Float[Array, " raw"]:
        return jnp.concatenate([params.logit, self.inner.unconstrain(params.rest)])

    def log_prob(self, params: AtomAndRest, y: Float[Array, "dim *rows"]) -> Float[Array, "*rows"]:
        is_atom = y == self.atom
        density = self._each(
            self.inner.log_prob, params.rest, jnp.where(is_atom, self._harmless, y)
        )
        others = jax.nn.log_sigmoid(-params.logit) + density
        return jnp.sum(jnp.where(is_atom, jax.nn.log_sigmoid(params.logit), others), axis=0)

    def fisher_solve(
        self, params: AtomAndRest, grad: AtomAndRest, power: Power, coordinates: str = "scale"
    ) -> AtomAndRest:
        return self._solved(params, super().fisher_solve(params, grad, power, coordinates), power)

    def fisher_solve_each(
        self, params: AtomAndRest, grad: AtomAndRest, power: Power, coordinates: str
    ) -> AtomAndRest:
        solved = super().fisher_solve_each(params, grad, power, coordinates)
        return self._solved(params, solved, power)

    def _solved(self, params: AtomAndRest, grad: AtomAndRest, power: Power) -> AtomAndRest:
        """Return gradients that the other family has solved, with what the atom adds."""
        at, else_ = _probabilities(params)
        factor = power_of(else_, -power)
        return AtomAndRest(
            grad.logit * power_of(at * else_, -power),
            jax.tree.map(lambda leaf: leaf * factor, grad.rest),
        )

    def raw_fisher_diagonal(self, params: AtomAndRest) -> Float[Array, "raw *rows"]:
        at, else_ = _probabilities(params)
        inner = self.inner.raw_fisher_diagonal(params.rest)
        # Raw outputs come in blocks, each with one number for each coordinate.
        blocks = [else_] * (len(inner) // len(else_))
        return jnp.concatenate([at * else_, inner * jnp.concatenate(blocks)])

    def sample(self, params: AtomAndRest, key: PRNGKeyArray) -> Float[Array, " dim"]:
        atom_key, key = jax.random.split(key)
        draw = self.inner.sample(params.rest, key)
        is_atom = jax.random.bernoulli(atom_key, jax.nn.sigmoid(params.logit))
        return jnp.where(is_atom, jnp.asarray(self.atom, draw.dtype), draw)

    def mean(self, params: AtomAndRest) -> Float[Array, "dim *rows"]:
        at, else_ = _probabilities(params)
        return at * self.atom + else_ * self.inner.mean(params.rest)

    def variance(self, params: AtomAndRest) -> Float[Array, "dim *rows"]:
        at, else_ = _probabilities(params)
        apart = self.inner.mean(params.rest) - self.atom
        return else_ * (self.inner.variance(params.rest) + at * apart**2)

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> AtomAndRest:
        """Return parameters with these moments and `fraction` at the atom, as near as possible."""
        at, else_ = self.fraction, 1 - self.fraction
        own = (mean - at * self.atom) / else_
        rest = variance / else_ - at * (own - self.atom) ** 2
        rest = jnp.maximum(rest, 0.05 * variance)
        logit = jnp.full_like(mean, float(np.log(at / else_)))
        return AtomAndRest(logit, self.inner.from_moments(*self._possible(own, rest)))

    def _possible(
        self, mean: Float[Array, "..."], variance: Float[Array, "..."]
    ) -> tuple[Array, Array]:
        """Return moments that the other values can have, near those asked for."""
        low, high = self.smooth.link.ends
        if np.isfinite(low):
            mean = jnp.maximum(mean, low + _LEAST_MEAN * jnp.sqrt(variance))
        if np.isfinite(high):
            inside = 0.01 * (high - low)
            mean = jnp.clip(mean, low + inside, high - inside)
            variance = jnp.minimum(variance, _MOST_VARIANCE * (mean - low) * (high - mean))
        return mean, variance

    def from_cluster(
        self,
        y: Float[Array, "batch dim"],
        counts: Float[Array, " batch"],
        mean: Float[Array, " dim"],
        variance: Float[Array, " dim"],
    ) -> AtomAndRest:
        def one(y: Array, mean: Array, variance: Array) -> AtomAndRest:
            is_atom = y == self.atom
            other = jnp.where(is_atom, 0.0, counts)
            # One row more of either kind keeps both possible.
            odds = (jnp.sum(counts - other) + 1) / (jnp.sum(other) + 1)
            moments = _moments(jnp.where(is_atom, self._harmless, y), other, mean, variance)
            rest = self.inner.from_cluster(
                jnp.where(is_atom, self._harmless, y)[:, None],
                other,
                *(part[None] for part in self._possible(*moments)),
            )
            return AtomAndRest(jnp.log(odds), jax.tree.map(lambda leaf: leaf[0], rest))

        return jax.vmap(one, in_axes=(1, 0, 0))(y, mean, variance)

    def rescaled(self, location: np.ndarray, scale: np.ndarray) -> "Inflated":
        atom = float(location[0] + scale[0] * self.atom)
        return replace(self, inner=self.inner.rescaled(location, scale), atom=atom)

    def cdf(self, params: AtomAndRest, y: Float[Array, " 1"]) -> Float[Array, ""]:
        return self._below(params, y, y[0] >= self.atom, self.inner.cdf)

    def cdf_before(self, params: AtomAndRest, y: Float[Array, " 1"]) -> Float[Array, ""]:
        return self._below(params, y, y[0] > self.atom, self.inner.cdf_before)

    def _below(
        self, params: AtomAndRest, y: Float[Array, " 1"], counts: Array, cdf: Callable
    ) -> Float[Array, ""]:
        at, else_ = (part[0] for part in _probabilities(params))
        return jnp.where(counts, at, 0.0) + else_ * cdf(params.rest, y)

    def quantile(self, params: AtomAndRest, q: Float[Array, ""]) -> Float[Array, ""]:
        at, else_ = (part[0] for part in _probabilities(params))
        atom = jnp.full((1,), self.atom, at.dtype)
        below = else_ * self.inner.cdf_before(params.rest, atom)
        is_atom = (q > below) & (q <= below + at) & (q < 1)
        level = jnp.where(q <= below, q, q - at) / else_
        level = jnp.where(is_atom, 0.5, jnp.clip(level, 0.0, 1.0))
        return jnp.where(is_atom, atom[0], self.inner.quantile(params.rest, level))

    def without_atoms(self, params: AtomAndRest) -> tuple[Float[Array, ""], Params]:
        log_rest, rest = self.inner.without_atoms(params.rest)
        return jax.nn.log_sigmoid(-params.logit[0]) + log_rest, rest

    def log_observed(
        self,
        params: AtomAndRest,
        lower: Float[Array, "dim *rows"],
        upper: Float[Array, "dim *rows"],
    ) -> Float[Array, "*rows"]:
        is_atom = (lower == self.atom) & (upper == self.atom)
        ends = (jnp.where(is_atom, self._harmless, end) for end in (lower, upper))
        others = self._each(self.inner.log_observed, params.rest, *ends)
        holds = (lower < upper) & (lower <= self.atom) & (self.atom <= upper)
        return self._with_atom(params, others, is_atom, holds)

    def log_mass(
        self,
        params: AtomAndRest,
        lower: Float[Array, "dim *rows"],
        upper: Float[Array, "dim *rows"],
    ) -> Float[Array, "*rows"]:
        others = self._each(self.inner.log_mass, params.rest, lower, upper)
        holds = (lower <= self.atom) & (self.atom <= upper)
        return self._with_atom(params, others, jnp.zeros_like(holds), holds)

    def _with_atom(
        self, params: AtomAndRest, others: Array, is_atom: Array, holds: Array
    ) -> Float[Array, "*rows"]:
        """Return log probabilities of intervals, with the atom's where they hold it."""
        log_atom = jax.nn.log_sigmoid(params.logit)
        log_rest = jax.nn.log_sigmoid(-params.logit) + others
        both = jnp.logaddexp(log_atom, jnp.where(holds, log_rest, 0.0))
        each = jnp.where(is_atom, log_atom, jnp.where(holds, both, log_rest))
        return jnp.sum(each, axis=0)

    def _each(self, fn: Callable, rest: Params, *y: Array) -> Float[Array, "dim *rows"]:
        """Return a function of one-dimensional components for each coordinate."""

        def one(params: Params, *y: Array) -> Array:
            return fn(jax.tree.map(lambda leaf: leaf[None], params), *(part[None] for part in y))

        return jax.vmap(one)(rest, *y)


def _probabilities(params: AtomAndRest) -> tuple[Array, Array]:
    """Return the probability of the atom, and that of all else: neither is a difference."""
    return jax.nn.sigmoid(params.logit), jax.nn.sigmoid(-params.logit)


def _moments(y: Array, counts: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Return mean and variance of rows that count; one row of what is given is added."""
    total = jnp.sum(counts)
    own = (jnp.sum(counts * y) + mean) / (total + 1)
    squares = jnp.sum(counts * (y - own) ** 2)
    return own, (squares + variance) / (total + 1)
