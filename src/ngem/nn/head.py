"""From raw outputs to a mixture."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Logits, Params
from ..families import AbstractFamily, DiagonalGaussian
from ..mixture import Mixture
from .encoding import EncodedNetwork, Squash, no_bins
from .networks import MLP, AbstractNetwork, SeparateNetworks


class MixtureNetwork(eqx.Module):
    """A body from features to raw outputs, and what its raw outputs mean.

    Attributes:
        body: Any callable from one row of features to `num_raw` numbers: an MLP, a user's Equinox
            module (which may take a `key`), or a plain function.
        n_components: Number of mixture components.
        dim: Number of target columns.
        family: The components' distribution.
    """

    body: Callable
    n_components: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    family: AbstractFamily = eqx.field(static=True, default=DiagonalGaussian())

    @property
    def num_raw(self) -> int:
        """How many raw outputs the body must have."""
        return self.n_components + num_outputs(self.family, self.n_components, self.dim)

    @property
    def is_random(self) -> bool:
        """Whether the body uses a key: dropout, or a user's module that takes one."""
        if isinstance(self.body, AbstractNetwork):
            return self.body.is_random
        return "key" in inspect.signature(self.body).parameters

    @property
    def takes_rows(self) -> bool:
        """Whether `outputs` takes many rows: our own networks, with most families."""
        return isinstance(self.body, AbstractNetwork) and self.family.takes_rows

    def __call__(self, x: Float[Array, " features"], *, key: PRNGKeyArray | None = None) -> Mixture:
        """Return the mixture for one row of features; a key switches dropout on."""
        return self.to_mixture(self._raw(x, key))

    def outputs(
        self, x: Float[Array, "features *rows"], key: PRNGKeyArray | None = None
    ) -> tuple[Logits, Params]:
        """Return logits and components of one row, or of rows along the last axes of all arrays."""
        return self._split(self._raw(x, key))

    def to_mixture(self, raw: Float[Array, " raw"]) -> Mixture:
        """Return the mixture that raw outputs stand for: logits first, then each component."""
        if raw.shape != (self.num_raw,):
            raise ValueError(
                f"the network must return {self.num_raw} numbers for {self.n_components} "
                f"components over {self.dim} target columns, got shape {raw.shape}; "
                "size its last layer by MixtureNetwork.num_raw."
            )
        return Mixture(*self._split(raw), self.family)

    def to_raw(self, mixture: Mixture) -> Float[Array, " raw"]:
        """Return the raw outputs that stand for a mixture."""
        rows = jax.vmap(self.family.unconstrain)(mixture.components)
        own, shared = jnp.split(rows, [rows.shape[1] - self._num_shared], axis=1)
        return jnp.concatenate([mixture.logits, own.ravel(), mixture.weights @ shared])

    @property
    def _num_shared(self) -> int:
        return self.family.num_shared_raw(self.dim)

    def _raw(
        self, x: Float[Array, "features *rows"], key: PRNGKeyArray | None
    ) -> Float[Array, "raw *rows"]:
        return self.body(x, key=key) if self.is_random else self.body(x)

    def _split(self, raw: Float[Array, "raw *rows"]) -> tuple[Logits, Params]:
        count, n_shared = self.n_components, self._num_shared
        sizes = (count, self.num_raw - count - n_shared, n_shared)
        logits, rest, shared = jax.lax.split(raw, sizes)
        each = rest.reshape(count, -1, *raw.shape[1:])
        if n_shared:
            repeated = jnp.broadcast_to(shared, (count, *shared.shape))
            each = jnp.concatenate([each, repeated], axis=1)
        return logits, jax.vmap(lambda raw: self.family.constrain(raw, self.dim))(each)


def num_outputs(family: AbstractFamily, n_components: int, dim: int) -> int:
    """Return how many raw outputs describe the components of a row."""
    shared = family.num_shared_raw(dim)
    return n_components * (family.num_raw(dim) - shared) + shared


def apply(
    network: MixtureNetwork, x: Float[Array, "batch features"], key: PRNGKeyArray | None = None
) -> Mixture:
    """Return the mixtures of a batch of rows; a key switches dropout on."""
    if key is None or not network.is_random:
        return jax.vmap(network)(x)
    return jax.vmap(lambda row, key: network(row, key=key))(x, jax.random.split(key, len(x)))


def mixture_mlp(
    in_size: int,
    dim: int,
    *,
    key: PRNGKeyArray,
    n_components: int = 5,
    hidden_sizes: Sequence[int] = (128, 128),
    family: AbstractFamily | None = None,
    separate: bool = False,
    n_bins: int = 0,
    input_limit: float | None = None,
    **settings: Any,
) -> MixtureNetwork:
    """Return an MLP, or two for weights and components, whose output is a mixture.

    With `n_bins` it reads bins of each feature as well; `with_bins` sets them from rows. With
    `input_limit` it reads features beyond that limit on a log scale, see `Squash`.
    """
    family = DiagonalGaussian() if family is None else family
    sizes = (n_components, num_outputs(family, n_components, dim))
    n_inputs = in_size * (1 + n_bins)
    if separate:
        keys = jax.random.split(key)
        body = SeparateNetworks(
            *(
                MLP(n_inputs, size, hidden_sizes, key=key, **settings)
                for size, key in zip(sizes, keys, strict=True)
            )
        )
    else:
        body = MLP(n_inputs, sum(sizes), hidden_sizes, key=key, **settings)
    body = EncodedNetwork(no_bins(in_size, n_bins), body) if n_bins else body
    body = body if input_limit is None else EncodedNetwork(Squash(input_limit), body)
    return MixtureNetwork(body, n_components, dim, family)


def hidden_matrices(network: MixtureNetwork) -> Any:
    """Return a pytree like the network's parameters that marks hidden weight matrices.

    In our own networks all but the heads; in a user's body all matrices, because nothing tells
    which of them is the head.
    """
    params = eqx.filter(network, eqx.is_inexact_array)
    body = network.body
    heads = [head.weight for head in body.heads] if isinstance(body, AbstractNetwork) else []
    return jax.tree.map(
        lambda leaf: leaf.ndim == 2 and not any(leaf is head for head in heads), params
    )


def check_own_network(body: Array | Callable, what: str, hint: str) -> AbstractNetwork:
    """Return the body of a network if it is one of ours, whose layers are known."""
    if not isinstance(body, AbstractNetwork):
        raise ValueError(
            f"{what} needs one of our own networks, got a body of type {type(body).__name__}; "
            f"{hint}."
        )
    return body
