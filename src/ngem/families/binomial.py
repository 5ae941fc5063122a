"""The binomial distribution: how many of a known number of trials succeed."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .counts import AbstractOneParameter, Location


@dataclass(frozen=True)
class Binomial(AbstractOneParameter):
    """Counts from 0 to the number of trials: the location is the logit of the probability p.

    Fisher information of the location: trials p (1 - p).

    Attributes:
        trials: Number of trials, the same for all rows; 1 for targets that are 0 or 1.
    """

    names: ClassVar[tuple[str, str]] = ("binomial", "diag")
    options: ClassVar[tuple[str, ...]] = ("trials",)

    trials: float = 1.0

    def __post_init__(self) -> None:
        if not (1 <= self.trials <= 1e6 and self.trials == int(self.trials)):
            raise ValueError(
                f"trials of family 'binomial' must be a whole number from 1 to 1e6, got "
                f"{self.trials!r}; for example binomial(10)."
            )

    @property
    def most(self) -> float:
        return float(self.trials)

    def information(self, params: Location) -> Float[Array, "..."]:
        # Both factors by their own sigmoid, so that neither is a difference.
        return self.trials * jax.nn.sigmoid(params.mean) * jax.nn.sigmoid(-params.mean)

    def each_log_prob(self, params: Location, y: Float[Array, "..."]) -> Float[Array, "..."]:
        log_gamma, trials = jax.scipy.special.gammaln, jnp.asarray(self.trials, y.dtype)
        ways = log_gamma(trials + 1) - log_gamma(y + 1) - log_gamma(trials - y + 1)
        rest = trials - y
        success, failure = jax.nn.log_sigmoid(params.mean), jax.nn.log_sigmoid(-params.mean)
        return ways + y * success + rest * failure

    def each_tail(
        self, params: Location, y: Float[Array, "..."], is_above: Bool[Array, "..."]
    ) -> Float[Array, "..."]:
        location, y = jnp.broadcast_arrays(params.mean, y)
        inside = y < self.trials
        at = jnp.where(inside, y, 0.0)
        below = jax.scipy.special.betainc(self.trials - at, at + 1, jax.nn.sigmoid(-location))
        above = jax.scipy.special.betainc(at + 1, self.trials - at, jax.nn.sigmoid(location))
        tail = jnp.where(is_above, above, below)
        return jnp.where(inside, tail, jnp.where(is_above, 0.0, 1.0).astype(tail.dtype))

    def sample(self, params: Location, key: PRNGKeyArray) -> Float[Array, " dim"]:
        chance = jax.nn.sigmoid(params.mean)
        trials = jnp.asarray(self.trials, chance.dtype)
        return jax.random.binomial(key, trials, chance, dtype=chance.dtype)

    def mean(self, params: Location) -> Float[Array, "dim *rows"]:
        return self.trials * jax.nn.sigmoid(params.mean)

    def variance(self, params: Location) -> Float[Array, "dim *rows"]:
        return self.information(params)

    def from_moments(self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]) -> Location:
        """Return parameters with this mean, which decides the variance."""
        del variance
        return Location(self._location(mean))

    def bound(
        self, params: Location, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> Location:
        return Location(jnp.clip(params.mean, self._location(low), self._location(high)))

    def _location(self, mean: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return jax.scipy.special.logit(jnp.clip(mean / self.trials, 1e-4, 1 - 1e-4))
