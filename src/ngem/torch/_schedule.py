"""The strength of the natural gradient over training."""

import torch
from torch import Tensor, nn

from .. import _defaults
from .._defaults import COORDINATE_CHOICES
from . import _checks


class PowerSchedule(nn.Module):
    """A power that goes linearly from start to end over a fraction of training, then stays.

    The defaults are the schedule of the estimator. Pass it as `power`, and call `step` once after
    each step of the optimizer. The power is a tensor that changes in place, so a compiled loop is
    compiled once. `state_dict` contains the position in the schedule.

    Args:
        total_steps: Number of optimizer steps in the whole training.
        start: Power at the first step.
        end: Power after `fraction` of the steps.
        fraction: Fraction of training that the change takes.
        flattening: Flattening of the weights under "ngem", see `ngem_loss`.
        coordinates: Coordinates of the scale under "ngem", see `ngem_loss`.
        share: The old name of `fraction`; replaces it if given.

    >>> schedule = PowerSchedule(4, start=1.0, end=0.0, fraction=0.5)
    >>> schedule.step()
    >>> schedule.power
    tensor(0.5000)
    """

    power: Tensor
    count: Tensor

    def __init__(
        self,
        total_steps: int,
        start: float = _defaults.POWER_SCHEDULE[0],
        end: float = _defaults.POWER_SCHEDULE[1],
        fraction: float = _defaults.POWER_SCHEDULE[2],
        flattening: float = _defaults.FLATTENING,
        coordinates: str = _defaults.SCHEDULED_COORDINATES,
        *,
        share: float | None = None,
    ) -> None:
        super().__init__()
        fraction = fraction if share is None else share
        if total_steps < 1:
            raise ValueError(
                f"total_steps must be at least 1, got {total_steps}; try epochs * len(loader)."
            )
        if not 0 < fraction <= 1:
            raise ValueError(
                f"fraction must be above 0 and at most 1, got {fraction}; 1.0 is all of training."
            )
        self.total_steps = total_steps
        self.start = _checks.check_fraction("start", start)
        self.end = _checks.check_fraction("end", end)
        self.fraction = fraction
        self.flattening = _checks.check_fraction("flattening", flattening)
        self.coordinates = _checks.check_choice("coordinates", coordinates, COORDINATE_CHOICES)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("power", torch.tensor(float(start)))

    @property
    def share(self) -> float:
        """The old name of `fraction`."""
        return self.fraction

    def step(self) -> None:
        """Advance by one step of the optimizer."""
        self.count += 1
        progress = self.count.double() / (self.total_steps * self.fraction)
        self.power.copy_(self.start + (self.end - self.start) * progress.clamp(max=1.0))

    def extra_repr(self) -> str:
        return (
            f"total_steps={self.total_steps}, start={self.start}, end={self.end}, "
            f"fraction={self.fraction}, flattening={self.flattening}, "
            f"coordinates={self.coordinates!r}"
        )
