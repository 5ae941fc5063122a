"""Many rows in blocks: one program of a fixed size, on all cores, in bounded memory."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from .._machine import available_cores

#: Blocks at a time. XLA runs programs as small as these on one core each.
_THREADS = min(8, available_cores())


def over_blocks(work: Callable[[slice], Any], rows: int, size: int) -> Any:
    """Return what `work` makes of each block of rows, joined along them.

    Args:
        work: Called with the rows of a block; returns arrays that begin with the axis of rows.
        rows: How many there are.
        size: Rows in a block; the last one may have fewer.
    """
    # The first block by itself, so that the program is compiled once.
    parts = [work(slice(0, size))]
    if rows > size:
        with ThreadPoolExecutor(_THREADS) as pool:
            parts += pool.map(work, [slice(at, at + size) for at in range(size, rows, size)])
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def padded(array: np.ndarray, size: int) -> np.ndarray:
    """Return a block filled up with rows of zeros, so that every block has one shape."""
    missing = [(0, size - len(array))] + [(0, 0)] * (array.ndim - 1)
    return np.pad(array, missing) if len(array) < size else array
