"""What a component distribution must provide, and the large class of location-scale families.

A family handles one component and one target: no batch axis, no component axis. It holds only
static settings; what is learned lives in its parameters.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .. import _defaults, _errors
from .._types import LocationScale, Power
from .conditions import spread

# Far outside the data a network extrapolates without limit. Up to exp(40) the square of a scale
# is still finite in single precision, so a prediction there is wide rather than NaN.
_LARGEST = 40.0

_POSITIVE: dict[str, Callable] = {
    "exp": lambda raw: jnp.exp(jnp.minimum(raw, _LARGEST)),
    "softplus": jax.nn.softplus,
}


_EXACT: dict[float, Callable] = {
    -1: lambda x: 1 / x,
    -0.5: jax.lax.rsqrt,
    0: jnp.ones_like,
    0.5: jnp.sqrt,
    1: lambda x: x,
    2: jnp.square,
}


def power_of(x: Float[Array, "..."], exponent: Power) -> Float[Array, "..."]:
    """Return x ** exponent for positive x, exactly 1 at exponent 0 and x at exponent 1."""
    if isinstance(exponent, int | float):
        return _EXACT[exponent](x) if exponent in _EXACT else _by_logarithm(x, exponent)
    # A schedule ends at zero, where there is nothing to compute. Until then the branch keeps XLA
    # from computing powers again for every element of a gradient that they are a factor of, and
    # one long axis lets it use vectors where the last one is short.
    flat = jax.lax.cond(
        exponent == 0, lambda x, _: jnp.ones_like(x), _by_logarithm, x.reshape(-1), exponent
    )
    return flat.reshape(x.shape)


def _by_logarithm(x: Float[Array, "..."], exponent: Power) -> Float[Array, "..."]:
    """Return x ** exponent: cheaper than jnp.power, for a density has the logarithm already."""
    return jnp.exp(jnp.asarray(exponent, x.dtype) * jnp.log(x))


@dataclass(frozen=True)
class AbstractFamily(abc.ABC):
    """A distribution of one target vector, in its parameters `LocationScale(mean, scale)`.

    The Fisher solve takes and returns gradients with respect to `mean` and `scale`, the outputs of
    `constrain`; the chain rule then carries its result back through `constrain` to the raw network
    outputs, as Algorithm 1 of the paper does.

    Attributes:
        scale_map: How `constrain` makes a raw output positive, "exp" or "softplus".
        scale_floor: Added by `constrain`, the smallest scale that the network can express.
    """

    scale_map: str = "exp"
    scale_floor: float = _defaults.SCALE_FLOOR

    def __post_init__(self):
        _errors.check_choice("scale_map", self.scale_map, _POSITIVE)

    @property
    def takes_rows(self) -> bool:
        """Whether arrays may have further axes at their end, of rows that are treated alike."""
        return False

    @abc.abstractmethod
    def num_raw(self, dim: int) -> int:
        """Return how many raw outputs describe one component."""

    @abc.abstractmethod
    def constrain(self, raw: Float[Array, " raw"], dim: int) -> LocationScale:
        """Return parameters from unconstrained network outputs."""

    @abc.abstractmethod
    def unconstrain(self, params: LocationScale) -> Float[Array, " raw"]:
        """Return the raw outputs that `constrain` maps to these parameters."""

    @abc.abstractmethod
    def log_prob(self, params: LocationScale, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """Return the log density of one target."""

    def log_prob_by_condition(
        self,
        params: LocationScale,
        y: Float[Array, "batch dim"],
        condition: Int[Array, " batch"],
    ) -> Float[Array, "batch comp"]:
        """Return the log density of each target under each component of its condition.

        Args:
            params: Parameters with leading axes (conditions, components).
            y: Targets.
            condition: Which condition each target belongs to.
        """
        rows = jax.tree.map(lambda leaf: spread(leaf, condition), params)
        return jax.vmap(jax.vmap(self.log_prob, in_axes=(0, None)))(rows, y)

    @abc.abstractmethod
    def fisher_solve(
        self, params: LocationScale, grad: LocationScale, power: Power, coordinates: str = "scale"
    ) -> LocationScale:
        """Return F^-power grad, for the Fisher information F of this component alone.

        Args:
            params: Parameters of the component.
            grad: Gradient with respect to them.
            power: Strength, 0 to 1.
            coordinates: Those in which F is taken, a name in `COORDINATE_CHOICES`. The result is
                a gradient with respect to `scale` again, so that nothing downstream needs to know.
        """

    def fisher_solve_each(
        self, params: LocationScale, grad: LocationScale, power: Power, coordinates: str
    ) -> LocationScale:
        """Return `fisher_solve` of many components, whose leading axes `grad.mean` has."""
        solve = partial(self.fisher_solve, power=power, coordinates=coordinates)
        for _ in grad.mean.shape[:-1]:
            solve = jax.vmap(solve)
        return solve(params, grad)

    @abc.abstractmethod
    def sample(self, params: LocationScale, key: PRNGKeyArray) -> Float[Array, " dim"]:
        """Return one draw."""

    def mean(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        """Return the expectation."""
        return params.mean

    @abc.abstractmethod
    def covariance(self, params: LocationScale) -> Float[Array, "dim dim"]:
        """Return the covariance matrix."""

    @abc.abstractmethod
    def variance(self, params: LocationScale) -> Float[Array, " dim"]:
        """Return the variance of each coordinate."""

    @abc.abstractmethod
    def marginal(self, params: LocationScale, dims: tuple[int, ...]) -> LocationScale:
        """Return the parameters of the same family for some of the coordinates."""

    @abc.abstractmethod
    def cdf(self, params: LocationScale, y: Float[Array, " 1"]) -> Float[Array, ""]:
        """Return P(Y <= y) of a one-dimensional component."""

    @abc.abstractmethod
    def quantile(self, params: LocationScale, q: Float[Array, ""]) -> Float[Array, ""]:
        """Return the inverse of `cdf`."""

    @property
    def has_mean_distance(self) -> bool:
        """Whether `mean_distance`, and with it the CRPS of a mixture, has a closed form."""
        return type(self).mean_distance is not AbstractFamily.mean_distance

    def mean_distance(
        self, offset: Float[Array, "..."], scale: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return E|Y| of a one-dimensional component, where differences stay in the family."""
        raise NotImplementedError(
            f"crps needs a closed form for E|Y - Y'|, which {type(self).__name__} does not have; "
            "use a Gaussian family, or estimate it from mixture.sample(key, (n,))."
        )

    def positive(self, raw: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the scale that a raw output stands for."""
        return _POSITIVE[self.scale_map](raw) + self.scale_floor

    def raw_positive(self, scale: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the raw output that stands for a scale (the inverse of `positive`)."""
        above = jnp.maximum(scale - self.scale_floor, jnp.finfo(scale.dtype).tiny)
        return jnp.log(above) if self.scale_map == "exp" else above + jnp.log(-jnp.expm1(-above))


@dataclass(frozen=True)
class AbstractLocationScale(AbstractFamily):
    """Independent coordinates y_d = mean_d + scale_d e_d, with e of a fixed symmetric shape.

    A family is five numbers and functions of the standardised residual z = (y - mean) / scale.
    Its Fisher information is diagonal, F(mean) = a / scale^2 and F(scale) = b / scale^2, where
    (a, b) is `unit_fisher`: equation (21) for the Gaussian.
    """

    @property
    @abc.abstractmethod
    def unit_fisher(self) -> tuple[float, float]:
        """Fisher information of location and scale at scale 1."""

    @property
    @abc.abstractmethod
    def unit_variance(self) -> float:
        """Variance at scale 1."""

    @abc.abstractmethod
    def unit_log_prob(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the log density at scale 1."""

    @abc.abstractmethod
    def unit_cdf(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the cumulative distribution function at scale 1."""

    @abc.abstractmethod
    def unit_quantile(self, q: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the inverse of `unit_cdf`."""

    @abc.abstractmethod
    def unit_sample(self, key: PRNGKeyArray, like: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Return independent draws at scale 1 in the shape and dtype of `like`."""

    @property
    def takes_rows(self) -> bool:
        return True

    def num_raw(self, dim: int) -> int:
        return 2 * dim

    def constrain(self, raw: Float[Array, "raw *rows"], dim: int) -> LocationScale:
        # A split, not slices: its gradient is one concatenation, where slices would each be padded
        # with zeros and added up.
        mean, spread = jax.lax.split(raw, (dim, dim))
        return LocationScale(mean, self.positive(spread))

    def unconstrain(self, params: LocationScale) -> Float[Array, " raw"]:
        return jnp.concatenate([params.mean, self.raw_positive(params.scale)])

    def log_prob(
        self, params: LocationScale, y: Float[Array, "dim *rows"]
    ) -> Float[Array, "*rows"]:
        z = (y - params.mean) / params.scale
        return jnp.sum(self.unit_log_prob(z) - jnp.log(params.scale), axis=0)

    def fisher_solve(
        self, params: LocationScale, grad: LocationScale, power: Power, coordinates: str = "scale"
    ) -> LocationScale:
        """Return F^-power grad, equation (21): scale^(2 power) / (a, b)^power times grad.

        In log(scale) the information is b, in scale^2 / 2 it is b / scale^4.
        """
        metric = power_of(params.scale, 2 * power)
        location, spread = (1.0 if info == 1 else info**-power for info in self.unit_fisher)
        if coordinates == "scale":
            spread = metric * spread
        elif coordinates == "variance":
            spread = jnp.minimum(metric, 1) ** 2 * spread
        return LocationScale(grad.mean * (metric * location), grad.scale * spread)

    def fisher_solve_each(
        self, params: LocationScale, grad: LocationScale, power: Power, coordinates: str
    ) -> LocationScale:
        # Number by number, whatever the axes: powers of all at once are several times as fast.
        return self.fisher_solve(params, grad, power, coordinates)

    def sample(self, params: LocationScale, key: PRNGKeyArray) -> Float[Array, " dim"]:
        return params.mean + params.scale * self.unit_sample(key, params.mean)

    def covariance(self, params: LocationScale) -> Float[Array, "dim dim"]:
        return jnp.diag(self.variance(params))

    def variance(self, params: LocationScale) -> Float[Array, "dim *rows"]:
        return self.unit_variance * params.scale**2

    def marginal(self, params: LocationScale, dims: tuple[int, ...]) -> LocationScale:
        return jax.tree.map(lambda leaf: leaf[jnp.array(dims)], params)

    def cdf(self, params: LocationScale, y: Float[Array, " 1"]) -> Float[Array, ""]:
        return self.unit_cdf((y - params.mean) / params.scale)[0]

    def quantile(self, params: LocationScale, q: Float[Array, ""]) -> Float[Array, ""]:
        return params.mean[0] + params.scale[0] * self.unit_quantile(q)
