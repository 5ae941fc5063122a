"""Conformal recalibration: regions that cover what they promise, for any model."""

import math
import os
import warnings
from typing import Any

import numpy as np

from .. import _errors
from . import conformal_file
from .interface import Regressor, cloned
from .rules import is_integer
from .scorers import unwrap

#: Added to a requested mass. The model computes masses in single precision; without this, rounding
#: would often exclude a target that lies on the boundary of its region.
_SLACK = 4 * float(np.finfo(np.float32).eps)

#: A mass closer to 1 than this is treated as 1: the region is then the whole line.
_RESOLUTION = 16 * float(np.finfo(np.float32).eps)


class ConformalRegressor(Regressor):
    """Regions with guaranteed coverage, from a fitted model and rows that it was not trained on.

    The score of a row is the mass of the model's highest-density region whose boundary passes
    through y. The region of a new row is the model's highest-density region of mass m, where m is
    the ceil((n + 1) coverage)-th smallest of the n calibration scores. If the new row is
    exchangeable with the calibration rows, its region covers with probability at least `coverage`,
    and at most 1 / (n + 1) more if no scores are tied. This holds on average over calibration sets
    and over X, not for each X.

    For several target columns the score is the mass of the joint region, estimated from samples. A
    joint region is not a list of intervals, so use `contains` instead of `predict_interval`.

    >>> from ngem import MDNRegressor
    >>> def recalibrate(model: MDNRegressor, X, y, X_new):
    ...     return ConformalRegressor(model).calibrate(X, y).predict_interval(X_new, coverage=0.9)

    `fit` fits the model too, and calibrates it by its own held-out rows. A fitted model is
    calibrated by `calibrate` with other rows, or by `calibrate_held_out`.

    Args:
        model (estimator): An `MDNRegressor`, `MixtureBoostingRegressor` or `DensityStack`, or a
            `Pipeline` or search that ends in one.
        n_samples (int): Samples per row for joint regions.
        random_state (int): Seed of these samples.

    Attributes:
        scores_: The scores of the calibration rows, ascending.
        model_: The model that `fit` fitted, or that a file holds.
    """

    scores_: np.ndarray
    model_: Any

    # Any: scikit-learn leaves the check of parameters to `fit`.
    def __init__(self, model: Any, *, n_samples: Any = 1000, random_state: Any = 0) -> None:
        self.model = model
        self.n_samples = n_samples
        self.random_state = random_state

    def fit(self, X: Any, y: Any, **settings: Any) -> "ConformalRegressor":
        """Fit a copy of the model, and calibrate it by the rows that its members held out.

        Args:
            X: Features.
            y: Targets.
            settings: Further arguments of the model's `fit`.
        """
        model: Any = cloned(self.model)
        self.model_ = model.fit(X, y, **settings)
        return self.calibrate_held_out(X, y)

    def predict(self, X: Any, **settings: Any) -> Any:
        """Return what the model predicts: the mean, or with `quantiles=` quantiles of its density.

        These quantiles are the model's own, not recalibrated; `predict_interval` is.
        """
        return self._model.predict(X, **settings)

    def save(self, path: str | os.PathLike) -> None:
        """Write the calibrated model to one file that holds no code."""
        self._ready_scores()
        conformal_file.save(path, self._model, self.scores_, int(self.n_samples), self.random_state)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "ConformalRegressor":
        """Return the calibrated model that `save` wrote.

        Raises:
            ngem.estimator.model_file.FileError: If the file is damaged or not one of ours.
                Loading an untrusted file can fail, but never runs code from the file.
        """
        model, scores, n_samples, random_state = conformal_file.load(path)
        self = cls(model, n_samples=n_samples, random_state=random_state)
        self.model_, self.scores_ = model, scores
        self._calibrated = _identity(model)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "scores_")

    @property
    def _model(self) -> Any:
        """The model that `fit` fitted, or else the one that was given."""
        return getattr(self, "model_", self.model)

    def calibrate(self, X: Any, y: Any) -> "ConformalRegressor":
        """Compute the scores of rows that were used neither to train nor to select the model.

        Args:
            X: Features.
            y: Targets.
        """
        scores, estimator = self._scores(X, y, purpose=0)
        _errors.check_finite("the calibration scores", scores)
        self.scores_ = np.sort(scores)
        self._calibrated = _identity(estimator)
        return self

    def calibrate_held_out(self, X: Any, y: Any) -> "ConformalRegressor":
        """Compute the scores of the rows that the model was fitted to, each by a member without it.

        No rows need to be kept aside: this is cross-conformal calibration. Scores come from single
        members and regions from all of them together, which are at least as good. So the guarantee
        of `calibrate` does not hold exactly; in simulations regions cover what was asked, or more.

        Args:
            X: The features that the model was fitted to.
            y: Their targets.
        """
        estimator, X = unwrap(self._model, X)
        scores = estimator.held_out_region_mass(X, y, self.n_samples, self._draws(0))
        scores = scores[~np.isnan(scores)]
        if not len(scores):
            raise ValueError(
                "the model must have held rows out, got one that has not; fit it with "
                "early_stopping=True and without an eval_set, or call calibrate with new rows."
            )
        self.scores_ = np.sort(scores)
        self._calibrated = _identity(estimator)
        return self

    def mass(self, coverage: Any = 0.9) -> float:
        """Return the mass that the model's regions need in order to have the given coverage.

        It is above `coverage` if the model is overconfident, and below it if underconfident.
        """
        return conformal_quantile(self._ready_scores(), coverage)

    def predict_interval(self, X: Any, coverage: Any = 0.9) -> np.ndarray:
        """Return the recalibrated highest-density regions of one target column.

        Args:
            X: Features.
            coverage: Probability that a region contains its target.

        Returns:
            An array shaped like that of `MDNRegressor.predict_interval`. If no smaller region of
            the model has the coverage, the whole line, with a warning.
        """
        estimator, X = self._ready(X)
        if estimator.n_outputs_ > 1:
            raise ValueError(
                f"predict_interval needs one target column, got {estimator.n_outputs_}; a joint "
                "region is not a list of intervals: use contains(X, y, coverage), or fit one "
                "model per column."
            )
        mass = self.mass(coverage) + _SLACK
        if not self._is_everything(mass, coverage, _RESOLUTION):
            return estimator.predict_interval(X, mass)
        rows = np.shape(estimator.predict(X))
        return np.broadcast_to((-np.inf, np.inf), (*rows, 1, 2)).copy()

    def contains(self, X: Any, y: Any, coverage: Any = 0.9) -> np.ndarray:
        """Return whether each row's targets, all columns together, lie in its region.

        Warns if the region is the whole space because no smaller region of the model has the
        coverage.
        """
        estimator, _ = self._ready(X)
        mass = self.mass(coverage)
        resolution = _RESOLUTION if estimator.n_outputs_ == 1 else 1 / self.n_samples
        self._is_everything(mass, coverage, resolution)
        return self._scores(X, y, purpose=1)[0] <= mass

    def _is_everything(self, mass: float, coverage: float | int, resolution: float) -> bool:
        """Return whether a mass is too close to 1 to exclude anything; warn if so."""
        if mass <= 1 - resolution:
            return False
        warnings.warn(
            f"coverage {coverage} needs regions of mass above 1 - {resolution:.0e}, which the "
            "model cannot distinguish from the whole space, so the region is the whole space. The "
            "model is far too confident; try more patience, fewer components or a higher "
            "scale_floor.",
            stacklevel=3,
        )
        return True

    def _scores(self, X: Any, y: Any, *, purpose: int) -> tuple[np.ndarray, Any]:
        """Return the score of each row, and the estimator that computed it."""
        estimator, X = unwrap(self._model, X)
        if estimator.n_outputs_ == 1:
            return np.asarray(estimator.region_mass(X, y), np.float64).reshape(-1), estimator
        # New rows and calibration rows get different samples, so that scores are independent.
        scores = estimator.joint_region_mass(X, y, self.n_samples, self._draws(purpose))
        return np.asarray(scores, np.float64), estimator

    def _draws(self, purpose: int) -> np.random.RandomState:
        """Return the random numbers of a purpose."""
        if not is_integer(self.random_state, 0):
            raise ValueError(
                "random_state must be an integer from 0 to 2**31 - 1, got "
                f"{self.random_state!r}; try random_state=0."
            )
        return np.random.RandomState([self.random_state, purpose])

    def _ready(self, X: Any) -> tuple[Any, Any]:
        """Return the estimator and its features; raise if it was fitted again after calibration."""
        self._ready_scores()
        estimator, X = unwrap(self._model, X)
        if _identity(estimator) is not self._calibrated:
            raise ValueError(
                "the model must be the calibrated one, got one that was fitted again later; call "
                "calibrate(X, y) again."
            )
        return estimator, X

    def _ready_scores(self) -> np.ndarray:
        """Return the calibration scores, or raise if there are none."""
        if not hasattr(self, "scores_"):
            raise ValueError(
                "the model must be calibrated first, got no calibration; call calibrate(X, y) "
                "with rows that it was not trained on."
            )
        return self.scores_


def conformal_quantile(scores: np.ndarray, coverage: Any) -> float:
    """Return the ceil((n + 1) coverage)-th smallest of n scores.

    A new score that is exchangeable with these is at most this value with probability at least
    `coverage`. Given the scores, that probability has distribution Beta(k, n + 1 - k), where k is
    the rank.

    >>> conformal_quantile(np.array([0.4, 0.1, 0.2, 0.3]), 0.5)
    0.3
    """
    coverage = _errors.check_probability("coverage", coverage)
    n = len(scores)
    # 0.9 is not exactly nine tenths in binary; the rounding error must not raise the rank.
    rank = max(1, math.ceil((n + 1) * coverage - 1e-9))
    if rank > n:
        raise ValueError(
            f"coverage must be at most n / (n + 1) = {n / (n + 1):.4g} with n = {n} calibration "
            f"rows, got {coverage}; lower the coverage, or calibrate with at least coverage / "
            "(1 - coverage) rows."
        )
    return float(np.sort(scores)[rank - 1])


def _identity(estimator: Any) -> Any:
    """Return the object that a new fit replaces."""
    return getattr(estimator, "model_", estimator)
