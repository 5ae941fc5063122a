"""Which family suits targets, by where they lie."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

#: Standard deviations from the mean within which a Gaussian puts most of its probability.
_REACH = 2.0


class Proposal(NamedTuple):
    """A family by name, and why it suits."""

    family: str
    reason: str


def propose_family(y: Float[np.ndarray, " batch"]) -> Proposal | None:
    """Return a family that keeps to where targets lie, if a Gaussian would not; else None.

    A Gaussian with the mean and the standard deviation of the targets must reach beyond a bound
    that all targets keep: zero, or zero and one. Held-out rows then decide which family is better.

    >>> propose_family(np.array([0.1, 0.4, 9.0, 2.0])).family
    'lognormal'
    """
    low, high = float(np.min(y)), float(np.max(y))
    reach = _REACH * float(np.std(y))
    crosses_zero = low > 0 and float(np.mean(y)) < reach
    crosses_one = high < 1 and float(np.mean(y)) + reach > 1
    if low > 0 and high < 1 and (crosses_zero or crosses_one):
        return Proposal("logitnormal", "all values lie between 0 and 1")
    if crosses_zero:
        return Proposal("lognormal", "all values are positive")
    return None
