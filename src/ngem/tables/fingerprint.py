"""A fingerprint of the rows of a fit: which rows of another table are among them.

Each row becomes a number of 64 bits. A model keeps the smallest thousand of them, so its file stays
small, and of any other rows those with numbers as small as these tell the fraction.
"""

import base64
from typing import NamedTuple

import numpy as np

#: Numbers that a fingerprint holds at most.
_MOST = 1000


class Overlap(NamedTuple):
    """How many rows could be compared with those of the fit, and how many were among them."""

    compared: int
    same: int

    @property
    def fraction(self) -> float | None:
        """The fraction of rows that are among those of the fit; None if no row tells it."""
        return self.same / self.compared if self.compared else None

    def __add__(self, other: object) -> "Overlap":
        """Return the overlap of the rows of both."""
        assert isinstance(other, Overlap)
        return Overlap(self.compared + other.compared, self.same + other.same)


def fingerprint(x: np.ndarray, y: np.ndarray) -> str:
    """Return the fingerprint of rows with features and targets as numbers."""
    smallest = np.unique(row_hashes(x, y))[:_MOST]
    return base64.b64encode(smallest.astype("<u8").tobytes()).decode()


def overlap(known: str, x: np.ndarray, y: np.ndarray) -> Overlap:
    """Return which rows are among those of a fingerprint; an empty one compares none."""
    kept = np.frombuffer(base64.b64decode(known), "<u8").astype(np.uint64)
    hashes = row_hashes(x, y)
    if not len(kept):
        return Overlap(0, 0)
    if len(kept) == _MOST:  # rows beyond the last may have been left out
        hashes = hashes[hashes <= kept[-1]]
    return Overlap(len(hashes), int(np.sum(np.isin(hashes, kept))))


def row_hashes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a number of 64 bits for each row, the same on every machine.

    One step of SplitMix64 for each column: values that differ in one bit have unrelated numbers.
    """
    result = np.zeros(len(x), np.uint64)
    with np.errstate(over="ignore"):
        for column in (*x.T, *y.T):
            values = np.where(np.isnan(column), np.nan, column + 0.0)  # one NaN, and no minus zero
            result = (result ^ values.astype("<f8").view("<u8")) + np.uint64(0x9E3779B97F4A7C15)
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                result = (result ^ (result >> np.uint64(shift))) * np.uint64(factor)
            result ^= result >> np.uint64(31)
    return result
