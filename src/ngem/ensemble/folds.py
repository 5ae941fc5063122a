"""Which rows each member holds out."""

import numpy as np
from jaxtyping import Int

#: Blocks that a member holds out, counted from its own, for each number of members that hold a row
#: out. Any two members share one block at most, as long as there are enough of them.
_OFFSETS = {1: (0,), 2: (0, 1), 3: (0, 1, 3), 4: (0, 1, 4, 6)}

#: Most members that may hold a row out.
MOST_REPEATS = max(_OFFSETS)


def make_folds(
    n_rows: int, n_folds: int, rng: np.random.Generator, repeats: int = 1
) -> Int[np.ndarray, "member held_out"]:
    """Return the rows that each member holds out, ascending; every row at least `repeats` times.

    Each member holds out one part in `n_folds` of the rows, so there are `n_folds * repeats`
    members. The rows are divided into as many blocks, and a member holds out `repeats` of them, in
    a circle: the members that hold a block out train on rows that differ elsewhere.

    All members hold out the same number of rows, so that one compiled program serves all of them.
    Where the rows do not divide evenly, a few rows are held out once more.

    Args:
        n_rows: Number of rows.
        n_folds: One part in so many is held out by each member.
        rng: Source of the division.
        repeats: How many members hold each row out.
    """
    n_blocks = n_folds * repeats
    size = -(-n_rows // n_blocks)
    order = rng.permutation(n_rows)
    blocks = np.resize(order, (n_blocks, size))
    places = (np.arange(n_blocks)[:, None] + _OFFSETS[repeats]) % n_blocks
    return np.stack([_filled(blocks[own], order) for own in places])


def _filled(blocks: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the rows of some blocks, ascending, with others for those that are there twice."""
    rows = np.unique(blocks)
    others = order[~np.isin(order, rows)][: blocks.size - len(rows)]
    return np.sort(np.concatenate([rows, others]))
