"""Stochastic gradient EM, equation (16)."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float

from .._conditions import Condition
from .._types import Power
from ..mixture import Mixture, log_joint
from .base import AbstractObjective


@dataclass(frozen=True)
class SGEM(AbstractObjective):
    """-sum_k [rho_k] log(weight_k f_k(y)), responsibilities held fixed.

    Its gradient is the likelihood's (Corollary 2), so it trains exactly as `NLL` does; it is here
    because nGEM is built from it and because the paper compares the two.
    """

    def losses(
        self,
        mixture: Mixture,
        y: Float[Array, "*rows dim"],
        power: Power | None = None,
        condition: Condition = None,
    ) -> Float[Array, "*rows"]:
        top, joint = log_joint(
            mixture.family, mixture.log_weights, mixture.components, y, condition
        )
        resp = stop_gradient(jax.nn.softmax(joint, axis=-1))
        # Where a responsibility is zero the log joint may be -inf, and 0 * -inf is not 0.
        surrogate = -jnp.sum(jnp.where(resp > 0, resp * joint, 0.0), axis=-1)
        value = -top - jax.nn.logsumexp(joint, axis=-1)
        return stop_gradient(value) + (surrogate - stop_gradient(surrogate))
