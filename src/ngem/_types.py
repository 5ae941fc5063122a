"""Array aliases and the words we use for axes: batch, comp, dim, raw."""

from typing import Any, TypeAlias

from jaxtyping import Array, Float

#: The strength of a preconditioner: a Python number, or a traced scalar when it follows a schedule.
Power: TypeAlias = float | int | Float[Array, ""]

#: Parameters of a component, or gradients with respect to them: the family's own pytree.
Params: TypeAlias = Any

#: Unnormalized log weights of one row, components first; more axes at the end hold more rows.
Logits: TypeAlias = Float[Array, "comp *rows"]
