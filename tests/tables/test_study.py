"""A search that several processes share: each trial runs once, and all know of it."""

import builtins
import threading

import numpy as np
import pytest

from ngem import MDNRegressor
from ngem.tables import tune
from ngem.tables.opening import TableError
from ngem.tables.spaces import SPACES
from ngem.tables.study import SharedTrials
from ngem.training import Progress

NAME = "a table"


def shared(path, name=NAME):
    pytest.importorskip("optuna")
    return SharedTrials(path, name, 0)


def search(path, budget, nll, done):
    """Search with fits whose NLL is a function of the settings; `done` gets the settings."""

    def fit(settings, callbacks):
        value = nll(settings)
        done.append(settings)
        for callback in callbacks:
            callback(Progress(1, 1, value, value, value, 0, 0.0))
        return MDNRegressor(**settings), value

    return tune.search(
        fit,
        tune.read_budget(budget),
        space=SPACES["network"],
        n_components=5,
        record=shared(path),
        report=lambda *_: None,
    )


def by_rate(settings):
    return -settings["learning_rate"]


def test_a_finished_trial_is_never_run_again(tmp_path):
    path = tmp_path / "study.log"
    first: list = []
    second: list = []
    best, top, trials, _ = search(path, "4", by_rate, first)
    assert best is not None
    assert best.learning_rate == top.settings["learning_rate"]
    shared(path).begin()  # by a process that dies
    again, top_again, found, _ = search(path, "4", by_rate, second)
    assert not second
    assert again is None  # the best trial is another process's
    assert top_again.settings == top.settings
    np.testing.assert_array_equal(found[-1].curve, trials[-1].curve)
    assert [trial.as_dict() for trial in found] == [trial.as_dict() for trial in trials]
    _, _, more, _ = search(path, "6", by_rate, second)
    assert len(second) == 2
    assert [trial.number for trial in more] == [1, 2, 3, 4, 6, 7]
    every = [*first, *second]
    assert len({settings["learning_rate"] for settings in every}) == len(every)


def test_processes_that_search_at_once_divide_the_trials(tmp_path):
    path = tmp_path / "study.log"
    shared(path)
    done: list = []
    threads = [threading.Thread(target=search, args=(path, "8", by_rate, done)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 8 <= len(done) <= 9
    trials = shared(path).finished()
    assert len({trial.number for trial in trials}) == len(trials) == len(done)


def test_another_table_is_another_study_of_the_file(tmp_path):
    path = tmp_path / "study.log"
    search(path, "2", by_rate, [])
    assert len(shared(path).finished()) == 2
    assert not shared(path, "another table").finished()


def test_the_line_where_optuna_is_absent(tmp_path, monkeypatch):
    whole = builtins.__import__

    def without(name, *arguments, **more):
        if name == "optuna":
            raise ImportError(name)
        return whole(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TableError, match="--study needs Optuna, got none; try pip install optuna"):
        SharedTrials(tmp_path / "study.log", NAME, 0)
