"""Many rows in blocks: one program of a fixed size, on all cores, in bounded memory."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from .._machine import available_cores

#: Blocks at a time. XLA runs each of these small programs on one core.
_THREADS = min(8, available_cores())


def over_blocks(work: Callable[[slice], Any], rows: int, size: int) -> Any:
    """Return the results of `work` for all blocks of rows, concatenated.

    Args:
        work: Called with the rows of a block; returns arrays whose first axis is that of rows.
        rows: Number of rows.
        size: Rows in a block; the last block may have fewer.
    """
    # The first block runs alone, so that the program is compiled once.
    parts = [work(slice(0, size))]
    if rows > size:
        with ThreadPoolExecutor(_THREADS) as pool:
            parts += pool.map(work, [slice(at, at + size) for at in range(size, rows, size)])
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def padded(array: np.ndarray, size: int) -> np.ndarray:
    """Return a block padded with rows of zeros, so that all blocks have one shape."""
    if len(array) >= size:
        return array
    whole = np.zeros((size, *array.shape[1:]), array.dtype)
    whole[: len(array)] = array
    return whole
