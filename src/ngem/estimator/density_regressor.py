"""The prediction surface that all estimators share: everything but how they are fitted.

A fitted estimator has a `model_`, which predicts in the user's units (see `Model`), and knows how
many target columns there are. What users pass in is checked here.
"""

import abc
import numbers
from typing import Any, NamedTuple

import numpy as np

from .. import _errors
from .._machine import claim_process
from ..mixture import Mixture
from .encoding import MOST_CATEGORIES, Encoded, check_columns, describe, encode, target_names
from .frames import has_names, names_of, select
from .interface import (
    Regressor,
    check_fitted,
    check_names,
    read_features,
    read_numbers,
)
from .observations import read_intervals, read_missing, read_window, stack_columns
from .prediction import Model
from .preprocessing import Table, check_numeric, check_units
from .schema import Schema
from .seeds import draw_seed, to_key
from .shapes import check_features, check_targets

#: Samples per row in one call, at most: more would fill the memory for a single row.
_MOST_SAMPLES = 1_000_000

_ENCODE = "pass a data frame of pandas or polars with a name for each column, which may hold them"
_CONVERT = "a regressor predicts numbers, try y.astype(float)"


class Uncertainty(NamedTuple):
    """How uncertain predictions are, split in two.

    Attributes:
        noise_variance: Variance that more data would not remove, in the shape of the targets.
        model_variance: Variance that more data would remove.
        noise_entropy: Entropy that more data would not remove, (rows,).
        model_entropy: Entropy that more data would remove, (rows,).
    """

    noise_variance: np.ndarray
    model_variance: np.ndarray
    noise_entropy: np.ndarray
    model_entropy: np.ndarray


class DensityRegressor(Regressor):
    """Predicts a distribution for each row; a subclass says how it is fitted.

    Attributes:
        model_: What predicts, in the user's units.
        n_outputs_: Number of target columns.
        target_ndim_: 1 if the targets were a vector, 2 if they were columns.
        table_: How the columns of a table become numbers; None if they came as an array of numbers.
        n_features_in_: Number of columns.
        feature_names_in_: Their names, if the features came as a table with names.
    """

    model_: Model
    n_outputs_: int
    target_ndim_: int
    table_: Schema | None
    n_features_in_: int
    feature_names_in_: np.ndarray

    #: Categories of a column at most; rarer ones share a code.
    _most_categories: int = MOST_CATEGORIES

    #: Of these, how many are an input of networks each; None for all.
    _common_categories: int | None = None

    @property
    @abc.abstractmethod
    def _takes_gaps(self) -> bool:
        """Whether features may be NaN."""

    def predict(
        self,
        X: Any,
        *,
        return_std: bool = False,
        return_outside: bool = False,
        quantiles: Any = None,
    ) -> Any:
        """Return the conditional mean, in the shape of the targets.

        A `Pipeline` hands these arguments on: `pipeline.predict(X, quantiles=[0.05, 0.95])`.

        Args:
            X: Features.
            return_std: Also return the standard deviation, in the same shape.
            return_outside: Also return whether each row has a feature outside the range of the
                training rows, (rows,). There densities widen towards that of all targets.
            quantiles: Return these quantiles instead of the mean; see `predict_quantiles`.
        """
        x = self._read_features(X)
        model, x = self.model_.encoded(x)
        if quantiles is None:
            first = self._like_targets(model.mean(x))
        else:
            first = self._quantiles(model, x, quantiles)
        more = [self._like_targets(model.std(x))] if return_std else []
        more += [model.distance(x) > 0] if return_outside else []
        return (first, *more) if more else first

    def predict_distribution(self, X: Any) -> Mixture:
        """Return the conditional distribution of each row, in the user's units.

        The precision is JAX's, single unless float64 is enabled. Targets whose units need more,
        such as 50000 +- 0.01, are refused there; all other methods are in double precision.
        """
        x = self._read_features(X)
        return self.model_.mixture(x)

    def predict_quantiles(self, X: Any, q: Any) -> np.ndarray:
        """Return quantiles of each target column.

        Args:
            X: Features.
            q: Probabilities; a number, or several in one sequence.

        Returns:
            (rows, q), or (rows, q, columns) for targets in columns; no axis of q for one number.
        """
        x = self._read_features(X)
        return self._quantiles(self.model_, x, q)

    def _quantiles(self, model: Model, x: np.ndarray, q: Any) -> np.ndarray:
        levels = _read_fractions("q", q, "a number or one sequence of them", max_ndim=1)
        quantiles = self._like_targets(model.quantiles(x, np.atleast_1d(levels)))
        return quantiles if levels.ndim else quantiles[:, 0]

    def cdf(self, X: Any, t: Any) -> np.ndarray:
        """Return P(Y <= t) of each row and target column; 1 - cdf is the chance to exceed t.

        Args:
            X: Features.
            t: Thresholds in the units of the targets; a number, or several in one sequence. For
                targets in columns also (thresholds, columns).

        Returns:
            (rows, t), or (rows, t, columns) for targets in columns; no axis of t for one number.
        """
        x = self._read_features(X)
        thresholds = _read_thresholds(t, self.n_outputs_)
        model, x = self.model_.encoded(x)
        shape = (len(x), self.n_outputs_)
        each = np.atleast_1d(thresholds)
        rows = [model.cdf(x, np.broadcast_to(one, shape)) for one in each]
        found = self._like_targets(np.stack(rows, axis=1))
        return found if thresholds.ndim else found[:, 0]

    def predict_interval(self, X: Any, coverage: Any = 0.9, kind: str = "hdr") -> np.ndarray:
        """Return a region that holds each target column with a given probability.

        Args:
            X: Features.
            coverage: Probability of the region.
            kind: "hdr", the smallest region, a union of intervals, whose first call waits some
                seconds for the compiler; or "equal-tailed", one interval with the same probability
                on either side, at the cost of two quantiles.

        Returns:
            Lower and upper ends in ascending order, NaN where there are no more: (rows, pieces,
            2), or (rows, columns, pieces, 2) for targets in columns. There are as many pieces as
            the row with the most of them has.
        """
        x = self._read_features(X)
        probability = float(_read_fractions("coverage", coverage, "a number", max_ndim=0))
        _errors.check_choice("kind", kind, ("hdr", "equal-tailed"))
        ends = self.model_.interval(x, probability, kind)
        pieces = max(1, int(np.sum(~np.isnan(ends[..., 0]), axis=-1).max(initial=0)))
        ends = ends[..., :pieces, :]
        return ends[:, 0] if self.target_ndim_ == 1 else ends

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Return draws from the conditional distributions, (n_samples, rows[, columns])."""
        x = self._read_features(X)
        n_samples, key = _read_n_samples(n_samples), to_key(random_state)
        draws = self.model_.sample(x, n_samples, key)
        return np.moveaxis(self._like_targets(draws), 1, 0)

    def log_prob(self, X: Any, y: Any, *, upper: Any = None, truncation: Any = None) -> np.ndarray:
        """Return the log density of each row's targets, jointly over columns.

        Args:
            X: Features.
            y: Targets, or lower ends of intervals; NaN for one of several that is not known.
            upper: Upper ends of intervals, as in `MDNRegressor.fit`. Of an interval it is the log
                probability.
            truncation: (low, high) as in `MDNRegressor.fit`: the log density is then that of
                targets that are known to lie in their window.
        """
        table = self._read_rows(X, y, upper, truncation)
        log_prob = self.model_.log_prob(table.x, table.y, table.ends)
        if table.window is None:
            return log_prob
        return log_prob - self.model_.log_mass(table.x, table.window)

    def pit(self, X: Any, y: Any, random_state: Any = 0) -> np.ndarray:
        """Return P(Y <= y) of each row and target column, in the shape of the targets.

        The probability integral transform: uniform where the predicted densities are true. Of
        counts, and of single values with a probability of their own, it is a random number between
        P(Y < y) and P(Y <= y): only then is it uniform.

        Args:
            X: Features.
            y: Targets.
            random_state: Seed of these random numbers.
        """
        table = self._read_known(X, y)
        seed = draw_seed(random_state)
        return self._like_targets(self.model_.pit(table.x, table.y, seed))

    def crps(self, X: Any, y: Any) -> np.ndarray:
        """Return the continuous ranked probability score of each row and target column.

        In the units and the shape of the targets.
        """
        table = self._read_known(X, y)
        return self._like_targets(self.model_.crps(table.x, table.y))

    def predict_uncertainty(
        self, X: Any, n_samples: int = 200, random_state: Any = 0
    ) -> Uncertainty:
        """Return how uncertain each prediction is, and how much of it more data would remove.

        Members that were trained on different rows disagree where data are scarce. The variance
        is the mean variance of the members plus the variance of their means, for each target
        column. The entropy of all targets jointly is the members' mean entropy plus their mutual
        information with the target, both estimated from samples, in nats. The guard's densities
        do not count inside the range of the training rows; far outside, the density of all targets
        replaces the members. One member by itself cannot disagree: what more data would remove is
        then zero.

        Args:
            X: Features.
            n_samples: Samples per row and member for the entropies.
            random_state: Seed of these samples.
        """
        x = self._read_features(X)
        n_samples, key = _read_n_samples(n_samples), to_key(random_state)
        noise, model, parts = self.model_.uncertainty(x, n_samples, key)
        return Uncertainty(
            self._like_targets(noise), self._like_targets(model), parts[:, 0], parts[:, 1]
        )

    def region_mass(self, X: Any, y: Any) -> np.ndarray:
        """Return the smallest coverage at which `predict_interval` of kind "hdr" holds y.

        For each row and target column, in the shape of the targets.
        """
        table = self._read_known(X, y)
        return self._like_targets(self.model_.region_mass(table.x, table.y))

    def joint_region_mass(
        self, X: Any, y: Any, n_samples: int = 1000, random_state: Any = None
    ) -> np.ndarray:
        """Return the smallest mass of a joint highest-density region that holds y, (rows,).

        Estimated as the fraction of `n_samples` draws whose density is at least that of y.
        """
        table = self._read_known(X, y)
        n_samples, key = _read_n_samples(n_samples), to_key(random_state)
        return self.model_.sampled_region_mass(table.x, table.y, n_samples, key)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.allow_nan = self._takes_gaps
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R^2 of the conditional mean, as scikit-learn's regressors do."""
        check_features("X", X)
        check_targets("y", y, X, type(self).__name__)
        y = self._like_targets(self._read_known(X, y).y)
        if sample_weight is not None:
            sample_weight = _errors.as_numbers("sample_weight", sample_weight)
        return float(super().score(X, y, sample_weight))

    def _read_features(self, X: Any) -> np.ndarray:
        """Return features to predict for, refusing those that the model cannot read."""
        check_fitted(self)
        _refuse_dictionary("X", X)
        self._check_features("X", X)
        if self.table_ is not None:
            x = self._encode(X, reset=False)
        else:
            check_numeric("X", X, _ENCODE)
            x = read_features(self, X, reset=False)
        _check_finite("X", x, allow_nan=self._takes_gaps)
        return x

    def _check_features(self, name: str, X: Any, *, reset: bool = False) -> None:
        """Refuse features of another shape; columns with names are compared by name."""
        by_place = not reset and not has_names(X)
        check_features(name, X, self.n_features_in_ if by_place else None, type(self).__name__)

    def _read_table(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        upper: Any = None,
        truncation: Any = None,
        n_outputs: int | None = None,
        name: str = "",
    ) -> tuple[Table, int]:
        """Return the rows that count, and whether the targets were a vector or columns."""
        claim_process()
        reset = n_outputs is None
        _refuse_dictionary(f"{name}X", X)
        self._check_features(f"{name}X", X, reset=reset)
        check_targets(f"{name}y", y, X, type(self).__name__)
        check_numeric(f"{name}y", y, _CONVERT)
        least = 2 if reset else 1
        if reset:
            self.table_ = self._describe(X, y)
        if self.table_ is not None:
            x = self._encode(X, reset=reset)
        else:
            check_numeric(f"{name}X", X, _ENCODE)
            x = read_features(self, X, reset=reset, least=least)
        targets = read_numbers("y", y, least=least)
        _check_finite(f"{name}X", x, allow_nan=self._takes_gaps)
        columns = targets[:, None] if targets.ndim == 1 else targets
        _check_columns(columns, columns.shape[1] if n_outputs is None else n_outputs)
        if upper is not None:
            values, ends = read_intervals(columns, stack_columns(upper, targets), name)
        else:
            _check_finite(f"{name}y", targets, allow_nan=columns.shape[1] > 1)
            values, ends = read_missing(columns, name)
        if reset:
            check_units(values)
        table = Table(x, values, None, ends)
        if truncation is not None:
            known = np.tile(values, 2) if ends is None else ends
            table = table._replace(window=read_window(truncation, targets, known, name))
        if sample_weight is not None:
            weights = _read_weights(sample_weight, x)
            table = table._replace(weights=weights).take(np.flatnonzero(weights))
        return table, targets.ndim

    def _describe(self, X: Any, y: Any) -> Schema | None:
        """Return what the columns of a table hold; None for an array of numbers."""
        if isinstance(X, Encoded):
            return X.schema
        categorical = getattr(self, "categorical_features", "auto")
        if not has_names(X) and (isinstance(categorical, str) or not len(categorical)):
            return None
        columns = describe(
            X,
            categorical=categorical,
            most=self._most_categories,
            common=self._common_categories,
        )
        shape = np.asarray(y).shape
        targets = target_names(y, shape[1] if len(shape) > 1 else 1, names_of(X))
        return Schema(columns, targets, "impute" if self._takes_gaps else "error")

    def _encode(self, X: Any, *, reset: bool) -> np.ndarray:
        """Return the rows of a table whose columns are known as numbers; see `Schema`."""
        assert self.table_ is not None, "without a schema rows are numbers already"
        if isinstance(X, Encoded):
            self._name_columns(X.schema)
            return X.x
        if not reset and has_names(X) and hasattr(self, "feature_names_in_"):
            check_columns(self.table_.features, names_of(X))
            X = select(X, self.table_.names)  # in any order, and with others beside them
        check_names(self, X, reset=reset)
        return read_numbers("X", encode(X, self.table_.features), least=2 if reset else 1)

    def _name_columns(self, schema: Schema) -> None:
        """Know the columns of a table by their names."""
        self.n_features_in_ = len(schema.features)
        self.feature_names_in_ = np.array(schema.names, dtype=object)

    def _read_rows(self, X: Any, y: Any, upper: Any = None, truncation: Any = None) -> Table:
        """Return features and targets to compare with what the fitted model predicts."""
        check_fitted(self)
        return self._read_table(
            X, y, upper=upper, truncation=truncation, n_outputs=self.n_outputs_
        )[0]

    def _read_known(self, X: Any, y: Any) -> Table:
        """Return features and targets for scores that need all targets."""
        table = self._read_rows(X, y)
        if table.ends is not None:
            raise ValueError(
                "y must hold no NaN for this score, got some; leave out the rows with NaN, or use "
                "log_prob."
            )
        return table

    def _like_targets(self, values: np.ndarray) -> np.ndarray:
        return values[..., 0] if self.target_ndim_ == 1 else values


def _refuse_dictionary(name: str, X: Any) -> None:
    # One of scipy's sparse matrices is a dictionary too; scikit-learn refuses it in its own words.
    if isinstance(X, dict) and not hasattr(X, "toarray"):
        raise ValueError(
            f"{name} must be an array or a data frame, got a dictionary; for one row try "
            "pandas.DataFrame([row]), for columns pandas.DataFrame(columns)."
        )


def _read_n_samples(value: Any) -> int:
    if not isinstance(value, numbers.Integral) or not 1 <= int(value) <= _MOST_SAMPLES:
        raise ValueError(
            f"n_samples must be an integer from 1 to {_MOST_SAMPLES:,}, got {value!r}; try "
            "n_samples=100, and call again with another random_state for more."
        )
    return int(value)


def _read_weights(sample_weight: Any, x: np.ndarray) -> np.ndarray:
    """Return weights with a mean of one over the rows that count."""
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(len(x), float(sample_weight))
    try:
        weights = read_numbers("sample_weight", sample_weight)
        _errors.check_finite("sample_weight", weights)
    except ValueError as error:
        raise ValueError(
            f"sample_weight must hold a finite number for each of the {len(x)} rows, got something "
            f"else: {error}; leave it out to count all rows alike."
        ) from None
    if weights.shape != x.shape[:1] or np.any(weights < 0):
        raise ValueError(
            f"sample_weight must hold one number of at least 0 for each of the {len(x)} rows, got "
            f"shape {weights.shape} and {np.min(weights):g} as the smallest; check how rows and "
            "weights were chosen."
        )
    if np.count_nonzero(weights) < 2:
        raise ValueError(
            "sample_weight must be positive for at least two rows, got non-zero weights for "
            f"{np.count_nonzero(weights)}; leave it out to count all rows alike."
        )
    return weights / weights[weights > 0].mean()


def _read_fractions(name: str, value: Any, expected: str, *, max_ndim: int) -> np.ndarray:
    """Return probabilities, refusing other values and shapes."""
    fractions = _numbers_or_none(value)
    if fractions.ndim > max_ndim or fractions.size == 0:
        raise ValueError(f"{name} must be {expected}, got {value!r}; for example {name}=0.9.")
    return _errors.check_fraction(name, fractions)


def _numbers_or_none(value: Any) -> np.ndarray:
    """Return real numbers as an array; an empty one for anything else."""
    try:
        return _errors.as_numbers("", value)
    except TypeError:
        return np.empty(0)


def _read_thresholds(value: Any, n_outputs: int) -> np.ndarray:
    """Return thresholds as numbers, refusing other values and shapes."""
    found = _numbers_or_none(value)
    fits = found.ndim < 2 or found.shape[1:] == (n_outputs,)
    if not fits or found.size == 0 or np.isnan(found).any():
        raise ValueError(
            f"t must be a number or one sequence of them, got {value!r}; for example t=0.0."
        )
    return found


def _check_finite(name: str, values: np.ndarray, *, allow_nan: bool = False) -> None:
    """Refuse values that are not finite, in our words and in those that scikit-learn expects."""
    gaps = np.isnan(values)
    try:
        _errors.check_finite(name, np.where(gaps, 0.0, values) if allow_nan else values)
    except ValueError as error:
        word = "infinity" if allow_nan or not gaps.any() else "NaN"
        hint = " For NaN in features you can also pass missing='impute'." if name[-1] == "X" else ""
        raise ValueError(f"Input {name} contains {word}: {error}{hint}") from None


def _check_columns(y: np.ndarray, n_outputs: int) -> None:
    if y.ndim != 2 or y.shape[1] != max(1, n_outputs):
        raise ValueError(
            f"y must hold {n_outputs or 'some'} target columns, shape (rows,) or (rows, columns), "
            f"got {y.shape}; give the same columns as for fitting."
        )
