"""beta-NLL (Seitzer et al., 2022), a baseline of the paper, extended from one Gaussian to many."""

from dataclasses import dataclass

import jax

from .. import _defaults
from .._types import LocationScale, Power
from ..families import AbstractFamily
from ..families.base import power_of
from ..geometry import AbstractMetric, Logits, TracedPower, natural, plain_logits
from .base import AbstractObjective, Prepared


@dataclass(frozen=True)
class VarianceWeights(AbstractMetric):
    """Multiplies the gradients of each coordinate's mean and scale by its variance^beta."""

    family: AbstractFamily
    beta: float

    def solve(
        self,
        logits: Logits,
        components: LocationScale,
        grads: tuple[Logits, LocationScale],
        power: TracedPower | None,
    ) -> tuple[Logits, LocationScale]:
        def weigh(params, grad):
            weight = power_of(self.family.variance(params), self.beta)
            inner = (1,) * (grad.scale.ndim - weight.ndim)
            return LocationScale(
                grad.mean * weight, grad.scale * weight.reshape(*weight.shape, *inner)
            )

        return plain_logits(logits, grads[0]), jax.vmap(weigh)(components, grads[1])


@dataclass(frozen=True)
class BetaNLL(AbstractObjective):
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
        components: LocationScale,
        power: Power | None = None,
    ) -> Prepared:
        return Prepared(*natural(VarianceWeights(family, self.beta), logits, components))
