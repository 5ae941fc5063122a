"""The strength of the natural gradient over training."""

import torch
from torch import Tensor, nn

from .. import _defaults
from .._defaults import COORDINATE_CHOICES
from . import _checks


class PowerSchedule(nn.Module):
    """A power that goes linearly from start to end over a share of training, then stays.

    Pass it as `power`, and call `step` once after each step of the optimizer. It is a tensor that
    changes in place, so that a compiled loop need not be compiled again, and its place in the
    schedule is saved with `state_dict`.

    Args:
        total_steps: Steps of the optimizer in all.
        start: Power at the first step.
        end: Power after `share` of the steps.
        share: The part of training that the change takes.
        flattening: Of the weights while the power lasts, see `ngem_loss`.
        coordinates: Of the scale while the power lasts, see `ngem_loss`.

    >>> schedule = PowerSchedule(4, start=1.0, end=0.0, share=0.5)
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
        share: float = _defaults.POWER_SCHEDULE[2],
        flattening: float = _defaults.FLATTENING,
        coordinates: str = _defaults.SCHEDULED_COORDINATES,
    ):
        super().__init__()
        if total_steps < 1:
            raise ValueError(
                f"total_steps must be at least 1, got {total_steps}; try epochs * len(loader)."
            )
        if not 0 < share <= 1:
            raise ValueError(
                f"share must be above 0 and at most 1, got {share}; 1.0 is all of training."
            )
        self.total_steps = total_steps
        self.start = _checks.check_fraction("start", start)
        self.end = _checks.check_fraction("end", end)
        self.share = share
        self.flattening = _checks.check_fraction("flattening", flattening)
        self.coordinates = _checks.check_choice("coordinates", coordinates, COORDINATE_CHOICES)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("power", torch.tensor(float(start)))

    def step(self) -> None:
        """Move on by one step of the optimizer."""
        self.count += 1
        progress = self.count.double() / (self.total_steps * self.share)
        self.power.copy_(self.start + (self.end - self.start) * progress.clamp(max=1.0))

    def extra_repr(self) -> str:
        return (
            f"total_steps={self.total_steps}, start={self.start}, end={self.end}, "
            f"share={self.share}, flattening={self.flattening}, coordinates={self.coordinates!r}"
        )
