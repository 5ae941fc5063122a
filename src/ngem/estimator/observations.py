"""What is known of targets that are not known exactly: intervals that hold them.

A target that was rounded, censored or not observed lies in an interval. Its likelihood is the
probability of that interval. All of these are one case, and the rest of the package sees only the
ends of intervals: lower ends of all target columns, then upper ends. Equal ends are a known target.

Truncation is another case: rows whose targets lie outside a window are not there at all. Windows
have ends of the same form.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from .. import _errors

#: Intervals shorter than this many standard deviations of the targets count as known targets: they
#: would vanish in single precision.
_SHORTEST = 1e-5

Ends = Float[np.ndarray, "batch twice"]


def round_ends(y: Float[np.ndarray, "batch dim"], resolution: float) -> Ends:
    """Return the ends of the intervals of values that round to the targets."""
    spread = float(y.std(axis=0).max())
    if resolution < _SHORTEST * spread:
        raise ValueError(
            f"resolution must be at least {_SHORTEST:g} standard deviations of the targets, got "
            f"{resolution:g} with a deviation of {spread:.3g}; such targets are as good as exact, "
            "so pass resolution=None."
        )
    return np.concatenate([y - resolution / 2, y + resolution / 2], axis=1)


def read_intervals(
    lower: Float[np.ndarray, "batch dim"], upper: Float[np.ndarray, "batch dim"], name: str = ""
) -> tuple[Float[np.ndarray, "batch dim"], Ends]:
    """Return one value inside each interval, and the ends of the intervals.

    The values are what needs targets that are known: units, and the start of a training run.

    Args:
        lower: Lower ends; -inf for targets of which only a bound from above is known.
        upper: Upper ends; inf for targets of which only a bound from below is known.
        name: Put before the names of arguments in messages.
    """
    for label, ends, outside in (("y", lower, np.inf), ("upper", upper, -np.inf)):
        _check_ends(f"{name}{label}", ends, outside)
    wrong = np.flatnonzero((lower > upper).any(axis=1))
    if len(wrong):
        raise ValueError(
            f"{name}upper must not be below {name}y, got an upper end below the lower one in row "
            f"{wrong[0]}; y holds the lower ends of intervals and upper the upper ones."
        )
    values = _inside(lower, upper)
    is_known = upper - lower <= _SHORTEST * values.std(axis=0)
    ends = [np.where(is_known, values, side) for side in (lower, upper)]
    return values, np.concatenate(ends, axis=1)


def read_missing(
    y: Float[np.ndarray, "batch dim"], name: str = ""
) -> tuple[Float[np.ndarray, "batch dim"], Ends | None]:
    """Return targets with means in place of missing ones, and the ends that say what is known."""
    missing = np.isnan(y)
    if not missing.any():
        return y, None
    unknown = missing.all(axis=1)
    if unknown.any() or missing.all(axis=0).any():
        what = f"no target in row {np.argmax(unknown)}" if unknown.any() else "a column of NaN"
        raise ValueError(
            f"{name}y must hold a known target in each row and each column, got {what}; leave out "
            "rows and columns without any."
        )
    ends = [np.where(missing, side, y) for side in (-np.inf, np.inf)]
    return np.where(missing, np.nanmean(y, axis=0), y), np.concatenate(ends, axis=1)


def read_window(truncation: Any, y: np.ndarray, known: Ends, name: str = "") -> Ends:
    """Return the ends of the windows in which targets had to lie to be seen.

    Args:
        truncation: (low, high), each a number, an array in the shape of the targets, or None.
        y: Targets, as the user gives them.
        known: Ends of the intervals that hold the targets.
        name: Put before the names of arguments in messages.
    """
    if not isinstance(truncation, tuple | list) or len(truncation) != 2:
        raise ValueError(
            f"{name}truncation must be (low, high), got {truncation!r}; for example (0.0, None)."
        )
    infinite = (-np.inf, np.inf)
    given = [end if part is None else part for part, end in zip(truncation, infinite, strict=True)]
    try:
        low, high = (np.broadcast_to(np.asarray(part, np.float64), y.shape) for part in given)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{name}truncation must hold numbers, or arrays in the shape of y, {y.shape}, got "
            f"shapes {[np.shape(part) for part in given]}; give one window for each target."
        ) from error
    columns = [part[:, None] if y.ndim == 1 else part for part in (low, high)]
    lower, upper = np.split(known, 2, axis=1)
    outside = ~((columns[0] <= lower) & (upper <= columns[1]) & (columns[0] < columns[1]))
    # What is not known at all may lie anywhere in the window.
    outside &= np.isfinite(lower) | np.isfinite(upper) | ~(columns[0] < columns[1])
    if outside.any():
        row, column = np.argwhere(outside)[0]
        ends = ", ".join(f"{part[row, column]:g}" for part in columns)
        raise ValueError(
            f"{name}y must lie in its window of truncation, got {lower[row, column]:g} in row "
            f"{row}, whose window is ({ends}); a target outside would not have been seen."
        )
    return np.concatenate(columns, axis=1)


def _check_ends(name: str, ends: np.ndarray, outside: float) -> None:
    bad = np.flatnonzero((np.isnan(ends) | (ends == outside)).any(axis=1))
    if len(bad):
        raise ValueError(
            f"{name} must hold numbers, or {-outside} where there is no bound, got NaN or "
            f"{outside} in row {bad[0]}; leave out rows of which nothing is known."
        )


def _inside(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return the middle of each interval; its only end if the other one is infinite."""
    has_lower, has_upper = np.isfinite(lower), np.isfinite(upper)
    unknown = np.flatnonzero((~has_lower & ~has_upper).any(axis=1))
    if len(unknown):
        raise ValueError(
            "an interval must have at least one end, got none in row "
            f"{unknown[0]}; leave out rows of which nothing is known."
        )
    below, above = np.where(has_lower, lower, upper), np.where(has_upper, upper, lower)
    return below + (above - below) / 2


def stack_columns(values: Any, like: np.ndarray) -> np.ndarray:
    """Return ends in the shape of the targets, as columns."""
    ends = _errors.as_numbers("upper", values)
    if ends.shape != like.shape:
        raise ValueError(
            f"upper must have the shape of y, {like.shape}, got {ends.shape}; give one upper end "
            "for each target."
        )
    return ends[:, None] if ends.ndim == 1 else ends
