"""The squared error of the mixture's mean, a baseline of the paper."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Logits, Params, Power
from ..families import AbstractFamily
from .base import AbstractLoss


@dataclass(frozen=True)
class MSE(AbstractLoss):
    """Mean over target columns of (E[Y] - y)^2; its value is not a likelihood."""

    def loss(
        self,
        family: AbstractFamily,
        logits: Logits,
        components: Params,
        y: Float[Array, "dim *rows"],
        power: Power | None = None,
    ) -> Float[Array, "*rows"]:
        weights = jnp.expand_dims(jax.nn.softmax(logits, axis=0), 1)
        mean = jnp.sum(weights * jax.vmap(family.mean)(components), axis=0)
        return jnp.mean((mean - y) ** 2, axis=0)
