"""Mixtures: weights and components of one family, for any number of rows at once."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .. import _errors
from .._types import LocationScale
from ..families import AbstractFamily, DiagonalGaussian, FullGaussian
from . import checks, univariate
from .blocks import over_blocks, padded

# Where a component can bend the mixture's density, in units of its standard deviation. It reaches
# far out, for what is left there of a wide component may meet a faint one; extrema of the slope
# are added later, so the spacing may be coarse.
_REACH = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 13.0, 17.0, 25.0, 39.0)
_BENDS = (0.0, *_REACH, *(-t for t in _REACH))

# The mass left out on either side when a highest-density region is bracketed; in low precision it
# is one rounding unit, since 1 - 1e-9 would round to 1 and the bracket reach to infinity.
_TAIL = 1e-9

# Rows that one program answers for at a time, where there are very many.
_BLOCK = 32_768


class Mixture(eqx.Module):
    """sum_k weight_k f(y; params_k), equation (2), one pytree for a whole batch of rows.

    What is computed is compiled once per shape, so that a call is one program, whoever calls.

    Attributes:
        logits: Unnormalised log weights, (..., components).
        components: Parameters of the components, leading axes (..., components).
        family: The distribution that the parameters belong to.

    >>> mixture = gaussian_mixture(jnp.zeros(2), jnp.array([[-1.0], [1.0]]), jnp.ones((2, 1)))
    >>> float(mixture.cdf(jnp.array([0.0])))
    0.5
    """

    logits: Float[Array, "*batch comp"]
    components: LocationScale
    family: AbstractFamily = eqx.field(static=True, default=DiagonalGaussian())

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the rows."""
        return self.logits.shape[:-1]

    @property
    def n_components(self) -> int:
        """Number of components."""
        return self.logits.shape[-1]

    @property
    def dim(self) -> int:
        """Number of target columns."""
        return self.components.mean.shape[-1]

    @property
    def log_weights(self) -> Float[Array, "*batch comp"]:
        """Logarithms of the weights, normalised."""
        return jax.nn.log_softmax(self.logits, axis=-1)

    @property
    def weights(self) -> Float[Array, "*batch comp"]:
        """Weights, summing to one."""
        return jax.nn.softmax(self.logits, axis=-1)

    @eqx.filter_jit
    def log_prob(self, y: Float[Array, "*rows dim"]) -> Float[Array, "*rows"]:
        """Return the log density of one target per row, equation (14)."""
        top, joint = log_joint(self.family, self.log_weights, self.components, y)
        return top + jax.nn.logsumexp(joint, axis=-1)

    @eqx.filter_jit
    def responsibilities(self, y: Float[Array, "*rows dim"]) -> Float[Array, "*rows comp"]:
        """Return the posterior probability of each component, equation (15)."""
        _, joint = log_joint(self.family, self.log_weights, self.components, y)
        return jax.nn.softmax(joint, axis=-1)

    @eqx.filter_jit
    def sample(self, key: PRNGKeyArray, shape: Sequence[int] = ()) -> Float[Array, "*draws dim"]:
        """Return independent draws, shape + batch_shape + (dim,)."""
        pick_key, draw_key = jax.random.split(key)
        rows = (*shape, *self.batch_shape)
        picked = jax.random.categorical(pick_key, self.logits, shape=rows)
        chosen = self._select(picked)
        draw = self.family.sample
        for _ in rows:
            draw = jax.vmap(draw)
        return draw(chosen, jax.random.split(draw_key, rows))

    @eqx.filter_jit
    def mean(self) -> Float[Array, "*batch dim"]:
        """Return the expectation of each row."""
        means = self._per_component(self.family.mean)
        return jnp.sum(self.weights[..., None] * means, axis=-2)

    @eqx.filter_jit
    def component_variance(self) -> Float[Array, "*batch comp dim"]:
        """Return each component's variance of each target column."""
        return self._per_component(self.family.variance)

    @eqx.filter_jit
    def variance(self) -> Float[Array, "*batch dim"]:
        """Return the variance of each target column."""
        means = self._per_component(self.family.mean)
        spread = (means - self.mean()[..., None, :]) ** 2
        within = self.component_variance()
        return jnp.sum(self.weights[..., None] * (within + spread), axis=-2)

    @eqx.filter_jit
    def covariance(self) -> Float[Array, "*batch dim dim"]:
        """Return the covariance matrix of each row."""
        offset = self._per_component(self.family.mean) - self.mean()[..., None, :]
        within = self._per_component(self.family.covariance)
        outer = offset[..., :, None] * offset[..., None, :]
        return jnp.sum(self.weights[..., None, None] * (within + outer), axis=-3)

    @eqx.filter_jit
    def weight_entropy(self) -> Float[Array, "*batch"]:
        """Return -sum_k weight_k log weight_k, the paper's measure of collapse."""
        return jnp.sum(jax.scipy.special.entr(self.weights), axis=-1)

    def marginal(self, dims: int | Sequence[int]) -> "Mixture":
        """Return the mixture of some target columns, in the order asked for."""
        picked = (dims,) if isinstance(dims, int) else tuple(dims)
        for index in picked:
            if not -self.dim <= index < self.dim:
                raise ValueError(
                    f"dims must be column indices below {self.dim}, got {index}; columns are "
                    "numbered from 0."
                )
        picked = tuple(index % self.dim for index in picked)
        components = self._per_component(lambda params: self.family.marginal(params, picked))
        return Mixture(self.logits, components, self.family)

    def cdf(self, y: Float[Array, "*rows 1"]) -> Float[Array, "*rows"]:
        """Return P(Y <= y) of a one-dimensional mixture."""
        checks.check_one_dimensional("cdf", self.dim)
        return self._each_row(Mixture._at, y)

    @eqx.filter_jit
    def _at(self, y: Float[Array, "*rows 1"]) -> Float[Array, "*rows"]:
        return self._cdf()(y[..., 0])

    def _cdf(self) -> Callable[[Float[Array, "*rows"]], Float[Array, "*rows"]]:
        """Return the distribution function, ready to be asked many times over."""
        average = self._average(self.family.cdf)
        # Weights may add up to a rounding unit more.
        return lambda x: jnp.minimum(average(x[..., None]), 1)

    def quantile(self, q: float | Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the inverse of `cdf` at q, which broadcasts against the rows.

        Accurate to 1e-6 in probability, differentiable in q and in the parameters. A mixture's
        quantile lies between the least and the greatest of its components' quantiles.
        """
        checks.check_one_dimensional("quantile", self.dim)
        checks.check_known_fraction("q", q)
        level = jnp.asarray(q, self.logits.dtype)
        if level.ndim > 0:
            return self._quantile(level)
        return self._each_row(lambda rows: rows._quantile(level))

    @eqx.filter_jit
    def _quantile(self, q: Float[Array, "..."]) -> Float[Array, "..."]:
        bounds = self._component_quantiles(q)
        return univariate.quantile(
            self._cdf(),
            bounds.min(axis=-1),
            bounds.max(axis=-1),
            jnp.broadcast_to(q, bounds.shape[:-1]),
        )

    def crps(self, y: Float[Array, "*rows 1"]) -> Float[Array, "*rows"]:
        """Return the continuous ranked probability score, E|Y - y| - E|Y - Y'| / 2.

        In closed form, for families whose differences stay in the family (the Gaussian ones).
        """
        checks.check_one_dimensional("crps", self.dim)
        return self._each_row(Mixture._crps, y)

    @eqx.filter_jit
    def _crps(self, y: Float[Array, "*rows 1"]) -> Float[Array, "*rows"]:
        distance = self.family.mean_distance

        def to_target(params: LocationScale, y: Float[Array, " 1"]) -> Float[Array, ""]:
            width = jnp.sqrt(self.family.variance(params)[0])
            return distance(y[0] - self.family.mean(params)[0], width)

        parts = (self.weights, self.components.mean[..., 0], self.component_variance()[..., 0])
        weight, at, variance = (jnp.moveaxis(leaf, -1, 0) for leaf in parts)
        pairs = np.triu_indices(self.n_components)
        times = np.where(pairs[0] == pairs[1], 0.5, 1.0)

        def to_each_other(total, pair):
            times, i, j = pair
            apart = distance(at[i] - at[j], jnp.sqrt(variance[i] + variance[j]))
            return total + times * weight[i] * weight[j] * apart, None

        # Each pair of components once, and one at a time: never K x K numbers per row.
        zero = jnp.zeros(self.batch_shape, jnp.result_type(*parts))
        spread, _ = jax.lax.scan(to_each_other, zero, (jnp.asarray(times, zero.dtype), *pairs))
        error = self._average(to_target)(y)
        return error - jnp.broadcast_to(spread, error.shape)

    def modes(self) -> Float[Array, "*batch comp"]:
        """Return where each row's density peaks, highest first, NaN where there are no more.

        In one dimension a Gaussian mixture has at most as many modes as components.
        """
        checks.check_one_dimensional("modes", self.dim)
        return self._modes()

    @eqx.filter_jit
    def _modes(self) -> Float[Array, "*batch comp"]:
        return _over(lambda row: univariate.modes(**row._shape(), n_modes=row.n_components), self)

    def interval(
        self, coverage: float | Float[Array, ""], kind: str = "hdr"
    ) -> Float[Array, "*batch pieces 2"]:
        """Return the lower and upper ends of a region with the given probability.

        Args:
            coverage: Probability of the region.
            kind: "hdr", the highest-density region: the smallest one, a union of up to
                `n_components` intervals where the density has several bumps; or "equal-tailed",
                one interval with the same probability on either side.

        Returns:
            Intervals in ascending order, NaN where there are no more.
        """
        checks.check_one_dimensional("interval", self.dim)
        checks.check_known_fraction("coverage", coverage)
        if _errors.check_choice("kind", kind, ("hdr", "equal-tailed")) == "equal-tailed":
            tails = (0.5 - coverage / 2, 0.5 + coverage / 2)
            return jnp.stack([self.quantile(q) for q in tails], axis=-1)[..., None, :]
        return self._highest_density(jnp.asarray(coverage, self.logits.dtype))

    def region_mass(self, y: Float[Array, "*batch 1"]) -> Float[Array, "*batch"]:
        """Return the probability of the highest-density region whose boundary goes through y.

        That is P(p(Y) >= p(y)), the smallest coverage at which `interval` holds y: 0 at the highest
        mode, near 1 far out. Uniform on (0, 1) where y comes from this density.
        """
        checks.check_one_dimensional("region_mass", self.dim)
        return self._region_mass(y)

    @eqx.filter_jit
    def _region_mass(self, y: Float[Array, "*batch 1"]) -> Float[Array, "*batch"]:
        def mass(row: Mixture, at: Float[Array, " 1"]) -> Float[Array, ""]:
            return univariate.region_mass(**row._bumps(), x=at[0], n_intervals=row.n_components)

        return _over(mass, self, y)

    @eqx.filter_jit
    def _highest_density(self, coverage: Float[Array, ""]) -> Float[Array, "*batch comp 2"]:
        def region(row: Mixture) -> Float[Array, "comp 2"]:
            return univariate.highest_density(
                **row._bumps(), coverage=coverage, n_intervals=row.n_components
            )

        return _over(region, self)

    def _each_row(self, program: Callable[..., Array], *per_row: Array) -> Array:
        """Return a program's answer for each row; for very many rows block by block, on all cores.

        What is traced is part of a larger program, and stays in one piece.
        """
        everything = (self, *per_row)
        many = len(self.batch_shape) == 1 and len(self.logits) > _BLOCK
        alike = all(array.shape[:-1] == self.batch_shape for array in per_row)
        concrete = all(map(checks.is_concrete, jax.tree.leaves(everything)))
        if not (many and alike and concrete and jax.default_backend() == "cpu"):
            return program(*everything)
        host = jax.tree.map(np.asarray, everything)

        def one(rows: slice) -> np.ndarray:
            block = jax.tree.map(lambda leaf: padded(leaf[rows], _BLOCK), host)
            return np.asarray(program(*block))[: len(host[0].logits[rows])]

        return jnp.asarray(over_blocks(one, len(self.logits), _BLOCK))

    def _bumps(self) -> dict[str, Any]:
        """Return the shape of one row, its distribution function, and where nearly all of it is."""
        dtype = self.logits.dtype
        tail = jnp.maximum(_TAIL, 2 * jnp.finfo(dtype).eps).astype(dtype)
        ends = [self._component_quantiles(q) for q in (tail, 1 - tail)]
        return {
            **self._shape(),
            "cdf": self._cdf(),
            "lower": ends[0].min(),
            "upper": ends[1].max(),
        }

    def _component_quantiles(self, q: Float[Array, "..."]) -> Float[Array, "*rows comp"]:
        return over_rows(self.family.quantile, self.components, q, event_rank=0)

    def _shape(self) -> dict[str, Any]:
        """Return the log density of one row and a grid that resolves its bends."""
        location, scale = self.components.mean, jnp.sqrt(self.component_variance())
        grid = location + scale * jnp.array([_BENDS], location.dtype)
        return {
            "log_prob": lambda x: self._log_density(x),
            "grid": jnp.sort(grid.ravel()),
        }

    def _log_density(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the log density of one row at many points, which lie side by side."""
        points = jax.vmap(self.family.log_prob, in_axes=(None, 0))
        found = jax.vmap(points, in_axes=(0, None))(self.components, x.reshape(-1, 1))
        top, joint = below_top(self.log_weights[:, None], found, axis=0)
        return (top + jax.nn.logsumexp(joint, axis=0)).reshape(x.shape)

    def _average(
        self, fn: Callable[[LocationScale, Array], Array]
    ) -> Callable[[Float[Array, "*rows dim"]], Float[Array, "*rows"]]:
        """Return sum_k weight_k fn(params_k, y) as a function of y, one component at a time.

        Rows then lie side by side, as vector instructions want them however few components there
        are, and nothing of the size of (rows, components) is made for an answer.
        """
        batch = self.batch_shape
        parts = jax.tree.map(
            lambda leaf: jnp.moveaxis(leaf, len(batch), 0), (self.weights, self.components)
        )

        def average(y: Float[Array, "*rows dim"]) -> Float[Array, "*rows"]:
            rows = jnp.broadcast_shapes(batch, y.shape[:-1])
            y = broadcast_rows(y, y.shape[:-1], rows)
            each = fn
            for _ in rows:
                each = jax.vmap(each)

            def add(total, part):
                weight, params = broadcast_rows(part, batch, rows)
                return total + weight * each(params, y), None

            dtype = jnp.result_type(y, *jax.tree.leaves(parts))
            return jax.lax.scan(add, jnp.zeros(rows, dtype), parts)[0]

        return average

    def _per_component(self, fn: Callable) -> Any:
        for _ in self.logits.shape:
            fn = jax.vmap(fn)
        return fn(self.components)

    def _select(self, picked: Array) -> LocationScale:
        """Return the parameters of one component per draw."""

        def take(leaf):
            event = leaf.shape[self.logits.ndim :]
            leaf = jnp.broadcast_to(leaf, (*picked.shape, self.n_components, *event))
            index = picked.reshape(*picked.shape, *(1 for _ in range(len(event) + 1)))
            return jnp.take_along_axis(leaf, index, axis=picked.ndim).squeeze(picked.ndim)

        return jax.tree.map(take, self.components)


def gaussian_mixture(logits: Any, mean: Any, scale: Any) -> Mixture:
    """Return a Gaussian mixture, checking that the parameters fit together.

    Args:
        logits: Unnormalised log weights, (..., components).
        mean: Means, (..., components, dim).
        scale: Standard deviations in the shape of `mean`, or lower Cholesky factors with one more
            axis (..., components, dim, dim) for full covariances.
    """
    logits, mean, scale = checks.as_float_arrays(logits=logits, mean=mean, scale=scale)
    checks.check_mixture(logits, mean, scale)
    family = DiagonalGaussian() if scale.ndim == mean.ndim else FullGaussian()
    return Mixture(logits, LocationScale(mean, scale), family)


def log_joint(
    family: AbstractFamily,
    log_weights: Float[Array, "*batch comp"],
    components: LocationScale,
    y: Float[Array, "*rows dim"],
) -> tuple[Float[Array, "*rows"], Float[Array, "*rows comp"]]:
    """Return the largest log density of a row, and log(weight_k f_k(y)) less that."""
    return below_top(log_weights, over_rows(family.log_prob, components, y, event_rank=1), axis=-1)


def below_top(log_weights: Array, log_density: Array, axis: int) -> tuple[Array, Array]:
    """Return the largest log density along the components' axis, and the joint one less that.

    Far from every component log densities are huge; were the weights added to them as they are,
    they would drown in rounding, and with them the responsibilities.
    """
    top = jnp.max(jax.lax.stop_gradient(log_density), axis=axis, keepdims=True)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    joint = jnp.broadcast_to(log_weights, log_density.shape) + (log_density - top)
    return top.squeeze(axis), joint


def broadcast_rows(tree: Any, batch: tuple[int, ...], rows: tuple[int, ...]) -> Any:
    """Return arrays that begin with the axes `batch` as ones that begin with `rows`."""
    return jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (*rows, *leaf.shape[len(batch) :])), tree
    )


def over_rows(fn: Callable, components: LocationScale, value: Array, event_rank: int) -> Array:
    """Map fn(params, value) over the components of each row, broadcasting rows of either."""
    batch = components.mean.shape[:-2]
    event = value.shape[value.ndim - event_rank :]
    rows = jnp.broadcast_shapes(batch, value.shape[: value.ndim - event_rank])
    components = broadcast_rows(components, batch, rows)
    fn = jax.vmap(fn, in_axes=(0, None))
    # One value for all is not spread over them: what fn makes of it alone is then made once.
    shared = value.ndim == event_rank
    for _ in rows:
        fn = jax.vmap(fn, in_axes=(0, None if shared else 0))
    return fn(components, value if shared else jnp.broadcast_to(value, (*rows, *event)))


def _over(fn: Callable[..., Array], mixture: Mixture, *per_row: Array) -> Array:
    """Map a function of one row, and of what belongs to it, over all rows."""
    for _ in mixture.batch_shape:
        fn = jax.vmap(fn)
    return fn(mixture, *per_row)
