"""How to train."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from .._errors import check_choice, check_fraction
from ..objectives import DEFAULT, AbstractObjective, Schedule
from ..objectives.schedule import scheduled_power
from ..optimizers import OptimizerSpec, get_optimizer


@dataclass(frozen=True)
class Plan:
    """How to train. Fits whose plans are equal and whose shapes agree share one compiled program.

    Attributes:
        objective: What to minimize.
        optimizer: "sgd", "adam", "adamw", "muon", "soap", "kfac", or an optax transformation,
            which has its own learning rate.
        batch_size: Rows per step; the last batch of an epoch may be smaller.
        learning_rate_schedule: "constant", or "cosine" to zero at the end of `max_epochs`.
        warmup: Fraction of training during which the learning rate rises linearly from zero.
        power: Overrides the objective's strength: a number, a `Schedule`, or the schedule's
            (start, end, fraction). "auto" leaves it to the objective, None to the objective
            without its schedule.
        clip_norm: Largest Euclidean norm of a gradient, or None.
        ema: Decay of a moving average of the parameters, which validation and prediction use, or
            None. The first steps are averaged over fewer.
        patience: Epochs without improvement on validation data before stopping, or None.
        tail: Weight of a standard Cauchy density in the likelihood of validation data, so that a
            single outlier does not decide when to stop. It is made for standardized targets; 0 is
            the likelihood itself.
        max_skipped: Steps in a row that may be skipped as not finite before the fit fails.
    """

    objective: AbstractObjective = field(default_factory=lambda: DEFAULT)
    optimizer: str | optax.GradientTransformation = "adam"
    batch_size: int = 128
    learning_rate_schedule: str = "cosine"
    warmup: float = 0.0
    power: float | Schedule | Sequence[float] | str | None = "auto"
    clip_norm: float | None = None
    ema: float | None = None
    patience: int | None = None
    tail: float = 0.01
    max_skipped: int = 50

    def __post_init__(self) -> None:
        check_choice("learning_rate_schedule", self.learning_rate_schedule, ("constant", "cosine"))
        get_optimizer(self.optimizer)
        check_fraction("warmup", self.warmup)
        check_fraction("tail", self.tail)
        if isinstance(self.power, str):
            check_choice("power", self.power, ("auto",))

    @property
    def optimizer_spec(self) -> OptimizerSpec:
        """The optimizer, and what the loop must know of it."""
        return get_optimizer(self.optimizer)

    @property
    def resolved_objective(self) -> AbstractObjective:
        """The objective with the strength of this plan."""
        if isinstance(self.power, str):
            return self.objective
        if self.power is None:
            return self.objective.without_schedule()
        return self.objective.with_power(self.power)

    def without_numbers(self) -> "Plan":
        """Return the plan with the schedule's numbers left to `Hyper`: one program for all."""
        return replace(self, objective=self.resolved_objective.as_scheduled(), power=None)

    def rate_factor(self, progress: Float[Array, ""]) -> Float[Array, ""]:
        """Return what the learning rate is multiplied by at a point of training, from 0 to 1."""
        factor = jnp.ones_like(progress)
        if self.learning_rate_schedule == "cosine":
            factor = jnp.asarray(optax.cosine_decay_schedule(1.0, 1)(progress))
        if self.warmup > 0:
            factor *= jnp.minimum(1.0, progress / self.warmup)
        return factor


class Hyper(NamedTuple):
    """Numbers that may differ between runs of one compiled program."""

    learning_rate: Float[Array, ""]
    weight_decay: Float[Array, ""]
    max_epochs: Int[Array, ""]
    power: Float[Array, "3"] | None

    def power_at(
        self, progress: Float[Array, ""], annealed: Bool[Array, ""]
    ) -> Float[Array, ""] | None:
        """Return the scheduled strength at a point of training, or None without a schedule."""
        if self.power is None:
            return None
        return jnp.where(annealed, self.power[1], scheduled_power(self.power, progress))


def make_hyper(
    plan: Plan,
    learning_rate: float | None,
    weight_decay: float | None,
    max_epochs: int,
    dtype: Any,
) -> Hyper:
    """Return the numbers of a run; None is the optimizer's default."""
    spec, schedule = plan.optimizer_spec, plan.resolved_objective.schedule
    rate = spec.learning_rate if learning_rate is None else learning_rate
    decay = spec.weight_decay if weight_decay is None else weight_decay
    return Hyper(
        _put(rate, dtype),
        _put(decay, dtype),
        _put(max_epochs, np.int32),
        None if schedule is None else _put(schedule.numbers(_relative(rate, spec)), dtype),
    )


def _relative(rate: float, spec: OptimizerSpec) -> float:
    """Return a learning rate in units of the optimizer's default, 1 for an unknown default."""
    return float(rate) / spec.learning_rate if spec.learning_rate else 1.0


def _put(value: float | int | Sequence[float], dtype: Any) -> Array:
    # By way of NumPy: jnp.asarray compiles a program for each dtype, and a first fit waits for it.
    return jax.device_put(np.asarray(value, dtype))
