"""Turns: whoever is compared is timed one after the other, again and again, and ratios are paired.

Whatever else the machine does slows neighbours alike, so the ratio of two neighbouring turns is
worth more than the ratio of two averages.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

#: Measures once; what it returns is up to the measurement, seconds as a rule.
Turn = Callable[..., Any]


class Spread(NamedTuple):
    """A median with the quartiles beside it."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float | int] | np.ndarray) -> Spread:
    """Return the median and both quartiles."""
    low, median, high = np.percentile(np.asarray(values, float), [25, 50, 75])
    return Spread(float(median), float(low), float(high))


def in_turns(turns: Sequence[Turn], repeats: int) -> np.ndarray:
    """Return what each turn said, (repeats, turns), taking every one once before any again.

    Every second round goes backwards, so that nobody always follows the same neighbour.
    """
    rounds = []
    for number in range(repeats):
        order = range(len(turns))[:: -1 if number % 2 else 1]
        found = {index: turns[index]() for index in order}
        rounds.append([found[index] for index in range(len(turns))])
    return np.array(rounds, float)


def seconds(work: Callable[[], Any]) -> float:
    """Return how long one call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def slope(sizes: Sequence[float | int], values: Sequence[float | int] | np.ndarray) -> float:
    """Return the exponent b of the power law a size^b that fits best on logarithmic axes."""
    return float(np.polyfit(np.log(np.asarray(sizes, float)), np.log(values), 1)[0])
