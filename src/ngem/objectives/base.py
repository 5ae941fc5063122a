"""What an objective is, and how losses of rows become one number."""

import math
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float

from .._types import LocationScale, Power
from ..families import AbstractFamily
from ..families.conditions import Condition, spread
from ..geometry import Logits
from ..mixture import Mixture, below_top, broadcast_rows, checks

# Rows from which on, and components and targets up to which, it pays to turn arrays round.
_MANY_ROWS, _FEW_COMPONENTS, _FEW_TARGETS = 64, 16, 4


class Prepared(NamedTuple):
    """What an objective makes of a mixture before it sees a target.

    Attributes:
        log_weights: Normalised log weights.
        components: Parameters of the components.
        surplus: By how much less log weights count in responsibilities, or None.
    """

    log_weights: Float[Array, "comp *rows"]
    components: LocationScale
    surplus: Float[Array, "comp *rows"] | None = None


class AbstractObjective:
    """What to minimise: a value to report and the gradient that trains.

    An objective knows a mixture, never a network. Its value is the negative log-likelihood of
    each row, so that curves of different objectives compare, whatever gradient it sends back.
    Objectives are frozen dataclasses of static settings, so that jit can key on them.

    It is written for one row, components first: `prepare` before a target is seen, `reduce` after.
    Both also take further axes of rows at the end of all arrays. As they stand here they are the
    plain likelihood. One that cannot be told row by row has its own `losses` instead.
    """

    @property
    def takes_rows(self) -> bool:
        """Whether `loss` says all there is: not so where a subclass has `losses` of its own."""
        return type(self).losses is AbstractObjective.losses

    def prepare(
        self,
        family: AbstractFamily,
        logits: Logits,
        components: LocationScale,
        power: Power | None = None,
    ) -> Prepared:
        """Return what densities are made of, as `reduce` and the way back want it.

        Args:
            family: The distribution of the components.
            logits: Unnormalised log weights.
            components: Parameters of the components.
            power: Overrides the objective's own strength, for schedules; objectives without a
                strength ignore it.
        """
        del family, power
        return Prepared(jax.nn.log_softmax(logits, axis=0), components)

    def reduce(
        self, joint: Float[Array, "comp *rows"], surplus: Float[Array, "comp *rows"] | None
    ) -> Float[Array, "*rows"]:
        """Return -log sum_k weight_k f_k(y), equation (3), of log(weight_k f_k(y))."""
        del surplus
        return -jax.nn.logsumexp(joint, axis=0)

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
            power: Overrides the objective's own strength, for schedules.
            condition: Where rows share conditions, the mixture has a row for each condition, and
                this says which of them each target belongs to. The gradient is the same as if the
                mixture's rows had been repeated.
        """
        if condition is not None and type(self).loss is AbstractObjective.loss:
            return self._losses_by_condition(mixture, y, power, condition)
        mixture = jax.tree.map(lambda leaf: spread(leaf, condition), mixture)
        rows = jnp.broadcast_shapes(mixture.batch_shape, y.shape[:-1])
        loss: Any = partial(self.loss, mixture.family, power=power)
        parts = broadcast_rows((mixture.logits, mixture.components), mixture.batch_shape, rows)
        parts = (*parts, broadcast_rows(y, y.shape[:-1], rows))
        if _are_better_last(mixture, rows):
            to_end = lambda leaf: jnp.moveaxis(leaf, range(len(rows)), range(-len(rows), 0))  # noqa: E731
            return loss(*jax.tree.map(to_end, parts))
        for _ in rows:
            loss = jax.vmap(loss)
        return loss(*parts)

    def loss(
        self,
        family: AbstractFamily,
        logits: Logits,
        components: LocationScale,
        y: Float[Array, "dim *rows"],
        power: Power | None = None,
    ) -> Float[Array, "*rows"]:
        """Return the loss of one row, or of rows along further axes at the end of all arrays."""
        prepared = self.prepare(family, logits, components, power)
        density = jax.vmap(family.log_prob, in_axes=(0, None))(prepared.components, y)
        return self._finish(prepared.log_weights, density, prepared.surplus)

    def _losses_by_condition(self, mixture, y, power, condition):
        """Prepare each condition once, and let the family find the cheapest way to densities."""
        family = mixture.family
        prepare = jax.vmap(partial(self.prepare, family, power=power))
        prepared = prepare(mixture.logits, mixture.components)
        density = family.log_prob_by_condition(prepared.components, y, condition)
        log_weights, surplus = jax.tree.map(
            lambda leaf: spread(leaf, condition), (prepared.log_weights, prepared.surplus)
        )
        return jax.vmap(self._finish)(log_weights, density, surplus)

    def _finish(self, log_weights, density, surplus):
        top, joint = below_top(log_weights, density, axis=0)
        return self.reduce(joint, surplus) - top

    def __call__(
        self,
        mixture: Mixture,
        y: Any,
        *,
        weights: Any | None = None,
        power: Power | None = None,
    ) -> Float[Array, ""]:
        """Return the mean loss over rows, weighted if `weights` are given."""
        (y,) = checks.as_float_arrays(y=y)
        y = y.astype(checks.widest(y.dtype, mixture.logits.dtype))
        rows = checks.check_target(mixture.batch_shape, mixture.dim, y)
        losses = _compiled_losses(self, mixture, y, power)
        if weights is None:
            return jnp.mean(losses)
        (share,) = checks.as_float_arrays(weights=weights)
        checks.check_weights(rows, share)
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


def _are_better_last(mixture: Mixture, rows: tuple[int, ...]) -> bool:
    """Tell whether it pays to turn arrays round so that their long last axis is that of rows.

    Vector instructions want such an axis, and few components and targets make none.
    """
    few = mixture.n_components <= _FEW_COMPONENTS and mixture.dim <= _FEW_TARGETS
    return few and math.prod(rows) >= _MANY_ROWS and mixture.family.takes_rows


def with_gradient_of(
    other: Float[Array, "*rows"], value: Float[Array, "*rows"]
) -> Float[Array, "*rows"]:
    """Return a value that sends back the gradient of another one."""
    return stop_gradient(value) + (other - stop_gradient(other))
