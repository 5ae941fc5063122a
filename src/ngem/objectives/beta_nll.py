"""beta-NLL (Seitzer et al., 2022), a baseline of the paper, extended from one Gaussian to many."""

from dataclasses import dataclass

import jax

from .. import _defaults
from .._types import Logits, Params, Power
from ..families import AbstractFamily, multiply_leading, power_of
from ..geometry import AbstractMetric, TracedPower, natural, plain_logits
from .base import AbstractLikelihood, Prepared


@dataclass(frozen=True)
class VarianceWeights(AbstractMetric):
    """Multiplies the gradients of each coordinate's parameters by its variance^beta."""

    family: AbstractFamily
    beta: float

    def solve(
        self,
        logits: Logits,
        components: Params,
        grads: tuple[Logits, Params],
        power: TracedPower | None,
    ) -> tuple[Logits, Params]:
        def multiply(params: Params, grad: Params) -> Params:
            factor = power_of(self.family.variance(params), self.beta)
            return multiply_leading(grad, factor)

        return plain_logits(logits, grads[0]), jax.vmap(multiply)(components, grads[1])


@dataclass(frozen=True)
class BetaNLL(AbstractLikelihood):
    """Negative log-likelihood with each coordinate's gradient weighted by [variance^beta].

    For one component this is Seitzer et al.'s loss; with several, each is weighted by its own
    variance. beta = 0 is NLL. With one component and beta = 1 the mean's gradient is that of the
    full natural gradient (Related Work of the paper), the scale's twice that.
    """

    beta: float = _defaults.BETA

    def prepare(
        self,
        family: AbstractFamily,
        logits: Logits,
        components: Params,
        power: Power | None = None,
    ) -> Prepared:
        return Prepared(*natural(VarianceWeights(family, self.beta), logits, components))
