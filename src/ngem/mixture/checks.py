"""Checks of arrays that a user hands in, which may be traced: expected, got, try."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from .._errors import check_fraction, check_target_shape, describe


def as_array(name: str, value: Any) -> jax.Array:
    """Return numbers as an array, refusing what holds none."""
    try:
        # JAX takes text for the name of a dtype.
        if not any(isinstance(leaf, str | bytes) for leaf in jax.tree.leaves(value)):
            # jnp.asarray compiles a program, for which a first prediction would wait.
            return jax.device_put(value) if isinstance(value, np.ndarray) else jnp.asarray(value)
        cause = None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        cause = error
    raise TypeError(
        f"{name} must hold real floating-point numbers, got {type(value).__name__} that is no "
        f"array of numbers; try {name} = jnp.asarray(values, float)."
    ) from cause


def as_float_arrays(**arrays: Any) -> list[jax.Array]:
    """Return the arguments as arrays of one floating dtype, at least single precision."""
    converted = {name: as_array(name, value) for name, value in arrays.items()}
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
    check_known_finite(mean=mean, scale=scale)
    if scale.shape == full and is_concrete(scale) and np.any(np.triu(np.asarray(scale), 1)):
        raise ValueError(
            "scale must hold lower Cholesky factors, got entries above the diagonal; try "
            "jnp.linalg.cholesky(covariance)."
        )


def as_targets(name: str, value: Any, batch: tuple[int, ...], dim: int, dtype: Any) -> jax.Array:
    """Return targets as `shape_targets` gives them; whole numbers become floats of a dtype."""
    array = as_array(name, value)
    if jnp.issubdtype(array.dtype, jnp.integer):
        array = array.astype(dtype)
    (array,) = as_float_arrays(**{name: array})
    return shape_targets(name, array, batch, dim)


def shape_targets(name: str, y: jax.Array, batch: tuple[int, ...], dim: int) -> jax.Array:
    """Return targets with the axes (*more, *batch, dim), refusing other shapes."""
    lacks_last_axis = check_target_shape(name, y.shape, batch, dim, f"{name}[..., None]")
    return y[..., None] if lacks_last_axis else y


def as_probability(name: str, value: Any, dtype: Any) -> jax.Array:
    """Return a number or an array of numbers in [0, 1], as far as their values are known."""
    array = as_array(name, value)
    if not jnp.issubdtype(array.dtype, jnp.floating) and not jnp.issubdtype(
        array.dtype, jnp.integer
    ):
        raise TypeError(
            f"{name} must hold real floating-point numbers, got dtype {array.dtype}; try 0.5."
        )
    check_known_fraction(name, value)
    return array.astype(dtype)


def check_weights(rows: tuple[int, ...], weights: jax.Array) -> None:
    """Refuse sample weights that do not fit the rows or cannot be averaged with."""
    if weights.shape != rows:
        raise ValueError(
            f"weights must have one entry per row, shape {rows}, got {weights.shape}; try "
            f"jnp.broadcast_to(weights, {rows})."
        )
    if not is_concrete(weights):
        return
    values = np.asarray(weights)
    if not (np.all(values >= 0) and np.any(values) and np.all(np.isfinite(values))):
        raise ValueError(
            "weights must be finite and non-negative with at least one positive, got "
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


def check_known_finite(**arrays: jax.Array) -> None:
    """Refuse NaN and infinity where the values are known; `zero_or_nan` is for others."""
    for name, value in arrays.items():
        if is_concrete(value) and not np.all(np.isfinite(np.asarray(value))):
            raise ValueError(
                f"{name} must hold finite numbers, got {describe(value)}; look for the step in "
                "which the network's output was last finite."
            )


def zero_or_nan(tree: Any, batch: tuple[int, ...]) -> jax.Array:
    """Return 0 for each row whose parameters are finite, and NaN for the others.

    A component at infinity has no weight in a likelihood, which would then be finite, but its
    gradient is NaN. With this added the likelihood is NaN as well.

    Args:
        tree: Arrays that begin with the axes of rows.
        batch: Shape of the rows.
    """
    sums = [
        jnp.sum(jax.lax.stop_gradient(leaf), axis=tuple(range(len(batch), leaf.ndim)))
        for leaf in jax.tree.leaves(tree)
    ]
    return 0 * sum(sums[1:], sums[0])


def only_between(values: jax.Array, largest: float) -> jax.Array:
    """Return values, with NaN for those that are not between 0 and `largest`."""
    return jnp.where((values >= 0) & (values <= largest), values, jnp.nan)


def check_key(key: Any) -> Any:
    """Return a key of JAX's, refusing what is none."""
    if not isinstance(key, jax.Array) or not _is_key(key):
        raise TypeError(
            f"key must be a key of JAX's, got {type(key).__name__}; try jax.random.key(0)."
        )
    return key


def _is_key(array: jax.Array) -> bool:
    """Return whether an array is one key, of the new kind or of the old."""
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return array.ndim == 0
    return array.dtype == jnp.uint32 and array.ndim == 1


def as_shape(shape: Any) -> tuple[int, ...]:
    """Return the axes of draws."""
    sizes = _integers(shape)
    if sizes is None or min(sizes, default=0) < 0:
        raise TypeError(
            f"shape must be a sequence of sizes, got {shape!r}; for 10 draws of each row try (10,)."
        )
    return sizes


def as_columns(name: str, columns: Any, dim: int) -> tuple[int, ...]:
    """Return columns of a mixture by their numbers from 0 on; one may stand by itself."""
    picked = _integers([columns] if isinstance(columns, int | np.integer) else columns)
    if not picked or not -dim <= min(picked) <= max(picked) < dim:
        raise ValueError(
            f"{name} must be column indices below {dim}, got {columns!r}; columns are numbered "
            "from 0."
        )
    return tuple(index % dim for index in picked)


def _integers(values: Any) -> tuple[int, ...] | None:
    """Return a sequence of whole numbers; None for anything else."""
    is_array = isinstance(values, np.ndarray) and values.ndim == 1
    is_listed = isinstance(values, Sequence) and not isinstance(values, str | bytes)
    is_whole = (is_array or is_listed) and all(
        isinstance(value, int | np.integer) for value in values
    )
    return tuple(map(int, values)) if is_whole else None


def check_one_dimensional(what: str, dim: int) -> None:
    """Refuse a univariate functional of a multivariate mixture."""
    if dim != 1:
        raise ValueError(
            f"{what} needs a one-dimensional mixture, got one over {dim} dimensions; take a "
            f"marginal first: mixture.marginal(0).{what}(...)."
        )


def as_power(power: Any, dtype: Any) -> Any:
    """Return a strength: a number as it is, one that JAX may trace as a scalar; None for none."""
    if power is None:
        return None
    array = as_probability("power", power, dtype)
    if array.ndim:
        raise ValueError(
            f"power must be a number or an array of shape (), got {array.shape}; one strength "
            "holds for all rows, try power.mean()."
        )
    return float(power) if isinstance(power, float | int) else array


def check_known_fraction(what: str, value: Any) -> None:
    """Refuse a number outside [0, 1] where its value is known now."""
    if is_concrete(value):
        check_fraction(what, value)


def is_concrete(value: Any) -> bool:
    """Tell whether the numbers are known now, rather than traced by jit, vmap or grad."""
    return not isinstance(value, jax.core.Tracer)
