"""The objective study as a table: paired differences to nll, and steps saved."""

from typing import NamedTuple

import numpy as np

from .spec import Spec
from .store import Results
from .tables import Table

#: What every other method is compared with.
BASE = "nll"


class Comparison(NamedTuple):
    """A method against nll on one task, paired by seed.

    Attributes:
        gain: Mean difference of test likelihoods, negative is better.
        error: Its standard error.
        share: Share of training that the method needed to reach nll's final train likelihood, the
            median over seeds; infinity if it never did.
    """

    gain: float
    error: float
    share: float

    @property
    def verdict(self) -> str:
        """Better or worse beyond one standard error, or level."""
        if abs(self.gain) <= self.error:
            return "level"
        return "better" if self.gain < 0 else "worse"


def compare(results: Results, task: str, method: str, base: str = BASE) -> Comparison | None:
    """Return a comparison over the seeds that both have; None if one has a run that diverged."""
    pairs = [results.select(task=task, method=name) for name in (method, base)]
    if not pairs[0] or any("test_nll" not in run for runs in pairs for run in runs):
        return None
    gains = np.array([a["test_nll"] - b["test_nll"] for a, b in zip(*pairs, strict=True)])
    error = gains.std(ddof=1) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
    shares = [_share(a["curve"], b["curve"][-1]) for a, b in zip(*pairs, strict=True)]
    return Comparison(float(gains.mean()), float(error), float(np.median(shares)))


def table(spec: Spec, results: Results) -> Table:
    """Return one row per task: nll's likelihood, and every other method's difference to it."""
    methods = [name for name in spec.settings["methods"] if name != BASE]
    rows = [["task", f"{BASE}: test NLL", *methods]]
    counts = {name: {"better": 0, "level": 0, "worse": 0, "diverged": 0} for name in methods}
    for task in spec.settings["tasks"]:
        found = [r["test_nll"] for r in results.select(task=task, method=BASE) if "test_nll" in r]
        row = [task, f"{np.mean(found):.3f} ± {np.std(found):.3f}" if found else "diverged"]
        for name in methods:
            comparison = compare(results, task, name)
            counts[name]["diverged" if comparison is None else comparison.verdict] += 1
            row.append("diverged" if comparison is None else _cell(comparison))
        rows.append(row)
    summary = [
        ", ".join(f"{number} {word}" for word, number in counts[name].items() if number)
        for name in methods
    ]
    return [*rows, ["all tasks", "", *summary]]


def _share(curve: list[float], target: float) -> float:
    reached = np.flatnonzero(np.array(curve) <= target)
    return float((reached[0] + 1) / len(curve)) if len(reached) else np.inf


def _cell(comparison: Comparison) -> str:
    share = f"{comparison.share:.2f}" if np.isfinite(comparison.share) else "-"
    return f"{comparison.gain:+.3f} ± {comparison.error:.3f} ({share})"
