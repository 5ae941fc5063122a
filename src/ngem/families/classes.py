"""Classes 0, 1, ..., n - 1: with an order (grades, stages) or without one (colors, causes)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._types import Params, Power
from .counts import AbstractCount
from .powers import power_of

#: Most classes. Each needs a raw output of each component.
_MOST = 1000

#: Largest logit of a step: its probability stays apart from 0 and 1 in single precision.
_LARGEST_LOGIT = 14.0

#: Smallest information, whose inverse is finite in single precision.
_LEAST = 1e-25


class Steps(NamedTuple):
    """Logits of P(Y = j | Y >= j) for j = 0 to n - 2, (dim, step), or gradients in them."""

    logits: Float[Array, "dim step *rows"]


@dataclass(frozen=True)
class AbstractClasses(AbstractCount):
    """A probability for each of n classes, with independent coordinates.

    The probabilities break a stick: with p_j = P(Y = j | Y >= j), class j has the probability
    p_j (1 - p_0) ... (1 - p_(j - 1)). Whether a step is taken is seen only by targets that come so
    far, so the Fisher information of the logits has no cross terms: P(Y >= j) p_j (1 - p_j).

    Attributes:
        classes: Number of classes; a fit takes it from the targets where it is not stated.
    """

    options: ClassVar[tuple[str, ...]] = ("classes",)

    classes: float = 2.0

    def __post_init__(self) -> None:
        if not (2 <= self.classes <= _MOST and self.classes == int(self.classes)):
            raise ValueError(
                f"classes of family {self.name!r} must be a whole number from 2 to {_MOST}, got "
                f"{self.classes:g}; for example {self.name}(3)."
            )

    @classmethod
    def settle(cls, values: Sequence[str], y: np.ndarray) -> list[str]:
        """Return the options, with the number of classes that the targets have if none is given."""
        return list(values) or [f"{max(2.0, np.max(y, initial=0.0) + 1):.0f}"]

    @property
    def most(self) -> float:
        return self.classes - 1

    @property
    def _steps(self) -> int:
        return int(self.classes) - 1

    def num_raw(self, dim: int) -> int:
        return dim * self._steps

    def raw_kinds(self, dim: int) -> tuple[str, ...]:
        return ("mean",) * self.num_raw(dim)

    def constrain(self, raw: Float[Array, "raw *rows"], dim: int) -> Steps:
        logits = raw.reshape(dim, self._steps, *raw.shape[1:])
        return Steps(jnp.clip(logits, -_LARGEST_LOGIT, _LARGEST_LOGIT))

    def unconstrain(self, params: Steps) -> Float[Array, " raw"]:
        return params.logits.reshape(-1)

    def log_probabilities(self, params: Steps) -> Float[Array, "dim class *rows"]:
        """Return the log probability of each class."""
        reached = self._log_reached(params)
        return reached.at[:, :-1].add(jax.nn.log_sigmoid(params.logits))

    def probabilities(self, params: Steps) -> Float[Array, "dim class *rows"]:
        """Return the probability of each class."""
        return jnp.exp(self.log_probabilities(params))

    def _log_reached(self, params: Steps) -> Float[Array, "dim class *rows"]:
        """Return log P(Y >= j) for each class j."""
        further = jnp.cumsum(jax.nn.log_sigmoid(-params.logits), axis=1)
        return jnp.concatenate([jnp.zeros_like(further[:, :1]), further], axis=1)

    def each_log_prob(self, params: Steps, y: Float[Array, "dim *rows"]) -> Array:
        """Return the log probability of each coordinate's class."""
        return _pick(self.log_probabilities(params), y)

    def each_tail(
        self, params: Steps, y: Float[Array, "dim *rows"], is_above: Bool[Array, "dim *rows"]
    ) -> Array:
        below = _pick(jnp.cumsum(self.probabilities(params), axis=1), y)
        reached = jnp.exp(self._log_reached(params)[:, 1:])
        last = jnp.zeros_like(reached[:, :1])
        above = _pick(jnp.concatenate([reached, last], axis=1), y)
        return jnp.where(is_above, above, jnp.minimum(below, 1.0))

    def quantile(self, params: Steps, q: Float[Array, ""]) -> Float[Array, ""]:
        below = jnp.cumsum(self.probabilities(params)[0])[:-1]
        return jnp.sum(below < q).astype(below.dtype)

    def bracket(self, params: Steps, q: Float[Array, ""]) -> Float[Array, " 2"]:
        del q
        return jnp.array([-1.0, self.most], params.logits.dtype)

    def _information(self, params: Steps) -> Float[Array, "dim step *rows"]:
        """Return the Fisher information of each logit."""
        taken = jax.nn.log_sigmoid(params.logits) + jax.nn.log_sigmoid(-params.logits)
        return jnp.maximum(jnp.exp(self._log_reached(params)[:, :-1] + taken), _LEAST)

    def fisher_solve(
        self, params: Steps, grad: Steps, power: Power, coordinates: str = "scale"
    ) -> Steps:
        del coordinates  # there is no scale
        return Steps(grad.logits * power_of(self._information(params), -power))

    def raw_fisher_diagonal(self, params: Steps) -> Float[Array, "raw *rows"]:
        information = self._information(params)
        return information.reshape(-1, *information.shape[2:])

    def sample(self, params: Steps, key: PRNGKeyArray) -> Float[Array, " dim"]:
        draws = jax.random.categorical(key, self.log_probabilities(params), axis=1)
        return draws.astype(params.logits.dtype)

    def mean(self, params: Steps) -> Float[Array, "dim *rows"]:
        return self._moment(params, jnp.arange(self.classes, dtype=params.logits.dtype))

    def variance(self, params: Steps) -> Float[Array, "dim *rows"]:
        classes = jnp.arange(self.classes, dtype=params.logits.dtype)
        classes = classes.reshape(-1, *(1 for _ in params.logits.shape[2:]))
        offsets = classes[None] - self.mean(params)[:, None]
        return jnp.sum(self.probabilities(params) * offsets**2, axis=1)

    def _moment(self, params: Steps, values: Float[Array, " class"]) -> Array:
        return jnp.tensordot(self.probabilities(params), values, axes=([1], [0]))

    def from_cluster(
        self,
        y: Float[Array, "batch dim"],
        counts: Float[Array, " batch"],
        mean: Float[Array, " dim"],
        variance: Float[Array, " dim"],
    ) -> Steps:
        """Return how often each class is there, with one row of all targets' classes added."""
        del mean, variance
        classes = jnp.arange(self.classes, dtype=y.dtype)
        members = (y[:, :, None] == classes[None, None]).astype(y.dtype)
        overall = (jnp.mean(members, axis=0) + 1 / self.classes) / 2
        return self._from_weights(jnp.tensordot(counts, members, axes=1) + overall)

    def _from_weights(self, weights: Float[Array, "dim class"]) -> Steps:
        """Return parameters with probabilities proportional to some numbers."""
        log = jnp.log(jnp.maximum(weights, jnp.finfo(weights.dtype).tiny))
        later = jax.lax.cumlogsumexp(log, axis=1, reverse=True)[:, 1:]
        return Steps(jnp.clip(log[:, :-1] - later, -_LARGEST_LOGIT, _LARGEST_LOGIT))

    def scales(self, params: Steps) -> Float[Array, " dim"]:
        """Return ones: there is no scale that could shrink."""
        return jnp.ones_like(params.logits[:, 0])

    def bound(self, params: Steps, low: Float[Array, " dim"], high: Float[Array, " dim"]) -> Steps:
        """Return the parameters as they are: there is nothing beyond the classes."""
        del low, high
        return params


@dataclass(frozen=True)
class Ordinal(AbstractClasses):
    """Classes with an order: a continuation-ratio model, whose mean is that of the numbers."""

    names: ClassVar[tuple[str, str]] = ("ordinal", "diag")

    def from_moments(self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]) -> Steps:
        """Return a Gaussian's density at the classes: these moments, as near as possible."""
        classes = jnp.arange(self.classes, dtype=mean.dtype)
        inside = jnp.clip(mean, 0.0, self.most)[:, None]
        squares = (classes[None] - inside) ** 2 / jnp.maximum(variance[:, None], 0.05)
        return self._from_weights(jnp.exp(-0.5 * squares) + 1e-6)


@dataclass(frozen=True)
class Categorical(AbstractClasses):
    """Classes without an order: their numbers are names.

    What stands for the mean is the most probable class, and the distance of two classes is 1 where
    they differ. So the variance is the probability of another class, and the CRPS is half the Brier
    score. Quantiles, the distribution function and its PIT take the classes by their numbers.
    """

    names: ClassVar[tuple[str, str]] = ("categorical", "diag")
    has_crps: ClassVar[bool] = True

    @property
    def averages_parts(self) -> bool:
        return True

    def mean(self, params: Steps) -> Float[Array, "dim *rows"]:
        """Return the most probable class."""
        most = jnp.argmax(self.log_probabilities(params), axis=1)
        return most.astype(params.logits.dtype)

    def mean_parts(self, params: Steps) -> Float[Array, "dim part"]:
        return self.probabilities(params)

    def mean_of_parts(self, parts: Float[Array, "... part"]) -> Float[Array, "..."]:
        return jnp.argmax(parts, axis=-1).astype(parts.dtype)

    def difference(self, one: Any, other: Any) -> Any:
        """Return 1 where two classes differ, else 0."""
        lib = jnp if isinstance(one, jax.Array) or isinstance(other, jax.Array) else np
        return lib.where(one == other, 0.0, 1.0)

    def variance(self, params: Steps) -> Float[Array, "dim *rows"]:
        return self.variance_around(params, self.mean(params))

    def variance_around(
        self, params: Steps, center: Float[Array, "dim *rows"]
    ) -> Float[Array, "dim *rows"]:
        """Return the probability of any other class."""
        return 1 - jnp.exp(self.each_log_prob(params, center))

    def from_moments(self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]) -> Steps:
        """Return equal probabilities: moments say nothing of names."""
        del variance
        return self._from_weights(jnp.ones((len(mean), int(self.classes)), mean.dtype))

    def mean_distance(self, params: Params, y: Float[Array, ""]) -> Float[Array, ""]:
        return 1 - jnp.exp(self.each_log_prob(params, y[None])[0])

    def mean_distance_between(self, params: Params, other: Params) -> Float[Array, ""]:
        return 1 - self.probabilities(params)[0] @ self.probabilities(other)[0]


def _pick(values: Float[Array, "dim class *rows"], y: Float[Array, "dim *rows"]) -> Array:
    """Return the value of each coordinate's class, by a sum that vector instructions take."""
    classes = jnp.arange(values.shape[1], dtype=y.dtype)
    classes = classes.reshape(1, -1, *(1 for _ in y.shape[1:]))
    return jnp.sum(jnp.where(classes == y[:, None], values, 0.0), axis=1)
