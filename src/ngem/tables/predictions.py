"""The columns that `ngem predict` writes for each target, and which rows are outside."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from .._errors import check_choice, check_fraction
from ..estimator.conformal import conformal_quantile
from ..estimator.prediction import Model


class Wanted(NamedTuple):
    """What to predict besides the mean and the standard deviation.

    Attributes:
        levels: Probabilities of the quantiles.
        interval: Probability of an interval or region, or None.
        kind: "equal-tailed", or "hdr" for the smallest region.
        samples: Samples per row.
        above: Thresholds, for the probability to exceed each.
        masses: Probabilities under the model that intervals of each target need to hold what they
            promise, if they are conformal; else None.
    """

    levels: Sequence[float]
    interval: float | None
    kind: str
    samples: int
    above: Sequence[float] = ()
    masses: Sequence[float] | None = None


def read_wanted(
    quantiles: str, interval: float | None, kind: str, samples: int, above: str | None = None
) -> Wanted:
    """Return what the options of the command ask for.

    Raises:
        ValueError: If an option has a value that it cannot have.
    """
    check_choice("--kind", kind, ("equal-tailed", "hdr"))
    if interval is not None:
        check_fraction("--interval", interval)
    levels = _read_numbers("--quantiles", quantiles, "0.05,0.5,0.95")
    if levels:
        check_fraction("--quantiles", np.array(levels))
    thresholds = _read_numbers("--above", above or "", "100,200")
    return Wanted(levels, interval, kind, samples, thresholds)


def prediction_columns(
    model: Model, targets: Sequence[str], x: np.ndarray, wanted: Wanted, key: jax.Array | None
) -> dict[str, np.ndarray]:
    """Return the columns for complete rows, target by target, and whether each row is outside.

    Outside means that some feature lies beyond the range of the training rows.
    """
    # A batch in which every row has gaps has the same columns; predict for one row of zeros.
    model, rows = model.encoded(x if len(x) else np.zeros((1, x.shape[1])))
    blocks = [(["mean", "sd"], np.stack([model.mean(rows), model.std(rows)], axis=1))]
    if wanted.levels:
        names = [f"q{level:g}" for level in wanted.levels]
        blocks.append((names, model.quantiles(rows, np.array(wanted.levels))))
    if wanted.above:
        shape = (len(rows), len(targets))
        below = [model.cdf(rows, np.full(shape, threshold)) for threshold in wanted.above]
        names = [f"above{threshold:g}" for threshold in wanted.above]
        blocks.append((names, 1 - np.stack(below, axis=1)))
    if wanted.interval is not None:
        blocks.append(_interval(model, rows, wanted))
    if wanted.samples:
        assert key is not None, "samples have a key"
        names = [f"sample{number + 1}" for number in range(wanted.samples)]
        blocks.append((names, model.sample(rows, wanted.samples, key)))
    columns = {
        f"{target}_{name}": values[: len(x), index, column]
        for column, target in enumerate(targets)
        for names, values in blocks
        for index, name in enumerate(names)
    }
    if not model.network.is_guarded:  # the model is older, and does not know the range
        return columns
    return {**columns, "outside": model.distance(rows)[: len(x)] > 0}


def join_pieces(
    regions: Float[np.ndarray, "*batch pieces 2"], most: int
) -> Float[np.ndarray, "*batch fewer 2"]:
    """Return regions of at most so many pieces, each of which contains the region it replaces.

    Of a region with more pieces, those with the smallest gaps between them are joined.

    Args:
        regions: Lower and upper ends of the pieces, ascending, NaN where there are no more.
        most: Largest number of pieces.
    """
    lower, upper = regions[..., 0], regions[..., 1]
    gaps = lower[..., 1:] - upper[..., :-1]
    widest_first = np.argsort(-gaps, axis=-1, kind="stable")  # NaN comes last, here and below
    stays = (np.argsort(widest_first, axis=-1) < most - 1) & ~np.isnan(gaps)
    begins = np.where(stays, lower[..., 1:], np.nan)
    ends = np.where(stays, upper[..., :-1], np.nan)
    last = np.fmax.reduce(upper, axis=-1, keepdims=True)
    sides = [lower[..., :1], begins], [ends, last]
    joined = [np.sort(np.concatenate(side, axis=-1), axis=-1) for side in sides]
    return np.stack(joined, axis=-1)[..., :most, :]


def conformal_masses(scores: np.ndarray, level: float) -> list[float]:
    """Return the probabilities under the model at which intervals hold what they promise.

    Args:
        scores: For each calibration row and target, the probability of the smallest interval that
            holds the target, (rows, dim).
        level: The promise.
    """
    return [conformal_quantile(column, level) for column in np.asarray(scores, np.float64).T]


def central_mass(pit: np.ndarray) -> np.ndarray:
    """Return the probability of the equal-tailed interval whose end is at the target."""
    return np.abs(2 * pit - 1)


def _interval(model: Model, x: np.ndarray, wanted: Wanted) -> tuple[list[str], np.ndarray]:
    """Return names and values of the ends of each row's region, NaN where it has fewer pieces.

    A region has at most as many pieces as one network has components: several networks with a few
    more would make many columns that are nearly always empty.
    """
    kind, level = wanted.kind, wanted.interval
    assert level is not None, "asked for by the caller"
    if wanted.masses is None:
        regions = model.interval(x, level, kind)
    else:
        each = [
            model.interval(x, mass, kind)[:, [target]] for target, mass in enumerate(wanted.masses)
        ]
        regions = np.concatenate(each, axis=1)
    regions = join_pieces(regions, model.network.member_components)
    pieces = regions.shape[2]
    ends = regions.reshape(*regions.shape[:2], 2 * pieces).swapaxes(1, 2)
    numbers = [""] if kind == "equal-tailed" else [f"_{piece + 1}" for piece in range(pieces)]
    sides = ("lower", "upper")
    return [f"{side}{level:g}{number}" for number in numbers for side in sides], ends


def _read_numbers(option: str, text: str, example: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError(
            f"{option} must be numbers separated by commas, got {text!r}; for example {option} "
            f"{example}."
        ) from None
