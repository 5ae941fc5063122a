"""Which families suit targets, by where they lie and what they are called."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

#: Standard deviations from the mean within which a Gaussian puts most of its probability.
_REACH = 2.0

#: An atom is at least this fraction of the targets, and so many times as frequent as any other.
_ATOM, _OUTSTANDING = 0.05, 5

#: Counts begin at this or below, and end at this or below.
_LEAST_COUNT, _MOST_COUNT = 2, 10_000

#: Excess of the fourth moment, beyond which tails are heavy.
_HEAVY = 4.0

#: Words in the name of a column of directions in degrees.
_DIRECTION = re.compile(r"(^|[^a-z])(dir|direction|angle|bearing|heading|azimuth|aspect)([^a-z]|$)")


class Proposal(NamedTuple):
    """A family by name, and why it suits."""

    family: str
    reason: str


class Candidates(NamedTuple):
    """Families by name, from which held-out rows may choose, and why these."""

    families: tuple[Any, ...]
    reason: str


#: For targets that look like counts and are known by intervals, so that they are none.
OF_INTERVALS = Candidates(("lognormal", "gaussian"), "targets are intervals of whole numbers")


def for_columns(each: Sequence[Candidates]) -> Candidates:
    """Return what suits all target columns: one family, or the first of each and a Gaussian."""
    if len({one.families for one in each}) == 1:
        return each[0]
    best = tuple(one.families[0] for one in each)
    return Candidates((best, "gaussian"), "each target column suits a family of its own")


def propose_families(y: Float[np.ndarray, " batch"], name: str | None = None) -> Candidates:
    """Return the families that suit some targets; the one that suits best comes first.

    Args:
        y: Targets.
        name: What they are called: directions are known by their name.

    >>> propose_families(np.array([0.0, 3.0, 1.0, 0.0, 12.0])).families
    ('negative-binomial', 'poisson')
    """
    y = np.asarray(y, float)
    y = y[np.isfinite(y)]
    low, high = (float(np.min(y)), float(np.max(y))) if len(y) else (0.0, 0.0)
    if not low < high:
        return Candidates(("gaussian",), "all values are equal")
    if name and _DIRECTION.search(name.lower()) and low >= 0 and 90 < high <= 360:
        return Candidates(("von-mises(360)",), f"{name} names a direction, from 0 to 360 degrees")
    if _are_counts(y):
        return Candidates(
            ("negative-binomial", "poisson"),
            "all values are whole numbers from 0 on, as counts are",
        )
    atoms = _atoms(y)
    if atoms:
        return _with_atoms(y[~np.isin(y, atoms)], atoms, len(y))
    return _smooth(y)


def propose_family(y: Float[np.ndarray, " batch"], name: str | None = None) -> Proposal | None:
    """Return the family that suits targets, if a Gaussian would not; else None.

    Held-out rows then decide which family is better.

    >>> propose_family(np.array([0.1, 0.4, 9.0, 2.0])).family
    'lognormal'
    """
    families, reason = propose_families(y, name)
    return (
        None if "gaussian" in families[:1] or _is_heavy(families) else Proposal(families[0], reason)
    )


def _is_heavy(families: tuple[str, ...]) -> bool:
    """Return whether only tails are in question."""
    return families[0].startswith("student")


def _smooth(y: np.ndarray) -> Candidates:
    """Return families of targets without atoms.

    A Gaussian with the mean and the standard deviation of the targets must reach beyond a bound
    that all targets keep: zero, or zero and one.
    """
    low, high = float(np.min(y)), float(np.max(y))
    mean, std = float(np.mean(y)), float(np.std(y))
    crosses_zero = low > 0 and mean < _REACH * std
    crosses_one = high < 1 and mean + _REACH * std > 1
    if low > 0 and high < 1 and (crosses_zero or crosses_one):
        return Candidates(("logitnormal", "beta", "gaussian"), "all values lie between 0 and 1")
    if crosses_zero:
        return Candidates(("lognormal", "gamma", "gaussian"), "all values are positive")
    if float(np.mean(((y - mean) / std) ** 4)) > 3 + _HEAVY:
        return Candidates(("student(4)", "gaussian"), "some values lie very far from the others")
    return Candidates(("gaussian",), "nothing speaks against the default")


def _are_counts(y: np.ndarray) -> bool:
    """Return whether targets are whole numbers from about 0 on, in steps of one."""
    if not (0 <= y.min() <= _LEAST_COUNT and y.max() <= _MOST_COUNT and np.all(y == np.floor(y))):
        return False
    distinct = np.unique(y)
    return len(distinct) > 2 and int(np.gcd.reduce(distinct.astype(np.int64))) == 1


def _atoms(y: np.ndarray) -> list[float]:
    """Return 0 and 1, where they are an end of all targets and many of them."""
    values, counts = np.unique(y, return_counts=True)
    ends = [value for value in (0.0, 1.0) if value in (values[0], values[-1])]
    others = counts[~np.isin(values, ends)]
    if len(others) < 10:
        return []  # few different values: a grid, not a density
    least = max(_ATOM * len(y), _OUTSTANDING * float(np.max(others)))
    return [end for end in ends if counts[values == end][0] >= least]


def _with_atoms(y: np.ndarray, atoms: list[float], n_rows: int) -> Candidates:
    """Return families of the other targets, beside the atoms."""
    inside = y.min() > 0 and y.max() < 1
    fraction = 100 * (1 - len(y) / n_rows)
    added = " + ".join(f"{atom:g}" for atom in atoms)
    reason = f"{fraction:.0f}% of the values are exactly {' or '.join(f'{a:g}' for a in atoms)}"
    if inside:
        families = f"logitnormal + {added}", f"beta + {added}"
        return Candidates(families, f"{reason}, the others between 0 and 1")
    if atoms == [0.0] and y.min() > 0:
        families = ("lognormal + 0", "gamma + 0")
        return Candidates(families, f"{reason}, the others positive")
    return _smooth(np.r_[y, atoms])
