"""From a user's table to the inputs of a network, and back: missing values and units.

Everything runs in numpy and in double precision, so that targets such as 50000 +- 0.01 keep their
digits. Only standardized values are converted to single precision.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

#: Parts of dtype names in numpy, pandas and polars that mark columns without numbers.
_NOT_NUMBERS = ("<u", ">u", "|s", "str", "utf8", "categor", "enum", "date", "time")


#: Rows for each value of targets that count as rounded, and the smallest step in deviations.
_REPEATS, _COARSE = 5, 0.01


#: Targets at most; 1 / this is the least difference. Predictions reach further than targets do.
_LARGEST_TARGET = 1e300


class Table(NamedTuple):
    """Rows in the user's units, or in those of a network.

    Attributes:
        x: Features.
        y: Targets; a value in its interval where a target is not known exactly.
        weights: How much each row counts; None if all count alike.
        ends: Ends of the intervals that hold the targets, see `observations`; None if all targets
            are known.
        window: Ends of the intervals in which targets had to lie to be among these rows; None if
            all rows there are could be.
    """

    x: Float[np.ndarray, "batch column"]
    y: Float[np.ndarray, "batch dim"]
    weights: Float[np.ndarray, " batch"] | None = None
    ends: Float[np.ndarray, "batch twice"] | None = None
    window: Float[np.ndarray, "batch twice"] | None = None

    @property
    def given(self) -> Float[np.ndarray, "batch given"]:
        """What is known of the targets: themselves or the ends of intervals, then the windows."""
        if self.window is None:
            return self.y if self.ends is None else self.ends
        ends = np.tile(self.y, 2) if self.ends is None else self.ends
        return np.concatenate([ends, self.window], axis=1)

    @property
    def has_intervals(self) -> bool:
        """Whether the likelihood needs probabilities of intervals."""
        return self.ends is not None or self.window is not None

    def take(self, rows: np.ndarray) -> "Table":
        """Return some of the rows; weights become None if all of theirs are equal."""
        weights = None if self.weights is None else self.weights[rows]
        if weights is not None and np.all(weights == weights[:1]):
            weights = None
        ends, window = (None if part is None else part[rows] for part in self[3:])
        return Table(self.x[rows], self.y[rows], weights, ends, window)


def rounding_step(y: Float[np.ndarray, " batch"]) -> float | None:
    """Return the step of targets that are rounded coarsely and repeat; None for others.

    Rounded means that all distances between values are multiples of the smallest. Coarsely means
    that there are few values for so many rows, and that a step is at least a hundredth of a
    standard deviation.
    """
    values = np.unique(y)
    if len(values) < 3 or len(values) * _REPEATS > len(y):
        return None
    gaps = np.diff(values)
    step = float(gaps.min())
    multiples = gaps / step
    is_even = np.allclose(multiples, np.round(multiples), atol=1e-3)
    return step if is_even and step >= _COARSE * float(np.std(y)) else None


class Scaling(NamedTuple):
    """An affine change of units, column by column."""

    location: Float[np.ndarray, " column"]
    scale: Float[np.ndarray, " column"]

    def forward(self, values: np.ndarray) -> np.ndarray:
        """Return (values - location) / scale in single precision, clipped to ±1e12."""
        # Clip, so that the network's outputs stay finite for extreme values.
        limit = 1e12
        values = np.asarray(values, np.float64)
        with np.errstate(over="ignore"):
            scaled = (values - self.location) / self.scale
            # Two values near the largest double may be further apart than that. Halves are exact.
            halved = (values / 2 - self.location / 2) / (self.scale / 2)
        scaled = np.where(np.isfinite(scaled), scaled, halved)
        return np.clip(scaled, -limit, limit).astype(np.float32)

    def forward_ends(self, ends: Float[np.ndarray, "batch twice"], far: float) -> np.ndarray:
        """Return ends of intervals in single precision; infinite ones lie as far out as stated."""
        both = ends.reshape(len(ends), -1, len(self.location))
        outer = np.copysign(far, both)
        return np.where(np.isinf(both), outer, self.forward(both)).reshape(ends.shape).astype("f4")

    def backward(self, values: np.ndarray) -> np.ndarray:
        """Return location + scale * values, in the user's units and in double precision."""
        return self.location + self.scale * values.astype(np.float64)

    @property
    def log_volume(self) -> float:
        """Log Jacobian of `backward`: log densities in the user's units are lower by this."""
        return float(np.sum(np.log(self.scale)))


class OneHot(NamedTuple):
    """Codes of categories as inputs of 0 and 1, one for each code; other numbers stay.

    Attributes:
        source: The column that each input comes from.
        code: The code from which on it is 1; NaN where it is the number itself.
        last: The code up to which it is 1, infinite for an input of all further codes.
    """

    source: Int[np.ndarray, " input"]
    code: Float[np.ndarray, " input"]
    last: Float[np.ndarray, " input"]

    def forward(self, x: np.ndarray) -> Float[np.ndarray, "batch input"]:
        """Return the inputs of each row; a missing category is 0 in all of its inputs."""
        picked = x[:, self.source]
        return np.where(np.isnan(self.code), picked, (picked >= self.code) & (picked <= self.last))


def one_hot(sizes: Sequence[int], inputs: Sequence[int] | None = None) -> OneHot | None:
    """Return the inputs of columns with so many codes each, 0 for numbers; None for numbers only.

    Args:
        sizes: How many codes each column has.
        inputs: How many inputs each column has; where these are fewer, the last is that of all
            further codes. None for as many as codes.

    >>> one_hot([0, 2]).forward(np.array([[7.0, 0.0], [8.0, 1.0], [9.0, np.nan]]))
    array([[7., 1., 0.],
           [8., 0., 1.],
           [9., 0., 0.]])
    """
    if not any(sizes):
        return None
    inputs = sizes if inputs is None else inputs
    codes = [np.arange(size, dtype=np.float64) if size else np.array([np.nan]) for size in inputs]
    lasts = [
        np.append(own[:-1], np.inf) if count < size else own
        for own, count, size in zip(codes, inputs, sizes, strict=True)
    ]
    source = np.repeat(np.arange(len(sizes)), np.maximum(inputs, 1))
    return OneHot(source, np.concatenate(codes), np.concatenate(lasts))


class Inputs(NamedTuple):
    """How features become inputs of the network.

    Attributes:
        fill: Value that replaces missing values, for each column.
        flagged: Columns with missing values; each adds an indicator (0 or 1) to the inputs.
        scaling: Scaling of each column after missing values are replaced.
        one_hot: How codes of categories become the columns above; None if there are none.
    """

    fill: Float[np.ndarray, " column"]
    flagged: Int[np.ndarray, " flag"]
    scaling: Scaling
    one_hot: OneHot | None = None

    @property
    def n_columns(self) -> int:
        """Number of inputs of the network."""
        return len(self.fill) + len(self.flagged)

    @property
    def n_features(self) -> int:
        """Number of features, codes of categories among them."""
        return len(self.fill) if self.one_hot is None else int(self.one_hot.source[-1]) + 1

    def forward(self, x: np.ndarray) -> Float[np.ndarray, "batch inputs"]:
        """Return the inputs of the network, in single precision."""
        x = x if self.one_hot is None else self.one_hot.forward(x)
        missing = np.isnan(x)
        flags = missing[:, self.flagged].astype(np.float32)
        filled = np.where(missing, self.fill, x)
        return np.concatenate([self.scaling.forward(filled), flags], axis=1)


def fit_inputs(
    x: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    scale: bool = True,
    one_hot: OneHot | None = None,
) -> Inputs:
    """Return how to turn features into inputs, learned from training rows.

    The median of a column replaces its missing values. Every column with missing values also gets
    an indicator, so that the network can distinguish a replaced value from an observed one. A
    missing category needs neither: it is 0 in all inputs of its column.
    """
    x = x if one_hot is None else one_hot.forward(x)
    missing = np.isnan(x)
    fill = np.array([column_median(column) for column in x.T])
    scaling = fit_scaling(np.where(missing, fill, x), weights) if scale else no_scaling(x.shape[1])
    return Inputs(fill, np.flatnonzero(missing.any(axis=0)), scaling, one_hot)


def fit_scaling(values: np.ndarray, weights: np.ndarray | None = None) -> Scaling:
    """Return the scaling that gives every column mean 0 and standard deviation 1."""
    weights = np.ones(len(values)) if weights is None else weights
    normalized = weights / weights.sum()
    pairs = np.array([_moments(column, normalized) for column in values.T]).reshape(-1, 2)
    return Scaling(pairs[:, 0], pairs[:, 1])


def no_scaling(n_columns: int) -> Scaling:
    """Return the scaling that changes nothing."""
    return Scaling(np.zeros(n_columns), np.ones(n_columns))


def split_rows(
    n_rows: int, fraction: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the training rows and of the held-out rows, both ascending.

    `held_out_count` says how many are held out.
    """
    held_out = held_out_count(n_rows, fraction)
    order = rng.permutation(n_rows)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def held_out_count(n_rows: int, fraction: float) -> int:
    """Return how many rows a single member holds out.

    At least ten rows are held out, or a third if that is fewer, because a mean likelihood over
    fewer rows is too noisy. If fewer than five rows would be held out, none are.
    """
    held_out = max(round(fraction * n_rows), min(10, n_rows // 3))
    return 0 if held_out < 5 or held_out >= n_rows else held_out


def check_numeric(name: str, table: Any, hint: str) -> None:
    """Raise if a table contains text, categories or dates."""
    for label, column in _columns(table):
        if not _is_numeric(column):
            raise ValueError(
                f"{name} must hold numbers only, got text, categories or dates in {label}; {hint}."
            )


def _columns(table: Any) -> list[tuple[str, Any]]:
    """Return the parts of a table that have their own dtype, each with a label for messages."""
    if not hasattr(table, "columns") or hasattr(table, "column_names"):  # the latter: pyarrow
        return [("its values", table if hasattr(table, "dtype") else np.asarray(table))]
    # pandas: `items` goes by position, since two columns may have the same name.
    pairs = table.items() if hasattr(table, "items") else ((n, table[n]) for n in table.columns)
    return [(f"column {name!r}", column) for name, column in pairs]


def _is_numeric(column: Any) -> bool:
    """Return whether a column holds numbers, by its dtype; by its values if that is object."""
    kind = str(column.dtype).lower()
    if kind == "object":
        return not any(isinstance(value, str) for value in np.ravel(column))
    return not any(word in kind for word in _NOT_NUMBERS)


def column_median(column: np.ndarray) -> float:
    """Return the median of the values that are not missing; 0 if all are missing."""
    known = column[~np.isnan(column)].astype(np.float64)
    if not len(known):
        return 0.0
    # Halves, so that the sum of the two middle values does not overflow.
    half = 0.5 if np.max(np.abs(known)) > 1e300 else 1.0
    return float(np.median(half * known)) / half


def _moments(column: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the mean and the standard deviation of a column.

    Weights must sum to 1. scikit-learn's `StandardScaler` overflows for values such as 1e200. A
    constant column has its value as mean, and a deviation that is 1, or large beside rounding.
    """
    column = column.astype(np.float64)
    low, high = float(np.min(column)), float(np.max(column))
    if low == high:
        return low, beside_rounding(low)
    # Divide by the largest value, so that squares neither overflow nor underflow.
    unit = max(abs(low), abs(high))
    column = column / unit
    # Rounding could put the mean of equal values beside them, and that of huge ones at infinity.
    mean = float(np.clip(weights @ column, np.min(column), np.max(column)))
    std = float(np.sqrt(weights @ (column - mean) ** 2))
    # A constant column may have a standard deviation of a few rounding errors of its mean.
    varies = std > 10 * np.finfo(np.float64).eps * abs(mean)
    location = mean * unit
    return location, std * unit if varies else beside_rounding(location)


def beside_rounding(value: float) -> float:
    """Return 1, or for huge values a number beside which their rounding errors are small."""
    return max(1.0, min(1e3 * float(np.spacing(abs(value))), float(np.finfo(np.float64).max)))


def check_units(y: Float[np.ndarray, "batch dim"]) -> None:
    """Refuse targets so large or so small that predictions in their units would be no doubles."""
    for index, column in enumerate(y.T):
        largest, range_ = float(np.max(np.abs(column))), float(np.ptp(column / 2))
        if largest > _LARGEST_TARGET or 0 < range_ < 1 / _LARGEST_TARGET:
            raise ValueError(
                f"y must hold targets of at most {_LARGEST_TARGET:g} that differ by at least "
                f"{1 / _LARGEST_TARGET:g}, got {np.min(column):g} to {np.max(column):g} in column "
                f"{index}; choose another unit for that column."
            )
