"""Mixtures: weights and components of one family, for any number of rows at once."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._errors import check_choice
from .._programs import kept
from .._types import Params
from ..families import (
    AbstractFamily,
    DiagonalGaussian,
    FullGaussian,
    LocationScale,
    MeanCholesky,
    invert_steps,
)
from . import atoms, checks, integers, univariate
from .blocks import over_blocks, padded
from .curve import Curve
from .reduction import reduce_row
from .roots import Elementwise
from .rows import broadcast_rows, map_components, map_rows, sort_rows, subtract_max

# Where a component can bend the mixture's density, in units of its standard deviation. The points
# reach far out, because the tail of a wide component may meet a faint one there. Extrema of the
# slope are added later, so the spacing may be coarse.
_REACH = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 13.0, 17.0, 25.0, 39.0)
_BENDS = (0.0, *_REACH, *(-t for t in _REACH))

# Probability outside the bracket of a highest-density region, on either side. In single precision
# it is one rounding unit, because 1 - 1e-9 would round to 1 and the bracket would be infinite.
_TAIL = 1e-9

# Rows per block where there are very many.
_BLOCK = 32_768

# Rows per block of modes and regions, also where there are fewer: one program then serves any
# number of rows. Larger blocks are no faster, and one row would wait longer.
_GRID_BLOCK = 32


# Answers, and for which rows they are right; None where they are for all.
_Quick: TypeAlias = tuple[Array, Array | None]


class Mixture(eqx.Module):
    """sum_k weight_k f(y; params_k), equation (2), one pytree for a whole batch of rows.

    One rule for axes holds for all methods. A mixture has rows, `batch_shape`, and `dim` target
    columns. Targets have the shape `(*more, *batch_shape, dim)`: one target per row, or several,
    whose axes come first, as those of the draws of `sample` do. With one target column the last
    axis may be left out: then targets have the shape `batch_shape`. All other shapes are refused,
    because axes of size one are never repeated. Results have the targets' shape without `dim`.
    Levels of `quantile` are the last axes of its result.

    Every method is compiled once per shape.

    Attributes:
        logits: Unnormalized log weights, (..., components).
        components: Parameters of the components, leading axes (..., components).
        family: The distribution that the parameters belong to.

    >>> mixture = gaussian_mixture(jnp.zeros(2), jnp.array([[-1.0], [1.0]]), jnp.ones((2, 1)))
    >>> float(mixture.cdf(jnp.array([0.0])))
    0.5
    """

    logits: Float[Array, "*batch comp"]
    components: Params
    family: AbstractFamily = eqx.field(static=True, default=DiagonalGaussian())

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the rows."""
        return self.logits.shape[:-1]

    def __len__(self) -> int:
        """Return the number of rows."""
        if not self.batch_shape:
            raise TypeError("a single mixture has no len(): it has no axis of rows.")
        return self.batch_shape[0]

    def __getitem__(self, rows: Any) -> "Mixture":
        """Return the mixtures of some rows: a number, a slice, or an array of numbers."""
        if not self.batch_shape:
            raise IndexError("a single mixture has no rows to choose from; use it as it is.")
        if isinstance(rows, int) and not -len(self) <= rows < len(self):
            raise IndexError(f"rows must be below {len(self)}, got {rows}; they count from 0.")
        return jax.tree.map(lambda leaf: leaf[rows], self)

    @property
    def n_components(self) -> int:
        """Number of components."""
        return self.logits.shape[-1]

    @property
    def dim(self) -> int:
        """Number of target columns."""
        return self.family.count_targets(self.components, self.logits.ndim)

    @property
    def log_weights(self) -> Float[Array, "*batch comp"]:
        """Logarithms of the weights, normalized."""
        return jax.nn.log_softmax(self.logits, axis=-1)

    @property
    def weights(self) -> Float[Array, "*batch comp"]:
        """Weights, summing to one."""
        return jax.nn.softmax(self.logits, axis=-1)

    # Any: targets may be anything that becomes an array, and `_read` says what they may be.
    def log_prob(self, y: Any) -> Float[Array, "*rows"]:
        """Return the log density of one target per row, equation (14)."""
        return self._log_prob(self._read(y))

    @eqx.filter_jit
    def _log_prob(self, y: Float[Array, "*rows dim"]) -> Float[Array, "*rows"]:
        largest, joint = self._log_joint(y)
        return largest + jax.nn.logsumexp(joint, axis=-1)

    def pdf(self, y: Any) -> Float[Array, "*rows"]:
        """Return the density of one target per row."""
        return jnp.exp(self.log_prob(y))

    def log_mass(self, lower: Any, upper: Any) -> Float[Array, "*rows"]:
        """Return the log probability of lower <= y <= upper in each target column, for each row."""
        lower, upper = self._read(lower, "lower"), self._read(upper, "upper")
        if lower.shape != upper.shape:
            raise ValueError(
                f"lower and upper must have one shape, got {lower.shape} and {upper.shape}; give "
                "both ends of each interval."
            )
        return self._log_mass(lower, upper)

    @eqx.filter_jit
    def _log_mass(
        self, lower: Float[Array, "*rows dim"], upper: Float[Array, "*rows dim"]
    ) -> Float[Array, "*rows"]:
        mass = map_components(
            lambda params, ends: self.family.log_mass(params, ends[0], ends[1]),
            self.components,
            self.batch_shape,
            jnp.stack([lower, upper], axis=-2),
            event_rank=2,
        )
        largest, joint = subtract_max(self.log_weights, mass, axis=-1)
        return largest + jax.nn.logsumexp(joint, axis=-1)

    def responsibilities(self, y: Any) -> Float[Array, "*rows comp"]:
        """Return the posterior probability of each component, equation (15)."""
        return self._responsibilities(self._read(y))

    @eqx.filter_jit
    def _responsibilities(self, y: Float[Array, "*rows dim"]) -> Float[Array, "*rows comp"]:
        return jax.nn.softmax(self._log_joint(y)[1], axis=-1)

    def _read(self, y: Any, name: str = "y") -> Float[Array, "*rows dim"]:
        """Return targets with all their axes, refusing those that do not fit this mixture."""
        return checks.as_targets(name, y, self.batch_shape, self.dim, self.logits.dtype)

    def _log_joint(
        self, y: Float[Array, "*rows dim"]
    ) -> tuple[Float[Array, "*rows"], Float[Array, "*rows comp"]]:
        """Return the largest log density of each row, and log(weight_k f_k(y)) minus that."""
        density = map_components(
            self.family.log_prob, self.components, self.batch_shape, y, event_rank=1
        )
        return subtract_max(self.log_weights, density, axis=-1)

    def sample(self, key: Any, shape: Any = ()) -> Float[Array, "*draws dim"]:
        """Return independent draws, shape + batch_shape + (dim,)."""
        return self._sample(checks.check_key(key), checks.as_shape(shape))

    @eqx.filter_jit
    def _sample(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "*draws dim"]:
        pick_key, draw_key = jax.random.split(key)
        rows = (*shape, *self.batch_shape)
        chosen = self._select(jax.random.categorical(pick_key, self.logits, shape=rows))
        return map_rows(self.family.sample, rows)(chosen, jax.random.split(draw_key, rows))

    @eqx.filter_jit
    def mean(self) -> Float[Array, "*batch dim"]:
        """Return the expectation of each row; of directions, the mean direction."""
        if self.family.averages_parts:
            parts = self._per_component(self.family.mean_parts)
            return self.family.mean_of_parts(
                jnp.sum(self.weights[..., None, None] * parts, axis=-3)
            )
        return jnp.sum(self.weights[..., None] * self.component_mean(), axis=-2)

    @eqx.filter_jit
    def component_mean(self) -> Float[Array, "*batch comp dim"]:
        """Return each component's expectation."""
        return self._per_component(self.family.mean)

    @eqx.filter_jit
    def component_variance(self) -> Float[Array, "*batch comp dim"]:
        """Return each component's variance of each target column."""
        return self._per_component(self.family.variance)

    @eqx.filter_jit
    def variance(self) -> Float[Array, "*batch dim"]:
        """Return the variance of each target column."""
        shape = (*self.logits.shape, self.dim)
        center = jnp.broadcast_to(self.mean()[..., None, :], shape)
        around = map_rows(self.family.variance_around, self.logits.shape)
        return jnp.sum(self.weights[..., None] * around(self.components, center), axis=-2)

    def std(self) -> Float[Array, "*batch dim"]:
        """Return the standard deviation of each target column."""
        return jnp.sqrt(self.variance())

    @eqx.filter_jit
    def covariance(self) -> Float[Array, "*batch dim dim"]:
        """Return the covariance matrix of each row."""
        offset = self.family.difference(self.component_mean(), self.mean()[..., None, :])
        within = self._per_component(self.family.covariance)
        outer = offset[..., :, None] * offset[..., None, :]
        return jnp.sum(self.weights[..., None, None] * (within + outer), axis=-3)

    @eqx.filter_jit
    def weight_entropy(self) -> Float[Array, "*batch"]:
        """Return -sum_k weight_k log weight_k, the paper's measure of collapse."""
        return jnp.sum(jax.scipy.special.entr(self.weights), axis=-1)

    def marginal(self, dims: Any) -> "Mixture":
        """Return the mixture of some target columns, in the order asked for."""
        picked = checks.as_columns("dims", dims, self.dim)
        components = self._per_component(lambda params: self.family.marginal(params, picked))
        return Mixture(self.logits, components, self.family.of_columns(picked))

    def condition_on(self, dims: Any, y: Any) -> "Mixture":
        """Return the mixture of the other target columns, given the values of some.

        Exact: each component becomes its own conditional distribution, and its weight is the
        posterior probability of the component given these values.

        Args:
            dims: Columns that are given.
            y: Their values, `(*batch_shape, columns)`; a single column may lack its last axis.

        >>> factor = jnp.array([[[1.0, 0.0], [0.8, 0.6]]])
        >>> mixture = gaussian_mixture(jnp.zeros(1), jnp.zeros((1, 2)), factor)
        >>> round(float(mixture.condition_on(0, jnp.array([2.0])).mean()[0]), 6)
        1.6
        """
        known = self.marginal(dims)
        picked = checks.as_columns("dims", dims, self.dim)
        if len(set(picked)) != len(picked) or len(picked) >= self.dim:
            raise ValueError(
                f"dims must be different columns, fewer than all {self.dim}, got {picked}; one "
                "column at least must be left to predict."
            )
        y = known._read(y)
        if y.shape[:-1] != self.batch_shape:
            raise ValueError(
                f"y must have one value for each row, shape {(*self.batch_shape, len(picked))}, "
                f"got {y.shape}; repeat the mixture's rows to condition on several values."
            )
        one = jax.vmap(lambda params, y: self.family.condition(params, picked, y), (0, None))
        components = map_rows(one, self.batch_shape)(self.components, y)
        rest = tuple(index for index in range(self.dim) if index not in picked)
        return Mixture(known._log_joint(y)[1], components, self.family.of_columns(rest))

    def reduce(self, n_components: Any) -> tuple["Mixture", Float[Array, "*batch"]]:
        """Return mixtures of fewer Gaussians, and at most how many nats each row loses.

        The second result is a bound on KL(self, reduced), the mean log density that is lost where
        targets come from this mixture. Means and variances stay as they are.

        Args:
            n_components: How many components are left; those of least cost merge.

        >>> means = jnp.array([[0.0], [0.0], [9.0]])
        >>> mixture = gaussian_mixture(jnp.zeros(3), means, jnp.ones((3, 1)))
        >>> reduced, bound = mixture.reduce(2)
        >>> reduced.n_components, float(bound)
        (2, 0.0)
        """
        if isinstance(n_components, bool) or not isinstance(n_components, int) or n_components < 1:
            raise ValueError(
                f"n_components must be a whole number from 1 on, got {n_components!r}; try 10."
            )
        if n_components >= self.n_components:
            return self, jnp.zeros(self.batch_shape, self.logits.dtype)
        rows, program = self._by_row((self,)), partial(Mixture._reduce, n_components=n_components)
        if all(map(checks.is_concrete, jax.tree.leaves(rows))):
            parts = _in_blocks(program, jax.tree.map(np.asarray, rows), (), _GRID_BLOCK)
        else:
            parts = program(*rows)
        weights, components, bound = jax.tree.map(
            lambda leaf: jnp.asarray(leaf).reshape(*self.batch_shape, *leaf.shape[1:]), parts
        )
        return Mixture(jnp.log(weights), components, self.family), bound

    @eqx.filter_jit
    def _reduce(self, n_components: int) -> tuple[Array, Params, Array]:
        one = partial(reduce_row, self.family, n_components)
        return jax.vmap(one)(self.weights, self.components)

    def cdf(self, y: Any) -> Float[Array, "*rows"]:
        """Return P(Y <= y) of a one-dimensional mixture."""
        checks.check_one_dimensional("cdf", self.dim)
        return self._each_row(Mixture._at, self._read(y))

    @eqx.filter_jit
    def _at(self, y: Float[Array, "*rows 1"]) -> Float[Array, "*rows"]:
        return self._cdf()(y[..., 0])

    def cdf_before(self, y: Any) -> Float[Array, "*rows"]:
        """Return P(Y < y) of a one-dimensional mixture: less than `cdf` where that has a step."""
        checks.check_one_dimensional("cdf_before", self.dim)
        return self._each_row(Mixture._before, self._read(y))

    @eqx.filter_jit
    def _before(self, y: Float[Array, "*rows 1"]) -> Float[Array, "*rows"]:
        return jnp.minimum(self._average(self.family.cdf_before)(y), 1)

    def _cdf(self) -> Callable[[Float[Array, "*rows"]], Float[Array, "*rows"]]:
        """Return the distribution function as a function of y."""
        average = self._average(self.family.cdf)
        # The sum of weights may exceed 1 by a rounding unit.
        return lambda x: jnp.minimum(average(x[..., None]), 1)

    def quantile(self, q: Any) -> Float[Array, "..."]:
        """Return the inverse of `cdf` at q, (*batch_shape, *levels).

        Accurate to 1e-6 in probability, differentiable in q and in the parameters. A mixture's
        quantile lies between the least and the greatest of its components' quantiles.

        Args:
            q: One level, or an array of levels: every row is asked for each of them. For a level
                of its own for each row, use `jax.vmap(Mixture.quantile)(mixture, q)`.

        >>> mixture = gaussian_mixture(jnp.zeros((3, 1)), jnp.zeros((3, 1, 1)), jnp.ones((3, 1, 1)))
        >>> mixture.quantile(jnp.array([0.05, 0.95])).shape
        (3, 2)
        """
        checks.check_one_dimensional("quantile", self.dim)
        levels = checks.as_probability("q", q, self.logits.dtype)
        program = Mixture._quantiles if levels.ndim else Mixture._quantile
        return self._each_row(program, shared=(levels,))

    @kept()
    def _quantiles(self, q: Float[Array, "*levels"]) -> Float[Array, "..."]:
        # Few at a time where there are many rows, so that memory is bounded.
        at_once = max(1, _BLOCK // max(1, math.prod(self.batch_shape)))
        found = jax.lax.map(self._quantile, q.ravel(), batch_size=min(at_once, max(1, q.size)))
        return jnp.moveaxis(found, 0, -1).reshape(*self.batch_shape, *q.shape)

    @kept()
    def _quantile(self, q: Float[Array, ""]) -> Float[Array, "*batch"]:
        brackets = self._component_brackets(q)
        lower, upper = brackets[..., 0].min(axis=-1), brackets[..., 1].max(axis=-1)
        level = jnp.broadcast_to(q, lower.shape)
        if self.family.is_discrete:
            return invert_steps(self._cdf(), lower, upper, level)
        known = atoms.quantile(self, level) if self.family.atoms else None
        return univariate.quantile(self._cdf(), lower, upper, level, known)

    def crps(self, y: Any) -> Float[Array, "*rows"]:
        """Return the continuous ranked probability score, E|Y - y| - E|Y - Y'| / 2.

        In closed form for Gaussian and Laplace components, a sum over integers for counts, else by
        quadrature.
        """
        checks.check_one_dimensional("crps", self.dim)
        if self.family.has_crps:
            return self._each_row(Mixture._crps, self._read(y))
        return self._each_row(Mixture._crps_by_quadrature, self._read(y), size=_GRID_BLOCK)

    @eqx.filter_jit
    def _crps_by_quadrature(self, y: Float[Array, "*rows 1"]) -> Float[Array, "*rows"]:
        rows = y.shape[:-1]
        repeated: Mixture = broadcast_rows(self, self.batch_shape, rows)
        flat, y = repeated._by_row((repeated, y))
        if self.family.is_discrete:
            return integers.crps(flat._range(), y[:, 0]).reshape(rows)
        grid = atoms.with_atoms(self.family.atoms, flat._grid())
        if self.family.has_slow_cdf:
            return univariate.crps_of_density(flat._log_density, grid, y[:, 0]).reshape(rows)
        return univariate.crps(flat._cdf(), grid, y[:, 0]).reshape(rows)

    @eqx.filter_jit
    def _crps(self, y: Float[Array, "*rows 1"]) -> Float[Array, "*rows"]:
        """Return sum_ij weight_i weight_j g_ij, with g_ij the mean of two distances to y.

        g_ij = (E|Y_i - y| + E|Y_j - y| - E|Y_i - Y_j|) / 2 is the mean of the smaller distance
        where both draws lie on one side of y, and of 0 elsewhere. So it lies between 0 and both
        distances. To sum up E|Y - y| and E|Y - Y'| first would lose everything to rounding where a
        faint component is far away: even the sign.
        """
        weights, components = self._components_first()
        batch, rows = self.batch_shape, y.shape[:-1]
        to_target = map_rows(lambda params, y: self.family.mean_distance(params, y[0]), rows)
        between = map_rows(self.family.mean_distance_between, batch)
        distances = jax.lax.map(
            lambda params: to_target(broadcast_rows(params, batch, rows), y), components
        )
        first, second = np.triu_indices(self.n_components)
        times = jnp.asarray(np.where(first == second, 1.0, 2.0), distances.dtype)

        def add_pair(total: Array, pair: tuple[Array, Array, Array]) -> tuple[Array, None]:
            times, i, j = pair
            one, other = distances[i], distances[j]
            params = (jax.tree.map(lambda leaf, k=k: leaf[k], components) for k in (i, j))
            apart, weight = broadcast_rows((between(*params), weights[i] * weights[j]), batch, rows)
            # Halves are exact, and do not overflow.
            mean = 0.5 * one + (0.5 * other - 0.5 * apart)
            mean = jnp.clip(mean, 0, jnp.minimum(one, other))
            return total + times * weight * mean, None

        # Each pair of components once, and one at a time: never K x K numbers per row.
        pairs = (times, jnp.asarray(first), jnp.asarray(second))
        return jax.lax.scan(add_pair, jnp.zeros_like(distances[0]), pairs)[0]

    def modes(self) -> Float[Array, "*batch comp"]:
        """Return where each row's density peaks, highest first, NaN where there are no more.

        In one dimension a Gaussian mixture has at most as many modes as components.
        """
        checks.check_one_dimensional("modes", self.dim)
        if self.family.atoms:
            return atoms.modes(self)
        return self._turning(Mixture._modes)

    @kept()
    def _modes(self, quick: bool) -> _Quick:
        if self.family.is_discrete:
            return integers.modes(self._range(), self.n_components).T, self._all()
        asked = (self._log_density, self._grid(), self.n_components)
        if quick:
            x, is_right = univariate.quick_modes(*asked)
            return x.T, is_right
        return univariate.modes(*asked).T, None

    def interval(self, coverage: Any, kind: str = "hdr") -> Float[Array, "*batch pieces 2"]:
        """Return the lower and upper ends of a region with the given probability.

        Args:
            coverage: Probability of the region, one number.
            kind: "hdr", the highest-density region: the smallest one, a union of up to
                `n_components` intervals where the density has several bumps; or "equal-tailed",
                one interval with the same probability on either side.

        Of counts, the region is the smallest set of integers with at least that probability, as
        first and last integer of each run. Single values with a probability of their own belong to
        every region, as intervals without a length.

        Returns:
            Intervals in ascending order, NaN where there are no more.
        """
        checks.check_one_dimensional("interval", self.dim)
        level = checks.as_probability("coverage", coverage, self.logits.dtype)
        if level.ndim:
            raise ValueError(
                f"coverage must be one number, got shape {level.shape}; ask for one coverage at a "
                "time."
            )
        if check_choice("kind", kind, ("hdr", "equal-tailed")) == "equal-tailed":
            tails = (0.5 - level / 2, 0.5 + level / 2)
            return jnp.stack([self.quantile(q) for q in tails], axis=-1)[..., None, :]
        if self.family.atoms:
            return atoms.highest_density(self, level)
        return self._turning(Mixture._highest_density, jnp.broadcast_to(level, self.batch_shape))

    def region_mass(self, y: Any) -> Float[Array, "*rows"]:
        """Return the probability of the highest-density region whose boundary goes through y.

        That is P(p(Y) >= p(y)), the smallest coverage at which `interval` holds y: 0 at the highest
        mode, near 1 far out. Uniform on (0, 1) where y comes from this density.
        """
        checks.check_one_dimensional("region_mass", self.dim)
        y = self._read(y)
        repeated: Mixture = broadcast_rows(self, self.batch_shape, y.shape[:-1])
        if self.family.atoms:
            mass = atoms.region_mass(repeated, y)
        else:
            mass = repeated._turning(Mixture._region_mass, y)
        # No density is below that of NaN: without this, the mass would be a plausible number.
        return jnp.where(jnp.isnan(y[..., 0]), jnp.nan, mass)

    @kept()
    def _region_mass(self, y: Float[Array, "batch 1"], quick: bool) -> _Quick:
        if self.family.is_discrete:
            return integers.region_mass(self._range(), y[:, 0]), self._all()
        asked = (self._bumps(), self._grid(), y[:, 0], self.n_components)
        if quick:
            return univariate.quick_region_mass(*asked)
        return univariate.region_mass(*asked), None

    @kept()
    def _highest_density(self, coverage: Float[Array, " batch"], quick: bool) -> _Quick:
        # On a circle, the cut may divide one interval.
        n_intervals = self.n_components + (self.family.circle is not None)
        asked = (coverage, n_intervals)
        if self.family.is_discrete:
            region = integers.highest(self._range(), *asked)
            return jnp.moveaxis(region, -1, 0), self._all()
        seen = (self._bumps(), self._grid())
        if quick:
            region, is_right = univariate.quick_highest_density(*seen, *asked)
            return jnp.moveaxis(region, -1, 0), is_right
        return jnp.moveaxis(univariate.highest_density(*seen, *asked), -1, 0), None

    def _turning(
        self, program: Callable[..., Any], *per_row: Array, shared: tuple[Array, ...] = ()
    ) -> Array:
        """Return what a program of modes or regions computes for each row.

        Numbers go through its quick form, which compiles twice as fast, in blocks. The few rows
        that turn too often for it go through the general form, as traced arrays do, which may be
        differentiated.
        """
        rows = self._by_row((self, *per_row))
        if not all(map(checks.is_concrete, jax.tree.leaves((rows, shared)))):
            answers, _ = program(*rows, *shared, False)
            return answers.reshape((*self.batch_shape, *answers.shape[1:]))
        numbers = jax.tree.map(np.asarray, rows)
        answers, is_right = _in_blocks(program, numbers, (*shared, True), _GRID_BLOCK)
        if not is_right.all():
            wrong = jax.tree.map(lambda leaf: leaf[~is_right], numbers)
            answers[~is_right], _ = _in_blocks(program, wrong, (*shared, False), _GRID_BLOCK)
        return jnp.asarray(answers.reshape((*self.batch_shape, *answers.shape[1:])))

    def _by_row(self, tree: Any) -> Any:
        """Return arrays that begin with the axes of the batch with one axis of rows instead."""
        axes, count = len(self.batch_shape), math.prod(self.batch_shape)
        return jax.tree.map(lambda leaf: leaf.reshape(count, *leaf.shape[axes:]), tree)

    def _each_row(
        self,
        program: Callable[..., Array],
        *per_row: Array,
        shared: tuple[Array, ...] = (),
        size: int | None = None,
    ) -> Array:
        """Return what a program computes for each row, in blocks on all cores for very many rows.

        Traced arrays are part of a larger program, which is not split.
        """
        arguments, size = (self, *per_row), size or _BLOCK
        is_large = len(self.batch_shape) == 1 and len(self.logits) > size
        has_equal_rows = all(array.shape[:-1] == self.batch_shape for array in per_row)
        is_concrete = all(map(checks.is_concrete, jax.tree.leaves((arguments, shared))))
        if not (is_large and has_equal_rows and is_concrete and jax.default_backend() == "cpu"):
            return program(*arguments, *shared)
        return jnp.asarray(_in_blocks(program, jax.tree.map(np.asarray, arguments), shared, size))

    def _bumps(self) -> Curve:
        """Return the densities of all rows, between bounds that hold nearly all probability."""
        low, high = (self._component_quantiles(q) for q in self._tails())
        ends = (low.min(axis=-1), high.max(axis=-1))
        return Curve(self._log_density, self._cdf(), *ends)

    def _range(self) -> Curve:
        """Return the probabilities of counts, between integers that hold nearly all of them."""
        lower, upper = (self._quantile(q) for q in self._tails())
        return Curve(self._log_density, self._cdf(), lower, upper)

    def _tails(self) -> tuple[Array, Array]:
        """Return probabilities so near 0 and 1 that what lies beyond hardly counts."""
        dtype = self.logits.dtype
        tail = jnp.maximum(_TAIL, 2 * jnp.finfo(dtype).eps).astype(dtype)
        return tail, 1 - tail

    def _all(self) -> Array:
        """Return that an answer is right for all rows."""
        return jnp.ones(self.batch_shape, bool)

    def _component_quantiles(self, q: Float[Array, "..."]) -> Float[Array, "*rows comp"]:
        return map_components(
            self.family.quantile, self.components, self.batch_shape, q, event_rank=0
        )

    def _component_brackets(self, q: Float[Array, "..."]) -> Float[Array, "*rows comp 2"]:
        return map_components(
            self.family.bracket, self.components, self.batch_shape, q, event_rank=0
        )

    def _grid(self) -> Float[Array, "grid batch"]:
        """Return ascending points that resolve the bends of each row's density."""
        bends = jnp.array(sorted(_BENDS), self.logits.dtype)
        grid = self._per_component(lambda params: self.family.landmarks(params, bends))
        return sort_rows(grid.reshape(len(grid), -1)).T

    @property
    def _log_density(self) -> Elementwise:
        """The log density of each row at many points: points first, rows last."""
        # A lambda: JAX hashes functions, and a bound method would hash the mixture's arrays.
        return lambda x: self._log_density_at(x)

    def _log_density_at(self, x: Float[Array, "point batch"]) -> Float[Array, "point batch"]:
        """Return the log density of each row at many points, one component at a time."""
        parts = jax.tree.map(
            lambda leaf: jnp.moveaxis(leaf, 1, 0), (self.log_weights, self.components)
        )
        rows = jax.vmap(lambda params, at: self.family.log_prob(params, at[None]))
        points = jax.vmap(rows, in_axes=(None, 0))

        def largest(highest: Array, part: tuple[Array, Params]) -> tuple[Array, None]:
            return jnp.maximum(highest, part[0][None] + points(part[1], frozen_x)), None

        def add(total: Array, part: tuple[Array, Params]) -> tuple[Array, None]:
            return total + jnp.exp(part[0][None] + points(part[1], x) - highest), None

        frozen_x, frozen = jax.lax.stop_gradient((x, parts))
        highest = jax.lax.scan(largest, jnp.full_like(x, -jnp.inf), frozen)[0]
        highest = jnp.where(jnp.isfinite(highest), highest, 0.0)
        return highest + jnp.log(jax.lax.scan(add, jnp.zeros_like(x), parts)[0])

    def _average(
        self, fn: Callable[[Params, Array], Array]
    ) -> Callable[[Float[Array, "*rows dim"]], Float[Array, "*rows"]]:
        """Return sum_k weight_k fn(params_k, y) as a function of y, one component at a time.

        Rows are then the last axis, which vector instructions need however few components there
        are, and no array of the size (rows, components) is created.
        """
        batch = self.batch_shape
        parts = self._components_first()

        def average(y: Float[Array, "*rows dim"]) -> Float[Array, "*rows"]:
            rows = jnp.broadcast_shapes(batch, y.shape[:-1])
            y = broadcast_rows(y, y.shape[:-1], rows)

            def add(total: Array, part: tuple[Array, Params]) -> tuple[Array, None]:
                weight, params = broadcast_rows(part, batch, rows)
                return total + weight * map_rows(fn, rows)(params, y), None

            dtype = jnp.result_type(y, *jax.tree.leaves(parts))
            return jax.lax.scan(add, jnp.zeros(rows, dtype), parts)[0]

        return average

    def _components_first(self) -> tuple[Float[Array, "comp *batch"], Params]:
        """Return weights and parameters with the components as first axis."""
        axis = len(self.batch_shape)
        return jax.tree.map(
            lambda leaf: jnp.moveaxis(leaf, axis, 0), (self.weights, self.components)
        )

    def _per_component(self, fn: Callable[[Params], Any]) -> Any:
        return map_rows(fn, self.logits.shape)(self.components)

    def _select(self, picked: Array) -> Params:
        """Return the parameters of one component per draw."""

        def take(leaf: Array) -> Array:
            event = leaf.shape[self.logits.ndim :]
            leaf = jnp.broadcast_to(leaf, (*picked.shape, self.n_components, *event))
            index = picked.reshape(*picked.shape, *(1 for _ in range(len(event) + 1)))
            return jnp.take_along_axis(leaf, index, axis=picked.ndim).squeeze(picked.ndim)

        return jax.tree.map(take, self.components)


def gaussian_mixture(logits: Any, mean: Any, scale: Any) -> Mixture:
    """Return a Gaussian mixture, checking that the parameters fit together.

    Args:
        logits: Unnormalized log weights, (..., components).
        mean: Means, (..., components, dim).
        scale: Standard deviations in the shape of `mean`, or lower Cholesky factors with one more
            axis (..., components, dim, dim) for full covariances.
    """
    logits, mean, scale = checks.as_float_arrays(logits=logits, mean=mean, scale=scale)
    checks.check_mixture(logits, mean, scale)
    if scale.ndim == mean.ndim:
        return Mixture(logits, LocationScale(mean, scale), DiagonalGaussian())
    return Mixture(logits, MeanCholesky(mean, scale), FullGaussian())


def _in_blocks(
    program: Callable[..., Any], arguments: Any, shared: tuple[Any, ...], size: int
) -> Any:
    """Return what a program computes for all rows of its arguments, in blocks on all cores."""

    def one(rows: slice) -> Any:
        block = jax.tree.map(lambda leaf: leaf[rows], arguments)
        count = len(jax.tree.leaves(block)[0])
        results = program(*jax.tree.map(lambda leaf: padded(leaf, size), block), *shared)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[:count], results)

    return over_blocks(one, len(jax.tree.leaves(arguments)[0]), size)
