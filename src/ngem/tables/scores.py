"""How good predictions are on rows with known targets: likelihood, CRPS, errors, calibration."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..estimator.prediction import Model
from ..metrics import pit_uniformity

#: Probabilities of the equal-tailed intervals whose coverage is reported.
COVERAGES = (0.5, 0.9)

#: Report miscalibration if a PIT this far from uniform has a smaller probability than this.
SIGNIFICANT = 0.05


class RowScores(NamedTuple):
    """Scores of each row, in the user's units.

    Attributes:
        nll: Negative log density of all targets jointly, (rows,).
        crps: Continuous ranked probability score of each target, (rows, dim); NaN for families
            without a closed form.
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
    has_crps = model.network.family.has_crps
    crps = model.crps(x, y) if has_crps else np.full(y.shape, np.nan)
    return RowScores(-model.log_prob(x, y), crps, model.mean(x) - y, model.pit(x, y))


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
    """Return the Kolmogorov-Smirnov test of a uniform PIT, and a verdict in words."""
    distance, p_value = pit_uniformity(pit)
    return {
        "pit_distance": distance,
        "pit_p_value": p_value,
        "calibration": _verdict(pit, p_value),
    }


def _verdict(pit: np.ndarray, p_value: float) -> str:
    if p_value >= SIGNIFICANT:
        return f"good, as far as {len(pit)} rows can show"
    # A uniform PIT has mean 1/2 and variance 1/12. Both deviations are in standard errors.
    mean_shift = (np.mean(pit) - 0.5) * np.sqrt(12 * len(pit))
    excess_variance = (np.mean((pit - 0.5) ** 2) - 1 / 12) * np.sqrt(180 * len(pit))
    if abs(mean_shift) > abs(excess_variance):
        return "densities too low" if mean_shift > 0 else "densities too high"
    return "densities too narrow" if excess_variance > 0 else "densities too wide"
