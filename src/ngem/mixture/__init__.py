"""Weights and components as one density: probabilities, moments, quantiles, modes and regions."""

from ..families import LocationScale
from .mixture import Mixture, gaussian_mixture

__all__ = ["LocationScale", "Mixture", "gaussian_mixture"]
