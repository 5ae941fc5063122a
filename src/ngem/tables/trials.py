"""One trial of a search for settings."""

from typing import Any, NamedTuple

import numpy as np


class Trial(NamedTuple):
    """One choice of settings and its outcome.

    Attributes:
        number: Number of the trial, from 1.
        settings: Parameters of the estimator.
        nll: NLL of the validation rows in standardized units: that of the model, or of a stopped
            trial the best of its steps.
        ended: "complete", "hopeless", "out of time" or "diverged".
        curve: Best validation NLL so far, after each epoch or round that ran.
        max_steps: Largest possible number of them.
    """

    number: int
    settings: dict[str, Any]
    nll: float
    ended: str
    curve: np.ndarray
    max_steps: int

    def as_dict(self) -> dict[str, Any]:
        """Return what is written as JSON."""
        nll = self.nll if np.isfinite(self.nll) else None
        return {"number": self.number, **self.settings, "nll": nll, "ended": self.ended}
