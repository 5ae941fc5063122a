"""How the raw outputs of trees become densities: by the same predictor as those of networks."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..nn import Guard, MixtureNetwork, Predictor
from .curvature import Outputs

_LARGEST = float(np.finfo(np.float32).max)

#: What the guard has for each feature, and what lets an input pass as it is: no slope, any range.
_FILLS = {"slope": 0.0, "low": -_LARGEST, "high": _LARGEST, "unit": 1.0}


class PickOutputs(eqx.Module):
    """The body of a member: its raw outputs stand among the inputs, from an offset on.

    Attributes:
        offset: Place of the first one.
        num_raw: How many there are.
    """

    offset: Int[Array, "*member"]
    num_raw: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " raw"]:
        return jax.lax.dynamic_slice(x, (self.offset,), (self.num_raw,))


def tree_predictor(
    outputs: Outputs, n_members: int, n_features: int, guard: Guard | None
) -> Predictor:
    """Return what reads densities off the guard's features and the members' raw outputs.

    The features come first in a row, then the raw outputs of each member.
    """
    num_raw = outputs.num_raw
    offsets = jnp.asarray(n_features + num_raw * np.arange(n_members), jnp.int32)
    members = MixtureNetwork(
        PickOutputs(offsets, num_raw), outputs.n_components, outputs.dim, outputs.family
    )
    return Predictor(members, None if guard is None else _widen(guard, num_raw * n_members))


def own_guard(predictor: Predictor, n_features: int) -> Guard | None:
    """Return the guard of the features alone, as `tree_predictor` was given it."""
    guard = predictor.guard
    if guard is None:
        return None
    return replace(guard, **{name: getattr(guard, name)[..., :n_features] for name in _FILLS})


def _widen(guard: Guard, n_more: int) -> Guard:
    """Return a guard that lets more inputs pass as they are."""

    def pad(name: str) -> Array:
        leaf = getattr(guard, name)
        widths = [(0, 0)] * (leaf.ndim - 1) + [(0, n_more)]
        return jnp.pad(leaf, widths, constant_values=_FILLS[name])

    return replace(guard, **{name: pad(name) for name in _FILLS})
