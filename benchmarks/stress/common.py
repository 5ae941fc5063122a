"""What the parts of the campaign share: counts, rows, and which errors are ours."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

#: Of failures, so many are described; all are counted.
DESCRIBED = 20


@dataclass
class Tally:
    """How many things were tried, and what went wrong."""

    tried: int = 0
    failed: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def good(self, outcome: str) -> None:
        """Count a try that ended as it should."""
        self.tried += 1
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def bad(self, what: str) -> None:
        """Count a failure."""
        self.tried += 1
        self.failed += 1
        if len(self.failures) < DESCRIBED:
            self.failures.append(what[:500])

    def attempt(self, what: str, work: Callable[[], str | None], *allowed: type) -> None:
        """Run something; it returns a fault or None, or raises an error of ours."""
        try:
            fault = work()
        except Exception as error:
            if isinstance(error, allowed) and is_ours(error):
                self.good("refused")
            else:
                place = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(place.filename).name}:{place.lineno}"
                self.bad(f"{what}: {type(error).__name__} at {where}: {error}")
            return
        if fault is None:
            self.good("answered")
        else:
            self.bad(f"{what}: {fault}")


def is_ours(error: BaseException) -> bool:
    """Return whether a line of ours, or of scikit-learn's checks, raised an error on purpose.

    The file system's own errors name the file.
    """
    if isinstance(error, OSError):
        return error.filename is not None
    place = traceback.extract_tb(error.__traceback__)[-1]
    is_raised = (place.line or "").lstrip().startswith("raise ")
    is_known = any(f"/{package}/" in place.filename for package in ("ngem", "sklearn"))
    return is_raised and is_known and bool(str(error))


def finite(**values: Any) -> str | None:
    """Return the name of the first value that is not finite."""
    for name, value in values.items():
        if not np.all(np.isfinite(np.asarray(value, float))):
            return f"{name} is not finite"
    return None
