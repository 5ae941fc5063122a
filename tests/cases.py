"""What exists: one entry per family and per objective. The laws run over these tables."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from ngem._types import LocationScale
from ngem.families import AbstractFamily, DiagonalGaussian, FullGaussian, Logistic
from ngem.mixture import Mixture


class FamilyCase(NamedTuple):
    """A family with scipy's account of it."""

    family: AbstractFamily
    dim: int
    scipy_logpdf: object  # (params as numpy, y) -> number
    scipy_1d: object  # (loc, scale) -> frozen scipy distribution of a one-dimensional component


FAMILIES = {
    "diag": FamilyCase(
        DiagonalGaussian(),
        3,
        lambda p, y: stats.norm(p.mean, p.scale).logpdf(y).sum(),
        stats.norm,
    ),
    "full": FamilyCase(
        FullGaussian(),
        3,
        lambda p, y: stats.multivariate_normal(p.mean, p.scale @ p.scale.T).logpdf(y),
        stats.norm,
    ),
    "logistic": FamilyCase(
        Logistic(),
        3,
        lambda p, y: stats.logistic(p.mean, p.scale).logpdf(y).sum(),
        stats.logistic,
    ),
}


@partial(jax.jit, static_argnums=(0, 1, 3, 4))
def random_params(family: AbstractFamily, dim: int, key, shape=(), dtype=jnp.float64):
    """Return parameters with leading axes `shape`."""
    raw = 0.7 * jax.random.normal(key, (*shape, family.num_raw(dim)), dtype)
    constrain = lambda row: family.constrain(row, dim)  # noqa: E731
    for _ in shape:
        constrain = jax.vmap(constrain)
    return constrain(raw)


@partial(jax.jit, static_argnums=0, static_argnames=("batch", "comp", "dim", "dtype"))
def random_mixture(family, key, *, batch=(), comp=3, dim=2, dtype=jnp.float64) -> Mixture:
    """Return a mixture with well-spread weights and overlapping components."""
    logits_key, params_key = jax.random.split(key)
    logits = jax.random.normal(logits_key, (*batch, comp), dtype)
    return Mixture(logits, random_params(family, dim, params_key, (*batch, comp), dtype), family)


def flat(params: LocationScale) -> np.ndarray:
    """Return the free parameters of one component as a vector: mean, then (the lower) scale."""
    scale = np.asarray(params.scale)
    if scale.ndim == 2:
        scale = scale[np.tril_indices(scale.shape[0])]
    return np.concatenate([np.asarray(params.mean), scale])


def unflat(vector, dim: int, *, full: bool) -> LocationScale:
    """Return parameters from the vector that `flat` makes."""
    if not full:
        return LocationScale(vector[:dim], vector[dim:])
    rows, cols = np.tril_indices(dim)
    scale = jnp.zeros((dim, dim), vector.dtype).at[rows, cols].set(vector[dim:])
    return LocationScale(vector[:dim], scale)
