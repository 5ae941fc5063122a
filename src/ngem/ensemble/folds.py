"""Which rows each member holds out."""

import numpy as np
from jaxtyping import Int


def make_folds(
    n_rows: int, n_folds: int, rng: np.random.Generator
) -> Int[np.ndarray, "fold held_out"]:
    """Return the rows that each fold holds out, ascending; every row is held out at least once.

    All folds have the same size, so that one compiled program serves all members. Where the rows
    do not divide evenly, a few rows are held out twice.
    """
    size = -(-n_rows // n_folds)
    order = np.resize(rng.permutation(n_rows), n_folds * size)
    return np.sort(order.reshape(n_folds, size), axis=1)
