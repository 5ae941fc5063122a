"""Stochastic gradient EM, equation (16)."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float

from .base import AbstractLikelihood, with_gradient_of


@dataclass(frozen=True)
class SGEM(AbstractLikelihood):
    """-sum_k [rho_k] log(weight_k f_k(y)), with responsibilities rho held fixed.

    Its gradient is the likelihood's (Corollary 2), so it trains exactly as `NLL` does. It is here
    because nGEM is built from it and because the paper compares the two.
    """

    def reduce(
        self, joint: Float[Array, "comp *rows"], discount: Float[Array, "comp *rows"] | None
    ) -> Float[Array, "*rows"]:
        resp = stop_gradient(jax.nn.softmax(joint, axis=0))
        # Where a responsibility is zero the log joint may be -inf, and 0 * -inf is not 0.
        surrogate = -jnp.sum(jnp.where(resp > 0, resp * joint, 0.0), axis=0)
        return with_gradient_of(surrogate, super().reduce(joint, None))
