"""Natural gradients: the custom derivative that every preconditioned objective uses.

Proposition 4 of the paper: the complete-data Fisher information of a mixture is block-diagonal,
weight_k F_k for each component and F_pi for the weights. So a gradient is preconditioned block by
block, on its way from the likelihood back to the network, in closed form.

Everything is written for one row, its components first. For families that take rows, arrays may
have more axes at their end, with one entry for each row.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from . import _defaults, _errors
from ._types import Logits, Params, Power
from .families import AbstractFamily, multiply_leading, power_of

TracedPower = Float[Array, ""]


def plain_logits(logits: Logits, grad: Logits) -> Logits:
    """Return the gradient of the logits as it is: weight - responsibility. Unbiased."""
    return jax.vjp(partial(jax.nn.log_softmax, axis=0), logits)[1](grad)[0]


def listing_logits(logits: Logits, grad: Logits) -> Logits:
    """Return the plain rule of responsibility / weight, as Appendix C's listing computes it.

    Biased: weights settle where they are proportional to the square roots of the truth.
    """
    return plain_logits(logits, grad * jnp.exp(-jax.nn.log_softmax(logits, axis=0)))


def derived_logits(logits: Logits, grad: Logits) -> Logits:
    """Return (diag(1/weight) - 11^T) times the gradient: 1 - r with r = responsibility / weight.

    Appendix B.7. Unbiased, but r is unbounded as a weight goes to zero. The matrix is a reflexive
    generalized inverse of equation (22), not the Moore-Penrose inverse as the paper says.
    """
    log_weights = jax.nn.log_softmax(logits, axis=0)
    return grad * jnp.exp(-log_weights) - jnp.sum(grad, axis=0, keepdims=True)


def pseudo_inverse_logits(logits: Logits, grad: Logits) -> Logits:
    """Return the Moore-Penrose inverse of equation (22) times the gradient: 1 - r, centered."""
    step = derived_logits(logits, grad)
    return step - jnp.mean(step, axis=0, keepdims=True)


#: How the gradient of the log weights, minus the responsibilities, becomes one of the logits.
LOGITS_RULES: dict[str, Callable[[Logits, Logits], Logits]] = {
    "plain": plain_logits,
    "listing": listing_logits,
    "derived": derived_logits,
    "pseudo-inverse": pseudo_inverse_logits,
}


class AbstractMetric(abc.ABC):
    """A preconditioner of a mixture's gradients: hashable, because it is static under jit."""

    @abc.abstractmethod
    def solve(
        self,
        logits: Logits,
        components: Params,
        grads: tuple[Logits, Params],
        power: TracedPower | None,
    ) -> tuple[Logits, Params]:
        """Return what the logits and the components receive.

        Args:
            logits: Unnormalized log weights.
            components: Parameters of the components.
            grads: Gradients with respect to the normalized log weights and the components.
            power: A strength that follows a schedule, or None for the metric's own.
        """


@dataclass(frozen=True)
class CompleteDataFisher(AbstractMetric):
    """The preconditioner (weight_k F_k)^-power on components, with a rule for the logits.

    Preconditioners that depend on x through the network but not on y keep the likelihood's fixed
    points: E[P(x) grad | x] = P(x) E[grad | x]. All settings here are of that kind except the
    logits rule "listing".

    Attributes:
        family: The components' family, which solves with its own Fisher information.
        power: Strength on the components, 0 to 1, unless `solve` is given another.
        logits_rule: One of `LOGITS_RULES`.
        damping: Weights are inverted as (weight + damping) / (1 + damping), so that the step of a
            component with vanishing weight is at most about damping^-power times its own.
        coordinates: Coordinates of the scale in which F_k is taken, a name in
            `COORDINATE_CHOICES`.
    """

    family: AbstractFamily
    power: float = 1.0
    logits_rule: str = "plain"
    damping: float = 0.0
    coordinates: str = "scale"

    def __post_init__(self) -> None:
        _errors.check_choice("coordinates", self.coordinates, _defaults.COORDINATE_CHOICES)
        _errors.check_choice("logits_rule", self.logits_rule, LOGITS_RULES)
        _errors.check_not_negative("damping", self.damping, _defaults.DAMPING)

    def solve(
        self,
        logits: Logits,
        components: Params,
        grads: tuple[Logits, Params],
        power: TracedPower | None,
    ) -> tuple[Logits, Params]:
        """Return the natural gradient of logits and components, equation (20)."""
        grad_weights, grad_components = grads
        strength = self.power if power is None else power
        solved = self.family.multiply_components(
            self.family.fisher_solve_each(components, grad_components, strength, self.coordinates),
            self._inverse_weights(logits, strength),
        )
        return LOGITS_RULES[self.logits_rule](logits, grad_weights), solved

    def _inverse_weights(self, logits: Logits, power: Power) -> Logits:
        """Return the damped weights to the power -power; undamped weights in log space."""
        if len(logits) == 1:
            return jnp.ones_like(logits)  # the only component has all the weight
        if self.damping > 0:
            damped = (jax.nn.softmax(logits, axis=0) + self.damping) / (1 + self.damping)
            return power_of(damped, -power)
        log_weights = jax.nn.log_softmax(logits, axis=0)
        return jnp.exp(-jnp.asarray(power, log_weights.dtype) * log_weights)


def raw_fisher_diagonal(
    family: AbstractFamily,
    logits: Logits,
    components: Params,
    counts: Float[Array, "comp *rows"] | None = None,
) -> tuple[Logits, Float[Array, "comp raw *rows"]]:
    """Return the diagonal of the complete-data Fisher information in raw outputs.

    weight_k (1 - weight_k) for the logits, equation (22), and weight_k times the diagonal of F_k
    for the raw outputs of each component. It is positive, while the second derivatives of a
    mixture's likelihood are often negative.

    Args:
        family: Distribution of the components.
        logits: Unnormalized log weights.
        components: Parameters of the components.
        counts: What multiplies each F_k instead of the weights, for example responsibilities.
    """
    weights = jax.nn.softmax(logits, axis=0)
    diagonal = jax.vmap(family.raw_fisher_diagonal)(components)
    return (
        weights * (1 - weights),
        multiply_leading(diagonal, weights if counts is None else counts),
    )


def natural(
    metric: AbstractMetric,
    logits: Logits,
    components: Params,
    power: TracedPower | None = None,
) -> tuple[Logits, Params]:
    """Return log weights and components; on the way back, turn gradients into natural ones.

    The gradients come in with respect to the log weights and the components' parameters. They leave
    with respect to the logits and the components' parameters.
    """
    return _natural(metric, logits, components, power)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _natural(
    metric: AbstractMetric, logits: Logits, components: Params, power: TracedPower | None
) -> tuple[Logits, Params]:
    del metric, power
    return jax.nn.log_softmax(logits, axis=0), components


_Saved = tuple[Logits, Params, TracedPower | None]


def _natural_forward(
    metric: AbstractMetric, logits: Logits, components: Params, power: TracedPower | None
) -> tuple[tuple[Logits, Params], _Saved]:
    return _natural(metric, logits, components, power), (logits, components, power)


def _natural_backward(
    metric: AbstractMetric, saved: _Saved, grads: tuple[Logits, Params]
) -> tuple[Logits, Params, TracedPower | None]:
    logits, components, power = saved
    return *metric.solve(logits, components, grads, power), jax.tree.map(jnp.zeros_like, power)


_natural.defvjp(_natural_forward, _natural_backward)
