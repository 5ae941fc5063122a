"""What an objective is: a likelihood whose gradient is preconditioned, or a loss of its own."""

import abc
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int

from .._errors import check_not_empty
from .._types import Logits, Params, Power
from ..families import AbstractFamily, Condition, gather_conditions
from ..mixture import Mixture, checks
from ..mixture.rows import broadcast_rows, map_rows, subtract_max
from .layout import rows_go_last
from .schedule import Schedule


class AbstractObjective(abc.ABC):
    """What to minimize: a value to report and the gradient that trains.

    An objective knows a mixture, never a network. It is one of two kinds: subclass
    `AbstractLikelihood` or `AbstractLoss`. Objectives are frozen dataclasses of static settings, so
    that jit can key on them.
    """

    #: How the strength changes over a fit, for objectives that have a strength.
    schedule: Schedule | None = None

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "losses" in cls.__dict__:
            raise TypeError(
                f"an objective must define `loss` of one row, got {cls.__name__} with its own "
                "`losses`; subclass ngem.objectives.AbstractLoss and define `loss` instead."
            )

    def with_power(self, power: Any) -> "AbstractObjective":
        """Return the objective with another strength; one without a strength is unchanged.

        Args:
            power: A number, a `Schedule`, or the schedule's (start, end, fraction).
        """
        del power
        return self

    def without_schedule(self) -> "AbstractObjective":
        """Return the objective with a constant strength."""
        return self

    def as_scheduled(self) -> "AbstractObjective":
        """Return the objective that a fit trains with while a schedule gives the strength."""
        return self

    @abc.abstractmethod
    def loss(
        self,
        family: AbstractFamily,
        logits: Logits,
        components: Params,
        y: Float[Array, "dim *rows"],
        power: Power | None = None,
    ) -> Float[Array, "*rows"]:
        """Return the loss of one row, or of many rows along more axes at the end of all arrays.

        Args:
            family: The distribution of the components.
            logits: Unnormalized log weights.
            components: Parameters of the components.
            y: The target; for a likelihood also the ends of intervals that hold it, see
                `AbstractFamily.log_likelihood`.
            power: Overrides the objective's own strength, for schedules.
        """

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
            y: One target per row, with the axes that `Mixture` says; for a likelihood also the ends
                of intervals, in twice as many columns, and after them those of windows, in four
                times as many.
            power: Overrides the objective's own strength, for schedules.
            condition: Where rows share conditions, the mixture has a row for each condition, and
                this is the condition of each target. The gradient is the same as if the mixture's
                rows had been repeated.
        """
        if condition is not None:
            return self._losses_by_condition(mixture, y, power, condition)
        many = (2 * mixture.dim, 4 * mixture.dim)
        has_ends = y.ndim > len(mixture.batch_shape) and y.shape[-1] in many
        columns = y.shape[-1] if has_ends else mixture.dim
        y = checks.shape_targets("y", y, mixture.batch_shape, columns)
        rows = y.shape[:-1]
        parts = broadcast_rows((mixture.logits, mixture.components), mixture.batch_shape, rows)
        parts = (*parts, y)
        loss = partial(self.loss, mixture.family, power=power)
        if rows_go_last(mixture.family, rows, n_components=mixture.n_components, dim=mixture.dim):
            axes = range(len(rows)), range(-len(rows), 0)
            return loss(*jax.tree.map(lambda leaf: jnp.moveaxis(leaf, *axes), parts))
        return map_rows(loss, rows)(*parts)

    def _losses_by_condition(
        self,
        mixture: Mixture,
        y: Float[Array, "batch dim"],
        power: Power | None,
        condition: Int[Array, " batch"],
    ) -> Float[Array, " batch"]:
        return self.losses(gather_conditions(mixture, condition), y, power)

    def __call__(
        self,
        mixture: Mixture,
        y: Any,
        *,
        weights: Any | None = None,
        power: Any = None,
    ) -> Float[Array, ""]:
        """Return the mean loss over rows, weighted if `weights` are given."""
        (y,) = checks.as_float_arrays(y=y)
        y = y.astype(checks.widest(y.dtype, mixture.logits.dtype))
        y = checks.shape_targets("y", y, mixture.batch_shape, mixture.dim)
        check_not_empty(y.shape)
        power = checks.as_power(power, mixture.logits.dtype)
        losses = _compiled_losses(self, mixture, y, power)
        if weights is None:
            return jnp.mean(losses)
        (row_weights,) = checks.as_float_arrays(weights=weights)
        checks.check_weights(y.shape[:-1], row_weights)
        row_weights = row_weights.astype(losses.dtype)
        row_weights = checks.only_between(row_weights, float(jnp.finfo(losses.dtype).max))
        return jnp.sum(row_weights * losses) / jnp.sum(row_weights)


class Prepared(NamedTuple):
    """What a likelihood makes of a mixture before it sees a target.

    Attributes:
        log_weights: Normalized log weights.
        components: Parameters of the components.
        discount: Subtracted from the log weights in responsibilities only, or None.
    """

    log_weights: Float[Array, "comp *rows"]
    components: Params
    discount: Float[Array, "comp *rows"] | None = None


class AbstractLikelihood(AbstractObjective):
    """The negative log-likelihood, equation (3), with a gradient that `prepare` may precondition.

    Its value is the negative log-likelihood of each row, so that curves of different objectives
    compare, whatever gradient it sends back. A subclass overrides `prepare`, what is done before a
    target is seen, or `reduce`, what is done with log(weight_k f_k(y)), or both. As they are here
    they are the plain likelihood.
    """

    def prepare(
        self,
        family: AbstractFamily,
        logits: Logits,
        components: Params,
        power: Power | None = None,
    ) -> Prepared:
        """Return log weights and components, with a preconditioner on the way back if any.

        Args:
            family: The distribution of the components.
            logits: Unnormalized log weights.
            components: Parameters of the components.
            power: Overrides the objective's own strength, for schedules.
        """
        del family, power
        return Prepared(jax.nn.log_softmax(logits, axis=0), components)

    def reduce(
        self, joint: Float[Array, "comp *rows"], discount: Float[Array, "comp *rows"] | None
    ) -> Float[Array, "*rows"]:
        """Return -log sum_k weight_k f_k(y), equation (3), from log(weight_k f_k(y))."""
        del discount
        return -jax.nn.logsumexp(joint, axis=0)

    def loss(
        self,
        family: AbstractFamily,
        logits: Logits,
        components: Params,
        y: Float[Array, "dim *rows"],
        power: Power | None = None,
    ) -> Float[Array, "*rows"]:
        prepared = self.prepare(family, logits, components, power)
        observed, window = split_window(family, prepared.components, y)
        likelihood = jax.vmap(family.log_likelihood, in_axes=(0, None))
        density = likelihood(prepared.components, observed)
        loss = self._finish(prepared.log_weights, density, prepared.discount)
        if window is None:
            return loss
        seen = likelihood(prepared.components, window)
        return loss + jax.nn.logsumexp(prepared.log_weights + seen, axis=0)

    def _losses_by_condition(
        self,
        mixture: Mixture,
        y: Float[Array, "batch dim"],
        power: Power | None,
        condition: Int[Array, " batch"],
    ) -> Float[Array, " batch"]:
        """Return the loss of each row; each condition is prepared once."""
        family = mixture.family
        prepare = jax.vmap(partial(self.prepare, family, power=power))
        prepared = prepare(mixture.logits, mixture.components)
        density = family.log_prob_by_condition(prepared.components, y, condition)
        log_weights, discount = gather_conditions(
            (prepared.log_weights, prepared.discount), condition
        )
        return jax.vmap(self._finish)(log_weights, density, discount)

    def _finish(
        self,
        log_weights: Float[Array, "comp *rows"],
        density: Float[Array, "comp *rows"],
        discount: Float[Array, "comp *rows"] | None,
    ) -> Float[Array, "*rows"]:
        largest, joint = subtract_max(log_weights, density, axis=0)
        return self.reduce(joint, discount) - largest


class AbstractLoss(AbstractObjective):
    """A loss of its own: a subclass defines `loss`, and its value need not be a likelihood."""


@eqx.filter_jit
def _compiled_losses(
    objective: AbstractObjective,
    mixture: Mixture,
    y: Float[Array, "*rows dim"],
    power: Power | None,
) -> Float[Array, "*rows"]:
    """Return the losses as one program, so that a loop without jit is fast too.

    Values that only the program knows give NaN, if they are not allowed.
    """
    if isinstance(power, Array):
        power = checks.only_between(power, 1.0)
    losses = objective.losses(mixture, y, power)
    zero = checks.zero_or_nan(mixture.components, mixture.batch_shape)
    if isinstance(power, Array):
        zero = zero + (0 * power).astype(zero.dtype)
    return losses + jnp.broadcast_to(zero, losses.shape).astype(losses.dtype)


def with_gradient_of(
    other: Float[Array, "*rows"], value: Float[Array, "*rows"]
) -> Float[Array, "*rows"]:
    """Return a value that sends back the gradient of another one."""
    return stop_gradient(value) + (other - stop_gradient(other))


def split_window(
    family: AbstractFamily, components: Params, y: Float[Array, "given *rows"]
) -> tuple[Float[Array, "..."], Float[Array, "..."] | None]:
    """Return what is known of targets, and the windows in which they had to lie, if there are some.

    Only rows inside a window are seen: their density is divided by its probability.
    """
    if y.shape[0] != 4 * family.count_targets(components, axis=1):
        return y, None
    observed, window = jnp.split(y, 2)
    return observed, window
