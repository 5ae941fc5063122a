"""Seeds from whatever scikit-learn takes as a random state."""

from typing import Any

import jax
from sklearn.utils import check_random_state

#: Seeds that both NumPy and JAX take.
_SEEDS = 2**31 - 1


def draw_seed(random_state: Any) -> int:
    """Return a seed drawn from a random state: None, an integer or a numpy RandomState."""
    return int(read_state(random_state).randint(_SEEDS))


def read_state(random_state: Any) -> Any:
    """Return the numpy RandomState that a random state of scikit-learn's kind stands for."""
    try:
        return check_random_state(random_state)
    except ValueError:
        raise ValueError(
            "random_state must be None, an integer from 0 to 2**32 - 1 or a numpy RandomState, "
            f"got {random_state!r}; try random_state=0."
        ) from None


def to_key(random_state: Any) -> Any:
    """Return JAX's key for a random state."""
    return jax.random.key(draw_seed(random_state))
