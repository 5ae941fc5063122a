"""The negative log-likelihood, equation (3)."""

from dataclasses import dataclass

from jaxtyping import Array, Float

from .._types import Power
from ..mixture import Mixture
from .base import AbstractObjective


@dataclass(frozen=True)
class NLL(AbstractObjective):
    """-log sum_k weight_k f_k(y), with its own gradient."""

    def losses(
        self, mixture: Mixture, y: Float[Array, "*rows dim"], power: Power | None = None
    ) -> Float[Array, "*rows"]:
        return -mixture.log_prob(y)
