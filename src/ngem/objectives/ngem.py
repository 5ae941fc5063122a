"""Natural gradient EM: the likelihood's value with a preconditioned gradient, (18)-(22)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import _defaults, _errors
from .._types import Logits, Params, Power
from ..families import AbstractFamily
from ..geometry import CompleteDataFisher, natural
from .base import AbstractLikelihood, Prepared, with_gradient_of
from .schedule import Schedule


@dataclass(frozen=True)
class NGEM(AbstractLikelihood):
    """Negative log-likelihood whose gradient is preconditioned by (weight_k F_k)^-power.

    By Corollary 2 the likelihood's gradient is that of equation (18), so only a preconditioner is
    added: no second pass through the densities. The defaults are ours; the paper's two forms are
    `LISTING` and `DERIVED` below.

    Attributes:
        power: Strength on the components: 0 is exactly NLL, 1 the paper's natural gradient.
        logits_rule: What the logits receive, see `ngem.geometry.LOGITS_RULES`.
        damping: Bounds the steps of components with vanishing weight.
        coordinates: Coordinates of the scale in which its Fisher information is taken: "scale" is
            the paper's, "log_scale" that of a network's raw output, and "variance" moves small
            scales slowest.
        flattening: Keeps weak components alive: responsibilities are computed as if weights were
            weight^(1 - flattening * power). The model and the value of the loss do not change.
            Between 0 and 1, for a power that falls to zero over training.
        schedule: How the strength changes over a fit, with its own coordinates and flattening. None
            keeps it constant. Outside a fit the strength is `power`.
    """

    power: float = _defaults.POWER
    logits_rule: str = _defaults.LOGITS_RULE
    damping: float = _defaults.DAMPING
    coordinates: str = _defaults.COORDINATES
    flattening: float = 0.0
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        _errors.check_fraction("power", self.power)
        _errors.check_fraction("flattening", self.flattening)

    def with_power(self, power: float | Schedule | Sequence[float]) -> "NGEM":
        """Return the objective with another strength.

        Three numbers replace those of the schedule. An objective without a schedule gets one with
        its own coordinates and flattening, and so does a strength that does not end at zero:
        there the schedule's flattening would stay biased.
        """
        if isinstance(power, Schedule):
            return replace(self, schedule=power)
        if not isinstance(power, Sequence):
            return replace(self, power=float(power), schedule=None)
        start, end, fraction = map(float, power)
        schedule = self.schedule
        if schedule is None or end > 0:
            schedule = Schedule(coordinates=self.coordinates, flattening=self.flattening)
        numbers = {"start": start, "end": end, "fraction": fraction}
        schedule = replace(schedule, follows_rate=False, **numbers)
        return replace(self, schedule=schedule)

    def without_schedule(self) -> "NGEM":
        return replace(self, schedule=None)

    def as_scheduled(self) -> "NGEM":
        """Return the objective that a fit trains with while its schedule gives the strength."""
        if self.schedule is None:
            return self
        return replace(
            self,
            coordinates=self.schedule.coordinates,
            flattening=self.schedule.flattening,
            schedule=None,
        )

    def prepare(
        self,
        family: AbstractFamily,
        logits: Logits,
        components: Params,
        power: Power | None = None,
    ) -> Prepared:
        # A constant is part of the compiled program; a scheduled strength is an argument of it.
        strength = self.power if power is None else power
        is_constant = isinstance(strength, int | float)
        metric = CompleteDataFisher(
            family,
            float(strength) if is_constant else self.power,
            self.logits_rule,
            self.damping,
            self.coordinates,
        )
        log_weights, components = natural(
            metric, logits, components, None if is_constant else jnp.asarray(strength)
        )
        if self.flattening == 0:
            return Prepared(log_weights, components)
        discount = jnp.asarray(self.flattening * strength, log_weights.dtype) * log_weights
        return Prepared(log_weights, components, jax.lax.stop_gradient(discount))

    def reduce(
        self, joint: Float[Array, "comp *rows"], discount: Float[Array, "comp *rows"] | None
    ) -> Float[Array, "*rows"]:
        """Return the loss, with the gradient of one whose log weights are less by the discount.

        That gradient, minus the flattened responsibilities, reaches the log weights unchanged. With
        the plain rule logits receive weight - responsibility, with the weight of the model itself.
        """
        value = super().reduce(joint, None)
        if discount is None:
            return value
        return with_gradient_of(super().reduce(joint - discount, None), value)


#: The library's default, "ngem": annealed in a fit, constant half strength when called by itself.
DEFAULT = NGEM(schedule=Schedule())

#: The default as a fit trains with it, for your own loop with `power` falling to zero. Targets are
#: taken to be of the order of one, as standardized targets are.
ANNEALED = DEFAULT.as_scheduled()

#: What the listing in Appendix C computes. Biased: learns weights proportional to square roots.
LISTING = NGEM(power=1.0, logits_rule="listing", damping=0.0, coordinates="scale")

#: What Section 3 and Appendix B.7 derive. Unbiased, but diverges as a weight approaches zero.
DERIVED = NGEM(power=1.0, logits_rule="derived", damping=0.0, coordinates="scale")
