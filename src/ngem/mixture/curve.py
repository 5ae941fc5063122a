"""What modes and regions are found from: a one-dimensional distribution for each row."""

from typing import NamedTuple

from jaxtyping import Array, Float

from .roots import Elementwise


class Curve(NamedTuple):
    """A one-dimensional distribution for each row, and where its probability lies.

    Points are the first axis of every array, rows the others.

    Attributes:
        log_prob: Log density, or log probability of each integer, element by element.
        cdf: Distribution function.
        lower: A point with negligible probability below it.
        upper: A point with negligible probability above it.
    """

    log_prob: Elementwise
    cdf: Elementwise
    lower: Float[Array, "*rows"]
    upper: Float[Array, "*rows"]
