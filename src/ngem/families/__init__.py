"""Component distributions, one per file; adding one is a file, a line here and a test case."""

from typing import Any

from .._errors import check_choice
from .base import AbstractFamily
from .conditions import Condition, gather_conditions
from .diagonal import DiagonalGaussian
from .full import FullGaussian, MeanCholesky
from .laplace import Laplace
from .location_scale import AbstractLocationScale, LocationScale
from .logistic import Logistic
from .powers import power_of

FAMILIES: dict[str, type[AbstractFamily]] = {
    "diag": DiagonalGaussian,
    "full": FullGaussian,
    "logistic": Logistic,
    "laplace": Laplace,
}

#: What users choose from: names of distributions, and of covariance structures.
FAMILY_NAMES = tuple(dict.fromkeys(kind.names[0] for kind in FAMILIES.values()))
COVARIANCE_NAMES = tuple(dict.fromkeys(kind.names[1] for kind in FAMILIES.values()))


def get_family(family: str, covariance: str = "diag", **settings: Any) -> AbstractFamily:
    """Return a family from the name of its distribution and of its covariance structure.

    Args:
        family: One of `FAMILY_NAMES`.
        covariance: One of `COVARIANCE_NAMES`.
        settings: Passed on, for example `scale_floor`.
    """
    check_choice("family", family, FAMILY_NAMES)
    kinds = {kind.names[1]: kind for kind in FAMILIES.values() if kind.names[0] == family}
    return kinds[check_choice(f"covariance of family {family!r}", covariance, kinds)](**settings)


__all__ = [
    "COVARIANCE_NAMES",
    "FAMILIES",
    "FAMILY_NAMES",
    "AbstractFamily",
    "AbstractLocationScale",
    "Condition",
    "DiagonalGaussian",
    "FullGaussian",
    "Laplace",
    "LocationScale",
    "Logistic",
    "MeanCholesky",
    "gather_conditions",
    "get_family",
    "power_of",
]
