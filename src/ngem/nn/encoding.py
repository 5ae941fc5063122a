"""Piecewise-linear encoding of features, before the first layer of a network.

A network learns steps and kinks of single features slowly. The encoding cuts the range of each
feature into bins with about as many training rows each. Each bin gives one input, which rises from
0 to 1 as the feature crosses the bin.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .networks import MLP, AbstractNetwork, SeparateNetworks, Taps


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
    """A network whose inputs are the features and their bins.

    Attributes:
        bins: From features to inputs.
        network: From inputs to raw outputs.
    """

    bins: Bins
    network: MLP | SeparateNetworks

    @property
    def is_random(self) -> bool:
        return self.network.is_random

    @property
    def heads(self) -> tuple[eqx.nn.Linear, ...]:
        return self.network.heads

    def __call__(
        self, x: Float[Array, "features *rows"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "raw *rows"]:
        return self.network(self.bins(x), key=key)

    def tapped(
        self, x: Float[Array, " features"], taps: Taps
    ) -> tuple[Float[Array, " raw"], tuple[Array, ...]]:
        return self.network.tapped(self.bins(x), taps)

    def with_start(self, raw: Float[Array, " raw"], shrink: float) -> "EncodedNetwork":
        return EncodedNetwork(self.bins, self.network.with_start(raw, shrink))
