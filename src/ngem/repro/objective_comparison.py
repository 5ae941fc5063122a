"""The objective study: paired differences to nll, steps saved, lost modes, diverged fits."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .spec import Spec
from .statistics import (
    diverged_fits,
    fraction_of_training,
    lost_modes,
    scores,
    standard_error,
)
from .store import Results, Run

#: The method that every other one is compared with.
BASE = "nll"


class Comparison(NamedTuple):
    """A method against nll on one task, paired by seed.

    Attributes:
        gain: Mean difference of test NLLs, negative is better.
        error: Its standard error.
        fraction: Fraction of training that the method needed to reach nll's final train NLL, the
            median over seeds; infinity if it never did.
    """

    gain: float
    error: float
    fraction: float

    @property
    def verdict(self) -> str:
        """Better or worse beyond one standard error, or level."""
        if abs(self.gain) <= self.error:
            return "level"
        return "better" if self.gain < 0 else "worse"


def compare(results: Results, task: str, method: str) -> Comparison | None:
    """Return a method against nll on a task; None if a run of either diverged."""
    pairs = results.pairs({"method": BASE}, task=task, method=method)
    if not pairs or any("test_nll" not in run for pair in pairs for run in pair):
        return None
    gains = np.array([ours["test_nll"] - base["test_nll"] for ours, base in pairs])
    fraction = float(np.median([fraction_of_training(pair) for pair in pairs]))
    return Comparison(float(gains.mean()), standard_error(gains), fraction)


def objective_table(spec: Spec, results: Results) -> list[list[str]]:
    """Return one row per task: nll's NLL, and every other method's difference to it."""
    tasks = spec.settings["tasks"]
    methods = [name for name in spec.settings["methods"] if name != BASE]
    compared = {name: [compare(results, task, name) for task in tasks] for name in methods}
    return [
        ["task", f"{BASE}: test NLL", *methods],
        *(
            [task, _base_cell(results, task), *(_cell(compared[name][i]) for name in methods)]
            for i, task in enumerate(tasks)
        ),
        ["all tasks", "", *(_counts(compared[name]) for name in methods)],
        *_summary(results, tasks, methods),
    ]


def _summary(results: Results, tasks: Sequence[str], methods: Sequence[str]) -> list[list[str]]:
    """Return the rows that are about all tasks together."""
    runs = {name: results.select(method=name) for name in (BASE, *methods)}
    return [
        [
            "tasks with a lower train NLL, unregularized",
            "",
            *(_out_of(_optimizes_better(results, tasks, name)) for name in methods),
        ],
        ["runs that lost a mode", *(_out_of(lost_modes(own)) for own in runs.values())],
        ["fits that diverged", *(_out_of(diverged_fits(own)) for own in runs.values())],
        ["error of the weight, mean", *(_weight_error(own) for own in runs.values())],
    ]


def _optimizes_better(results: Results, tasks: Sequence[str], method: str) -> list[bool]:
    """Return for each task whether the mean final train NLL is lower than nll's.

    Without regularization, and with the learning rate that reaches the lowest.
    """
    finals = {
        name: [
            np.mean([_lowest_train_nll(run) for run in results.select(task=task, method=name)])
            for task in tasks
        ]
        for name in (method, BASE)
    }
    return [bool(ours < base) for ours, base in zip(finals[method], finals[BASE], strict=True)]


def _lowest_train_nll(run: Run) -> float:
    unregularized = [
        point["train_nll"]
        for point in run["grid"]
        if "train_nll" in point and not point["weight_decay"] and not point.get("dropout")
    ]
    return min(unregularized, default=np.inf)


def _base_cell(results: Results, task: str) -> str:
    runs = [run for run in results.select(task=task, method=BASE) if "test_nll" in run]
    values = scores(runs, "test_nll")
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}" if runs else "diverged"


def _cell(comparison: Comparison | None) -> str:
    if comparison is None:
        return "diverged"
    fraction = f"{comparison.fraction:.2f}" if np.isfinite(comparison.fraction) else "-"
    return f"{comparison.gain:+.3f} ± {comparison.error:.3f} ({fraction})"


def _counts(comparisons: Sequence[Comparison | None]) -> str:
    verdicts = ["diverged" if one is None else one.verdict for one in comparisons]
    words = ("better", "level", "worse", "diverged")
    return ", ".join(f"{verdicts.count(word)} {word}" for word in words if word in verdicts)


def _weight_error(runs: Sequence[Run]) -> str:
    errors = scores([run for run in runs if "weight_error" in run], "weight_error")
    return f"{np.mean(errors):+.4f}" if len(errors) else "-"


def _out_of(flags: Sequence[bool]) -> str:
    return f"{sum(flags)} of {len(flags)}"
