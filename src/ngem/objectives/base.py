"""What an objective is, and how losses of rows become one number."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import _errors
from .._conditions import Condition
from .._types import LocationScale, Power
from ..families import AbstractFamily
from ..mixture import Mixture, log_joint


class AbstractObjective(abc.ABC):
    """What to minimise: a value to report and the gradient that trains.

    An objective knows a `Mixture`, never a network. Its value is the negative log-likelihood of
    each row, so that curves of different objectives compare, whatever gradient it sends back.
    Objectives are frozen dataclasses of static settings, so that jit can key on them.
    """

    @abc.abstractmethod
    def losses(
        self,
        mixture: Mixture,
        y: Float[Array, "*rows dim"],
        power: Power | None = None,
        condition: Condition = None,
    ) -> Float[Array, "*rows"]:
        """Return the loss of each row.

        Args:
            mixture: Predicted densities.
            y: One target per row.
            power: Overrides the objective's own strength, for schedules; objectives without a
                strength ignore it.
            condition: Where rows share conditions, the mixture has a row for each condition, and
                this says which of them each target belongs to. The gradient is the same as if the
                mixture's rows had been repeated.
        """

    def __call__(
        self,
        mixture: Mixture,
        y: Any,
        *,
        weights: Any | None = None,
        power: Power | None = None,
    ) -> Float[Array, ""]:
        """Return the mean loss over rows, weighted if `weights` are given."""
        (y,) = _errors.as_float_arrays(y=y)
        y = y.astype(_errors.widest(y.dtype, mixture.logits.dtype))
        rows = _errors.check_target(mixture.batch_shape, mixture.dim, y)
        losses = _compiled_losses(self, mixture, y, power)
        if weights is None:
            return jnp.mean(losses)
        (share,) = _errors.as_float_arrays(weights=weights)
        _errors.check_weights(rows, share)
        share = share.astype(losses.dtype)
        return jnp.sum(share * losses) / jnp.sum(share)


@eqx.filter_jit
def _compiled_losses(
    objective: AbstractObjective,
    mixture: Mixture,
    y: Float[Array, "*rows dim"],
    power: Power | None,
) -> Float[Array, "*rows"]:
    """Return the losses as one program, so that a loop without jit is not slow."""
    return objective.losses(mixture, y, power)


def negative_log_likelihood(
    family: AbstractFamily,
    log_weights: Float[Array, "*batch comp"],
    components: LocationScale,
    y: Float[Array, "*rows dim"],
    condition: Condition = None,
) -> Float[Array, "*rows"]:
    """Return -log sum_k weight_k f_k(y) of each row, equation (3)."""
    top, joint = log_joint(family, log_weights, components, y, condition)
    return -top - jax.nn.logsumexp(joint, axis=-1)
