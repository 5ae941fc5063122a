"""Random splits from a seed."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int


class RandomSplit(NamedTuple):
    """Row numbers for training, validation and test."""

    train: Int[np.ndarray, " train"]
    validation: Int[np.ndarray, " validation"]
    test: Int[np.ndarray, " test"]


def random_split(
    n_rows: int, seed: int, *, test: float = 0.2, validation: float = 0.0
) -> RandomSplit:
    """Return a random partition of the rows; the same seed gives the same one.

    The test rows depend on the seed and on `test`, not on `validation`.

    Args:
        n_rows: Number of rows.
        seed: Seed of the shuffle.
        test: Fraction of all rows for the test, rounded to whole rows.
        validation: Fraction of all rows for validation, rounded to whole rows.
    """
    if not (0 <= test < 1 and 0 <= validation < 1 and test + validation < 1):
        raise ValueError(
            "test and validation must be fractions from 0 to below 1 that leave rows for training, "
            f"got test={test} and validation={validation}; for a fifth pass 0.2."
        )
    order = np.random.default_rng(seed).permutation(n_rows)
    n_test, n_validation = round(n_rows * test), round(n_rows * validation)
    if n_test + n_validation >= n_rows:
        raise ValueError(
            f"n_rows must leave at least one row for training, got {n_rows} rows with {n_test} "
            f"for the test and {n_validation} for validation; take smaller fractions."
        )
    return RandomSplit(
        train=order[n_test + n_validation :],
        validation=order[n_test : n_test + n_validation],
        test=order[:n_test],
    )
