"""Weights and components as one density: probabilities, moments, quantiles, modes and regions."""

from .mixture import (
    LocationScale,
    Mixture,
    below_top,
    broadcast_rows,
    gaussian_mixture,
    log_joint,
    over_rows,
)

__all__ = [
    "LocationScale",
    "Mixture",
    "below_top",
    "broadcast_rows",
    "gaussian_mixture",
    "log_joint",
    "over_rows",
]
