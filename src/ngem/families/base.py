"""The contract of a component distribution.

A family handles one component and one target: no batch axis, no component axis. It holds only
static settings; what is learned lives in its parameters, a pytree of the family's own. Code
outside a family treats that pytree as opaque.

Defaults are those of independent coordinates: the first axis of every leaf is the axis of targets.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .. import _defaults
from .._types import Params, Power
from .conditions import gather_conditions
from .links import AbstractLink, Line

# Far outside the data a network extrapolates without limit. The square of exp(40) is still finite
# in single precision, so a prediction there is wide rather than NaN.
_LARGEST_RAW = 40.0


@dataclass(frozen=True)
class AbstractFamily(abc.ABC):
    """A distribution of one target vector.

    Three coordinate systems appear in the contract:

    - *raw*: unconstrained network outputs, a vector of `num_raw(dim)` numbers;
    - *params*: what `constrain` makes of them, for example a mean and a positive scale;
    - *coordinates* of the scale in which the Fisher information is taken, see `fisher_solve`.

    Attributes:
        names: How users ask for the family: `family` and `covariance` of an estimator.
        has_crps: Whether `mean_distance` and `mean_distance_between` have closed forms.
        options: Names of its settings that users may give after its name, in their order.
        covariance_options: The same, of settings that stand after the name of the covariance.
        admits_shift: Whether targets with another zero have the same distribution.
        admits_scale: Whether targets with another unit have the same distribution.
        has_slow_cdf: Whether the distribution function is an integral by quadrature.
        is_discrete: Whether targets are integers, with probabilities in place of densities.
        scale_floor: Added by `constrain`, the smallest scale that a network can express.
    """

    names: ClassVar[tuple[str, str]]
    has_crps: ClassVar[bool] = False
    options: ClassVar[tuple[str, ...]] = ()
    covariance_options: ClassVar[tuple[str, ...]] = ()
    admits_shift: ClassVar[bool] = True
    admits_scale: ClassVar[bool] = True
    is_discrete: ClassVar[bool] = False
    has_slow_cdf: ClassVar[bool] = False

    scale_floor: float = _defaults.SCALE_FLOOR

    @property
    def name(self) -> str:
        """How users ask for the distribution, as messages name it."""
        return self.names[0]

    @classmethod
    def settle(cls, values: Sequence[str], y: np.ndarray) -> list[str]:
        """Return options as users give them, with what targets say of those that are missing."""
        del y
        return list(values)

    @property
    def kind(self) -> Any:
        """What two families have in common whose components may stand in one mixture."""
        own = (*self.options, *self.covariance_options)
        return type(self), tuple(getattr(self, option) for option in own)

    @property
    def is_scalable(self) -> bool:
        """Whether targets with another unit have the same distribution, for these settings."""
        return self.admits_scale

    # Where targets lie.

    @property
    def link(self) -> AbstractLink:
        """From targets to the real line, where networks learn their distribution, `base`."""
        return Line()

    @property
    def base(self) -> "AbstractFamily":
        """The family of link(Y), with the same parameters."""
        return self

    @property
    def standard(self) -> "AbstractFamily":
        """The family in units of its own: with bounds of 0 and 1, if it has some."""
        return self

    @property
    def far(self) -> float:
        """Where an interval without an end may be taken to end, in units of the targets.

        Squares of it, divided by the smallest scales, are finite in single precision.
        """
        return 1e4

    @property
    def ends(self) -> tuple[float, float]:
        """Between which values targets lie."""
        return self.smooth.link.ends

    def check_targets(self, y: np.ndarray, name: str = "y") -> None:
        """Refuse targets, (rows, dim), to which this family gives no probability."""
        low, high = self.link.ends
        outside = ~((y > low) & (y < high)) if np.isfinite([low, high]).any() else np.isnan(y)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            where = f"above {low:g}" if np.isinf(high) else f"between {low:g} and {high:g}"
            raise ValueError(
                f"{name} must be {where} for family={self.name!r}, got {y[row, column]:g} in "
                f"row {row}; {self._try_instead}."
            )

    @property
    def _try_instead(self) -> str:
        return "try family='gaussian', which takes all numbers"

    @property
    def atoms(self) -> tuple[float, ...]:
        """Single values with a probability of their own, ascending, beside a density."""
        return ()

    def is_atom(self, y: np.ndarray) -> np.ndarray:
        """Return where targets, (..., dim), are atoms."""
        return np.isin(y, self.atoms)

    @property
    def circle(self) -> float | None:
        """Length of the circle on which targets lie; None on a line."""
        return None

    def difference(self, one: Any, other: Any) -> Any:
        """Return one value minus another; on a circle, the shorter way. NumPy and JAX alike."""
        return one - other

    def unit_changes(self, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Return for each column whether it may have another zero, and another unit."""
        return np.full(dim, self.admits_shift), np.full(dim, self.is_scalable)

    @property
    def has_steps(self) -> bool:
        """Whether the distribution function has steps."""
        return self.is_discrete or bool(self.atoms)

    @property
    def takes_intervals(self) -> bool:
        """Whether it gives a likelihood to intervals, and rounded targets need one."""
        return not self.is_discrete

    @property
    def takes_rows(self) -> bool:
        """Whether arrays may have more axes at their end, with one entry for each row.

        True for a family whose functions work element by element. Losses are then faster, see
        `ngem.objectives.layout`.
        """
        return False

    # From raw outputs to parameters.

    @abc.abstractmethod
    def num_raw(self, dim: int) -> int:
        """Return how many raw outputs describe one component."""

    def num_shared_raw(self, dim: int) -> int:
        """Return how many of these, the last ones, all components of a row share."""
        del dim
        return 0

    def raw_kinds(self, dim: int) -> tuple[str, ...]:
        """Return for each raw output whether it moves the "mean" or the "scale"."""
        return ("mean",) * dim + ("scale",) * (self.num_raw(dim) - dim)

    @abc.abstractmethod
    def constrain(self, raw: Float[Array, "raw *rows"], dim: int) -> Params:
        """Return parameters from unconstrained network outputs."""

    @abc.abstractmethod
    def unconstrain(self, params: Params) -> Float[Array, " raw"]:
        """Return the raw outputs that `constrain` maps to these parameters."""

    # Densities.

    @abc.abstractmethod
    def log_prob(self, params: Params, y: Float[Array, "dim *rows"]) -> Float[Array, "*rows"]:
        """Return the log density of one target."""

    def log_prob_by_condition(
        self,
        params: Params,
        y: Float[Array, "batch dim"],
        condition: Int[Array, " batch"],
    ) -> Float[Array, "batch comp"]:
        """Return the log density of each target under each component of its condition.

        Args:
            params: Parameters with leading axes (conditions, components).
            y: Targets.
            condition: The condition of each target.
        """
        rows = gather_conditions(params, condition)
        return jax.vmap(jax.vmap(self.log_prob, in_axes=(0, None)))(rows, y)

    # Geometry.

    @abc.abstractmethod
    def fisher_solve(
        self, params: Params, grad: Params, power: Power, coordinates: str = "scale"
    ) -> Params:
        """Return F^-power grad, for the Fisher information F of this component alone.

        Args:
            params: Parameters of the component.
            grad: Gradient with respect to them.
            power: Strength, 0 to 1.
            coordinates: Coordinates of the scale in which F is taken, a name in
                `COORDINATE_CHOICES`. The result is a gradient with respect to `params` again, and
                the chain rule carries it to the raw outputs, as Algorithm 1 of the paper does.
        """

    def fisher_solve_each(
        self, params: Params, grad: Params, power: Power, coordinates: str
    ) -> Params:
        """Return `fisher_solve` of all components of a row, which are the first axis."""
        solve = partial(self.fisher_solve, power=power, coordinates=coordinates)
        return jax.vmap(solve)(params, grad)

    def multiply_components(self, grad: Params, factor: Float[Array, "comp *rows"]) -> Params:
        """Return gradients multiplied by a factor for each component, their first axis.

        The factors are inverse powers of the weights: weight_k F_k is the information of component
        k. Parameters that components share have no such factor, because the weights sum to one.
        """
        return multiply_leading(grad, factor)

    @abc.abstractmethod
    def raw_fisher_diagonal(self, params: Params) -> Float[Array, "raw *rows"]:
        """Return the diagonal of the Fisher information in raw outputs, in their order.

        It is the curvature that a diagonal second-order method needs, such as boosted trees.
        """

    # Moments and samples.

    @abc.abstractmethod
    def sample(self, params: Params, key: PRNGKeyArray) -> Float[Array, " dim"]:
        """Return one draw."""

    @abc.abstractmethod
    def mean(self, params: Params) -> Float[Array, "dim *rows"]:
        """Return the expectation."""

    @property
    def averages_parts(self) -> bool:
        """Whether the mean of a mixture is not the average of its components' means."""
        return self.circle is not None

    def mean_parts(self, params: Params) -> Float[Array, "dim part"]:
        """Return numbers whose average over components decides the mean of a mixture."""
        return self.mean(params)[:, None]

    def mean_of_parts(self, parts: Float[Array, "... part"]) -> Float[Array, "..."]:
        """Return the mean of a mixture from the average of `mean_parts`."""
        return parts[..., 0]

    @abc.abstractmethod
    def variance(self, params: Params) -> Float[Array, "dim *rows"]:
        """Return the variance of each coordinate."""

    def variance_around(
        self, params: Params, center: Float[Array, "dim *rows"]
    ) -> Float[Array, "dim *rows"]:
        """Return the mean squared difference from a point, in each coordinate."""
        return self.variance(params) + self.difference(self.mean(params), center) ** 2

    def covariance(self, params: Params) -> Float[Array, "dim dim"]:
        """Return the covariance matrix."""
        return jnp.diag(self.variance(params))

    @abc.abstractmethod
    def from_moments(self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]) -> Params:
        """Return parameters with this mean and variance and no correlation, to start from data."""

    def from_cluster(
        self,
        y: Float[Array, "batch dim"],
        counts: Float[Array, " batch"],
        mean: Float[Array, " dim"],
        variance: Float[Array, " dim"],
    ) -> Params:
        """Return parameters that suit a cluster of targets, to start from data.

        Args:
            y: Targets.
            counts: How much each of them belongs to the cluster.
            mean: Mean of the cluster.
            variance: Its variance, with whatever keeps small clusters wide.
        """
        del y, counts  # most families need no more than two moments
        return self.from_moments(mean, variance)

    # Other targets and units.

    def count_targets(self, params: Params, axis: int = 0) -> int:
        """Return the number of target columns; axes of rows and components may come first."""
        return jax.tree.leaves(params)[0].shape[axis]

    def of_columns(self, dims: tuple[int, ...]) -> "AbstractFamily":
        """Return the family of some of the coordinates."""
        del dims
        return self

    def marginal(self, params: Params, dims: tuple[int, ...]) -> Params:
        """Return the parameters of some of the coordinates, in the family `of_columns`."""
        return jax.tree.map(lambda leaf: leaf[jnp.array(dims)], params)

    def condition(self, params: Params, dims: tuple[int, ...], y: Float[Array, " given"]) -> Params:
        """Return the parameters of the other coordinates, given the values of some.

        The others are what they were where coordinates are independent.
        """
        del y
        every = range(self.count_targets(params))
        return self.marginal(params, tuple(d for d in every if d not in dims))

    @abc.abstractmethod
    def rescale(self, params: Params, location: Any, scale: Any) -> Params:
        """Return the parameters of `location + scale * Y`, in the family `rescaled`.

        NumPy and JAX arrays alike; those of NumPy may have more leading axes. Location and scale
        are 0 and 1 where the family admits no other ones.
        """

    def rescaled(self, location: np.ndarray, scale: np.ndarray) -> "AbstractFamily":
        """Return the family of `location + scale * Y`; another one if there are bounds.

        Args:
            location: Of each column; bounds are the same for all columns of a family.
            scale: Of each column.
        """
        del location, scale
        return self

    # One dimension.

    @abc.abstractmethod
    def cdf(self, params: Params, y: Float[Array, " 1"]) -> Float[Array, ""]:
        """Return P(Y <= y) of a one-dimensional component."""

    def cdf_before(self, params: Params, y: Float[Array, " 1"]) -> Float[Array, ""]:
        """Return P(Y < y) of a one-dimensional component; less than `cdf` where it has a step."""
        return self.cdf(params, y)

    @abc.abstractmethod
    def quantile(self, params: Params, q: Float[Array, ""]) -> Float[Array, ""]:
        """Return the inverse of `cdf`; where it has a step, the least y that reaches q."""

    def bracket(self, params: Params, q: Float[Array, ""]) -> Float[Array, " 2"]:
        """Return two points between which the quantile at q lies, quickly found."""
        x = self.quantile(params, q)
        return jnp.stack([x, x])

    @property
    def smooth(self) -> "AbstractFamily":
        """The family without its atoms."""
        return self

    def without_atoms(self, params: Params) -> tuple[Float[Array, ""], Params]:
        """Return the log probability that a one-dimensional component leaves to `smooth`.

        Also the parameters of that family.
        """
        return jnp.zeros((), jax.tree.leaves(params)[0].dtype), params

    def landmarks(self, params: Params, at: Float[Array, " points"]) -> Float[Array, " points"]:
        """Return ascending points between which the density of one coordinate bends little.

        Args:
            params: A one-dimensional component.
            at: Ascending points in units of standard deviations from the mean.
        """
        return self.mean(params) + jnp.sqrt(self.variance(params)) * at

    def mean_distance(self, params: Params, y: Float[Array, ""]) -> Float[Array, ""]:
        """Return E|Y - y| of a one-dimensional component."""
        raise NotImplementedError(self._no_crps)

    def mean_distance_between(self, params: Params, other: Params) -> Float[Array, ""]:
        """Return E|Y - Y'| of two independent one-dimensional components."""
        raise NotImplementedError(self._no_crps)

    @property
    def _no_crps(self) -> str:
        return (
            f"E|Y - Y'| has no closed form for {type(self).__name__}; mixture.crps integrates "
            "instead."
        )

    # Incomplete observations.

    @property
    def has_boxes(self) -> bool:
        """Whether the probability of a box has a closed form: independent coordinates."""
        return False

    def log_likelihood(
        self, params: Params, y: Float[Array, "given *rows"]
    ) -> Float[Array, "*rows"]:
        """Return the log likelihood of what is known of one target.

        Args:
            params: Parameters of the component.
            y: The target itself; or twice as many numbers, the lower ends of the intervals that
                hold its coordinates and then the upper ends, see `log_observed`.
        """
        if y.shape[0] == self.count_targets(params):
            return self.log_prob(params, y)
        return self.log_observed(params, *jnp.split(y, 2))

    def log_observed(
        self, params: Params, lower: Float[Array, "dim *rows"], upper: Float[Array, "dim *rows"]
    ) -> Float[Array, "*rows"]:
        """Return the log probability of lower <= y <= upper; the density where both are equal.

        Coordinates with equal ends are known, those with an interval are censored, and those with
        an interval that holds everything are missing.
        """
        raise NotImplementedError(self._no_boxes)

    def log_mass(
        self, params: Params, lower: Float[Array, " dim"], upper: Float[Array, " dim"]
    ) -> Float[Array, ""]:
        """Return the log probability of lower <= y <= upper, in each coordinate."""
        raise NotImplementedError(self._no_boxes)

    @property
    def _no_boxes(self) -> str:
        return (
            f"the probability of a box needs independent coordinates, which {type(self).__name__} "
            "does not have; use covariance='diag'."
        )

    # Fewer components.

    def merge(self, params: Params, weights: Float[Array, " comp"]) -> Params:
        """Return the component that is closest to several ones, which are the first axis.

        Closest is the smallest sum of weight_k KL(component_k, merged), the `divergence`. The
        weights sum to one.
        """
        raise NotImplementedError(self._no_merging)

    def divergence(self, params: Params, other: Params) -> Float[Array, ""]:
        """Return KL(params, other), the nats lost by taking another component for this one."""
        raise NotImplementedError(self._no_merging)

    @property
    def _no_merging(self) -> str:
        return (
            f"components can be merged if their family is Gaussian with covariance 'diag', got "
            f"{type(self).__name__}; use the mixture as it is, or distill the model."
        )

    # Scales.

    @abc.abstractmethod
    def scales(self, params: Params) -> Float[Array, " dim"]:
        """Return the scale of each coordinate, which `constrain` keeps above `scale_floor`."""

    @abc.abstractmethod
    def widen(self, params: Params, smallest: Float[Array, " dim"]) -> Params:
        """Return the parameters with scales of at least `smallest`."""

    @abc.abstractmethod
    def bound(
        self, params: Params, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> Params:
        """Return the parameters with means in [low, high] and std of at most high - low."""

    def positive(self, raw: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the scale that a raw output stands for."""
        return jnp.exp(jnp.minimum(raw, _LARGEST_RAW)) + self.scale_floor

    def raw_positive(self, scale: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the raw output that stands for a scale (the inverse of `positive`)."""
        return jnp.log(jnp.maximum(scale - self.scale_floor, jnp.finfo(scale.dtype).tiny))

    def positive_slope(self, scale: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return d scale / d raw, as a function of the scale."""
        return jnp.maximum(scale - self.scale_floor, 0.0)


def multiply_leading(tree: Params, factor: Float[Array, "leading *rows"]) -> Params:
    """Return arrays multiplied by a factor for each entry of their first axis (and each row)."""
    return jax.tree.map(
        lambda leaf: leaf * jnp.expand_dims(factor, tuple(range(1, 1 + leaf.ndim - factor.ndim))),
        tree,
    )
