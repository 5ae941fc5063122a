"""Unequal true weights, which the paper does not try: which objectives recover them."""

from dataclasses import dataclass
from typing import Any

from . import two_gaussians, two_sinusoids
from .store import Unit


@dataclass(frozen=True)
class Settings:
    """The settings of both synthetic examples.

    Attributes:
        two_gaussians: Settings of that experiment.
        two_sinusoids: Settings of that experiment.
    """

    two_gaussians: dict[str, Any]
    two_sinusoids: dict[str, Any]


def units(settings: Settings) -> list[Unit]:
    """Return the units of both examples."""
    plane = two_gaussians.units(two_gaussians.Settings(**settings.two_gaussians))
    waves = two_sinusoids.units(two_sinusoids.Settings(**settings.two_sinusoids))
    return [{"task": "two_gaussians", **unit} for unit in plane] + [
        {"task": "two_sinusoids", **unit} for unit in waves
    ]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return the learned weight of the heavier component, likelihood and entropy."""
    if unit["task"] == "two_gaussians":
        result = two_gaussians.run(two_gaussians.Settings(**settings.two_gaussians), unit)
    else:
        result = two_sinusoids.run(two_sinusoids.Settings(**settings.two_sinusoids), unit)
    return {name: result[name] for name in ("learned_weight", "nll", "entropy")}
