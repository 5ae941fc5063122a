"""The objective study as tables: paired differences to nll, steps saved, collapse, and verdicts."""

from typing import NamedTuple

import numpy as np

from .objective_study import TASKS
from .spec import Spec
from .store import Results
from .tables import Claim, Table

#: The method whose place is to be defended, and what it is compared with.
OURS, BASE = "ngem", "nll"

#: Tasks with several modes, where weights can collapse.
MULTIMODAL = ("two-", "signed-sine", "inverse-sine", "switching-maps")


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


def claims(spec: Spec, results: Results) -> list[Claim]:
    """Return what the default must show."""
    tasks = spec.settings["tasks"]
    points = [p for r in results.select(method=OURS) for p in r["grid"]]
    lost = sum("diverged" in point for point in points)
    every = {task: compare(results, task, OURS) for task in tasks}
    found = {task: c for task, c in every.items() if c is not None}
    verdicts = [c.verdict for c in found.values()]
    worse = [f"{task} {c.gain:+.3f}" for task, c in found.items() if c.verdict == "worse"]
    fast = [task for task, c in found.items() if c.share <= 0.5]
    collapsed = {name: _collapsed(results, tasks, name) for name in (OURS, BASE)}
    return [
        Claim(
            "no run of ngem diverges, at any learning rate of the grid",
            "",
            f"{lost} of {len(points)}",
            lost == 0,
        ),
        Claim(
            "test NLL better than or level with nll's on every task, better on at least half",
            "",
            f"better on {verdicts.count('better')}, level on {verdicts.count('level')}, worse on "
            f"{len(worse)} of {len(tasks)}" + (f" ({', '.join(worse)})" if worse else ""),
            not worse and 2 * verdicts.count("better") >= len(tasks),
        ),
        Claim(
            "reaches nll's final train loss in at most half the steps on two thirds of the tasks",
            "",
            f"on {len(fast)} of {len(tasks)}",
            3 * len(fast) >= 2 * len(tasks),
        ),
        Claim(
            "fewer collapsed runs than nll on multimodal tasks",
            "",
            f"{collapsed[OURS]} / {collapsed[BASE]}",
            collapsed[OURS] < collapsed[BASE] or collapsed[BASE] == 0,
        ),
    ]


def _share(curve: list[float], target: float) -> float:
    reached = np.flatnonzero(np.array(curve) <= target)
    return float((reached[0] + 1) / len(curve)) if len(reached) else np.inf


def _cell(comparison: Comparison) -> str:
    share = f"{comparison.share:.2f}" if np.isfinite(comparison.share) else "-"
    return f"{comparison.gain:+.3f} ± {comparison.error:.3f} ({share})"


def _collapsed(results: Results, tasks: list[str], method: str) -> int:
    """Return runs whose weights have far less entropy than the truth, or but one component."""
    count = 0
    for task in tasks:
        if not task.startswith(MULTIMODAL):
            continue
        truth = TASKS[task].true_entropy
        for run in results.select(task=task, method=method):
            if truth is not None:
                count += run.get("entropy", 0.0) < 0.5 * truth
            else:
                count += run.get("effective_components", 1.0) < 1.2
    return count
