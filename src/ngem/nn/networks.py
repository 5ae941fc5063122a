"""Networks whose output is a mixture: backbones, the head, and its initialisation from data."""

import inspect
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .. import _errors
from .._types import LocationScale
from ..families import AbstractFamily, DiagonalGaussian
from ..mixture import Mixture

ACTIVATIONS: dict[str, Callable] = {
    "gelu": jax.nn.gelu,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
}


class MLP(eqx.Module):
    """A multi-layer perceptron from one row of features to raw outputs."""

    layers: tuple[eqx.nn.Linear, ...]
    norms: tuple[eqx.nn.LayerNorm, ...]
    dropout: float = eqx.field(static=True)
    activation: Callable = eqx.field(static=True)

    def __init__(
        self,
        in_size: int,
        out_size: int,
        hidden_sizes: Sequence[int],
        *,
        key: PRNGKeyArray,
        activation: str = "gelu",
        dropout: float = 0.0,
        layer_norm: bool = False,
    ):
        self.layers = _dense_layers(key, (in_size, *hidden_sizes, out_size))
        self.norms = tuple(eqx.nn.LayerNorm(size) for size in hidden_sizes if layer_norm)
        self.dropout = dropout
        self.activation = ACTIVATIONS[_errors.check_choice("activation", activation, ACTIVATIONS)]

    def __call__(
        self, x: Float[Array, "features *rows"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "raw *rows"]:
        return self.tapped(x, (None,) * len(self.layers), key=key)[0]

    def tapped(
        self,
        x: Float[Array, "features *rows"],
        taps: Sequence[Any],
        *,
        key: PRNGKeyArray | None = None,
    ) -> tuple[Float[Array, "raw *rows"], tuple[Array, ...]]:
        """Return the output and each layer's input, adding a tap to each layer's output.

        The gradient with respect to a tap is that of the layer's output, which K-FAC needs.
        """
        inputs = []
        for index, (layer, tap) in enumerate(zip(self.layers, taps, strict=True)):
            inputs.append(x)
            x = _dense(layer, x) if tap is None else _dense(layer, x) + tap
            if index < len(self.layers) - 1:
                x = self.activation(_normal(self.norms[index], x) if self.norms else x)
                x = self._drop(x, index, key)
        return x, tuple(inputs)

    def _drop(self, x: Array, index: int, key: PRNGKeyArray | None) -> Array:
        if self.dropout == 0 or key is None:
            return x
        keep = jax.random.bernoulli(jax.random.fold_in(key, index), 1 - self.dropout, x.shape)
        return jnp.where(keep, x / (1 - self.dropout), 0.0)


@partial(jax.jit, static_argnums=1)
def _dense_layers(key: PRNGKeyArray, sizes: tuple[int, ...]) -> tuple[eqx.nn.Linear, ...]:
    """Return layers between these sizes, as Equinox draws them: uniform within 1 / sqrt(inputs).

    All numbers come from one draw: the code of each draw takes long to compile, and a first fit
    waits for it.
    """
    empty = [
        eqx.filter_eval_shape(eqx.nn.Linear, fan_in, fan_out, key=key)
        for fan_in, fan_out in pairwise(sizes)
    ]
    shapes = [leaf.shape for layer in empty for leaf in (layer.weight, layer.bias)]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    numbers = jnp.split(jax.random.uniform(key, (ends[-1],), minval=-1.0), ends[:-1])
    parts = [part.reshape(shape) for part, shape in zip(numbers, shapes, strict=True)]
    return tuple(
        eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, (weight * bound, bias * bound))
        for layer, weight, bias in zip(empty, parts[::2], parts[1::2], strict=True)
        for bound in [layer.in_features**-0.5]
    )


def _dense(layer: eqx.nn.Linear, x: Float[Array, "inputs *rows"]) -> Float[Array, "outputs *rows"]:
    assert layer.bias is not None
    product = layer.weight @ x if x.ndim == 1 else _product(layer.weight, x)
    return product + layer.bias.reshape(-1, *(1 for _ in x.shape[1:]))


@jax.custom_vjp
def _product(weight: Float[Array, "outputs inputs"], x: Float[Array, "inputs rows"]) -> Array:
    return weight @ x


def _product_forward(weight, x):
    return weight @ x, (weight, x)


def _product_backward(saved, grad):
    weight, x = saved
    # A product whose first factor is read across its rows is slow, unless that is turned before;
    # the barrier keeps XLA from making one of the two.
    return grad @ x.T, jax.lax.optimization_barrier(weight.T) @ grad


_product.defvjp(_product_forward, _product_backward)


def _normal(norm: eqx.nn.LayerNorm, x: Float[Array, "units *rows"]) -> Float[Array, "units *rows"]:
    return norm(x) if x.ndim == 1 else jax.vmap(norm, in_axes=-1, out_axes=-1)(x)


class SeparateNetworks(eqx.Module):
    """One network for the weights and one for the components, as in the authors' early code."""

    weights: MLP
    components: MLP

    @property
    def layers(self) -> tuple[eqx.nn.Linear, ...]:
        """All dense layers, in the order in which the pytree holds them."""
        return (*self.weights.layers, *self.components.layers)

    def __call__(
        self, x: Float[Array, "features *rows"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "raw *rows"]:
        return self.tapped(x, (None,) * len(self.layers), key=key)[0]

    def tapped(
        self,
        x: Float[Array, "features *rows"],
        taps: Sequence[Any],
        *,
        key: PRNGKeyArray | None = None,
    ) -> tuple[Float[Array, "raw *rows"], tuple[Array, ...]]:
        """Return the output and each layer's input, adding a tap to each layer's output."""
        keys = (None, None) if key is None else tuple(jax.random.split(key))
        split = len(self.weights.layers)
        logits, first = self.weights.tapped(x, taps[:split], key=keys[0])
        rest, second = self.components.tapped(x, taps[split:], key=keys[1])
        return jnp.concatenate([logits, rest]), (*first, *second)


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
        return self.n_components * (1 + self.family.num_raw(self.dim))

    @property
    def is_random(self) -> bool:
        """Whether the body makes use of a key: dropout, or a user's module that takes one."""
        if isinstance(self.body, SeparateNetworks):
            return self.body.weights.dropout > 0
        if isinstance(self.body, MLP):
            return self.body.dropout > 0
        return "key" in inspect.signature(self.body).parameters

    def __call__(self, x: Float[Array, " features"], *, key: PRNGKeyArray | None = None) -> Mixture:
        """Return the mixture for one row of features; a key switches dropout on."""
        return self.to_mixture(self._raw(x, key))

    @property
    def takes_rows(self) -> bool:
        """Whether `side_by_side` may be used: in our own networks, with most families."""
        return isinstance(self.body, MLP | SeparateNetworks) and self.family.takes_rows

    def side_by_side(
        self, x: Float[Array, "features *rows"], key: PRNGKeyArray | None = None
    ) -> tuple[Float[Array, "comp *rows"], LocationScale]:
        """Return logits and components of rows that lie along the last axes of all arrays."""
        return self._parts(self._raw(x, key))

    def to_mixture(self, raw: Float[Array, " raw"]) -> Mixture:
        """Return the mixture that raw outputs stand for: logits first, then each component."""
        if raw.shape != (self.num_raw,):
            raise ValueError(
                f"the network must return {self.num_raw} numbers for {self.n_components} "
                f"components over {self.dim} target columns, got shape {raw.shape}; "
                "size its last layer by MixtureNetwork.num_raw."
            )
        return Mixture(*self._parts(raw), self.family)

    def _raw(
        self, x: Float[Array, "features *rows"], key: PRNGKeyArray | None
    ) -> Float[Array, "raw *rows"]:
        return self.body(x, key=key) if self.is_random else self.body(x)

    def _parts(self, raw: Float[Array, "raw *rows"]) -> tuple[Array, LocationScale]:
        logits, rest = jax.lax.split(raw, (self.n_components, self.num_raw - self.n_components))
        each = rest.reshape(self.n_components, -1, *raw.shape[1:])
        return logits, jax.vmap(lambda raw: self.family.constrain(raw, self.dim))(each)

    def to_raw(self, mixture: Mixture) -> Float[Array, " raw"]:
        """Return the raw outputs that stand for a mixture."""
        rows = jax.vmap(self.family.unconstrain)(mixture.components)
        return jnp.concatenate([mixture.logits, rows.ravel()])


def mixture_mlp(
    in_size: int,
    dim: int,
    *,
    key: PRNGKeyArray,
    n_components: int = 5,
    hidden_sizes: Sequence[int] = (128, 128),
    family: AbstractFamily | None = None,
    separate: bool = False,
    **settings: Any,
) -> MixtureNetwork:
    """Return an MLP, or two for weights and components, whose output is a mixture."""
    family = DiagonalGaussian() if family is None else family
    sizes = (n_components, n_components * family.num_raw(dim))
    if separate:
        keys = jax.random.split(key)
        body = SeparateNetworks(
            *(
                MLP(in_size, s, hidden_sizes, key=k, **settings)
                for s, k in zip(sizes, keys, strict=True)
            )
        )
    else:
        body = MLP(in_size, sum(sizes), hidden_sizes, key=key, **settings)
    return MixtureNetwork(body, n_components, dim, family)


def hidden_matrices(network: MixtureNetwork) -> Any:
    """Return a pytree like the network's parameters that marks hidden weight matrices.

    In our own networks all but the heads; in a user's body all matrices, since we cannot tell.
    """
    params = eqx.filter(network, eqx.is_inexact_array)
    marks = jax.tree.map(lambda leaf: leaf.ndim == 2, params)
    body = network.body
    bodies = (body.weights, body.components) if isinstance(body, SeparateNetworks) else (body,)
    heads = [part.layers[-1].weight for part in bodies if isinstance(part, MLP)]
    return jax.tree.map(
        lambda leaf, mark: mark and not any(leaf is head for head in heads), params, marks
    )


def tapped(
    network: MixtureNetwork, x: Float[Array, "batch features"], taps: tuple[Array, ...]
) -> tuple[Float[Array, "batch raw"], tuple[Array, ...]]:
    """Return raw outputs and layer inputs of a batch, with a tap added to each layer's output."""
    if not isinstance(network.body, MLP | SeparateNetworks):
        raise ValueError(
            "K-FAC needs to see the inputs and outputs of every dense layer, got a body of type "
            f"{type(network.body).__name__}; use one of our own networks or another optimizer."
        )
    return jax.vmap(network.body.tapped)(x, taps)


def output_gradient(
    network: MixtureNetwork, raw: Float[Array, " raw"], key: PRNGKeyArray
) -> Float[Array, " raw"]:
    """Return the gradient of log p(y, z) in the raw outputs, for y and z drawn from the model.

    Its second moment is the complete-data Fisher information of Proposition 4, carried to the raw
    outputs.
    """
    pick_key, draw_key = jax.random.split(key)
    mixture = network.to_mixture(raw)
    picked = jax.random.categorical(pick_key, mixture.logits)
    pick = lambda components: jax.tree.map(lambda leaf: leaf[picked], components)  # noqa: E731
    y = network.family.sample(pick(mixture.components), draw_key)

    def log_complete(raw):
        mixture = network.to_mixture(raw)
        return mixture.log_weights[picked] + network.family.log_prob(pick(mixture.components), y)

    return jax.grad(log_complete)(raw)


def initialise_head(
    network: MixtureNetwork, y: np.ndarray, rng: np.random.Generator, *, shrink: float = 0.1
) -> MixtureNetwork:
    """Return the network with its head set so that it starts as a mixture of the targets.

    The biases of the last layer(s) stand for the clusters of the targets that k-means finds; its
    weights are shrunk, so that the output hardly depends on x at the start.
    """
    mixture = cluster_mixture(np.asarray(y), network.n_components, network.family, rng)
    raw = network.to_raw(mixture)
    if isinstance(network.body, MLP):
        body = _set_head(network.body, raw, shrink)
    elif isinstance(network.body, SeparateNetworks):
        logits, rest = raw[: network.n_components], raw[network.n_components :]
        body = SeparateNetworks(
            _set_head(network.body.weights, logits, shrink),
            _set_head(network.body.components, rest, shrink),
        )
    else:
        raise ValueError(
            "a head can be initialised from data only in our own networks, got a body of type "
            f"{type(network.body).__name__}; pass init='random'."
        )
    return eqx.tree_at(lambda tree: tree.body, network, body)


def cluster_mixture(
    y: np.ndarray, n_components: int, family: AbstractFamily, rng: np.random.Generator
) -> Mixture:
    """Return a mixture with one component for each k-means cluster of the targets."""
    centres, label = k_means(y, n_components, rng)
    counts = np.bincount(label, minlength=n_components)
    overall = np.maximum(y.std(axis=0), 1e-3)
    squares = np.zeros_like(centres)
    np.add.at(squares, label, (y - centres[label]) ** 2)
    # One pseudo-count of a fraction of the overall spread keeps clusters of a few rows honest.
    spread = np.sqrt((squares + (overall / n_components) ** 2) / (counts + 1)[:, None])
    scale = jnp.asarray(spread)
    if family.num_raw(y.shape[1]) > 2 * y.shape[1]:
        scale = jax.vmap(jnp.diag)(scale)
    logits = jnp.log(jnp.asarray((counts + 1) / (counts + 1).sum()))
    return Mixture(logits, LocationScale(jnp.asarray(centres), scale), family)


def k_means(
    y: np.ndarray, n_clusters: int, rng: np.random.Generator, *, max_iters: int = 20
) -> tuple[np.ndarray, np.ndarray]:
    """Return centres and labels: k-means++ and Lloyd's iterations, on a sample of large data."""
    sample = y[rng.choice(len(y), min(len(y), 20_000), replace=False)]
    centres = sample[rng.integers(len(sample), size=1)]
    distance = _squares(sample, centres).min(axis=1)
    for _ in range(n_clusters - 1):
        total = distance.sum()
        chance = distance / total if total > 0 else None
        # Of a few candidates, the one that brings the rows closest: far fewer poor starts.
        candidates = sample[rng.choice(len(sample), 5, p=chance)]
        reached = np.minimum(distance[:, None], _squares(sample, candidates))
        best = reached.sum(axis=0).argmin()
        centres, distance = np.concatenate([centres, candidates[[best]]]), reached[:, best]
    for _ in range(max_iters):
        label = _nearest(sample, centres)
        moved = np.array(
            [
                sample[label == k].mean(0) if np.any(label == k) else centres[k]
                for k in range(n_clusters)
            ]
        )
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres, _nearest(y, centres)


def _squares(y: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return ((y[:, None] - centres) ** 2).sum(axis=-1)


def _nearest(y: np.ndarray, centres: np.ndarray) -> np.ndarray:
    # |y - c|^2 without the |y|^2 that all centres share, so that no (rows, centres, dim) is made.
    return np.argmin((centres**2).sum(1) - 2 * y @ centres.T, axis=1)


def _set_head(network: MLP, raw: Float[Array, " raw"], shrink: float) -> MLP:
    last = network.layers[-1]
    bias = raw.astype(last.weight.dtype)
    return eqx.tree_at(
        lambda tree: (tree.layers[-1].weight, tree.layers[-1].bias),
        network,
        (shrink * last.weight, bias),
    )
