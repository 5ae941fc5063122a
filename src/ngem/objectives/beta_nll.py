"""beta-NLL (Seitzer et al., 2022), a baseline of the paper, extended from one Gaussian to many."""

from dataclasses import dataclass

import jax
from jaxtyping import Array, Float

from .. import _defaults
from .._conditions import Condition
from .._types import LocationScale, Power
from ..families import AbstractFamily
from ..families.base import power_of
from ..geometry import AbstractMetric, Logits, TracedPower, natural, plain_logits
from ..mixture import Mixture
from .base import AbstractObjective, negative_log_likelihood


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
            return jax.tree.map(
                lambda leaf: leaf * weight.reshape(weight.shape + (1,) * (leaf.ndim - 1)), grad
            )

        for _ in logits.shape:
            weigh = jax.vmap(weigh)
        return plain_logits(logits, grads[0]), weigh(components, grads[1])


@dataclass(frozen=True)
class BetaNLL(AbstractObjective):
    """Negative log-likelihood with each coordinate's gradient weighted by [variance^beta].

    For one component this is Seitzer et al.'s loss; with several, each is weighted by its own
    variance. beta = 0 is NLL. With one component and beta = 1 the mean's gradient is that of the
    full natural gradient (Related Work of the paper), the scale's twice that.
    """

    beta: float = _defaults.BETA

    def losses(
        self,
        mixture: Mixture,
        y: Float[Array, "*rows dim"],
        power: Power | None = None,
        condition: Condition = None,
    ) -> Float[Array, "*rows"]:
        metric = VarianceWeights(mixture.family, self.beta)
        log_weights, components = natural(metric, mixture.logits, mixture.components)
        return negative_log_likelihood(mixture.family, log_weights, components, y, condition)
