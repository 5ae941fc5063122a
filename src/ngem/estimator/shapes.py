"""Shapes of what users hand in: rows and columns of features, targets for the same rows.

scikit-learn checks them too. Our errors come first, because they say what to try; they keep the
phrases that scikit-learn's own tests look for.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from .encoding import Encoded


def check_features(name: str, X: Any, n_features: int | None = None, who: str = "") -> None:
    """Refuse features that are no table of rows and columns, or have other columns than the fit.

    Args:
        name: What the features are called.
        X: The features.
        n_features: Columns of the fit, if they are an array's, which has no names to go by.
        who: Name of the estimator.
    """
    if isinstance(X, Encoded):
        return
    shape = _shape(name, X, "an array or a data frame of shape (rows, columns)")
    if len(shape) != 2:
        reshape = "X[:, None] for one column, X[None] for one row"
        advice = reshape if len(shape) < 2 else "X.reshape(len(X), -1) for one line per row"
        raise ValueError(
            f"{name} must have two axes, (rows, columns), got shape {shape}. Reshape your data: "
            f"{advice}."
        )
    if n_features is not None and shape[1] not in (n_features, 0):
        raise ValueError(
            f"{name} has {shape[1]} features, but {who} is expecting {n_features} features as "
            "input; give the columns of the fit, in the same order."
        )


def check_targets(name: str, y: Any, X: Any, who: str) -> None:
    """Refuse targets that are none, have too many axes, or another number of rows than X."""
    if y is None:
        raise ValueError(
            f"{who} requires y to be passed, but the target y is None: {name} must be an array of "
            "shape (rows,) or (rows, columns), got None; give the known targets of these rows."
        )
    shape = _shape(name, y, "an array of shape (rows,) or (rows, columns)")
    if len(shape) not in (1, 2):
        raise ValueError(
            f"{name} must have one or two axes, (rows,) or (rows, columns), got shape {shape}; "
            "for several targets give each a column."
        )
    rows = len(X.x) if isinstance(X, Encoded) else _shape("X", X, "an array")[0]
    if rows != shape[0]:
        raise ValueError(
            f"X and {name} must have equally many rows, got {rows} and {shape[0]}; check how they "
            "were chosen, and whether one of them has a header or gaps that were dropped."
        )


def _shape(name: str, values: Any, expected: str) -> tuple[int, ...]:
    """Return the shape of an array, a data frame or lists of numbers."""
    if values is None or isinstance(values, str | bytes):
        advice = "check what made it" if values is None else "read the file first: polars.read_csv"
        raise ValueError(f"{name} must be {expected}, got {values!r}; {advice}.")
    if hasattr(values, "collect") or isinstance(values, Iterator):
        kind = type(values).__name__
        raise ValueError(f"{name} must be {expected}, got a {kind}; collect its rows first.")
    if "complex" in str(getattr(values, "dtype", "")):
        raise ValueError(
            f"Complex data not supported: {name} must hold real numbers, got {values.dtype}; try "
            f"{name}.real and {name}.imag as columns."
        )
    if isinstance(getattr(values, "shape", None), tuple):
        return values.shape
    try:
        return np.asarray(values).shape
    except ValueError:  # lists of different lengths
        raise ValueError(
            f"{name} must be {expected}, got rows of different lengths; give each row the same "
            "columns, NaN where a value is missing."
        ) from None
