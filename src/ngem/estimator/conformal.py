"""Split conformal recalibration: regions that cover as often as they say, whatever the model."""

import math
import warnings
from typing import Any

import numpy as np

from .. import _errors
from .scorers import unwrap

# The model's masses are computed in single precision. This much is added to what is asked of it, so
# that rounding seldom takes a target on the boundary out of its region,
_SLACK = 4 * float(np.finfo(np.float32).eps)
# and this close to 1 a mass can no longer be told from 1: there the region is the whole line.
_RESOLUTION = 16 * float(np.finfo(np.float32).eps)


class ConformalRegressor:
    """Intervals with guaranteed coverage, from a fitted model and rows that it has not seen.

    The score of a row is the mass of the model's highest-density region whose boundary goes through
    y. The region for a new row is the model's at the mass m which ceil((n + 1) coverage) of the n
    calibration rows do not exceed. If the new row is exchangeable with those, it is covered with a
    probability of at least `coverage`, and at most 1 / (n + 1) more where scores are not tied:
    averaged over calibration sets and over X, not for each X.

    For several target columns the mass is that of the joint region, estimated from draws. Such a
    region is no list of intervals: ask `contains` instead.

    >>> from ngem import MDNRegressor
    >>> def recalibrate(model: MDNRegressor, X, y, X_new):
    ...     return ConformalRegressor(model).calibrate(X, y).predict_interval(X_new, coverage=0.9)

    Args:
        model: A fitted `MDNRegressor`, or a `Pipeline` or search that ends in one.
        n_samples: Draws per row for joint regions.
        random_state: Seed of these draws.

    Attributes:
        scores_: The masses of the calibration rows, ascending.
    """

    scores_: np.ndarray

    def __init__(self, model: Any, *, n_samples: int = 1000, random_state: int = 0):
        self.model = model
        self.n_samples = n_samples
        self.random_state = random_state

    def calibrate(self, X: Any, y: Any) -> "ConformalRegressor":
        """Compute the scores of rows that the model was neither trained nor chosen on."""
        scores, estimator = self._scores(X, y, purpose=0)
        _errors.check_finite("the calibration scores", scores)
        self.scores_ = np.sort(scores)
        self._calibrated = _identity(estimator)
        return self

    def mass(self, coverage: float | int = 0.9) -> float:
        """Return the mass of the model's region that covers with the given probability.

        Above `coverage` for a model that is too sure, below it for one that is not sure enough.
        """
        return conformal_quantile(self._ready_scores(), coverage)

    def predict_interval(self, X: Any, coverage: float | int = 0.9) -> np.ndarray:
        """Return the recalibrated highest-density regions of one target column.

        Args:
            X: Features.
            coverage: Probability with which a region holds its target.

        Returns:
            In the shape of `MDNRegressor.predict_interval`. The whole line, with a warning, where
            the model is so far off that no smaller region of its own covers often enough.
        """
        estimator, X = self._ready(X)
        if estimator.n_outputs_ > 1:
            raise ValueError(
                f"predict_interval needs one target column, got {estimator.n_outputs_}; a joint "
                "region is no list of intervals: test targets with contains(X, y, coverage), or "
                "fit one model per column."
            )
        mass = self.mass(coverage) + _SLACK
        if not self._is_everything(mass, coverage, _RESOLUTION):
            return estimator.predict_interval(X, mass)
        rows = np.shape(estimator.predict(X))
        return np.broadcast_to((-np.inf, np.inf), (*rows, 1, 2)).copy()

    def contains(self, X: Any, y: Any, coverage: float | int = 0.9) -> np.ndarray:
        """Return whether each row's targets, all columns together, lie in its region.

        With a warning where the region is everything: the model is so far off that no smaller one
        of its own covers often enough.
        """
        estimator, _ = self._ready(X)
        mass = self.mass(coverage)
        resolution = _RESOLUTION if estimator.n_outputs_ == 1 else 1 / self.n_samples
        self._is_everything(mass, coverage, resolution)
        return self._scores(X, y, purpose=1)[0] <= mass

    def _is_everything(self, mass: float, coverage: float | int, resolution: float) -> bool:
        """Tell, with a warning, whether a mass is so near 1 that its region leaves nothing out."""
        if mass <= 1 - resolution:
            return False
        warnings.warn(
            f"coverage {coverage} needs a region of the model's mass beyond 1 - {resolution:.0e}, "
            "which cannot be told from everything: the model is far too sure of itself; train "
            "it with more patience or fewer components, or raise scale_floor.",
            stacklevel=3,
        )
        return True

    def _scores(self, X: Any, y: Any, *, purpose: int) -> tuple[np.ndarray, Any]:
        estimator, X = unwrap(self.model, X)
        if estimator.n_outputs_ == 1:
            return np.asarray(estimator.region_mass(X, y), np.float64).reshape(-1), estimator
        # Other draws for new rows than for those of the calibration, so that they are independent.
        seed = np.random.RandomState([self.random_state, purpose])
        scores = estimator.joint_region_mass(X, y, self.n_samples, seed)
        return np.asarray(scores, np.float64), estimator

    def _ready(self, X: Any) -> tuple[Any, Any]:
        """Return the estimator and its features, refusing a model that has changed since."""
        self._ready_scores()
        estimator, X = unwrap(self.model, X)
        if _identity(estimator) is not self._calibrated:
            raise ValueError(
                "the model must be the one that was calibrated, got one fitted since; call "
                "calibrate(X, y) again."
            )
        return estimator, X

    def _ready_scores(self) -> np.ndarray:
        if not hasattr(self, "scores_"):
            raise ValueError(
                "the model must be calibrated first, got none; call calibrate(X, y) with rows "
                "that it was not trained on."
            )
        return self.scores_


def conformal_quantile(scores: np.ndarray, coverage: float | int) -> float:
    """Return the ceil((n + 1) coverage)-th smallest of n scores.

    A new score, exchangeable with these, is at most as large with a probability of at least
    `coverage`. Given the scores that probability is Beta(k, n + 1 - k), with k this rank.

    >>> conformal_quantile(np.array([0.4, 0.1, 0.2, 0.3]), 0.5)
    0.3
    """
    _errors.check_fraction("coverage", coverage)
    n = len(scores)
    # 0.9 is not exactly nine tenths: what rounding adds must not raise the rank.
    rank = max(1, math.ceil((n + 1) * coverage - 1e-9))
    if rank > n:
        raise ValueError(
            f"coverage must be at most n / (n + 1) = {n / (n + 1):.4g} with n = {n} calibration "
            f"rows, got {coverage}; ask for less, or calibrate with at least coverage / "
            "(1 - coverage) rows."
        )
    return float(np.sort(scores)[rank - 1])


def _identity(estimator: Any) -> Any:
    """Return what is replaced when an estimator is fitted again."""
    return getattr(estimator, "model_", estimator)
