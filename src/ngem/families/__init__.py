"""Component distributions, one per file; adding one is a file, a line here and a test case."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from .._errors import check_choice
from .asymmetric_laplace import AsymmetricLaplace
from .base import AbstractFamily, multiply_leading
from .beta import Beta, LogitBeta
from .binomial import Binomial
from .classes import AbstractClasses, Categorical, Ordinal, Steps
from .columns import Columns
from .conditions import Condition, gather_conditions
from .counts import AbstractCount, Location
from .diagonal import DiagonalGaussian
from .full import FullGaussian, MeanCholesky
from .gamma import Gamma, LogGamma
from .gumbel import Gumbel
from .independent import LocationScale
from .inflated import AtomAndRest, Inflated
from .inverse_gaussian import InverseGaussian, LogInverseGaussian
from .laplace import Laplace
from .location_scale import AbstractLocationScale
from .logistic import Logistic
from .logitnormal import LogitNormal
from .lognormal import LogNormal
from .low_rank import LowRankGaussian, MeanFactors
from .names import (
    by_place,
    order_columns,
    parse_name,
    read_options,
    split_atoms,
    split_columns,
    text_of,
)
from .negative_binomial import NegativeBinomial
from .poisson import Poisson
from .powers import power_of
from .propose import (
    OF_INTERVALS,
    Candidates,
    Proposal,
    for_columns,
    propose_families,
    propose_family,
)
from .shaped import LocationScaleShape
from .special import invert_steps
from .spherical import SphericalGaussian
from .student import LearnedStudent, Student
from .tied import TiedGaussian
from .von_mises import Direction, VonMises
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
    "student-learned": LearnedStudent,
    "gumbel": Gumbel,
    "asymmetric-laplace": AsymmetricLaplace,
    "lognormal": LogNormal,
    "gamma": Gamma,
    "weibull": Weibull,
    "inverse-gaussian": InverseGaussian,
    "logitnormal": LogitNormal,
    "beta": Beta,
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
    "binomial": Binomial,
    "ordinal": Ordinal,
    "categorical": Categorical,
    "von-mises": VonMises,
}

#: What users choose from: names of distributions, and of covariance structures.
FAMILY_NAMES = tuple(dict.fromkeys(kind.names[0] for kind in FAMILIES.values()))
COVARIANCE_NAMES = tuple(dict.fromkeys(kind.names[1] for kind in FAMILIES.values()))


def get_family(family: Any, covariance: str = "diag", **settings: Any) -> AbstractFamily:
    """Return a family from the name of its distribution and of its covariance structure.

    Args:
        family: One of `FAMILY_NAMES`, with options in parentheses if it has some: "student(4)" or
            "student(df=4)". A value with a probability of its own follows a +: "gamma + 0", or
            "zero-inflated gamma". Or one for each target column, in their order: a sequence, a
            mapping by column, or "loss=gamma,visits=poisson".
        covariance: One of `COVARIANCE_NAMES`, with options likewise: "low-rank(4)".
        settings: Passed on, for example `scale_floor`.

    >>> get_family("student(4)").df
    4.0
    >>> get_family("zero-inflated gamma").atoms
    (0.0,)
    >>> get_family(["gamma", "poisson"]).name
    'gamma, poisson'
    """
    each = split_columns(family)
    if each:
        check_choice("covariance of a family for each column", covariance, ("diag",))
        return Columns(
            columns=tuple(get_family(one, **settings) for one in by_place(each)), **settings
        )
    base, atoms = split_atoms(family)
    if atoms:
        made = get_family(base, covariance, **settings)
        for atom in reversed(atoms):
            known = {} if atom.fraction is None else {"fraction": atom.fraction}
            made = Inflated(inner=made, atom=atom.value, **known, **settings)
        return made
    name, values = parse_name(family)
    check_choice("family", name, FAMILY_NAMES)
    kinds = {kind.names[1]: kind for kind in FAMILIES.values() if kind.names[0] == name}
    structure, numbers = parse_name(covariance)
    kind = kinds[check_choice(f"covariance of family {name!r}", structure, kinds)]
    options = read_options(name, kind.options, values)
    options |= read_options(structure, kind.covariance_options, numbers, "covariance")
    return kind(**options, **settings)


def settle_name(
    family: Any, y: Float[np.ndarray, "batch dim"], names: Sequence[str | None] = ()
) -> Any:
    """Return the name of a family with what targets say of it.

    How many of them are each atom, and how many classes there are. The fractions are rounded, so
    that similar targets share compiled programs.

    Args:
        family: A family by name, or one for each column, see `split_columns`.
        y: Targets.
        names: Names of their columns, as far as they are known.

    Returns:
        A name, or a tuple of names in the order of the columns.

    >>> settle_name("zero-inflated gamma", np.array([[0.0], [1.0], [0.0], [2.0]]))
    'gamma + 0:0.5'
    """
    if split_columns(family):
        family = order_columns(family, names or [None] * y.shape[1])
        if not isinstance(family, str):
            return tuple(settle_name(one, y[:, [d]]) for d, one in enumerate(family))
    name, atoms = split_atoms(family)
    left = np.asarray(y).ravel()
    for atom in atoms:
        fraction = np.mean(left == atom.value) if len(left) else 0.5
        left = left[left != atom.value]
        known = atom.fraction or float(np.clip(np.round(20 * fraction) / 20, 0.05, 0.95))
        name = f"{name} + {atom._replace(fraction=round(known, 6))}"
    return name if atoms else _settle_options(family, y)


def _settle_options(family: str, y: np.ndarray) -> str:
    name, values = parse_name(family)
    kinds = [kind for kind in FAMILIES.values() if kind.names[0] == name]
    settled = kinds[0].settle(values, y) if kinds else values
    return family if settled == values else f"{name}({', '.join(settled)})"


def is_family_name(family: object) -> bool:
    """Return whether a text begins with the name of a family; its options may be wrong.

    Or whether all of several texts do, one for each column.
    """
    try:
        each = split_columns(family)
    except ValueError:
        return True  # `get_family` says what is wrong
    if each:
        return all(isinstance(one, str) and is_family_name(one) for one in by_place(each))
    try:
        name = parse_name(split_atoms(family)[0])[0] if isinstance(family, str) else None
    except ValueError:
        return True  # `get_family` says what is wrong
    return name in FAMILY_NAMES


def covariances_of(family: Any) -> tuple[str, ...]:
    """Return the covariance structures that a family has."""
    if split_columns(family):
        return ("diag",)
    base, atoms = split_atoms(family)
    name = parse_name(base)[0]
    if atoms:
        return ("diag",)
    return tuple(kind.names[1] for kind in FAMILIES.values() if kind.names[0] == name)


def is_known(family: object, covariance: object, dim: object = None) -> bool:
    """Return whether there is such a family, with options that it can have.

    Args:
        family: Its name, or a list with one for each column.
        covariance: The name of its covariance.
        dim: Number of target columns, which families of columns must be as many as.
    """
    listed = isinstance(family, list | tuple) and all(isinstance(one, str) for one in family)
    if not ((isinstance(family, str) or listed) and isinstance(covariance, str)):
        return False
    try:
        made = get_family(family, covariance)
        return dim is None or not isinstance(made, Columns) or len(made.columns) == dim
    except ValueError:
        return False


__all__ = [
    "COVARIANCE_NAMES",
    "FAMILIES",
    "FAMILY_NAMES",
    "OF_INTERVALS",
    "AbstractClasses",
    "AbstractCount",
    "AbstractFamily",
    "AbstractLocationScale",
    "AsymmetricLaplace",
    "AtomAndRest",
    "Beta",
    "Binomial",
    "Candidates",
    "Categorical",
    "Columns",
    "Condition",
    "DiagonalGaussian",
    "Direction",
    "FullGaussian",
    "Gamma",
    "Gumbel",
    "Inflated",
    "InverseGaussian",
    "Laplace",
    "LearnedStudent",
    "Location",
    "LocationScale",
    "LocationScaleShape",
    "LogGamma",
    "LogInverseGaussian",
    "LogNormal",
    "Logistic",
    "LogitBeta",
    "LogitNormal",
    "LowRankGaussian",
    "MeanCholesky",
    "MeanFactors",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Proposal",
    "SphericalGaussian",
    "Steps",
    "Student",
    "TiedGaussian",
    "VonMises",
    "Weibull",
    "covariances_of",
    "for_columns",
    "gather_conditions",
    "get_family",
    "invert_steps",
    "is_family_name",
    "is_known",
    "multiply_leading",
    "order_columns",
    "parse_name",
    "power_of",
    "propose_families",
    "propose_family",
    "settle_name",
    "split_atoms",
    "split_columns",
    "text_of",
]
