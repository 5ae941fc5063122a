"""Natural gradient EM: the likelihood's value with a preconditioned gradient, (18)-(22)."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import _defaults, _errors
from .._types import LocationScale, Power
from ..families import AbstractFamily
from ..geometry import CompleteDataFisher, Logits, natural
from .base import AbstractObjective, Prepared, with_gradient_of


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
        flattening: Keeps components alive that others have overtaken: responsibilities are reckoned
            as if weights were weight^(1 - flattening * power). The model and the value of the loss
            are as ever. Between 0 and 1; for a power that falls to zero over training.
    """

    power: float = _defaults.POWER
    logits_rule: str = _defaults.LOGITS_RULE
    damping: float = _defaults.DAMPING
    coordinates: str = _defaults.COORDINATES
    flattening: float = 0.0

    def __post_init__(self):
        _errors.check_fraction("flattening", self.flattening)

    def prepare(
        self,
        family: AbstractFamily,
        logits: Logits,
        components: LocationScale,
        power: Power | None = None,
    ) -> Prepared:
        # A number known now is part of the compiled program; a scheduled one is an argument of it.
        known = self.power if power is None else power
        static = isinstance(known, int | float)
        metric = CompleteDataFisher(
            family,
            float(known) if static else self.power,
            self.logits_rule,
            self.damping,
            self.coordinates,
        )
        log_weights, components = natural(
            metric, logits, components, None if static else jnp.asarray(known)
        )
        if self.flattening == 0:
            return Prepared(log_weights, components)
        surplus = jnp.asarray(self.flattening * known, log_weights.dtype) * log_weights
        return Prepared(log_weights, components, jax.lax.stop_gradient(surplus))

    def reduce(
        self, joint: Float[Array, "comp *rows"], surplus: Float[Array, "comp *rows"] | None
    ) -> Float[Array, "*rows"]:
        """Return the loss, with the gradient of one whose log weights are less by the surplus.

        That gradient, minus the flattened responsibilities, reaches the log weights as it is: with
        the plain rule logits receive weight - responsibility, the weight that of the model itself.
        """
        value = super().reduce(joint, None)
        if surplus is None:
            return value
        return with_gradient_of(super().reduce(joint - surplus, None), value)


#: Ours for a power that falls to zero over training. Targets are taken to be of the order of one,
#: as they are where they have been standardised.
ANNEALED = NGEM(coordinates=_defaults.SCHEDULED_COORDINATES, flattening=_defaults.FLATTENING)

#: What the listing in Appendix C computes. Biased: learns weights proportional to square roots.
LISTING = NGEM(power=1.0, logits_rule="listing", damping=0.0, coordinates="scale")

#: What Section 3 and Appendix B.7 derive. Unbiased, but diverges as a weight approaches zero.
DERIVED = NGEM(power=1.0, logits_rule="derived", damping=0.0, coordinates="scale")
