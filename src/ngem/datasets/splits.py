"""Random splits from a seed."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int


class RandomSplit(NamedTuple):
    """Row numbers to train on, to choose by and to test on."""

    train: Int[np.ndarray, " train"]
    validation: Int[np.ndarray, " validation"]
    test: Int[np.ndarray, " test"]


def random_split(
    n_rows: int, seed: int, *, test: float = 0.2, validation: float = 0.0
) -> RandomSplit:
    """Return a random partition of the rows; the same seed gives the same one.

    The rows to test on depend on the seed alone, not on `validation`.

    Args:
        n_rows: How many rows there are.
        seed: Of the shuffle.
        test: Share of all rows to test on, rounded to whole rows.
        validation: Share of all rows to choose by, rounded to whole rows.
    """
    if not (0 <= test < 1 and 0 <= validation < 1 and test + validation < 1):
        raise ValueError(
            "test and validation must be shares from 0 up to less than 1 that leave some rows to "
            f"train on, got test={test} and validation={validation}; for a fifth pass 0.2."
        )
    order = np.random.default_rng(seed).permutation(n_rows)
    n_test, n_validation = round(n_rows * test), round(n_rows * validation)
    if n_test + n_validation >= n_rows:
        raise ValueError(
            f"n_rows must leave at least one row to train on, got {n_rows} rows of which {n_test} "
            f"are to test on and {n_validation} to choose by; take smaller shares."
        )
    return RandomSplit(
        train=order[n_test + n_validation :],
        validation=order[n_test : n_test + n_validation],
        test=order[:n_test],
    )
