"""Turns: the sides of a comparison are timed alternately, and neighboring times are divided.

Other load on the machine slows neighboring turns alike, so the ratio of two neighbors is more
precise than the ratio of two averages.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

#: Measures once and returns the measurement, usually seconds.
Turn = Callable[..., Any]


class Quartiles(NamedTuple):
    """A median with the lower and the upper quartile."""

    median: float
    low: float
    high: float


def quartiles(values: Sequence[float | int] | np.ndarray) -> Quartiles:
    """Return the median and both quartiles."""
    low, median, high = np.percentile(np.asarray(values, float), [25, 50, 75])
    return Quartiles(float(median), float(low), float(high))


def in_turns(turns: Sequence[Turn], repeats: int) -> np.ndarray:
    """Return the measurements, (repeats, turns); each round takes every turn once.

    Every second round goes backwards, so that no turn always follows the same one.
    """
    rounds = []
    for number in range(repeats):
        order = range(len(turns))[:: -1 if number % 2 else 1]
        measured = {index: turns[index]() for index in order}
        rounds.append([measured[index] for index in range(len(turns))])
    return np.array(rounds, float)


def seconds(work: Callable[[], Any]) -> float:
    """Return how long one call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def slope(sizes: Sequence[float | int], values: Sequence[float | int] | np.ndarray) -> float:
    """Return the exponent b of the power law a * size^b that fits best on logarithmic axes."""
    return float(np.polyfit(np.log(np.asarray(sizes, float)), np.log(values), 1)[0])
