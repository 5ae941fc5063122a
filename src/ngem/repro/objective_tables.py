"""The objective study: paired differences to nll, steps saved, modes lost, runs that diverged."""

from typing import Any, NamedTuple

import numpy as np

from .spec import Spec
from .store import Results
from .tables import Claim, Table

#: What every other method is compared with.
BASE = "nll"

#: The method that the library proposes.
OURS = "ngem"

#: How far above the true density's a test likelihood lies if a mode is lost, for each target.
_LOST = 0.5


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
    everyone = [BASE, *methods]
    return [
        *rows,
        ["all tasks", "", *summary],
        [
            "tasks with a lower train NLL, unregularised",
            "",
            *(_out_of(_optimises_better(results, spec.settings["tasks"], n)) for n in methods),
        ],
        ["runs that lost a mode", *(_out_of(_lost(_runs(results, n))) for n in everyone)],
        ["fits that diverged", *(_out_of(_diverged(_runs(results, n))) for n in everyone)],
        ["error of the weight, mean", *(_weight_error(_runs(results, n)) for n in everyone)],
    ]


def claims(spec: Spec, results: Results) -> list[Claim]:
    """Return what the default must show."""
    tasks = spec.settings["tasks"]
    found = [compare(results, task, OURS) for task in tasks]
    verdicts = ["diverged" if one is None else one.verdict for one in found]
    better, worse = (
        verdicts.count("better"),
        [
            f"{task} {one.gain:+.3f} ± {one.error:.3f}"
            for task, one in zip(tasks, found, strict=True)
            if one is not None and one.verdict == "worse"
        ],
    )
    quick = sum(one is not None and one.share <= 0.5 for one in found)
    ours, base = (_runs(results, name) for name in (OURS, BASE))
    diverged, lost, lost_base = _diverged(ours), _lost(ours), _lost(base)
    errors = _weight_errors(ours)
    return [
        Claim(
            f"{OURS}: no fit diverges, at any rate of the grid and at ten times the largest",
            "0",
            _out_of(diverged),
            sum(diverged) == 0,
        ),
        Claim(
            f"{OURS}: no task worse than {BASE} beyond one standard error",
            "none",
            "; ".join(worse) or "none",
            not worse and "diverged" not in verdicts,
        ),
        Claim(
            f"{OURS}: better than {BASE} beyond one standard error on at least half of the tasks",
            f"{(len(tasks) + 1) // 2} of {len(tasks)}",
            f"{better} of {len(tasks)}",
            2 * better >= len(tasks),
        ),
        Claim(
            f"{OURS}: {BASE}'s final train NLL in half the steps on at least two thirds of tasks",
            f"{-(-2 * len(tasks) // 3)} of {len(tasks)}",
            f"{quick} of {len(tasks)}",
            3 * quick >= 2 * len(tasks),
        ),
        Claim(
            f"{OURS}: loses a mode less often than {BASE}",
            f"fewer than {sum(lost_base)}",
            _out_of(lost),
            sum(lost) < sum(lost_base),
        ),
        Claim(
            f"{OURS}: true weights are learned within 0.01 on average",
            "0.01",
            f"{abs(np.mean(errors)) if errors else np.nan:.4f}",
            bool(errors) and bool(abs(np.mean(errors)) <= 0.01),
        ),
    ]


def _runs(results: Results, method: str) -> list[dict[str, Any]]:
    return results.select(method=method)


def _lost(runs: list[dict[str, Any]]) -> list[bool]:
    known = [run for run in runs if run["true_nll"] is not None and "test_nll" in run]
    return [run["test_nll"] - run["true_nll"] > _LOST * run["targets"] for run in known]


def _optimises_better(results: Results, tasks: list[str], method: str) -> list[bool]:
    """Tell for each task whether the train likelihood at the end is lower than nll's in the mean.

    Without regularisation, and with the learning rate that reaches the lowest.
    """
    ends = {
        name: [
            np.mean([_lowest_train(run) for run in results.select(task=task, method=name)])
            for task in tasks
        ]
        for name in (method, BASE)
    }
    return [bool(ours < base) for ours, base in zip(ends[method], ends[BASE], strict=True)]


def _lowest_train(run: dict[str, Any]) -> float:
    plain = [
        point["train_nll"]
        for point in run["grid"]
        if "train_nll" in point and not point["weight_decay"] and not point.get("dropout")
    ]
    return min(plain, default=np.inf)


def _diverged(runs: list[dict[str, Any]]) -> list[bool]:
    return ["diverged" in point for run in runs for point in run["grid"]]


def _weight_errors(runs: list[dict[str, Any]]) -> list[float]:
    return [run["weight_error"] for run in runs if run.get("weight_error") is not None]


def _weight_error(runs: list[dict[str, Any]]) -> str:
    errors = _weight_errors(runs)
    return f"{np.mean(errors):+.4f}" if errors else "-"


def _out_of(flags: list[bool]) -> str:
    return f"{sum(flags)} of {len(flags)}"


def _share(curve: list[float], target: float) -> float:
    reached = np.flatnonzero(np.array(curve) <= target)
    return float((reached[0] + 1) / len(curve)) if len(reached) else np.inf


def _cell(comparison: Comparison) -> str:
    share = f"{comparison.share:.2f}" if np.isfinite(comparison.share) else "-"
    return f"{comparison.gain:+.3f} ± {comparison.error:.3f} ({share})"
