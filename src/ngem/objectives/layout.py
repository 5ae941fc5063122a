"""Which axis of a loss's arrays holds the rows: decided here for training and for users' arrays.

Losses are written for one row, components first. There are three ways to many rows:

1. *Rows last.* All arrays get one more axis at their end. Vector instructions and matrix products
   need a long last axis, and few components and targets make none. With rows first a loss with its
   gradient takes 1.3 to 1.4 times as long (256 rows, K = 10 with D = 1 to K = 10 with D = 4).
2. *Rows first*, by `jax.vmap`: for a few rows, many numbers per row, and families whose functions
   do not work element by element, such as a full covariance. With many numbers per row it takes
   0.4 to 0.8 of the time (256 rows, K = 5 with D = 64, K = 10 with D = 16).
3. *By condition*: for rows that share conditions, such as 60,000 images of ten digits. The network
   and the preconditioner see each condition once; `ngem bench conditions` measures 7 times the
   speed.

`benchmarks/layout.py` measures the first two; `docs/results/layout.json` has its figures.
"""

import math
from collections.abc import Sequence

from ..families import AbstractFamily

#: Rows go last from this many rows on ...
_MIN_ROWS = 32

#: ... up to this many numbers per row, components times targets.
_MAX_NUMBERS = 128


def rows_go_last(
    family: AbstractFamily, rows: Sequence[int], *, n_components: int, dim: int
) -> bool:
    """Return whether losses of these rows are computed with the rows as the last axis."""
    is_narrow = n_components * dim <= _MAX_NUMBERS
    return family.takes_rows and is_narrow and math.prod(rows) >= _MIN_ROWS
