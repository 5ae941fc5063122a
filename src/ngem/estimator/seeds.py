"""Seeds from whatever scikit-learn takes as a random state."""

import numbers
from typing import Any

import jax
import numpy as np

#: Seeds that both NumPy and JAX take.
_SEEDS = 2**31 - 1


def draw_seed(random_state: Any) -> int:
    """Return a seed drawn from a random state: None, an integer or a numpy RandomState."""
    return int(read_state(random_state).randint(_SEEDS))


def read_state(random_state: Any) -> np.random.RandomState:
    """Return the RandomState that a random state of scikit-learn's kind stands for."""
    if random_state is None or random_state is np.random:
        return np.random.mtrand._rand  # type: ignore
    if isinstance(random_state, numbers.Integral) and 0 <= int(random_state) < 2**32:
        return np.random.RandomState(int(random_state))
    if isinstance(random_state, np.random.RandomState):
        return random_state
    raise ValueError(
        "random_state must be None, an integer from 0 to 2**32 - 1 or a numpy RandomState, got "
        f"{random_state!r}; try random_state=0."
    )


def to_key(random_state: Any) -> Any:
    """Return JAX's key for a random state."""
    return jax.random.key(draw_seed(random_state))
