"""Array aliases and the words we use for axes: batch, comp, dim, raw."""

from typing import NamedTuple, TypeAlias

from jaxtyping import Array, Float

#: The strength of a preconditioner: a Python number, or a traced scalar when it follows a schedule.
Power: TypeAlias = float | int | Float[Array, ""]


class LocationScale(NamedTuple):
    """Parameters of components that have a location and a scale.

    `mean` is (..., dim). `scale` is (..., dim) for families with independent coordinates and a
    lower-triangular (..., dim, dim) for those with a full covariance. The same structure also
    holds gradients with respect to these parameters.
    """

    mean: Float[Array, "..."]
    scale: Float[Array, "..."]
