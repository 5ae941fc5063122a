"""What exists: one entry per family and per extreme. The laws run over these tables."""

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


#: Numbers of components and dimensions, small and large.
SHAPES = [(1, 1), (512, 1), (1, 4096), (8, 512)]

#: From logits, mean, scale and y of a diagonal mixture, batch 8, 3 components, to what is hard.
EXTREMES = {
    "logits 1e4": lambda a: ([1e4, -1e4, 0.0], a[1], a[2], a[3]),
    "tiny scales": lambda a: (a[0], a[1], 1e-12 * np.ones_like(a[2]), a[1][:, 0] + 1e-4),
    "huge scales": lambda a: (a[0], a[1], 1e12 * np.ones_like(a[2]), a[3] + 1e20),
    "mixed scales": lambda a: (
        a[0],
        a[1],
        np.full_like(a[2], 1.0) * [[[1e-12], [1], [1e12]]],
        a[3],
    ),
    "targets 1e8 scales away": lambda a: (a[0], a[1], a[2], a[1][:, 0] + 1e8 * a[2][:, 0]),
    "targets 1e8 largest scales away": lambda a: (
        a[0],
        a[1],
        np.full_like(a[2], 1.0) * [[[1e-12], [1], [1e12]]],
        a[3] + 1e20,
    ),
    "underflowing responsibilities": lambda a: (
        a[0],
        np.zeros_like(a[1]) + np.array([[[-1e3], [0], [1e3]]]),
        a[2],
        a[3],
    ),
    "hopeless component takes all": lambda a: (
        [0.0, 0.0, -1e4],
        np.zeros_like(a[1]) + np.array([[[-1e6], [1e6], [0]]]),
        np.ones_like(a[2]),
        0.5 * np.ones_like(a[3]),
    ),
}


def extreme_inputs(name: str, start: list[np.ndarray]) -> list[np.ndarray]:
    """Return logits, mean, scale and y at an extreme, from those of an ordinary mixture."""
    logits, *rest = EXTREMES[name](start)
    logits = np.broadcast_to(np.asarray(logits, float), start[0].shape)
    return [np.asarray(leaf, float) for leaf in (logits, *rest)]
