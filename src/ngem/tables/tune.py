"""A search for settings of a model by validation likelihood, within a budget."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..training import FitError, Progress
from .kinds import Estimator
from .spaces import Space
from .study import AbstractTrials
from .trials import Trial

#: Fraction of the steps that every trial may run, and complete trials needed to judge others.
_GRACE, _ENOUGH = 0.25, 2

_SECONDS = {"s": 1, "m": 60, "h": 3600}

#: Takes settings and callbacks; returns a fitted estimator and its NLL on validation rows.
Fit = Callable[[dict[str, Any], list[Callable]], tuple[Estimator, float]]


class Budget(NamedTuple):
    """Limit of a search: seconds or a number of trials; the other one is None."""

    seconds: float | None
    trials: int | None

    def __str__(self) -> str:
        if self.seconds is None:
            return f"{self.trials} trial{'' if self.trials == 1 else 's'}"
        return f"{self.seconds:g} s"

    def progress(self, trial: int, spent: float) -> str:
        """Return how much of the budget a search has used."""
        if self.seconds is None:
            return f"trial {trial} of {self.trials}, {spent:.0f} s"
        return f"trial {trial}, {spent:.0f} of {self.seconds:g} s"

    def is_spent(self, trials: int, spent: float) -> bool:
        """Return whether a search must stop after these trials and seconds."""
        return trials >= self.trials if self.trials is not None else spent >= (self.seconds or 0)


def read_budget(text: str) -> Budget:
    """Return the budget in a text such as "60s", "5m", "1h", "20" or "20 trials"."""
    time_given = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh])\s*", text)
    trials_given = re.fullmatch(r"\s*(\d+)\s*(?:trials?)?\s*", text)
    if time_given and float(time_given[1]) > 0:
        return Budget(float(time_given[1]) * _SECONDS[time_given[2]], None)
    if trials_given and int(trials_given[1]) > 0:
        return Budget(None, int(trials_given[1]))
    raise ValueError(
        f"--budget must be a time or a number of trials, got {text!r}; for example --budget 60s, "
        "--budget 10m or --budget 20."
    )


def search(
    fit: Fit,
    budget: Budget,
    *,
    space: Space,
    n_components: int,
    record: AbstractTrials,
    report: Callable[[Trial, Trial], Any],
) -> tuple[Estimator | None, Trial, list[Trial], bool]:
    """Return the best estimator and its trial, all trials, and whether Ctrl-C ended the search.

    The first trial has the default settings and always runs to its end. So there is always a
    model, and it is no worse than the defaults on the validation rows. A later trial is stopped as
    hopeless if, after a quarter of its steps, its best NLL is above the median of the complete
    trials at the same point. The estimator is None if another process has the best trial.

    Args:
        fit: Fits one member; see `Fit`.
        budget: When to stop.
        space: What to choose.
        n_components: Components by default, those of the first trial.
        record: Trials of this process, or of all that share a study.
        report: Called after each trial with this trial and the best one so far.
    """
    started = time.perf_counter()
    own: tuple[Estimator, Trial] | None = None
    trials = record.finished()
    best = _best(trials)
    while best is None or not budget.is_spent(len(trials), time.perf_counter() - started):
        number, rng = record.begin()
        settings = space.sample(rng if number > 1 else None)
        if settings.get("n_components", 0) is None:  # a fit would choose
            settings["n_components"] = n_components
        deadline = started + budget.seconds if budget.seconds and best else None
        watch = _Watch(trials, deadline, settings["learning_rate"] if space.by_rate else None)
        try:
            estimator, trial = _run(fit, number, settings, watch)
        except KeyboardInterrupt:
            if own is None:
                raise
            return *own, trials, True
        record.end(trial)
        trials = record.finished()
        best = _best(trials)
        if estimator is not None and (own is None or trial.nll < own[1].nll):
            own = estimator, trial
        if best is None and number == 1:
            raise ValueError(
                "the first trial must succeed, got training that diverged with the default "
                "settings; look for columns with a few huge values."
            )
        if best is not None:
            report(trial, best)
    is_own = own is not None and own[1].number == best.number
    return own[0] if own is not None and is_own else None, best, trials, False


def _best(trials: Sequence[Trial]) -> Trial | None:
    """Return the best of the trials that ran to their end, or None if there is none."""
    complete = [trial for trial in trials if trial.ended == "complete"]
    return min(complete, key=lambda trial: trial.nll, default=None)


class _Stopped(Exception):
    """Raised by a callback to end a fit."""


class _Watch:
    """A callback that records a trial and stops it if it is hopeless or out of time."""

    def __init__(self, trials: Sequence[Trial], deadline: float | None, rate: float | None) -> None:
        self._rivals = [trial for trial in trials if trial.ended == "complete"]
        self._deadline = deadline
        self._rate = rate
        self.curve: list[float] = []
        self.max_steps = 0

    def __call__(self, progress: Progress) -> None:
        lowest = self.curve[-1] if self.curve else np.inf
        # Not `best_nll`, which is the best of all epochs that the loop ran in one chunk.
        self.curve.append(float(np.fmin(lowest, progress.validation_nll)))
        self.max_steps = progress.max_epochs
        if self._deadline is not None and time.perf_counter() > self._deadline:
            raise _Stopped("out of time")
        if self._is_hopeless():
            raise _Stopped("hopeless")

    def __deepcopy__(self, memo: Any) -> "_Watch":
        return self  # cloning an estimator copies its callbacks; the search reads this one

    def _is_hopeless(self) -> bool:
        if len(self._rivals) < _ENOUGH:
            return False
        # How many steps of each rival equal one of this trial. Boosting stops long before its
        # largest number of rounds, so the longest rival says how long this trial may take.
        ratios = [self._ratio(trial) for trial in self._rivals]
        lengths = [len(trial.curve) for trial in self._rivals]
        length = self.max_steps if self._rate is None else max(np.divide(lengths, ratios))
        if len(self.curve) < _GRACE * length:
            return False
        steps = np.maximum(np.round(len(self.curve) * np.array(ratios)).astype(int), 1)
        reached = [
            trial.curve[min(step, end) - 1]
            for trial, step, end in zip(self._rivals, steps, lengths, strict=True)
        ]
        return self.curve[-1] > float(np.median(reached))

    def _ratio(self, rival: Trial) -> float:
        return 1.0 if self._rate is None else self._rate / rival.settings["learning_rate"]


def _run(
    fit: Fit,
    number: int,
    settings: dict[str, Any],
    watch: _Watch,
) -> tuple[Estimator | None, Trial]:
    estimator, nll, ended = None, np.nan, "complete"
    try:
        estimator, nll = fit(settings, [watch])
    except _Stopped as stop:
        ended = str(stop)
    except FitError:
        ended = "diverged"
    if estimator is None:
        nll = watch.curve[-1] if watch.curve else np.inf
    return estimator, Trial(number, settings, nll, ended, np.array(watch.curve), watch.max_steps)
