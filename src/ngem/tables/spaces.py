"""What a search for settings can choose, for each kind of model."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..optimizers import DEFAULT_LEARNING_RATES
from .kinds import KINDS

#: Values to sample from. The learning rate of a network is an argument of the compiled program.
#: Every other combination compiles a program of its own, so there are few of them. Learning rates
#: are relative to the default.
COMPONENTS = (1, 2, 3, 5, 8, 12, 20)
WIDTHS = (32, 64, 128, 256)
RATE_FACTORS = (0.2, 3.0)
LEAVES = (4, 8, 16, 31, 63)
MIN_ROWS = (5, 10, 20, 40, 80)
TREE_RATE_FACTORS = (0.4, 3.0)
WEIGHT_RATES = (0.1, 0.3, 1.0)

#: Returns settings to try; without a generator the defaults.
Sample = Callable[[np.random.Generator | None], dict[str, Any]]


class Space(NamedTuple):
    """What a search can choose.

    Attributes:
        sample: Returns settings to try.
        by_rate: Compare trials where the sums of their learning rates are equal, not the counts of
            their steps. A boosted model with half the rate needs twice the rounds.
    """

    sample: Sample
    by_rate: bool


def sample_network(rng: np.random.Generator | None) -> dict[str, Any]:
    """Return settings of a network."""
    rate, default = DEFAULT_LEARNING_RATES["adam"], KINDS["network"].estimator()
    names = ("n_components", "hidden_sizes")
    if rng is None:
        return {**{name: getattr(default, name) for name in names}, "learning_rate": rate}
    width = int(rng.choice(WIDTHS))
    return {
        "n_components": int(rng.choice(COMPONENTS)),
        "hidden_sizes": (width, width),
        "learning_rate": _sample_rate(rng, rate, RATE_FACTORS),
    }


def sample_trees(rng: np.random.Generator | None) -> dict[str, Any]:
    """Return settings of boosted trees."""
    default: Any = KINDS["trees"].estimator()
    if rng is None:
        names = ("n_components", "num_leaves", "min_rows_in_leaf", "learning_rate")
        defaults = {name: getattr(default, name) for name in names}
        resolved = KINDS["trees"].resolve(default.get_params(deep=False), 1, 1)
        return {**defaults, "weight_rate": resolved["weight_rate"]}
    return {
        "n_components": int(rng.choice(COMPONENTS)),
        "num_leaves": int(rng.choice(LEAVES)),
        "min_rows_in_leaf": int(rng.choice(MIN_ROWS)),
        "learning_rate": _sample_rate(rng, default.learning_rate, TREE_RATE_FACTORS),
        "weight_rate": float(rng.choice(WEIGHT_RATES)),
    }


def _sample_rate(rng: np.random.Generator, default: float, factors: tuple[float, float]) -> float:
    low, high = np.log(factors)
    return float(default * np.exp(rng.uniform(low, high)))


#: What a search for each kind of model can choose.
SPACES = {
    "network": Space(sample_network, by_rate=False),
    "trees": Space(sample_trees, by_rate=True),
}
