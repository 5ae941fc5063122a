"""How good predictions are on rows with known targets: likelihood, CRPS, errors, calibration."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..estimator.prediction import Model
from ..metrics import pit_uniformity

#: Probabilities of the equal-tailed intervals whose coverage is told.
COVERAGES = (0.5, 0.9)

#: Below this probability of a PIT as uneven by chance, we speak of miscalibration.
SIGNIFICANT = 0.05


class RowScores(NamedTuple):
    """Scores of each row, in the user's units.

    Attributes:
        nll: Negative log density of all targets together, (rows,).
        crps: Continuous ranked probability score of each target, (rows, dim); NaN for components
            that have no closed form of it.
        error: Mean less target, (rows, dim).
        pit: Probability of a value below the target, (rows, dim); even if calibrated.
    """

    nll: np.ndarray
    crps: np.ndarray
    error: np.ndarray
    pit: np.ndarray


def score_rows(model: Model, x: np.ndarray, y: np.ndarray) -> RowScores:
    """Return the scores of some rows."""
    known = model.network.family.has_crps
    crps = model.crps(x, y) if known else np.full(y.shape, np.nan)
    return RowScores(-model.log_prob(x, y), crps, model.mean(x) - y, model.pit(x, y))


def join(parts: Sequence[RowScores]) -> RowScores:
    """Return the scores of all rows, from those of batches."""
    return RowScores(*map(np.concatenate, zip(*parts, strict=True)))


def summarise(scores: RowScores, model: Model, targets: Sequence[str]) -> dict[str, Any]:
    """Return plain numbers about all rows, and about each target."""
    nll = float(np.mean(scores.nll))
    return {
        "rows": len(scores.nll),
        "nll": nll,
        "nll_standardised": nll - model.targets.log_volume,
        "targets": {
            name: {
                "crps": _known(np.mean(scores.crps[:, index])),
                "rmse": float(np.sqrt(np.mean(scores.error[:, index] ** 2))),
                "coverage": {
                    f"{share:g}": coverage(scores.pit[:, index], share) for share in COVERAGES
                },
                **calibration(scores.pit[:, index]),
            }
            for index, name in enumerate(targets)
        },
    }


def _known(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def coverage(pit: np.ndarray, share: float) -> float:
    """Return how many of the targets lie in their equal-tailed interval of a given probability."""
    return float(np.mean(np.abs(pit - 0.5) <= share / 2))


def calibration(pit: np.ndarray) -> dict[str, Any]:
    """Return the Kolmogorov-Smirnov test of an even PIT, and what it means in words."""
    distance, p_value = pit_uniformity(pit)
    return {
        "pit_distance": distance,
        "pit_p_value": p_value,
        "calibration": _verdict(pit, p_value),
    }


def _verdict(pit: np.ndarray, p_value: float) -> str:
    if p_value >= SIGNIFICANT:
        return f"good, as far as {len(pit)} rows can tell"
    # Of an even PIT the mean is 1/2 and the variance 1/12; each in units of its standard error.
    shift = (np.mean(pit) - 0.5) * np.sqrt(12 * len(pit))
    spread = (np.mean((pit - 0.5) ** 2) - 1 / 12) * np.sqrt(180 * len(pit))
    if abs(shift) > abs(spread):
        return "densities too low" if shift > 0 else "densities too high"
    return "densities too narrow" if spread > 0 else "densities too wide"
