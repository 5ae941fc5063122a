"""Component distributions, one per file; adding one is a file, a line here and a test case."""

from typing import Any

from .._errors import check_choice
from .base import AbstractFamily, multiply_leading
from .conditions import Condition, gather_conditions
from .diagonal import DiagonalGaussian
from .full import FullGaussian, MeanCholesky
from .gamma import Gamma, LogGamma
from .gumbel import Gumbel
from .independent import LocationScale
from .laplace import Laplace
from .location_scale import AbstractLocationScale
from .logistic import Logistic
from .logitnormal import LogitNormal
from .lognormal import LogNormal
from .low_rank import LowRankGaussian, MeanFactors
from .names import parse_name, read_options
from .powers import power_of
from .propose import Proposal, propose_family
from .spherical import SphericalGaussian
from .student import Student
from .tied import TiedGaussian
from .weibull import Weibull

FAMILIES: dict[str, type[AbstractFamily]] = {
    "diag": DiagonalGaussian,
    "full": FullGaussian,
    "spherical": SphericalGaussian,
    "tied": TiedGaussian,
    "low-rank": LowRankGaussian,
    "logistic": Logistic,
    "laplace": Laplace,
    "student": Student,
    "gumbel": Gumbel,
    "lognormal": LogNormal,
    "gamma": Gamma,
    "weibull": Weibull,
    "logitnormal": LogitNormal,
}

#: What users choose from: names of distributions, and of covariance structures.
FAMILY_NAMES = tuple(dict.fromkeys(kind.names[0] for kind in FAMILIES.values()))
COVARIANCE_NAMES = tuple(dict.fromkeys(kind.names[1] for kind in FAMILIES.values()))


def get_family(family: str, covariance: str = "diag", **settings: Any) -> AbstractFamily:
    """Return a family from the name of its distribution and of its covariance structure.

    Args:
        family: One of `FAMILY_NAMES`, with options in parentheses if it has some: "student(4)" or
            "student(df=4)".
        covariance: One of `COVARIANCE_NAMES`, with options likewise: "low-rank(4)".
        settings: Passed on, for example `scale_floor`.

    >>> get_family("student(4)").df
    4.0
    """
    name, values = parse_name(family)
    check_choice("family", name, FAMILY_NAMES)
    kinds = {kind.names[1]: kind for kind in FAMILIES.values() if kind.names[0] == name}
    structure, numbers = parse_name(covariance)
    kind = kinds[check_choice(f"covariance of family {name!r}", structure, kinds)]
    options = read_options(name, kind.options, values)
    options |= read_options(structure, kind.covariance_options, numbers, "covariance")
    return kind(**options, **settings)


def covariances_of(family: str) -> tuple[str, ...]:
    """Return the covariance structures that a family has."""
    name, _ = parse_name(family)
    return tuple(kind.names[1] for kind in FAMILIES.values() if kind.names[0] == name)


def is_known(family: object, covariance: object) -> bool:
    """Return whether there is such a family, with options that it can have."""
    if not (isinstance(family, str) and isinstance(covariance, str)):
        return False
    try:
        return bool(get_family(family, covariance))
    except ValueError:
        return False


__all__ = [
    "COVARIANCE_NAMES",
    "FAMILIES",
    "FAMILY_NAMES",
    "AbstractFamily",
    "AbstractLocationScale",
    "Condition",
    "DiagonalGaussian",
    "FullGaussian",
    "Gamma",
    "Gumbel",
    "Laplace",
    "LocationScale",
    "LogGamma",
    "LogNormal",
    "Logistic",
    "LogitNormal",
    "LowRankGaussian",
    "MeanCholesky",
    "MeanFactors",
    "Proposal",
    "SphericalGaussian",
    "Student",
    "TiedGaussian",
    "Weibull",
    "covariances_of",
    "gather_conditions",
    "get_family",
    "is_known",
    "multiply_leading",
    "parse_name",
    "power_of",
    "propose_family",
]
