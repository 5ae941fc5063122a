"""Checks of arrays that a user hands in, which may be traced: expected, got, try."""

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from .._errors import check_fraction, describe


def as_float_arrays(**arrays: Any) -> list[jax.Array]:
    """Return the arguments as arrays of one floating dtype, at least single precision."""
    converted = {name: jnp.asarray(value) for name, value in arrays.items()}
    for name, value in converted.items():
        if not jnp.issubdtype(value.dtype, jnp.floating):
            raise TypeError(
                f"{name} must hold real floating-point numbers, got dtype {value.dtype}; "
                f"try {name}.astype(jnp.float32)."
            )
    dtype = widest(jnp.float32, *(value.dtype for value in converted.values()))
    return [value.astype(dtype) for value in converted.values()]


def widest(*dtypes: Any) -> Any:
    """Return the floating dtype with the most bits, whatever JAX's promotion settings are."""
    return max(map(jnp.dtype, dtypes), key=lambda dtype: jnp.finfo(dtype).bits)


def check_mixture(logits: jax.Array, mean: jax.Array, scale: jax.Array) -> None:
    """Refuse mixture parameters whose shapes or signs do not fit together."""
    if logits.ndim < 1 or logits.shape[-1] == 0:
        raise ValueError(
            f"logits must have shape (..., components) with at least one component, got "
            f"{logits.shape}; for a single Gaussian pass logits of shape (..., 1)."
        )
    if mean.ndim < 2 or mean.shape[:-1] != logits.shape or mean.shape[-1] == 0:
        raise ValueError(
            f"mean must have shape (..., components, dim) = {(*logits.shape, 'dim')} to fit logits "
            f"of shape {logits.shape}, got {mean.shape}; for a single target column pass "
            "mean[..., None]."
        )
    full = (*mean.shape, mean.shape[-1])
    if scale.shape not in (mean.shape, full):
        raise ValueError(
            f"scale must have the shape of mean, {mean.shape} (standard deviations), or {full} "
            f"(lower Cholesky factors), got {scale.shape}; to share one scale between dimensions "
            "use jnp.broadcast_to(scale, mean.shape)."
        )
    diagonal = scale if scale.ndim == mean.ndim else jnp.diagonal(scale, axis1=-2, axis2=-1)
    check_positive("scale", diagonal)
    if scale.shape == full and is_concrete(scale) and np.any(np.triu(np.asarray(scale), 1)):
        raise ValueError(
            "scale must hold lower Cholesky factors, got entries above the diagonal; try "
            "jnp.linalg.cholesky(covariance)."
        )


def check_target(batch: tuple[int, ...], dim: int, y: jax.Array) -> tuple[int, ...]:
    """Return the shape of the rows, refusing targets that do not fit a mixture's."""
    if y.ndim < 1 or y.shape[-1] != dim:
        hint = "y[..., None]" if dim == 1 else f"targets with {dim} columns"
        raise ValueError(
            f"y must have shape {(*batch, dim)}, got {y.shape}; for a mixture over {dim} target "
            f"column{'s' if dim > 1 else ''} pass {hint}."
        )
    try:
        rows = np.broadcast_shapes(batch, y.shape[:-1])
    except ValueError:
        raise ValueError(
            f"y must have shape {(*batch, dim)}, got {y.shape}; give one target per row of the "
            "mixture's parameters."
        ) from None
    if 0 in rows:
        raise ValueError(
            f"the batch must hold at least one row, got shapes {(*batch, dim)} and {y.shape}; "
            "skip empty batches, since the mean of no losses is not a number."
        )
    return rows


def check_weights(rows: tuple[int, ...], weights: jax.Array) -> None:
    """Refuse sample weights that do not fit the rows or cannot be averaged with."""
    if weights.shape != rows:
        raise ValueError(
            f"weights must have one entry per row, shape {rows}, got {weights.shape}; try "
            f"jnp.broadcast_to(weights, {rows})."
        )
    if is_concrete(weights) and not (np.all(np.asarray(weights) >= 0) and np.any(weights)):
        raise ValueError(
            "weights must be non-negative with at least one positive, got "
            f"{describe(weights)}; drop the rows that should not count."
        )


def check_positive(name: str, value: jax.Array) -> None:
    """Refuse non-positive numbers where the values are known.

    Under jit or grad the values are not known; there a non-positive scale gives a loss of NaN,
    never a plausible number. A host callback could raise instead, but it would sit in the hot path
    of every step and keep the program out of the compilation cache.
    """
    if is_concrete(value) and not np.all(np.asarray(value) > 0):
        raise ValueError(
            f"{name} must be positive everywhere, got {describe(value)}; map raw network outputs "
            "through jnp.exp or jax.nn.softplus and add a small floor."
        )


def check_one_dimensional(what: str, dim: int) -> None:
    """Refuse a univariate functional of a multivariate mixture."""
    if dim != 1:
        raise ValueError(
            f"{what} needs a one-dimensional mixture, got one over {dim} dimensions; take a "
            f"marginal first: mixture.marginal(0).{what}(...)."
        )


def check_known_fraction(what: str, value: Any) -> None:
    """Refuse a number outside [0, 1] where its value is known now."""
    if is_concrete(value):
        check_fraction(what, value)


def is_concrete(value: Any) -> bool:
    """Tell whether the numbers are known now, rather than traced by jit, vmap or grad."""
    return not isinstance(value, jax.core.Tracer)
