"""The Gaussian with a full covariance, through its lower Cholesky factor."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Power
from .base import AbstractFamily
from .diagonal import gaussian_mean_distance
from .powers import power_of

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)

# Up to this many dimensions the substitution is unrolled into elementwise operations. That is
# faster than a batched LAPACK call for small blocks. The call also deadlocks on the CPU under vmap
# within scan, with the JAX versions we support.
_UNROLLED_DIM = 24


class MeanCholesky(NamedTuple):
    """A mean and the lower Cholesky factor of a covariance, or gradients with respect to them."""

    mean: Float[Array, "..."]
    scale: Float[Array, "..."]


@dataclass(frozen=True)
class AbstractCholeskyGaussian(AbstractFamily):
    """N(mean, L L^T), with L = `scale` lower triangular and a positive diagonal.

    With A = L^-1 dL the squared Fisher length of a step dL is 2 sum_i A_ii^2 + sum_(i>j) A_ij^2,
    so the metric is diagonal in A and its inverse needs products with L only: no solve at all.
    """

    has_crps: ClassVar[bool] = True

    def num_raw(self, dim: int) -> int:
        return dim + dim * (dim + 1) // 2

    def constrain(self, raw: Float[Array, " raw"], dim: int) -> MeanCholesky:
        rows, cols = jnp.tril_indices(dim, -1)
        mean, raw_diagonal, below = jax.lax.split(raw, (dim, dim, len(rows)))
        diagonal = jnp.diag(self.positive(raw_diagonal))
        return MeanCholesky(mean, diagonal.at[rows, cols].set(below))

    def unconstrain(self, params: MeanCholesky) -> Float[Array, " raw"]:
        rows, cols = jnp.tril_indices(params.mean.shape[0], -1)
        diagonal = self.raw_positive(jnp.diagonal(params.scale))
        return jnp.concatenate([params.mean, diagonal, params.scale[rows, cols]])

    def log_prob(self, params: MeanCholesky, y: Float[Array, " dim"]) -> Float[Array, ""]:
        z = _forward_substitution(params.scale, y - params.mean)
        log_det = jnp.sum(jnp.log(jnp.diagonal(params.scale)))
        return -0.5 * jnp.sum(z**2) - log_det - z.shape[0] * _LOG_SQRT_2PI

    def fisher_solve(
        self, params: MeanCholesky, grad: MeanCholesky, power: Power, coordinates: str = "scale"
    ) -> MeanCholesky:
        """Return the gradient preconditioned by F^-power, exactly at power 0 and 1."""
        solve = partial(_fractional_solve, params, power=power, coordinates=coordinates)
        if isinstance(power, int | float):
            return solve(grad)
        # A schedule ends at 0, where the products would be work for nothing.
        return jax.lax.cond(power == 0, _lower, solve, grad)

    def raw_fisher_diagonal(self, params: MeanCholesky) -> Float[Array, " raw"]:
        """Return the diagonal of F in raw outputs.

        A step dL = e_i e_j^T has A = L^-1 dL with column j equal to column i of L^-1. Its squared
        length is the squared norm of that column, with the entry on the diagonal counted twice.
        """
        dim = params.mean.shape[0]
        columns = jax.vmap(partial(_forward_substitution, params.scale), out_axes=-1)
        inverse = columns(jnp.eye(dim, dtype=params.scale.dtype))
        norms = jnp.sum(inverse**2, axis=0)
        own = jnp.diagonal(inverse) ** 2
        slope = self.positive_slope(jnp.diagonal(params.scale))
        rows, _ = jnp.tril_indices(dim, -1)
        return jnp.concatenate([norms, (norms + own) * slope**2, norms[rows]])

    def sample(self, params: MeanCholesky, key: PRNGKeyArray) -> Float[Array, " dim"]:
        noise = jax.random.normal(key, params.mean.shape, params.mean.dtype)
        return params.mean + params.scale @ noise

    def mean(self, params: MeanCholesky) -> Float[Array, " dim"]:
        return params.mean

    def variance(self, params: MeanCholesky) -> Float[Array, " dim"]:
        return jnp.sum(params.scale**2, axis=-1)

    def covariance(self, params: MeanCholesky) -> Float[Array, "dim dim"]:
        return params.scale @ params.scale.T

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> MeanCholesky:
        return MeanCholesky(mean, jnp.diag(jnp.sqrt(variance)))

    def marginal(self, params: MeanCholesky, dims: tuple[int, ...]) -> MeanCholesky:
        rows = params.scale[jnp.array(dims)]
        if len(dims) == 1:
            factor = jnp.linalg.norm(rows, axis=-1, keepdims=True)
        else:
            factor = jnp.linalg.cholesky(rows @ rows.T)
        return MeanCholesky(params.mean[jnp.array(dims)], factor)

    def condition(
        self, params: MeanCholesky, dims: tuple[int, ...], y: Float[Array, " given"]
    ) -> MeanCholesky:
        """Return the Gaussian of the other coordinates.

        With the given coordinates first, the factor is [[A, 0], [B, C]]. The mean moves by
        B A^-1 (y - mean), and C is the factor that is left.
        """
        count, dim = len(dims), params.mean.shape[0]
        order = (*dims, *(d for d in range(dim) if d not in dims))
        mean, factor = self.marginal(params, order)
        z = _forward_substitution(factor[:count, :count], y - mean[:count])
        return MeanCholesky(mean[count:] + factor[count:, :count] @ z, factor[count:, count:])

    def rescale(self, params: MeanCholesky, location: Any, scale: Any) -> MeanCholesky:
        # The rows of the factor belong to the columns of y.
        return MeanCholesky(location + scale * params.mean, scale[..., None] * params.scale)

    def cdf(self, params: MeanCholesky, y: Float[Array, " 1"]) -> Float[Array, ""]:
        return jax.scipy.special.ndtr((y - params.mean) / params.scale[0])[0]

    def quantile(self, params: MeanCholesky, q: Float[Array, ""]) -> Float[Array, ""]:
        return params.mean[0] + params.scale[0, 0] * jax.scipy.special.ndtri(q)

    def mean_distance(self, params: MeanCholesky, y: Float[Array, ""]) -> Float[Array, ""]:
        return gaussian_mean_distance(y - params.mean[0], params.scale[0, 0])

    def mean_distance_between(self, params: MeanCholesky, other: MeanCholesky) -> Float[Array, ""]:
        scale = jnp.hypot(params.scale[0, 0], other.scale[0, 0])
        return gaussian_mean_distance(params.mean[0] - other.mean[0], scale)

    def scales(self, params: MeanCholesky) -> Float[Array, " dim"]:
        return jnp.diagonal(params.scale)

    def widen(self, params: MeanCholesky, smallest: Float[Array, " dim"]) -> MeanCholesky:
        missing = jnp.maximum(smallest - jnp.diagonal(params.scale), 0.0)
        return MeanCholesky(params.mean, params.scale + jnp.diag(missing))

    def bound(
        self, params: MeanCholesky, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> MeanCholesky:
        std = jnp.linalg.norm(params.scale, axis=-1)
        shrink = jnp.minimum(1.0, (high - low) / std)
        return MeanCholesky(jnp.clip(params.mean, low, high), shrink[:, None] * params.scale)


@dataclass(frozen=True)
class FullGaussian(AbstractCholeskyGaussian):
    """N(mean, L L^T), each component with a factor L of its own."""

    names: ClassVar[tuple[str, str]] = ("gaussian", "full")


def _forward_substitution(
    factor: Float[Array, "dim dim"], residual: Float[Array, " dim"]
) -> Float[Array, " dim"]:
    """Return L^-1 residual."""
    dim = residual.shape[0]
    if dim > _UNROLLED_DIM:
        return jax.scipy.linalg.solve_triangular(factor, residual, lower=True)
    solved: list[Array] = []
    for row in range(dim):
        known = sum(
            (factor[row, col] * z for col, z in enumerate(solved)),
            start=jnp.zeros_like(residual[0]),
        )
        solved.append((residual[row] - known) / factor[row, row])
    return jnp.stack(solved)


def _fractional_solve(
    params: MeanCholesky, grad: MeanCholesky, power: Power, coordinates: str
) -> MeanCholesky:
    """Return the gradient preconditioned by F^-power, exactly at power 0 and 1.

    With S the standard deviations and L = S C, the inverse metrics are S C C^T S for the mean
    and S C phi(tril(C^T S g)) for the factor, phi halving the diagonal. Between 0 and 1 the
    power acts on S (and on the factor 2) as such and on the correlation by interpolation with
    the identity: symmetric, positive definite, equivariant to rescaling targets, and equal to
    F^-power wherever the covariance is diagonal, without an eigendecomposition.

    In coordinates of the log scale, a network's raw outputs, the factor's diagonal changes by its
    own value J per unit: the metric is J F J, and its inverse's power is taken as
    P = J^-power F^-power J^-power. Those of the variance slow narrow scales down, by a factor A on
    both sides of P: A P A is symmetric and positive definite in raw outputs too, so that no
    expected step leads uphill. A factor on one side would lead there, because the metric couples
    the diagonal to the entries below it.
    """
    deviation = jnp.linalg.norm(params.scale, axis=-1)
    factor = params.scale / deviation[:, None]
    stretch = power_of(deviation, power)
    strength = jnp.asarray(power, deviation.dtype)
    mean = stretch * grad.mean
    mean = (1 - strength) * mean + strength * (factor @ (factor.T @ mean))
    halve = jnp.exp2(-strength / 2)
    plain = jnp.tril(grad.scale)
    own = jnp.diagonal(params.scale)[:, None]
    slow = power_of(jnp.minimum(own, 1.0), 2 * power if coordinates == "variance" else 0)
    scale = plain
    if coordinates != "scale":
        scale = _times_diagonal(plain, slow * power_of(own, 1 - power))
    scale = _times_diagonal(stretch[:, None] * scale, halve)
    scale = (1 - strength) * scale + strength * _correlated(factor, scale)
    scale = stretch[:, None] * _times_diagonal(scale, halve)
    if coordinates != "scale":
        scale = _times_diagonal(scale, slow / power_of(own, 1 + power))
        scale = jnp.where(strength == 0, plain, scale)  # no rounding there
    return MeanCholesky(stretch * mean, scale)


def _lower(grad: MeanCholesky) -> MeanCholesky:
    return MeanCholesky(grad.mean, jnp.tril(grad.scale))


def _times_diagonal(
    matrix: Float[Array, "dim dim"], value: Float[Array, "..."]
) -> Float[Array, "dim dim"]:
    return jnp.where(jnp.eye(matrix.shape[0], dtype=bool), value * matrix, matrix)


def _correlated(
    factor: Float[Array, "dim dim"], grad: Float[Array, "dim dim"]
) -> Float[Array, "dim dim"]:
    """Return C phi(tril(C^T grad)), normalized to be the identity at C = I."""
    root = jnp.asarray(math.sqrt(2), grad.dtype)
    inner = jnp.tril(factor.T @ _times_diagonal(grad, root))
    return _times_diagonal(factor @ _times_diagonal(inner, 0.5 * jnp.ones((), grad.dtype)), root)
