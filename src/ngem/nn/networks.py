"""Networks from features to raw outputs: a multi-layer perceptron, and one for each part."""

import abc
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._errors import check_choice
from .._programs import kept

ACTIVATIONS: dict[str, Callable] = {
    "gelu": jax.nn.gelu,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
}

Taps = Sequence[Array]


class AbstractNetwork(eqx.Module):
    """A network of our own, of which training knows more than that it is a function.

    Its arrays may have more axes at their end, with one entry for each row.
    """

    @property
    @abc.abstractmethod
    def is_random(self) -> bool:
        """Whether the network uses a key: whether it has dropout."""

    @property
    @abc.abstractmethod
    def heads(self) -> tuple[eqx.nn.Linear, ...]:
        """The last layer of each part, which gives raw outputs."""

    @abc.abstractmethod
    def __call__(
        self, x: Float[Array, "features *rows"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "raw *rows"]:
        """Return raw outputs; a key switches dropout on."""

    @abc.abstractmethod
    def tapped(
        self, x: Float[Array, " features"], taps: Taps
    ) -> tuple[Float[Array, " raw"], tuple[Array, ...]]:
        """Return the output and each layer's input, with a tap added to each layer's output.

        The gradient with respect to a tap is that of the layer's output, which K-FAC needs.
        """

    @abc.abstractmethod
    def with_start(self, raw: Float[Array, " raw"], shrink: float) -> "AbstractNetwork":
        """Return the network with `raw` as the bias of its output and the heads' weights shrunk."""


class MLP(AbstractNetwork):
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
        self.activation = ACTIVATIONS[check_choice("activation", activation, ACTIVATIONS)]

    @property
    def is_random(self) -> bool:
        return self.dropout > 0

    @property
    def heads(self) -> tuple[eqx.nn.Linear, ...]:
        return self.layers[-1:]

    def __call__(
        self, x: Float[Array, "features *rows"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "raw *rows"]:
        for index, layer in enumerate(self.layers[:-1]):
            x = self._drop(self._activate(_dense(layer, x), index), index, key)
        return _dense(self.layers[-1], x)

    def tapped(
        self, x: Float[Array, " features"], taps: Taps
    ) -> tuple[Float[Array, " raw"], tuple[Array, ...]]:
        inputs = []
        for index, (layer, tap) in enumerate(zip(self.layers, taps, strict=True)):
            inputs.append(x)
            x = _dense(layer, x) + tap
            x = x if layer is self.layers[-1] else self._activate(x, index)
        return x, tuple(inputs)

    def with_start(self, raw: Float[Array, " raw"], shrink: float) -> "MLP":
        head = self.layers[-1]
        return eqx.tree_at(
            lambda tree: (tree.layers[-1].weight, tree.layers[-1].bias),
            self,
            (shrink * head.weight, raw.astype(head.weight.dtype)),
        )

    def _activate(self, x: Float[Array, "units *rows"], index: int) -> Float[Array, "units *rows"]:
        return self.activation(_normalize(self.norms[index], x) if self.norms else x)

    def _drop(self, x: Array, index: int, key: PRNGKeyArray | None) -> Array:
        if self.dropout == 0 or key is None:
            return x
        keep = random_mask(jax.random.fold_in(key, index), 1 - self.dropout, x.shape)
        return jnp.where(keep, x / (1 - self.dropout), 0.0)


def random_mask(key: PRNGKeyArray, probability: float, shape: Sequence[int]) -> Bool[Array, "..."]:
    """Return a mask that is true with a probability.

    `jax.random.bernoulli` would take nearly half of a training step, this a fifth. Every unit and
    every row draws a word. The mask compares a hash of the two with a level. The hash is what
    MurmurHash3 ends with: each bit of its input changes about half of the bits of its output.
    """
    units, *rows = shape
    words = jax.random.bits(key, (units + math.prod(rows),), jnp.uint32)
    of_unit = words[:units].reshape(-1, *(1 for _ in rows))
    mixed = of_unit ^ words[units:].reshape(1, *rows)
    mixed = (mixed ^ (mixed >> 16)) * jnp.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> 13)) * jnp.uint32(0xC2B2AE35)
    return (mixed ^ (mixed >> 16)) < jnp.uint32(round(probability * (2**32 - 1)))


class SeparateNetworks(AbstractNetwork):
    """One network for the weights and one for the components, as in the authors' early code."""

    weights: MLP
    components: MLP

    @property
    def is_random(self) -> bool:
        return self.weights.is_random

    @property
    def heads(self) -> tuple[eqx.nn.Linear, ...]:
        return (*self.weights.heads, *self.components.heads)

    def __call__(
        self, x: Float[Array, "features *rows"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "raw *rows"]:
        keys = (None, None) if key is None else tuple(jax.random.split(key))
        return jnp.concatenate([self.weights(x, key=keys[0]), self.components(x, key=keys[1])])

    def tapped(
        self, x: Float[Array, " features"], taps: Taps
    ) -> tuple[Float[Array, " raw"], tuple[Array, ...]]:
        split = len(self.weights.layers)
        logits, first = self.weights.tapped(x, taps[:split])
        rest, second = self.components.tapped(x, taps[split:])
        return jnp.concatenate([logits, rest]), (*first, *second)

    def with_start(self, raw: Float[Array, " raw"], shrink: float) -> "SeparateNetworks":
        split = self.weights.layers[-1].out_features
        assert isinstance(split, int)
        return SeparateNetworks(
            self.weights.with_start(raw[:split], shrink),
            self.components.with_start(raw[split:], shrink),
        )


@kept()
def _dense_layers(key: PRNGKeyArray, sizes: tuple[int, ...]) -> tuple[eqx.nn.Linear, ...]:
    """Return layers between these sizes, as Equinox draws them: uniform within 1 / sqrt(inputs).

    All numbers come from one draw: the code of a draw takes long to compile, and a first fit waits
    for it.
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
    product = layer.weight @ x if x.ndim == 1 else _matmul(layer.weight, x)
    return product + layer.bias.reshape(-1, *(1 for _ in x.shape[1:]))


Matrix = Float[Array, "_ _"]


@jax.custom_vjp
def _matmul(weight: Float[Array, "outputs inputs"], x: Float[Array, "inputs rows"]) -> Matrix:
    return weight @ x


def _matmul_forward(
    weight: Float[Array, "outputs inputs"], x: Float[Array, "inputs rows"]
) -> tuple[Matrix, tuple[Matrix, Matrix]]:
    return weight @ x, (weight, x)


def _matmul_backward(saved: Any, grad: Matrix) -> tuple[Matrix, Matrix]:
    weight, x = saved
    # A matmul with a transposed left operand is slow; transpose it first. The barrier keeps XLA
    # from fusing the two again.
    return grad @ x.T, jax.lax.optimization_barrier(weight.T) @ grad


_matmul.defvjp(_matmul_forward, _matmul_backward)


def _normalize(
    norm: eqx.nn.LayerNorm, x: Float[Array, "units *rows"]
) -> Float[Array, "units *rows"]:
    return norm(x) if x.ndim == 1 else jax.vmap(norm, in_axes=-1, out_axes=-1)(x)
