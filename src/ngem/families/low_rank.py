"""The Gaussian whose covariance is a diagonal plus a few factors, for many targets."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._types import Power
from .base import AbstractFamily
from .diagonal import FEW_CONDITIONS, LARGE_DIM, gaussian_mean_distance
from .powers import power_of

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)

#: The elimination takes one step for each factor, all in one program.
_LARGEST_RANK = 64


class MeanFactors(NamedTuple):
    """A mean, the scale of what is independent, and factors, or gradients with respect to them."""

    mean: Float[Array, "..."]
    scale: Float[Array, "..."]
    factors: Float[Array, "..."]


@dataclass(frozen=True)
class LowRankGaussian(AbstractFamily):
    """N(mean, diag(scale^2) + W W^T), with W = `factors` of shape (dim, rank).

    It is the distribution of mean + W z + scale e with independent standard normal z and e: factor
    analysis. Nothing here has dim x dim entries. With V = W / scale all inverses are those of
    I + V^T V, of size rank (Woodbury), so work and memory grow as dim rank (and rank^2).

    Fisher information: see `fisher_solve`. Inside, factors are rows (rank, dim), in which order
    raw outputs hold them too: vector instructions need a long last axis.

    Attributes:
        rank: Number of factors.
    """

    names: ClassVar[tuple[str, str]] = ("gaussian", "low-rank")
    covariance_options: ClassVar[tuple[str, ...]] = ("rank",)
    has_crps: ClassVar[bool] = True

    rank: int | float = 4  # options are read as floats

    def __post_init__(self) -> None:
        if self.rank not in range(1, _LARGEST_RANK + 1):
            raise ValueError(
                f"rank of covariance 'low-rank' must be a whole number from 1 to {_LARGEST_RANK}, "
                f"got {self.rank!r}; for example low-rank(4)."
            )
        object.__setattr__(self, "rank", int(self.rank))

    def num_raw(self, dim: int) -> int:
        return dim * (2 + int(self.rank))

    def constrain(self, raw: Float[Array, " raw"], dim: int) -> MeanFactors:
        rank = int(self.rank)
        mean, raw_scale, factors = jax.lax.split(raw, (dim, dim, dim * rank))
        return MeanFactors(mean, self.positive(raw_scale), factors.reshape(rank, dim).T)

    def unconstrain(self, params: MeanFactors) -> Float[Array, " raw"]:
        return jnp.concatenate(
            [params.mean, self.raw_positive(params.scale), params.factors.T.ravel()]
        )

    def log_prob(self, params: MeanFactors, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """Return the log density.

        The quadratic form is the smallest |e - V m|^2 + |m|^2. As a sum of squares it loses no
        digits where factors are much larger than scales; |e|^2 - |root V^T e|^2 would.
        """
        loadings, root = _standardized(params)
        residual = (y - params.mean) / params.scale
        common = (root @ (loadings @ residual)) @ root
        own = residual - common @ loadings
        log_det = jnp.sum(jnp.log(params.scale)) - jnp.sum(jnp.log(jnp.diagonal(root)))
        squares = jnp.sum(own**2) + jnp.sum(common**2)
        return -0.5 * squares - log_det - residual.shape[0] * _LOG_SQRT_2PI

    def log_prob_by_condition(
        self,
        params: MeanFactors,
        y: Float[Array, "batch dim"],
        condition: Int[Array, " batch"],
    ) -> Float[Array, "batch comp"]:
        """Return the log density of each target under each component of its condition.

        With many targets and few conditions, matrix products give the densities of all targets
        under all conditions, as for the diagonal Gaussian.
        """
        conditions, _, dim = params.mean.shape
        if dim < LARGE_DIM or conditions > FEW_CONDITIONS:
            return super().log_prob_by_condition(params, y, condition)
        center = stop_gradient(jnp.mean(params.mean, axis=(0, 1)))
        precision, residual = params.scale**-2, y - center[None]
        offset = params.mean - center[None, None]
        root, rotated = jax.vmap(jax.vmap(_rotated))(params.factors, precision)
        product = partial(jnp.tensordot, axes=(1, 2), precision=jax.lax.Precision.HIGHEST)
        squares = product(residual**2, precision) - 2 * product(residual, offset * precision)
        own = jnp.sum(offset**2 * precision + 2 * jnp.log(params.scale), axis=-1)
        log_det = 2 * jnp.sum(jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)), axis=-1)
        at_offset = jnp.sum(offset[:, :, None] * rotated, axis=-1)
        common = product(residual, rotated, axes=(1, 3)) - at_offset[None]
        table = squares + (own - log_det)[None] - jnp.sum(common**2, axis=-1)
        picked = jnp.take_along_axis(table, condition[:, None, None], axis=1)[:, 0]
        return -0.5 * picked - dim * _LOG_SQRT_2PI

    def fisher_solve(
        self, params: MeanFactors, grad: MeanFactors, power: Power, coordinates: str = "scale"
    ) -> MeanFactors:
        """Return the gradient preconditioned by a power of an inverse metric.

        The metric is C^-1 for the mean and for each factor, with the covariance C, and 2/scale^2
        for the scale. It is the Fisher information exactly for the mean, whose information has no
        cross terms. For factors and scales it is an upper bound: their information is at most twice
        the metric for the factors and at most the metric for the scales. It is not their
        information, because that is singular (turned factors are the same density, and factors at
        zero have no information at all).

        A fractional power acts on standard deviations as such and on the correlation by
        interpolation with the identity, as for `FullGaussian`.
        """
        solve = partial(self._solve, params, power=power, coordinates=coordinates)
        if isinstance(power, int | float):
            return solve(grad) if power else grad
        return jax.lax.cond(power == 0, lambda grad: grad, solve, grad)

    def _solve(
        self, params: MeanFactors, grad: MeanFactors, power: Power, coordinates: str
    ) -> MeanFactors:
        deviation = jnp.sqrt(self.variance(params))
        stretch = power_of(deviation, power)[None]
        factors = params.factors.T / deviation[None]
        strength = jnp.asarray(power, deviation.dtype)
        plain = 1 - strength + strength * (params.scale / deviation)[None] ** 2
        moved = stretch * jnp.concatenate([grad.mean[None], grad.factors.T])
        moved = stretch * (plain * moved + strength * ((moved @ factors.T) @ factors))
        for_scale = jnp.exp2(-strength)
        if coordinates == "scale":
            for_scale = for_scale * power_of(params.scale, 2 * power)
        elif coordinates == "variance":
            for_scale = for_scale * power_of(jnp.minimum(params.scale, 1.0), 4 * power)
        return MeanFactors(moved[0], grad.scale * for_scale, moved[1:].T)

    def raw_fisher_diagonal(self, params: MeanFactors) -> Float[Array, " raw"]:
        """Return the diagonal of F in raw outputs.

        With Q the inverse of the covariance it is Q_ii for a mean, 2 (Q_ii scale_i)^2 for a scale,
        and (Q w)_i^2 + Q_ii w^T Q w for an entry i of a factor w.
        """
        loadings, root = _standardized(params)
        rotated = root @ loadings
        inverse = (1 - jnp.sum(rotated**2, axis=0)) / params.scale**2
        solved = (root.T @ rotated) / params.scale[None]  # rows of Q W
        lengths = 1 - jnp.sum(root**2, axis=0)  # w^T Q w
        slope = self.positive_slope(params.scale)
        return jnp.concatenate(
            [
                inverse,
                2 * (inverse * params.scale * slope) ** 2,
                (solved**2 + lengths[:, None] * inverse[None]).ravel(),
            ]
        )

    def sample(self, params: MeanFactors, key: PRNGKeyArray) -> Float[Array, " dim"]:
        dim, rank = params.factors.shape
        noise = jax.random.normal(key, (dim + rank,), params.mean.dtype)
        own, common = jax.lax.split(noise, (dim, rank))
        return params.mean + params.scale * own + params.factors @ common

    def mean(self, params: MeanFactors) -> Float[Array, " dim"]:
        return params.mean

    def variance(self, params: MeanFactors) -> Float[Array, " dim"]:
        return params.scale**2 + jnp.sum(params.factors**2, axis=-1)

    def covariance(self, params: MeanFactors) -> Float[Array, "dim dim"]:
        return jnp.diag(params.scale**2) + params.factors @ params.factors.T

    def from_moments(
        self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]
    ) -> MeanFactors:
        factors = jnp.zeros((*mean.shape, int(self.rank)), mean.dtype)
        return MeanFactors(mean, jnp.sqrt(variance), factors)

    def marginal(self, params: MeanFactors, dims: tuple[int, ...]) -> MeanFactors:
        return jax.tree.map(lambda leaf: leaf[jnp.array(dims)], params)

    def condition(
        self, params: MeanFactors, dims: tuple[int, ...], y: Float[Array, " given"]
    ) -> MeanFactors:
        """Return the Gaussian of the other coordinates.

        Given some coordinates, z is Gaussian with covariance (I + V^T V)^-1 = root^T root and mean
        root^T root V^T e, V and e those of the given coordinates. So W becomes W root^T.
        """
        rest = tuple(d for d in range(params.mean.shape[0]) if d not in dims)
        given, other = self.marginal(params, dims), self.marginal(params, rest)
        loadings, root = _standardized(given)
        common = root @ (loadings @ ((y - given.mean) / given.scale))
        factors = other.factors @ root.T
        return MeanFactors(other.mean + factors @ common, other.scale, factors)

    def rescale(self, params: MeanFactors, location: Any, scale: Any) -> MeanFactors:
        return MeanFactors(
            location + scale * params.mean,
            scale * params.scale,
            scale[..., None] * params.factors,
        )

    def cdf(self, params: MeanFactors, y: Float[Array, " 1"]) -> Float[Array, ""]:
        return jax.scipy.special.ndtr((y[0] - params.mean[0]) / self._std(params))

    def quantile(self, params: MeanFactors, q: Float[Array, ""]) -> Float[Array, ""]:
        return params.mean[0] + self._std(params) * jax.scipy.special.ndtri(q)

    def mean_distance(self, params: MeanFactors, y: Float[Array, ""]) -> Float[Array, ""]:
        return gaussian_mean_distance(y - params.mean[0], self._std(params))

    def mean_distance_between(self, params: MeanFactors, other: MeanFactors) -> Float[Array, ""]:
        scale = jnp.hypot(self._std(params), self._std(other))
        return gaussian_mean_distance(params.mean[0] - other.mean[0], scale)

    def _std(self, params: MeanFactors) -> Float[Array, ""]:
        """Return the standard deviation of a one-dimensional component."""
        return jnp.sqrt(self.variance(params)[0])

    def scales(self, params: MeanFactors) -> Float[Array, " dim"]:
        return params.scale

    def widen(self, params: MeanFactors, smallest: Float[Array, " dim"]) -> MeanFactors:
        return params._replace(scale=jnp.maximum(params.scale, smallest))

    def bound(
        self, params: MeanFactors, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> MeanFactors:
        shrink = jnp.minimum(1.0, (high - low) / jnp.sqrt(self.variance(params)))
        return MeanFactors(
            jnp.clip(params.mean, low, high),
            shrink * params.scale,
            shrink[:, None] * params.factors,
        )


def _standardized(
    params: MeanFactors,
) -> tuple[Float[Array, "rank dim"], Float[Array, "rank rank"]]:
    """Return the rows V^T of factors in units of scales, and the root of (I + V^T V)^-1."""
    loadings = params.factors.T / params.scale[None]
    return loadings, _inverse_root(_gram(loadings, loadings))


def _rotated(
    factors: Float[Array, "dim rank"], precision: Float[Array, " dim"]
) -> tuple[Float[Array, "rank rank"], Float[Array, "rank dim"]]:
    """Return the root of (I + V^T V)^-1, and V^T / scale turned by it."""
    weighted = factors.T * precision[None]
    root = _inverse_root(_gram(weighted, factors.T))
    return root, root @ weighted


def _gram(left: Float[Array, "rank dim"], right: Float[Array, "rank dim"]) -> Array:
    """Return I + left right^T."""
    product = jnp.matmul(left, right.T, precision=jax.lax.Precision.HIGHEST)
    return jnp.eye(left.shape[0], dtype=left.dtype) + product


def _inverse_root(gram: Float[Array, "rank rank"]) -> Float[Array, "rank rank"]:
    """Return the inverse of the lower Cholesky factor of I + V^T V, by elimination.

    Not LAPACK, whose batched calls are slow for small matrices, and can deadlock under vmap within
    scan. All pivots are at least 1, because the matrix is at least I: what rounding makes of them
    is kept there.
    """
    rank = gram.shape[0]
    rows = jnp.concatenate([gram, jnp.eye(rank, dtype=gram.dtype)], axis=1)
    index = jnp.arange(rank)
    for step in range(rank):
        pivot = rows[step] / jnp.sqrt(jnp.maximum(rows[step, step], 1.0))
        below = jnp.where(index > step, pivot[:rank], 0.0)  # symmetric: a column of the factor
        rows = jnp.where((index == step)[:, None], pivot[None], rows - below[:, None] * pivot[None])
    return rows[:, rank:]
