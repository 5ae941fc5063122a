"""The squared error of the mixture's mean, a baseline of the paper."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._conditions import Condition, spread
from .._types import Power
from ..mixture import Mixture
from .base import AbstractObjective


@dataclass(frozen=True)
class MSE(AbstractObjective):
    """Mean over target columns of (E[Y] - y)^2; its value is not a likelihood."""

    def losses(
        self,
        mixture: Mixture,
        y: Float[Array, "*rows dim"],
        power: Power | None = None,
        condition: Condition = None,
    ) -> Float[Array, "*rows"]:
        mean = jnp.broadcast_to(spread(mixture.mean(), condition), y.shape)
        return jnp.mean((mean - y) ** 2, axis=-1)
