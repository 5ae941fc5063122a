"""Rows that share a condition: each row gets the entry of its condition."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

#: The condition of each row, or None where every row has its own.
Condition = Int[Array, " batch"] | None


def gather_conditions(tree: Any, condition: Condition) -> Any:
    """Return arrays with one entry per row from arrays with one entry per condition.

    On the way back the gradients of all rows of a condition are added up.
    """
    if condition is None:
        return tree
    return jax.tree.map(lambda leaf: _gather(leaf, condition), tree)


@jax.custom_vjp
def _gather(
    leaf: Float[Array, "conditions ..."], condition: Int[Array, " batch"]
) -> Float[Array, "batch ..."]:
    return leaf[condition]


def _gather_forward(
    leaf: Float[Array, "conditions ..."], condition: Int[Array, " batch"]
) -> tuple[Float[Array, "batch ..."], tuple[Int[Array, " batch"], int]]:
    return leaf[condition], (condition, len(leaf))


def _gather_backward(
    saved: tuple[Int[Array, " batch"], int], grad: Float[Array, "batch ..."]
) -> tuple[Float[Array, "conditions ..."], None]:
    condition, count = saved
    # A matrix product with the membership table is much faster than scattered additions.
    members = jax.nn.one_hot(condition, count, axis=0, dtype=grad.dtype)
    return jnp.tensordot(members, grad, axes=1, precision=jax.lax.Precision.HIGHEST), None


_gather.defvjp(_gather_forward, _gather_backward)
