"""What we report: scores of predicted densities, one number per row, and tests of calibration.

A density is judged by a proper score (`nll`, `crps`, `energy_score`), lower is better, whose mean
over rows is the figure to report; and by its calibration, which looks at the probabilities that it
gave to what came true (`pit`, `reliability`, `pit_uniformity`, `coverage`).
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from . import _errors
from .mixture import Mixture, checks

#: Numbers that a block of `energy_score` may keep at a time.
_BUDGET = 2**22

#: Nominal levels at which `reliability` looks if none are asked for.
LEVELS = tuple(n / 20 for n in range(1, 20))

#: Terms of Kolmogorov's series; where its argument is at least 0.2, later ones vanish.
_TERMS = 40


class Reliability(NamedTuple):
    """Nominal levels against observed shares, and where a calibrated model's would lie."""

    levels: np.ndarray
    observed: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


class Uniformity(NamedTuple):
    """The largest distance from uniform, and how often chance alone gives one as large."""

    statistic: float
    p_value: float


def nll(mixture: Mixture, y: Any) -> np.ndarray:
    """Return the negative log-likelihood of each row, in nats.

    It is the negative of a log density, so negative values are fine.

    >>> from ngem import gaussian_mixture
    >>> mixture = gaussian_mixture([0.0], [[0.0]], [[1.0]])
    >>> print(nll(mixture, [0.0, 1.0]).round(3))
    [0.919 1.419]

    Args:
        mixture: One density per row, or one for all rows.
        y: Targets, (rows, dim), or (rows,) for one column.
    """
    return -np.asarray(mixture.log_prob(_read(mixture, y)))


def crps(mixture: Mixture, y: Any) -> np.ndarray:
    """Return the continuous ranked probability score of each row, in the units of y.

    E|Y - y| - E|Y - Y'| / 2 in closed form, for one target column; the absolute error where the
    density is a point.

    >>> from ngem import gaussian_mixture
    >>> mixture = gaussian_mixture([0.0], [[0.0]], [[1.0]])
    >>> print(crps(mixture, [0.0]).round(3))
    [0.234]
    """
    checks.check_one_dimensional("crps", mixture.dim)
    return np.asarray(mixture.crps(_read(mixture, y)))


def energy_score(
    mixture: Mixture, y: Any, *, n_samples: int = 256, key: PRNGKeyArray | None = None
) -> np.ndarray:
    """Return an unbiased estimate of the energy score of each row, the CRPS in many dimensions.

    E|Y - y| - E|Y - Y'| / 2 with Euclidean distances, from draws; a draw is never compared with
    itself, so the mean over rows has no bias, whatever the number of draws. Columns with large
    units dominate: standardise them first.

    Args:
        mixture: One density per row, or one for all rows.
        y: Targets, (rows, dim).
        n_samples: Draws for each row, at least 2; the work grows with their square.
        key: Source of randomness; key 0 if none is given.
    """
    if n_samples < 2:
        raise ValueError(
            f"n_samples must be at least 2, got {n_samples}; a draw needs another to be compared "
            "with, try n_samples=256."
        )
    y = _read(mixture, y)
    mixture = _broadcast(mixture, len(y))
    key = jax.random.key(0) if key is None else key
    size = max(1, _BUDGET // (n_samples * mixture.n_components * mixture.dim))
    size = min(size, len(y))
    parts = []
    for number, start in enumerate(range(0, len(y), size)):
        # The last block repeats its last row, so that all have one shape and one program.
        rows = np.minimum(np.arange(start, start + size), len(y) - 1)
        block = jax.tree.map(lambda leaf, rows=rows: leaf[rows], mixture)
        found = _energy(block, y[rows], jax.random.fold_in(key, number), n_samples)
        parts.append(np.asarray(found)[: len(y) - start])
    return np.concatenate(parts)


def pit(mixture: Mixture, y: Any) -> np.ndarray:
    """Return P(Y <= y) of each row, the probability integral transform, for one target column.

    Uniform on (0, 1) where the densities are true: a heap in the middle says that they are too
    wide, heaps at the ends that they are too narrow, a slope that they are shifted.
    """
    checks.check_one_dimensional("cdf", mixture.dim)
    return np.asarray(mixture.cdf(_read(mixture, y)))


def covered(intervals: Any, y: Any) -> np.ndarray:
    """Return whether each row's target lies in its region.

    Args:
        intervals: Ends as `Mixture.interval` or `MDNRegressor.predict_interval` give them,
            (rows, pieces, 2) with NaN where there are no more pieces; or (rows, 2).
        y: Targets, (rows,) or (rows, 1).
    """
    ends, y = _read_intervals(intervals, y)
    # Nothing compares with NaN, so pieces that do not exist hold no target.
    return np.any((ends[..., 0] <= y[:, None]) & (y[:, None] <= ends[..., 1]), axis=1)


def coverage(intervals: Any, y: Any) -> float:
    """Return the share of targets that lie in their regions; see `covered`.

    >>> coverage([[0.0, 1.0], [0.0, 1.0]], [0.5, 2.0])
    0.5
    """
    return float(np.mean(covered(intervals, y)))


def interval_score(intervals: Any, y: Any, nominal: float | int) -> np.ndarray:
    """Return the width of each interval plus 2 / (1 - nominal) times how far y lies outside.

    Lowest in expectation at the true equal-tailed interval, so it rewards narrow intervals only
    as long as they cover. There is no such score for regions of several pieces.

    >>> interval_score([[0.0, 1.0], [0.0, 1.0]], [0.5, 1.1], 0.9).round(6).tolist()
    [1.0, 3.0]

    Args:
        intervals: (rows, 2), or (rows, pieces, 2) with one piece that is not NaN in each row.
        y: Targets, (rows,) or (rows, 1).
        nominal: The coverage that the intervals were made for, below 1.
    """
    ends, y = _read_intervals(intervals, y)
    _errors.check_fraction("nominal", nominal)
    if nominal == 1:
        raise ValueError(
            "nominal must be below 1, got 1; an interval that must always cover is scored by its "
            "width alone."
        )
    pieces = np.sum(~np.isnan(ends[..., 0]), axis=1)
    if np.any(pieces != 1):
        row = int(np.argmax(pieces != 1))
        raise ValueError(
            f"intervals must hold one interval per row, got {pieces[row]} in row {row}; score "
            'those of kind="equal-tailed", which are never split.'
        )
    low, high = np.nanmax(ends, axis=1).T
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return high - low + 2 / (1 - nominal) * outside


def reliability(
    pit: Any, levels: Any = LEVELS, *, kind: str = "below", confidence: float | int = 0.95
) -> Reliability:
    """Return how often what was given a probability came true.

    Args:
        pit: Values of the probability integral transform.
        levels: Nominal probabilities.
        kind: "below", the share of targets below the quantile at each level; or "central", the
            share within the equal-tailed interval of each coverage.
        confidence: Share of calibrated models whose observed share lies within the band, at each
            level by itself. A few of twenty points outside a band of 0.95 are no surprise.

    >>> found = reliability([0.1, 0.3, 0.5, 0.9], [0.5])
    >>> found.observed.tolist(), found.lower.tolist(), found.upper.tolist()
    ([0.75], [0.0], [1.0])
    """
    values = np.sort(_read_pit(pit))
    levels = np.atleast_1d(np.asarray(levels, np.float64))
    _errors.check_fraction("levels", levels)
    if _errors.check_choice("kind", kind, ("below", "central")) == "central":
        values = np.sort(np.abs(2 * values - 1))
    observed = np.searchsorted(values, levels, side="right") / len(values)
    bands = np.array([binomial_band(len(values), level, confidence) for level in levels])
    return Reliability(levels, observed, *bands.T / len(values))


def binomial_band(n: int, p: float | int, confidence: float | int = 0.95) -> tuple[int, int]:
    """Return counts between which a binomial one lies with a probability of at least `confidence`.

    The quantiles of Binomial(n, p) at (1 - confidence) / 2 on either side, exactly.
    """
    _errors.check_fraction("confidence", confidence)
    if p in (0, 1):
        return int(n * p), int(n * p)
    # Beyond forty standard deviations, and a hundred counts, there is nothing in float64.
    reach = 40 * math.sqrt(n * p * (1 - p)) + 100
    first, last = max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach))
    k = np.arange(first, last + 1)
    # Each mass from the one before it, in logarithms and up to a factor.
    ratios = np.log((n - k[:-1]) / k[1:]) + math.log(p) - math.log1p(-p)
    log_mass = np.concatenate([[0.0], np.cumsum(ratios)])
    below = np.cumsum(np.exp(log_mass - log_mass.max()))
    tails = np.array([0.5 - confidence / 2, 0.5 + confidence / 2])
    low, high = np.minimum(np.searchsorted(below / below[-1], tails), last - first)
    return first + int(low), first + int(high)


def pit_uniformity(pit: Any) -> Uniformity:
    """Return the Kolmogorov-Smirnov test of whether PIT values are uniform.

    A small p-value says that the densities are not those of the rows; a large one that these rows
    do not tell. Kolmogorov's limit with Stephens' correction for few rows, whose p-values are
    right to about 0.01. The rows must be independent, and the model must not have seen them.

    >>> round(pit_uniformity([0.1, 0.3, 0.5, 0.7, 0.9]).statistic, 6)
    0.1
    """
    values = np.sort(_read_pit(pit))
    n = len(values)
    steps = np.arange(n + 1) / n
    distance = float(max(np.max(steps[1:] - values), np.max(values - steps[:-1])))
    root = math.sqrt(n)
    return Uniformity(distance, _kolmogorov((root + 0.12 + 0.11 / root) * distance))


def _kolmogorov(t: float) -> float:
    """Return P(K > t) = 2 sum_j (-1)^(j-1) exp(-2 j^2 t^2) for Kolmogorov's K."""
    if t < 0.2:  # P(K < 0.2) is below 1e-12, where the alternating series converges slowly
        return 1.0
    j = np.arange(1, _TERMS + 1)
    series = 2 * np.sum((-1.0) ** (j - 1) * np.exp(-2 * j**2 * t**2))
    return float(np.clip(series, 0.0, 1.0))


@eqx.filter_jit
def _energy(
    mixture: Mixture, y: Float[Array, "batch dim"], key: PRNGKeyArray, n_samples: int
) -> Float[Array, " batch"]:
    draws = mixture.sample(key, (n_samples,))

    def to_all(total: Float[Array, " batch"], one: Float[Array, "batch dim"]):
        return total + jnp.sum(_distance(draws, one), axis=0), None

    # One draw against all others at a time; its distance to itself is zero.
    pairs, _ = jax.lax.scan(to_all, jnp.zeros_like(y[:, 0]), draws)
    error = jnp.mean(_distance(draws, y), axis=0)
    return error - 0.5 * pairs / (n_samples * (n_samples - 1))


def _distance(
    draws: Float[Array, "draws batch dim"], y: Float[Array, "batch dim"]
) -> Float[Array, "draws batch"]:
    return jnp.linalg.norm(draws - y[None], axis=-1)


def _broadcast(mixture: Mixture, n_rows: int) -> Mixture:
    """Return one density per row, where there was one for all."""
    if mixture.batch_shape:
        return mixture
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n_rows, *leaf.shape)), mixture)


def _read(mixture: Mixture, y: Any) -> Float[Array, "batch dim"]:
    """Return targets in rows and columns, refusing those that do not fit the mixture."""
    batch = mixture.batch_shape
    if len(batch) > 1:
        raise ValueError(
            f"mixture must have one axis of rows, got {batch}; flatten its leaves first."
        )
    values = np.asarray(y, np.dtype(mixture.logits.dtype))
    if values.ndim == 1 and mixture.dim == 1:
        values = values[:, None]
    if values.ndim != 2 or (batch and batch[0] != len(values)):
        raise ValueError(
            f"y must have shape {(*(batch or ('rows',)), mixture.dim)}, got {values.shape}; give "
            "one target per row of the mixture."
        )
    _errors.check_finite("y", values)
    targets = jnp.asarray(values)
    checks.check_target(batch, mixture.dim, targets)
    return targets


def _read_intervals(intervals: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return ends as (rows, pieces, 2) and targets as (rows,)."""
    ends, values = np.asarray(intervals, np.float64), np.asarray(y, np.float64)
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
    values = np.asarray(pit, np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError(
            f"pit must have shape (rows,) with at least one row, got {values.shape}; for several "
            "target columns pass one at a time: pit[:, column]."
        )
    _errors.check_finite("pit", values)
    _errors.check_fraction("pit", values)
    return values
