"""Mixtures whose components have single values with a probability of their own: atoms.

Such a mixture is a few probabilities beside a mixture that has a density.
"""

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jaxtyping import Array, Float

if TYPE_CHECKING:
    from .mixture import Mixture

#: Atoms with less probability than this are neither modes nor shown in regions.
_FAINT = 1e-6


def with_atoms(values: tuple[float, ...], grid: Float[Array, "grid *rows"]) -> Array:
    """Return a grid with points at the atoms, between which nothing has a step."""
    points = [jnp.full_like(grid[:1], value) for value in values]
    return jnp.concatenate([*points, grid])


def masses(mixture: "Mixture") -> Float[Array, "atom *batch"]:
    """Return the probability of each atom."""
    ends = [_steps(mixture, value) for value in mixture.family.atoms]
    return jnp.stack([jnp.maximum(at - before, 0.0) for before, at in ends])


def quantile(mixture: "Mixture", q: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Return the atom at which the distribution function reaches q; NaN where it is none."""
    found = jnp.full_like(q, jnp.nan)
    for value in mixture.family.atoms:
        before, at = _steps(mixture, value)
        found = jnp.where((before < q) & (q <= at) & (q > 0) & (q < 1), value, found)
    return found


def modes(mixture: "Mixture") -> Float[Array, "*batch mode"]:
    """Return the atoms, those with most probability first, and then the modes of the density."""
    mass = jnp.moveaxis(masses(mixture), 0, -1)
    order = jnp.argsort(-mass, axis=-1)
    values = jnp.asarray(mixture.family.atoms, mass.dtype)[order]
    visible = jnp.take_along_axis(mass, order, axis=-1) > _FAINT
    smooth = _smooth(mixture).modes()
    points = jnp.concatenate([jnp.where(visible, values, jnp.nan), smooth], axis=-1)
    # Those that are none go to the end.
    last = jnp.argsort(jnp.isnan(points), axis=-1, stable=True)
    return jnp.take_along_axis(points, last, axis=-1)


def highest_density(
    mixture: "Mixture", coverage: Float[Array, ""]
) -> Float[Array, "*batch pieces 2"]:
    """Return the smallest region: the atoms, and as much of the density as is still needed."""
    mass = masses(mixture)
    total = jnp.sum(mass, axis=0)
    rest = jnp.clip((coverage - total) / jnp.maximum(1 - total, _FAINT), 0.0, 1.0)
    smooth = _smooth(mixture)
    ends = smooth._turning(type(smooth)._highest_density, rest)
    ends = jnp.where((rest > 0)[..., None, None], ends, jnp.nan)
    for value, own in zip(mixture.family.atoms, mass, strict=True):
        inside = jnp.any((ends[..., 0] <= value) & (value <= ends[..., 1]), axis=-1)
        point = jnp.where((own > _FAINT) & ~inside, value, jnp.nan)
        pair = jnp.broadcast_to(point[..., None, None], (*point.shape, 1, 2))
        ends = jnp.concatenate([pair.astype(ends.dtype), ends], axis=-2)
    order = jnp.argsort(ends[..., 0], axis=-1)
    return jnp.take_along_axis(ends, order[..., None], axis=-2)


def region_mass(mixture: "Mixture", y: Float[Array, "*batch 1"]) -> Float[Array, "*batch"]:
    """Return the probability of the smallest region that holds y."""
    mass = masses(mixture)
    total = jnp.sum(mass, axis=0)
    smooth = _smooth(mixture)
    found = total + (1 - total) * smooth._turning(type(smooth)._region_mass, y)
    for value, own in zip(mixture.family.atoms, mass, strict=True):
        larger = jnp.sum(jnp.where(mass >= own[None], mass, 0.0), axis=0)
        found = jnp.where(y[..., 0] == value, larger, found)
    return jnp.clip(found, 0.0, 1.0)


def _steps(mixture: "Mixture", value: float) -> tuple[Array, Array]:
    """Return the distribution function before a value and at it."""
    at = jnp.full((*mixture.batch_shape, 1), value, mixture.logits.dtype)
    return mixture._before(at), mixture._at(at)


def _smooth(mixture: "Mixture") -> Any:
    """Return the mixture without its atoms."""
    log_rest, params = mixture._per_component(mixture.family.without_atoms)
    return type(mixture)(mixture.log_weights + log_rest, params, mixture.family.smooth)
