"""The trials of a search: of this process alone, or of all that share a file of Optuna's."""

import abc
from pathlib import Path
from typing import Any

import numpy as np

from .opening import TableError
from .trials import Trial


class AbstractTrials(abc.ABC):
    """Trials that are finished, and those that begin."""

    @abc.abstractmethod
    def finished(self) -> list[Trial]:
        """Return all finished trials."""

    @abc.abstractmethod
    def begin(self) -> tuple[int, np.random.Generator]:
        """Return the number of a new trial, from 1, and randomness for its settings."""

    @abc.abstractmethod
    def end(self, trial: Trial) -> None:
        """Keep a trial that is finished."""


class OwnTrials(AbstractTrials):
    """Trials of this process.

    Args:
        seed: Seed of the settings.
    """

    def __init__(self, seed: int):
        self._rng, self._finished = np.random.default_rng(seed), []

    def finished(self) -> list[Trial]:
        return list(self._finished)

    def begin(self) -> tuple[int, np.random.Generator]:
        return len(self._finished) + 1, self._rng

    def end(self, trial: Trial) -> None:
        self._finished.append(trial)


class SharedTrials(AbstractTrials):
    """Trials of all processes that name the same file, on one machine or on several.

    Each trial has a number of its own, which decides its settings. One that a process has begun and
    not finished counts for nothing.

    Args:
        path: A journal file of Optuna's; it is made if there is none.
        name: What is searched: another table or other options are another study of the file.
        seed: Seed of the settings.
    """

    def __init__(self, path: Path, name: str, seed: int):
        optuna = _import_optuna()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        journal = optuna.storages.journal.JournalFileBackend(str(path))
        self._optuna, self._seed = optuna, seed
        self._study = optuna.create_study(
            study_name=name,
            storage=optuna.storages.JournalStorage(journal),
            load_if_exists=True,
        )
        self._begun: dict[int, Any] = {}

    def finished(self) -> list[Trial]:
        state = self._optuna.trial.TrialState
        done = self._study.get_trials(states=(state.COMPLETE, state.PRUNED, state.FAIL))
        return [_read(one.user_attrs["trial"]) for one in done if "trial" in one.user_attrs]

    def begin(self) -> tuple[int, np.random.Generator]:
        begun = self._study.ask()
        number = begun.number + 1
        self._begun[number] = begun
        return number, np.random.default_rng((self._seed, number))

    def end(self, trial: Trial) -> None:
        begun, state = self._begun.pop(trial.number), self._optuna.trial.TrialState
        begun.set_user_attr("trial", _write(trial))
        if np.isfinite(trial.nll):
            begun.report(trial.nll, len(trial.curve))
        if trial.ended == "complete":
            self._study.tell(begun, trial.nll)
        else:
            self._study.tell(begun, state=state.FAIL if trial.ended == "diverged" else state.PRUNED)


def _import_optuna() -> Any:
    try:
        import optuna  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise TableError("--study needs Optuna, got none; try pip install optuna.") from error
    return optuna


def _write(trial: Trial) -> dict[str, Any]:
    return {**trial._asdict(), "curve": trial.curve.tolist()}


def _read(known: dict[str, Any]) -> Trial:
    settings = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in known["settings"].items()
    }
    return Trial(**{**known, "settings": settings, "curve": np.array(known["curve"])})
