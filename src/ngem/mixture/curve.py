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
        lower: A point with negligible probability below it; if infinite, the grid's first.
        upper: A point with negligible probability above it; if infinite, the grid's last.
        grid: Ascending points, dense where the density can bend. Integers need none.
    """

    log_prob: Elementwise
    cdf: Elementwise
    lower: Float[Array, "*rows"]
    upper: Float[Array, "*rows"]
    grid: Float[Array, "grid *rows"] | None = None
