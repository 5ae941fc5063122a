"""From a user's table to what a network reads, and back: missing values and units, numpy only.

All of it happens in double precision on the host, so that targets such as 50000 +- 0.01 keep
their digits; only what is standardised goes to single precision.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

# Parts of the names of dtypes, in numpy, pandas and polars, that no number has.
_NOT_NUMBERS = ("<u", ">u", "|s", "str", "utf8", "categor", "enum", "date", "time")


class Table(NamedTuple):
    """Rows as the user gave them: features, targets in columns and, where they differ, weights."""

    x: Float[np.ndarray, "batch column"]
    y: Float[np.ndarray, "batch dim"]
    weights: Float[np.ndarray, " batch"] | None = None

    def take(self, rows: np.ndarray) -> "Table":
        """Return some of the rows; weights that are all equal say nothing and go."""
        weights = None if self.weights is None else self.weights[rows]
        if weights is not None and np.all(weights == weights[:1]):
            weights = None
        return Table(self.x[rows], self.y[rows], weights)


class Scaling(NamedTuple):
    """An affine change of units, column by column."""

    location: Float[np.ndarray, " column"]
    scale: Float[np.ndarray, " column"]

    def forward(self, values: np.ndarray) -> np.ndarray:
        """Return (values - location) / scale in single precision, as the network reads them."""
        # So far out a value means nothing more; what the network makes of it must stay finite.
        limit = 1e12
        with np.errstate(over="ignore"):
            scaled = (values - self.location) / self.scale
        return np.clip(scaled, -limit, limit).astype(np.float32)

    def backward(self, values: np.ndarray) -> np.ndarray:
        """Return location + scale * values, the user's units."""
        return self.location + self.scale * values.astype(np.float64)

    @property
    def log_volume(self) -> float:
        """The logarithm of the Jacobian: densities in the user's units are lower by this."""
        return float(np.sum(np.log(self.scale)))


class Inputs(NamedTuple):
    """How features become inputs of the network.

    Attributes:
        fill: What stands in for a missing value of each column.
        flagged: Columns whose gaps are also told to the network, as a column of zeros and ones.
        scaling: Units of each column, once its gaps are filled.
    """

    fill: Float[np.ndarray, " column"]
    flagged: Int[np.ndarray, " flag"]
    scaling: Scaling

    @property
    def n_columns(self) -> int:
        """How many numbers the network reads of each row."""
        return len(self.fill) + len(self.flagged)

    def forward(self, x: np.ndarray) -> Float[np.ndarray, "batch inputs"]:
        """Return what the network reads, in single precision."""
        gaps = np.isnan(x)
        flags = gaps[:, self.flagged].astype(np.float32)
        filled = np.where(gaps, self.fill, x)
        return np.concatenate([self.scaling.forward(filled), flags], axis=1)


def fit_inputs(x: np.ndarray, weights: np.ndarray | None = None, *, scale: bool = True) -> Inputs:
    """Return how to prepare features like these, learned from the rows to be trained on.

    A gap becomes the median of its column, and every column that has gaps gets an indicator, so
    that a network can tell a filled value from a true one.
    """
    gaps = np.isnan(x)
    fill = np.array([_median(column) for column in x.T])
    scaling = fit_scaling(np.where(gaps, fill, x), weights) if scale else no_scaling(x.shape[1])
    return Inputs(fill, np.flatnonzero(gaps.any(axis=0)), scaling)


def fit_scaling(values: np.ndarray, weights: np.ndarray | None = None) -> Scaling:
    """Return the units in which every column has mean 0 and standard deviation 1."""
    weights = np.ones(len(values)) if weights is None else weights
    shares = weights / weights.sum()
    pairs = np.array([_moments(column, shares) for column in values.T]).reshape(-1, 2)
    return Scaling(pairs[:, 0], pairs[:, 1])


def no_scaling(n_columns: int) -> Scaling:
    """Return the change of units that changes nothing."""
    return Scaling(np.zeros(n_columns), np.ones(n_columns))


def split_rows(
    n_rows: int, fraction: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the rows to train on and of those held out, each in order.

    The fraction is held out, yet at least ten rows or a third, since a likelihood over fewer tells
    little. Where even a third is fewer than five rows, none is held out.
    """
    held_out = max(round(fraction * n_rows), min(10, n_rows // 3))
    held_out = 0 if held_out < 5 or held_out >= n_rows else held_out
    order = rng.permutation(n_rows)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def check_numeric(name: str, table: Any, hint: str) -> None:
    """Refuse text, categories and dates, which a network cannot read as they are."""
    for place, column in _columns(table):
        if not _is_numeric(column):
            raise ValueError(
                f"{name} must hold numbers only, got text, categories or dates in {place}; {hint}."
            )


def _columns(table: Any) -> list[tuple[str, Any]]:
    """Return the parts of a table that have a dtype of their own, and what to call them."""
    if not hasattr(table, "columns") or hasattr(table, "column_names"):  # the latter is pyarrow's
        return [("its values", table if hasattr(table, "dtype") else np.asarray(table))]
    # In pandas by position, since two columns may share a name.
    pairs = table.items() if hasattr(table, "items") else ((n, table[n]) for n in table.columns)
    return [(f"column {name!r}", column) for name, column in pairs]


def _is_numeric(column: Any) -> bool:
    kind = str(column.dtype).lower()
    if kind == "object":
        return not any(isinstance(value, str) for value in np.ravel(column))
    return not any(word in kind for word in _NOT_NUMBERS)


def _median(column: np.ndarray) -> float:
    known = column[~np.isnan(column)]
    return float(np.median(known)) if len(known) else 0.0


def _moments(column: np.ndarray, shares: np.ndarray) -> tuple[float, float]:
    """Return mean and standard deviation, the latter 1 where a column does not vary."""
    column = column.astype(np.float64)
    # In units of the largest value no square over- or underflows, be it 1e-200 or 1e200.
    unit = float(np.max(np.abs(column))) or 1.0
    column = column / unit
    mean = float(shares @ column)
    deviation = float(np.sqrt(shares @ (column - mean) ** 2))
    # A deviation of a few rounding units of the mean is the rounding of a constant.
    varies = deviation > 10 * np.finfo(np.float64).eps * abs(mean)
    return mean * unit, (deviation * unit if varies else 0.0) or 1.0
