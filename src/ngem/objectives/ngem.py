"""Natural gradient EM: the likelihood's value with a preconditioned gradient, (18)-(22)."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import _defaults
from .._conditions import Condition
from .._types import Power
from ..geometry import CompleteDataFisher, natural
from ..mixture import Mixture
from .base import AbstractObjective, negative_log_likelihood


@dataclass(frozen=True)
class NGEM(AbstractObjective):
    """Negative log-likelihood whose gradient is preconditioned by (weight_k F_k)^-power.

    By Corollary 2 the likelihood's gradient is that of equation (18), so nothing but the
    preconditioner is added: no second pass through the densities. The defaults are ours; the
    paper's two forms are `LISTING` and `DERIVED` below.

    Attributes:
        power: Strength on the components: 0 is exactly NLL, 1 the paper's natural gradient.
        logits_rule: What the logits receive, see `ngem.geometry.LOGITS_RULES`.
        damping: Bounds the steps of components with vanishing weight.
        coordinates: Coordinates of the scale in which its Fisher information is taken: "scale" is
            the paper's, "log_scale" those in which a network gives it, "variance" the most patient.
        tempering: Keeps weights from running ahead of the components: they settle at
            truth^(1 / (1 + tempering * power)). For a power that falls to zero over training.
    """

    power: float = _defaults.POWER
    logits_rule: str = _defaults.LOGITS_RULE
    damping: float = _defaults.DAMPING
    coordinates: str = _defaults.COORDINATES
    tempering: float = 0.0

    def losses(
        self,
        mixture: Mixture,
        y: Float[Array, "*rows dim"],
        power: Power | None = None,
        condition: Condition = None,
    ) -> Float[Array, "*rows"]:
        # A number known now is part of the compiled program; a scheduled one is an argument of it.
        known = self.power if power is None else power
        static = isinstance(known, int | float)
        metric = CompleteDataFisher(
            mixture.family,
            float(known) if static else self.power,
            self.logits_rule,
            self.damping,
            self.coordinates,
            self.tempering,
        )
        log_weights, components = natural(
            metric, mixture.logits, mixture.components, None if static else jnp.asarray(known)
        )
        return negative_log_likelihood(mixture.family, log_weights, components, y, condition)


#: Ours for a power that falls to zero over training. Targets are taken to be of the order of one,
#: as they are where they have been standardised.
ANNEALED = NGEM(coordinates=_defaults.SCHEDULED_COORDINATES, tempering=_defaults.TEMPERING)

#: What the listing in Appendix C computes. Biased: learns weights proportional to square roots.
LISTING = NGEM(power=1.0, damping=0.0, coordinates="scale", tempering=1.0)

#: What Section 3 and Appendix B.7 derive. Unbiased, but diverges as a weight approaches zero.
DERIVED = NGEM(power=1.0, logits_rule="derived", damping=0.0, coordinates="scale")
