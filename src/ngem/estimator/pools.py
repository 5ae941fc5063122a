"""Rows with the members that have not seen them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int


class Pools(NamedTuple):
    """The first members that have held each row out.

    Attributes:
        rows: Numbers of all rows that were held out by as many members, ascending.
        members: These members of each row.
    """

    rows: Int[np.ndarray, " held_out"]
    members: Int[np.ndarray, "held_out member"]

    def groups(self) -> Iterator[tuple[np.ndarray, tuple[int, ...]]]:
        """Yield the rows that the same members have held out, and these members."""
        each, which = np.unique(self.members, axis=0, return_inverse=True)
        for number, members in enumerate(each):
            yield self.rows[which.ravel() == number], tuple(members.tolist())


def find_pools(folds: Sequence[np.ndarray], repeats: int) -> Pools:
    """Return the first `repeats` members that have held each row out.

    Args:
        folds: The rows that each member held out.
        repeats: How many members each row is judged by.
    """
    n_rows = max((int(rows.max()) + 1 for rows in folds if len(rows)), default=0)
    members = np.zeros((n_rows, repeats), int)
    count = np.zeros(n_rows, int)
    for member, rows in enumerate(folds):
        new = rows[count[rows] < repeats]
        members[new, count[new]] = member
        count[new] += 1
    known = np.flatnonzero(count == repeats)
    return Pools(known, members[known])
