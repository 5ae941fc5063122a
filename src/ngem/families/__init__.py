"""Component distributions, one per file; adding one is a file, a line here and a test case."""

from .base import AbstractFamily, AbstractLocationScale, power_of
from .diagonal import DiagonalGaussian
from .full import FullGaussian
from .logistic import Logistic

FAMILIES = {"diag": DiagonalGaussian, "full": FullGaussian, "logistic": Logistic}

__all__ = [
    "FAMILIES",
    "AbstractFamily",
    "AbstractLocationScale",
    "DiagonalGaussian",
    "FullGaussian",
    "Logistic",
    "power_of",
]
