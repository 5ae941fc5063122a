"""Simple densities beside the networks: how they are fitted, and how much weight they get."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._programs import kept
from ..families import AbstractFamily
from ..nn import WIDTHS, Guard
from .linear import Linear, fit_linear
from .weights import stacking_weights

#: Rows added to each kind when its weight is learned: the linear model, then each wide density.
_PRIOR = np.array([0.3, 0.3, 0.05])

#: Least weight: its logarithm is finite in single precision, and a model file can hold it.
_LEAST_WEIGHT = 1e-30

#: Most rows for the linear model.
_MAX_ROWS = 20_000

#: Targets reach at least this far, in standard deviations, when means and scales are bounded.
_LEAST_REACH = 2.0


class Rows(NamedTuple):
    """Standardized rows.

    Attributes:
        x: Inputs.
        y: Targets; a value in its interval where a target is not known exactly.
        counts: How much each row counts.
        ends: Ends of the intervals that hold the targets, lower ends of all columns first; None if
            all targets are known.
    """

    x: Float[np.ndarray, "batch features"]
    y: Float[np.ndarray, "batch dim"]
    counts: Float[np.ndarray, " batch"]
    ends: Float[np.ndarray, "batch twice"] | None = None

    def in_double_precision(self) -> "Rows":
        """Return the rows as they are needed for sums over all of them."""
        x, y, counts = (np.asarray(part, np.float64) for part in self[:3])
        ends = None if self.ends is None else np.asarray(self.ends, np.float64)
        return Rows(x, y, counts, ends)

    def around(self, offset: Float[np.ndarray, "batch dim"]) -> Float[np.ndarray, "batch given"]:
        """Return what is known of the targets, if these had a given offset from the center."""
        if self.ends is None:
            return offset
        return np.concatenate([offset, offset], axis=1) + (self.ends - np.tile(self.y, 2))


class GuardFit(NamedTuple):
    """A guard, and what the held-out rows said.

    Attributes:
        guard: The guard, or None without one.
        log_density: Log density of each held-out row under networks and guard together.
        networks: Mean of that log density.
        linear: The same for the linear model in place of the networks.
        gaussian: The same for the wide densities alone.
        surprise: Probability that a held-out row comes from one of the widest densities.
    """

    guard: Guard | None
    log_density: Float[np.ndarray, " held_out"]
    networks: float
    linear: float
    gaussian: float
    surprise: Float[np.ndarray, " held_out"]

    def without_guard(
        self, log_density: Float[np.ndarray, " held_out"], counts: Float[np.ndarray, " held_out"]
    ) -> "GuardFit":
        """Return what the held-out rows say of the networks alone, which give them this density."""
        return self._replace(
            guard=None,
            log_density=log_density,
            networks=_mean(log_density, counts),
            surprise=np.zeros_like(log_density),
        )


def fit_guard(
    family: AbstractFamily,
    train: Rows,
    held_out: Rows | Int[np.ndarray, " held_out"],
    log_density: Float[np.ndarray, " held_out"],
    widest: Float[np.ndarray, " dim"] | None = None,
) -> GuardFit:
    """Return the guard of networks that were trained on these rows.

    Args:
        family: Distribution of the components.
        train: All rows that a network has seen.
        held_out: Rows with a log density from a network that has not seen them: numbers of
            training rows, for which the simple densities leave each row out in turn, or others.
        log_density: Log density of these rows under the networks.
        widest: Standard deviation of the widest density in those of the targets; None for the last
            of `WIDTHS`.
    """
    train = train.in_double_precision()
    linear, left_out = _fit_linear(train)
    guard = _make_guard(train, linear, left_out, WIDTHS[-1] if widest is None else widest)
    if isinstance(held_out, Rows):
        given = held_out.y if held_out.ends is None else held_out.ends
        simple = _log_densities(family, guard, held_out.x, given)
        counts = np.asarray(held_out.counts, np.float64)
    else:
        simple = _left_out_log_densities(family, guard, train, left_out)[held_out]
        counts = train.counts[held_out]
    joint = np.column_stack([log_density, simple])
    # Without held-out rows the networks are taken to explain all rows but those of the prior.
    unseen = 0.0 if len(joint) else float(len(train.y))
    weights, networks = _stack(joint, np.array([unseen, *_PRIOR]), counts)
    log_weights = jnp.log(jnp.asarray(np.maximum(weights, _LEAST_WEIGHT), jnp.float32))
    return GuardFit(
        eqx.tree_at(lambda tree: tree.log_weights, guard, log_weights),
        networks,
        _mean(networks, counts),
        _mean(_stack(simple, _PRIOR, counts)[1], counts),
        _mean(_stack(simple[:, 1:], _PRIOR[1:], counts)[1], counts),
        np.exp(joint[:, 3:] - networks[:, None]) @ weights[3:],
    )


def _stack(
    log_density: Float[np.ndarray, "batch kind"],
    prior: Float[np.ndarray, " kind"],
    counts: Float[np.ndarray, " batch"],
) -> tuple[Float[np.ndarray, " kind"], Float[np.ndarray, " batch"]]:
    """Return the weights of some kinds, and the log density of each row under all together."""
    weights = stacking_weights(log_density, prior, counts)
    with np.errstate(divide="ignore"):
        return weights, np.logaddexp.reduce(log_density + np.log(weights), axis=1)


def _mean(values: Float[np.ndarray, " batch"], counts: Float[np.ndarray, " batch"]) -> float:
    return float(np.average(values, weights=counts)) if len(values) else float("nan")


def _make_guard(
    train: Rows, linear: Linear, left_out: Float[np.ndarray, "batch dim"], widest: Any
) -> Guard:
    """Return the guard with weights still to be learned."""
    y, counts = train.y, train.counts
    center = np.average(y, axis=0, weights=counts)
    variance = _widened(np.average((y - center) ** 2, axis=0, weights=counts), len(y))
    std = np.sqrt(variance)
    low = np.minimum(y.min(axis=0), center - _LEAST_REACH * std)
    high = np.maximum(y.max(axis=0), center + _LEAST_REACH * std)
    arrays = {
        "log_weights": np.zeros(1 + len(_PRIOR)),
        "slope": linear.slope,
        "intercept": linear.intercept,
        "noise": _widened(np.average(left_out**2, axis=0, weights=counts), len(y)),
        "center": center,
        "widths": np.stack([width**2 * variance for width in (*WIDTHS[:-1], widest)]),
        "low": train.x.min(axis=0),
        "high": train.x.max(axis=0),
        "unit": np.where(np.ptp(train.x, axis=0) > 0, train.x.std(axis=0), 1.0),
        "floor": low - 0.5 * (high - low),
        "ceiling": high + 0.5 * (high - low),
    }
    return Guard(**{name: jnp.asarray(array, jnp.float32) for name, array in arrays.items()})


def _fit_linear(train: Rows) -> tuple[Linear, Float[np.ndarray, "batch dim"]]:
    """Return a linear model, and each row's error when the row is left out."""
    rows = np.flatnonzero(train.counts)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MAX_ROWS)).astype(int))]
    model = fit_linear(*(part[rows] for part in train[:3]))
    # More rows than these hardly change the model, and are hardly changed by leaving one out.
    error = train.y - model.predict(train.x)
    error[rows] = model.left_out
    return model, error


def _widened(variance: Float[np.ndarray, " dim"], n_rows: int) -> Float[np.ndarray, " dim"]:
    """Return a variance from few rows, with what its own estimate leaves uncertain added.

    Of a Student-t distribution, which a Gaussian with unknown mean and variance predicts.
    """
    return np.maximum(variance, 1e-12) * (n_rows + 1) / max(1, n_rows - 3)


def _left_out_log_densities(
    family: AbstractFamily,
    guard: Guard,
    train: Rows,
    left_out: Float[np.ndarray, "batch dim"],
) -> Float[np.ndarray, "batch kind"]:
    """Return the log density of each training row under each simple density without that row."""
    total = train.counts.sum()
    others = total - train.counts
    grow = np.where(others > 0, total / np.where(others > 0, others, 1.0), 1.0)
    around = (train.y - np.asarray(guard.center)) * grow[:, None]
    errors = [left_out, *[around] * len(WIDTHS)]
    variances = np.concatenate([np.asarray(guard.noise)[None], np.asarray(guard.widths)])
    if not family.admits_shift:
        means = np.stack([train.y - error for error in errors], axis=1)
        given = train.y if train.ends is None else train.ends
        means, given = _single(means, given)
        return np.asarray(_around_means(family, means, given, variances), float)
    offsets = np.stack(list(map(train.around, errors)), axis=1)
    return np.asarray(_around_zero(family, np.float32(offsets), variances), float)


@kept()
def _around_zero(
    family: AbstractFamily,
    offsets: Float[Array, "batch kind given"],
    variances: Float[Array, "kind dim"],
) -> Float[Array, "batch kind"]:
    """Return densities around zero, where a shift changes no shape."""
    params = jax.vmap(family.from_moments)(jnp.zeros_like(variances), variances)
    return jax.vmap(jax.vmap(family.log_likelihood), in_axes=(None, 0))(params, offsets)


@kept()
def _around_means(
    family: AbstractFamily,
    means: Float[Array, "batch kind dim"],
    given: Float[Array, "batch given"],
    variances: Float[Array, "kind dim"],
) -> Float[Array, "batch kind"]:
    """Return densities with a mean for each row, where a shift changes their shape."""

    def one(mean: Array, variance: Array, given: Array) -> Array:
        return family.log_likelihood(family.from_moments(mean, variance), given)

    return jax.vmap(jax.vmap(one, in_axes=(0, 0, None)), in_axes=(0, None, 0))(
        means, variances, given
    )


def _single(*arrays: np.ndarray) -> tuple[Array, ...]:
    return tuple(jnp.asarray(array, jnp.float32) for array in arrays)


@kept()
def _densities(
    family: AbstractFamily, guard: Guard, x: Float[Array, "batch features"], y: Array
) -> Float[Array, "batch kind"]:
    def one(x: Float[Array, " features"], y: Float[Array, " given"]) -> Float[Array, " kind"]:
        components = guard.components(family, guard.clip(x))
        return jax.vmap(family.log_likelihood, in_axes=(0, None))(components, y)

    return jax.vmap(one)(x, y)


def _log_densities(
    family: AbstractFamily, guard: Guard, x: np.ndarray, y: np.ndarray
) -> Float[np.ndarray, "batch kind"]:
    """Return the log density of other rows under each simple density."""
    return np.asarray(_densities(family, guard, *_single(x, y)), float)
