"""Scores of predicted densities, one number per row, and tests of calibration.

Proper scores (`nll`, `crps`, `energy_score`) measure how good a density is: lower is better, and
the mean over rows is the number to report. Calibration (`pit`, `reliability`, `pit_uniformity`,
`coverage`) compares predicted probabilities with observed frequencies.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from . import _errors
from .mixture import Mixture, checks

#: Most numbers that a block of `energy_score` holds in memory.
_BUDGET = 2**22

#: Default nominal levels of `reliability`.
LEVELS = tuple(n / 20 for n in range(1, 20))


class Reliability(NamedTuple):
    """Nominal levels, observed fractions, and the band in which a calibrated model's lie."""

    levels: np.ndarray
    observed: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


class Uniformity(NamedTuple):
    """The Kolmogorov-Smirnov distance from uniform, and its p-value."""

    statistic: float
    p_value: float


# Any: what users pass may be anything, and checks say what it may be.
def nll(mixture: Mixture, y: Any) -> np.ndarray:
    """Return the negative log-likelihood of each row, in nats.

    Values may be negative, because a density may exceed 1.

    >>> from ngem import gaussian_mixture
    >>> mixture = gaussian_mixture([0.0], [[0.0]], [[1.0]])
    >>> print(nll(mixture, [0.0, 1.0]).round(3))
    [0.919 1.419]

    Args:
        mixture: One density per row, or one for all rows.
        y: Targets, (rows, dim), or (rows,) for one column.
    """
    y = _read(mixture, y)
    return -np.asarray(mixture.log_prob(y))


def crps(mixture: Mixture, y: Any) -> np.ndarray:
    """Return the continuous ranked probability score of each row, in the units of y.

    E|Y - y| - E|Y - Y'| / 2 in closed form, for one target column. For a density that is a point
    this is the absolute error.

    >>> from ngem import gaussian_mixture
    >>> mixture = gaussian_mixture([0.0], [[0.0]], [[1.0]])
    >>> print(crps(mixture, [0.0]).round(3))
    [0.234]
    """
    y = _read(mixture, y)
    checks.check_one_dimensional("crps", mixture.dim)
    return np.asarray(mixture.crps(y))


def energy_score(mixture: Mixture, y: Any, *, n_samples: Any = 256, key: Any = None) -> np.ndarray:
    """Return an unbiased estimate of the energy score of each row, the CRPS for several columns.

    E|Y - y| - E|Y - Y'| / 2 with Euclidean distances, estimated from samples. No sample is compared
    with itself, so the mean over rows is unbiased for any number of samples. Columns with large
    values dominate: standardize them first.

    Args:
        mixture: One density per row, or one for all rows.
        y: Targets, (rows, dim).
        n_samples: Samples per row, at least 2. The cost grows with the square.
        key: Source of randomness. The default is key 0.
    """
    # Each sample is compared with the others.
    n_samples = _errors.check_count("n_samples", n_samples, 2, 256)
    y = _read(mixture, y)
    mixture = _broadcast(mixture, len(y))
    source = checks.check_key(jax.random.key(0) if key is None else key)
    size = max(1, _BUDGET // (n_samples * mixture.n_components * mixture.dim))
    size = min(size, len(y))
    parts = []
    for number, start in enumerate(range(0, len(y), size)):
        # The last block repeats its last row: all blocks have one shape and one compiled program.
        rows = np.minimum(np.arange(start, start + size), len(y) - 1)
        block = jax.tree.map(lambda leaf, rows=rows: leaf[rows], mixture)
        scores = _energy(block, y[rows], jax.random.fold_in(source, number), n_samples)
        parts.append(np.asarray(scores)[: len(y) - start])
    return np.concatenate(parts)


def pit(mixture: Mixture, y: Any, random_state: int = 0) -> np.ndarray:
    """Return P(Y <= y) of each row, the probability integral transform, for one target column.

    The values are uniform on (0, 1) if the densities are the true ones. A peak in the middle means
    that the densities are too wide, peaks at both ends that they are too narrow, and a slope that
    they are shifted. Of counts, and of single values with a probability of their own, they are
    random numbers between P(Y < y) and P(Y <= y), drawn with the seed `random_state`.
    """
    targets = _read(mixture, y)
    checks.check_one_dimensional("cdf", mixture.dim)
    at = np.asarray(mixture.cdf(targets))
    if not mixture.family.has_steps:
        return at
    before = np.asarray(mixture.cdf_before(targets))
    return before + np.random.default_rng(random_state).uniform(size=at.shape) * (at - before)


def covered(intervals: Any, y: Any) -> np.ndarray:
    """Return whether each row's target lies in its region.

    Args:
        intervals: Ends as `Mixture.interval` or `MDNRegressor.predict_interval` return them,
            (rows, pieces, 2) with NaN for missing pieces; or (rows, 2).
        y: Targets, (rows,) or (rows, 1).
    """
    ends, y = _read_intervals(intervals, y)
    # A comparison with NaN is false, so missing pieces contain no target.
    return np.any((ends[..., 0] <= y[:, None]) & (y[:, None] <= ends[..., 1]), axis=1)


def coverage(intervals: Any, y: Any) -> float:
    """Return the fraction of targets that lie in their regions; see `covered`.

    >>> coverage([[0.0, 1.0], [0.0, 1.0]], [0.5, 2.0])
    0.5
    """
    return float(np.mean(covered(intervals, y)))


def interval_score(intervals: Any, y: Any, nominal: Any) -> np.ndarray:
    """Return the width of each interval plus 2 / (1 - nominal) times the distance of y from it.

    Its expectation is lowest at the true equal-tailed interval, so a narrow interval scores well
    only if it covers. There is no such score for regions of several pieces.

    >>> interval_score([[0.0, 1.0], [0.0, 1.0]], [0.5, 1.1], 0.9).round(6).tolist()
    [1.0, 3.0]

    Args:
        intervals: (rows, 2), or (rows, pieces, 2) with exactly one piece per row that is not NaN.
        y: Targets, (rows,) or (rows, 1).
        nominal: Nominal coverage of the intervals, below 1.
    """
    ends, y = _read_intervals(intervals, y)
    nominal = _errors.check_probability("nominal", nominal)
    if nominal == 1:
        raise ValueError(
            "nominal must be below 1, got 1; compare intervals that always cover by their width."
        )
    pieces = np.sum(~np.isnan(ends[..., 0]), axis=1)
    if np.any(pieces != 1):
        row = int(np.argmax(pieces != 1))
        raise ValueError(
            f"intervals must hold one interval per row, got {pieces[row]} in row {row}; use "
            'kind="equal-tailed", which always gives one interval.'
        )
    low, high = np.nanmax(ends, axis=1).T
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return high - low + 2 / (1 - nominal) * outside


def reliability(
    pit: Any, levels: Any = LEVELS, *, kind: str = "below", confidence: Any = 0.95
) -> Reliability:
    """Return the observed frequency at each nominal probability.

    Args:
        pit: Values of the probability integral transform.
        levels: Nominal probabilities.
        kind: "below", the fraction of targets below the quantile at each level; or "central", the
            fraction within the equal-tailed interval of each coverage.
        confidence: Probability that the observed fraction of a calibrated model lies within the
            band, at each level separately. With 20 levels and a confidence of 0.95, expect a
            calibrated model to leave the band at one level.

    >>> result = reliability([0.1, 0.3, 0.5, 0.9], [0.5])
    >>> result.observed.tolist(), result.lower.tolist(), result.upper.tolist()
    ([0.75], [0.0], [1.0])
    """
    values = np.sort(_read_pit(pit))
    levels = np.atleast_1d(_errors.as_numbers("levels", levels))
    if levels.ndim != 1 or not levels.size:
        raise ValueError(
            f"levels must be a number or a sequence of them, got shape {levels.shape}; try [0.9]."
        )
    _errors.check_fraction("levels", levels)
    if _errors.check_choice("kind", kind, ("below", "central")) == "central":
        values = np.sort(np.abs(2 * values - 1))
    observed = np.searchsorted(values, levels, side="right") / len(values)
    lower, upper = _binomial_quantiles(len(values), levels, confidence) / len(values)
    return Reliability(levels, observed, lower, upper)


def binomial_band(n: Any, p: Any, confidence: Any = 0.95) -> tuple[int, int]:
    """Return two counts between which Binomial(n, p) lies with probability at least `confidence`.

    These are its quantiles at (1 - confidence) / 2 and (1 + confidence) / 2.
    """
    n = _errors.check_count("n", n, 0, 100)
    low, high = _binomial_quantiles(n, _errors.check_probability("p", p), confidence)
    return int(low), int(high)


def pit_uniformity(pit: Any) -> Uniformity:
    """Return the Kolmogorov-Smirnov test of whether PIT values are uniform.

    A small p-value means that the densities are not the true ones. A large p-value means only that
    these rows do not show a difference. The rows must be independent, and the model must not have
    been trained on them. The p-value is exact, from `scipy.stats.kstest`; version 0.1 used an
    approximation with an error of up to 0.01.

    >>> round(pit_uniformity([0.1, 0.3, 0.5, 0.7, 0.9]).statistic, 6)
    0.1
    """
    from scipy import stats  # half a second: only when needed

    result = stats.kstest(_read_pit(pit), "uniform")
    return Uniformity(float(result.statistic), float(result.pvalue))


def _binomial_quantiles(
    n: int, p: float | int | np.ndarray, confidence: Any
) -> Float[np.ndarray, "2 ..."]:
    """Return the quantiles of Binomial(n, p) at (1 - confidence) / 2 on either side."""
    from scipy import stats  # half a second: only when needed

    confidence = _errors.check_probability("confidence", confidence)
    ends = [stats.binom.ppf(0.5 + side * confidence / 2, n, p) for side in (-1, 1)]
    return np.maximum(ends, 0)  # the quantile at 0 is -1


@eqx.filter_jit
def _energy(
    mixture: Mixture, y: Float[Array, "batch dim"], key: PRNGKeyArray, n_samples: int
) -> Float[Array, " batch"]:
    """Return E|Y - y| - E|Y - Y'| / 2 of each row, estimated from samples."""
    samples = mixture.sample(key, (n_samples,))

    def add_distances(
        total: Float[Array, " batch"], one: Float[Array, "batch dim"]
    ) -> tuple[Float[Array, " batch"], None]:
        return total + jnp.sum(_distance(samples, one), axis=0), None

    # One sample at a time against all, to save memory; its distance to itself is zero.
    pairs, _ = jax.lax.scan(add_distances, jnp.zeros_like(y[:, 0]), samples)
    error = jnp.mean(_distance(samples, y), axis=0)
    return error - 0.5 * pairs / (n_samples * (n_samples - 1))


def _distance(
    samples: Float[Array, "samples batch dim"], y: Float[Array, "batch dim"]
) -> Float[Array, "samples batch"]:
    return jnp.linalg.norm(samples - y[None], axis=-1)


def _broadcast(mixture: Mixture, n_rows: int) -> Mixture:
    """Return one density per row, also if the mixture is one density for all rows."""
    if mixture.batch_shape:
        return mixture
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n_rows, *leaf.shape)), mixture)


def _read(mixture: Mixture, y: Any) -> Float[Array, "batch dim"]:
    """Return targets as (rows, dim), or raise if they do not fit the mixture."""
    if not isinstance(mixture, Mixture):
        raise TypeError(
            f"mixture must be a Mixture, got {type(mixture).__name__}; pass what "
            "model.predict_distribution(X) returns."
        )
    batch = mixture.batch_shape
    if len(batch) > 1:
        raise ValueError(
            f"mixture must have one axis of rows, got batch shape {batch}; flatten its arrays "
            "first."
        )
    values = _errors.as_numbers("y", y).astype(mixture.logits.dtype)
    if values.ndim == 1 and mixture.dim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise ValueError(
            f"y must have shape {(*(batch or ('rows',)), mixture.dim)}, got {values.shape}; give "
            "one target per row of the mixture."
        )
    _errors.check_finite("y", values)
    targets = checks.shape_targets("y", jnp.asarray(values), batch, mixture.dim)
    _errors.check_not_empty(targets.shape)
    return targets


def _read_intervals(intervals: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return ends as (rows, pieces, 2) and targets as (rows,)."""
    ends, values = _errors.as_numbers("intervals", intervals), _errors.as_numbers("y", y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if ends.ndim == 2:
        ends = ends[:, None]
    fits = ends.ndim == 3 and ends.shape[-1] == 2 and values.shape == ends.shape[:1]
    if not fits or not len(values):
        raise ValueError(
            "intervals must have shape (rows, pieces, 2) or (rows, 2) and y shape (rows,), got "
            f"{np.shape(intervals)} and {np.shape(y)}; for several target columns pass one at a "
            "time: intervals[:, column], y[:, column]."
        )
    _errors.check_finite("y", values)
    return ends, values


def _read_pit(pit: Any) -> np.ndarray:
    values = _errors.as_numbers("pit", pit)
    if values.ndim != 1 or not len(values):
        raise ValueError(
            f"pit must have shape (rows,) with at least one row, got {values.shape}; for several "
            "target columns pass one at a time: pit[:, column]."
        )
    _errors.check_finite("pit", values)
    _errors.check_fraction("pit", values)
    return values
