"""The strength of natural gradients over training."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import _defaults, _errors

#: The largest fraction of training that a low learning rate stretches a schedule to.
_LONGEST = 0.5


@dataclass(frozen=True)
class Schedule:
    """A strength that goes linearly from `start` to `end` over the first part of training.

    The defaults are the library's: half strength at first, so that steps are large and
    well-scaled, and the plain likelihood afterwards.

    Attributes:
        start: Strength of the first step.
        end: Strength after `fraction` of training.
        fraction: The part of training that the change takes. A fit ends it earlier if held-out
            rows stop improving.
        follows_rate: Let the change take longer at learning rates below the optimizer's default,
            in proportion and at most half of training, and shorter above it: components find their
            places by moving, and how far they move depends on the rate.
        coordinates: Coordinates of the scale while the schedule lasts, see `NGEM`. In those of the
            variance components find their places before they narrow. Targets are taken to be of the
            order of one, as standardized targets are.
        flattening: Of the weights in responsibilities while the schedule lasts, see `NGEM`. It
            keeps components alive and ends with the strength.
    """

    start: float = _defaults.POWER_SCHEDULE[0]
    end: float = _defaults.POWER_SCHEDULE[1]
    fraction: float = _defaults.POWER_SCHEDULE[2]
    follows_rate: bool = True
    coordinates: str = _defaults.SCHEDULED_COORDINATES
    flattening: float = _defaults.FLATTENING

    def __post_init__(self) -> None:
        for name in ("start", "end", "fraction", "flattening"):
            _errors.check_fraction(name, getattr(self, name))
        _errors.check_choice("coordinates", self.coordinates, _defaults.COORDINATE_CHOICES)
        if self.fraction == 0:
            raise ValueError(
                "fraction must be above 0, got 0; for a constant strength use NGEM(power=...)."
            )

    def numbers(self, relative_rate: float = 1.0) -> tuple[float, float, float]:
        """Return start, end and fraction, which a compiled program takes as arguments.

        Args:
            relative_rate: Learning rate in units of the optimizer's default.
        """
        fraction = self.fraction
        if self.follows_rate and relative_rate > 0:
            fraction = min(fraction / relative_rate, max(fraction, _LONGEST))
        return self.start, self.end, fraction


def scheduled_power(numbers: Float[Array, "3"], progress: Float[Array, ""]) -> Float[Array, ""]:
    """Return the strength at a point of training, 0 at its start and 1 at its end."""
    start, end, fraction = numbers
    return start + (end - start) * jnp.minimum(1.0, progress / fraction)
