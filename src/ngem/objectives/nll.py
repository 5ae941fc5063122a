"""The negative log-likelihood, equation (3)."""

from dataclasses import dataclass

from jaxtyping import Array, Float

from .._conditions import Condition
from .._types import Power
from ..mixture import Mixture
from .base import AbstractObjective, negative_log_likelihood


@dataclass(frozen=True)
class NLL(AbstractObjective):
    """-log sum_k weight_k f_k(y), with its own gradient."""

    def losses(
        self,
        mixture: Mixture,
        y: Float[Array, "*rows dim"],
        power: Power | None = None,
        condition: Condition = None,
    ) -> Float[Array, "*rows"]:
        return negative_log_likelihood(
            mixture.family, mixture.log_weights, mixture.components, y, condition
        )
