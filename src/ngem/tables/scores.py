"""How good predictions are on rows with known targets: likelihood, CRPS, errors, calibration."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..estimator.prediction import Model
from ..metrics import pit_uniformity

#: Probabilities of the equal-tailed intervals whose coverage is reported.
COVERAGES = (0.5, 0.9)

#: Fewer rows than this are not judged: they would show the worst faults only.
LEAST_ROWS = 20

#: Quantiles whose probabilities are off by less than the first do no harm. If they are surely off
#: by less than the second, calibration is good.
_HARMLESS, _GOOD = 0.02, 0.05

#: Probability that the true fault lies outside the range that is told.
_RISK = 0.05


class RowScores(NamedTuple):
    """Scores of each row, in the user's units.

    Attributes:
        nll: Negative log density of all targets jointly, (rows,).
        crps: Continuous ranked probability score of each target, (rows, dim).
        error: Predicted mean minus target, (rows, dim).
        pit: Predicted probability of a value below the target, (rows, dim); uniform if calibrated.
    """

    nll: np.ndarray
    crps: np.ndarray
    error: np.ndarray
    pit: np.ndarray


def score_rows(model: Model, x: np.ndarray, y: np.ndarray) -> RowScores:
    """Return the scores of some rows."""
    model, x = model.encoded(x)
    error = model.network.family.difference(model.mean(x), y)
    return RowScores(-model.log_prob(x, y), model.crps(x, y), error, model.pit(x, y))


def join(parts: Sequence[RowScores]) -> RowScores:
    """Return the scores of all rows, from those of batches."""
    return RowScores(*map(np.concatenate, zip(*parts, strict=True)))


def summarize(scores: RowScores, model: Model, targets: Sequence[str]) -> dict[str, Any]:
    """Return averages over all rows, jointly and for each target, as plain numbers."""
    nll = float(np.mean(scores.nll))
    standardized = nll - model.targets.log_volume
    return {
        "rows": len(scores.nll),
        "nll": nll,
        "nll_standardized": standardized,
        "nll_standardised": standardized,  # the key of version 0.1
        "targets": {
            name: {
                "crps": _finite_or_none(np.mean(scores.crps[:, index])),
                "rmse": float(np.sqrt(np.mean(scores.error[:, index] ** 2))),
                "coverage": {
                    f"{level:g}": coverage(scores.pit[:, index], level) for level in COVERAGES
                },
                **calibration(scores.pit[:, index]),
            }
            for index, name in enumerate(targets)
        },
    }


def _finite_or_none(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def coverage(pit: np.ndarray, level: float) -> float:
    """Return the fraction of targets inside their equal-tailed interval of a given probability."""
    return float(np.mean(np.abs(pit - 0.5) <= level / 2))


def calibration(pit: np.ndarray) -> dict[str, Any]:
    """Return by how much the probabilities of quantiles are off, and a verdict in words.

    The size of the fault is the largest difference between a probability and the fraction of rows
    below the quantile with that probability: the Kolmogorov-Smirnov distance of the PIT. The range
    comes from the inequality of Dvoretzky, Kiefer and Wolfowitz, which holds for any number of
    rows. The verdict depends on the size and its range, not on the p-value: that is tiny for any
    fault, however small, if there are enough rows.
    """
    distance, p_value = pit_uniformity(pit)
    margin = float(np.sqrt(np.log(2 / _RISK) / (2 * len(pit))))
    low, high = max(0.0, distance - margin), min(1.0, distance + margin)
    return {
        "pit_distance": distance,
        "pit_distance_range": [low, high],
        "pit_p_value": p_value,
        "calibration": _verdict(pit, low, high),
    }


def _verdict(pit: np.ndarray, low: float, high: float) -> str:
    if len(pit) < LEAST_ROWS:
        return "not judged"
    if low <= _HARMLESS:
        return "good" if high <= _GOOD else "no clear fault"
    # A uniform PIT has mean 1/2 and variance 1/12. Both deviations are in standard errors.
    mean_shift = (np.mean(pit) - 0.5) * np.sqrt(12 * len(pit))
    excess_variance = (np.mean((pit - 0.5) ** 2) - 1 / 12) * np.sqrt(180 * len(pit))
    if abs(mean_shift) > abs(excess_variance):
        return "too low" if mean_shift > 0 else "too high"
    return "too narrow" if excess_variance > 0 else "too wide"


def calibration_text(rows: int, result: Mapping[str, Any]) -> str:
    """Return a verdict as a sentence, with the size of the fault.

    Args:
        rows: Rows that were judged.
        result: What `calibration` returned for them.
    """
    verdict = result["calibration"]
    if verdict == "not judged":
        return f"not judged, because {rows} rows are too few ({LEAST_ROWS} are needed)"
    low, high = (100 * end for end in result["pit_distance_range"])
    size = f"{100 * result['pit_distance']:.2g} percentage points"
    off = f"probabilities of quantiles are off by {size} (between {low:.2g} and {high:.2g})"
    if verdict == "no clear fault":
        return f"no fault that {rows:,} rows show clearly; {off}"
    return f"{'' if verdict == 'good' else 'densities are '}{verdict}; {off}"
