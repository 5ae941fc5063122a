"""Encodings of features, before the first layer of a network.

A network learns steps and kinks of single features slowly. Bins cut the range of each feature into
pieces with about as many training rows each. Each bin gives one input, which rises from 0 to 1 as
the feature crosses the bin.

A row with a feature at 50 standard deviations changes with every step as much as others do in 50,
so its likelihood jumps, and with it what all rows learn. `Squash` puts such values on a log scale.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .networks import AbstractNetwork, Taps


class Bins(eqx.Module):
    """The bins of all features, as many for each.

    One-dimensional arrays, so that no optimizer takes them for a weight matrix. They are fixed:
    training leaves them as the rows have set them.

    Attributes:
        start: Where each bin starts, all bins of the first feature first.
        slope: One over the width of each bin; 0 for bins that are not used.
    """

    start: Float[Array, " encoded"]
    slope: Float[Array, " encoded"]

    def __call__(self, x: Float[Array, "features *rows"]) -> Float[Array, "inputs *rows"]:
        """Return the features, followed by their bins."""
        shape = (len(x), -1, *(1 for _ in x.shape[1:]))
        start, slope = (
            jax.lax.stop_gradient(array).reshape(shape) for array in (self.start, self.slope)
        )
        filled = jnp.clip((x[:, None] - start) * slope, 0.0, 1.0)
        return jnp.concatenate([x, filled.reshape(-1, *x.shape[1:])])


class Squash(eqx.Module):
    """A log scale for features that are further than a limit from zero; others stay."""

    limit: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Return the features: beyond the limit, the limit plus log(1 + excess)."""
        excess = jnp.maximum(jnp.abs(x) - self.limit, 0.0)
        return jnp.where(excess > 0, jnp.sign(x) * (self.limit + jnp.log1p(excess)), x)


def no_bins(n_features: int, n_bins: int) -> Bins:
    """Return bins that are not used yet."""
    return Bins(*(jnp.zeros(n_features * n_bins) for _ in range(2)))


def fit_bins(x: Float[np.ndarray, "batch features"], n_bins: int) -> Bins:
    """Return bins between quantiles of the rows; a feature of few values has fewer bins."""
    start, slope = np.zeros((2, x.shape[1], n_bins), x.dtype)
    levels = np.linspace(0, 1, n_bins + 1)
    for feature, column in enumerate(x.T):
        edges = np.unique(np.quantile(column, levels, method="nearest"))
        used = len(edges) - 1
        start[feature, :used], slope[feature, :used] = edges[:-1], 1 / np.diff(edges)
    return Bins(*(jnp.asarray(array.ravel()) for array in (start, slope)))


class EncodedNetwork(AbstractNetwork):
    """A network that reads encoded features.

    Attributes:
        encoder: From features to inputs.
        network: From inputs to raw outputs.
    """

    encoder: Bins | Squash
    network: AbstractNetwork

    @property
    def is_random(self) -> bool:
        return self.network.is_random

    @property
    def heads(self) -> tuple[eqx.nn.Linear, ...]:
        return self.network.heads

    def __call__(
        self, x: Float[Array, "features *rows"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "raw *rows"]:
        return self.network(self.encoder(x), key=key)

    def tapped(
        self, x: Float[Array, " features"], taps: Taps
    ) -> tuple[Float[Array, " raw"], tuple[Array, ...]]:
        return self.network.tapped(self.encoder(x), taps)

    def with_start(self, raw: Float[Array, " raw"], shrink: float) -> "EncodedNetwork":
        return EncodedNetwork(self.encoder, self.network.with_start(raw, shrink))


def with_bins(body: Any, x: Float[np.ndarray, "batch features"]) -> Any:
    """Return a network whose bins, if it has any, lie between quantiles of these rows."""
    if not isinstance(body, EncodedNetwork):
        return body
    if isinstance(body.encoder, Bins):
        n_bins = len(body.encoder.start) // x.shape[1]
        return EncodedNetwork(fit_bins(x, n_bins), body.network)
    return EncodedNetwork(
        body.encoder, with_bins(body.network, np.asarray(body.encoder(jnp.asarray(x))))
    )
