"""The search for settings, with trials whose curves are known."""

import time

import numpy as np
import pytest

from ngem import MDNRegressor, MixtureBoostingRegressor
from ngem.tables import spaces, tune
from ngem.tables.spaces import SPACES
from ngem.tables.study import OwnTrials
from ngem.training import FitError, Progress


def trial_of(curves, seconds=0.0, kept=1.0):
    """Return a fit that plays back one curve of validation NLL for each trial.

    The model that it returns has `kept` times the last value.
    """
    curves = iter(curves)

    def fit(settings, callbacks):
        curve = next(curves)
        for epoch, nll in enumerate(curve):
            time.sleep(seconds)
            for callback in callbacks:
                callback(Progress(epoch + 1, 8, nll, nll, nll, 0, 0.0))
        return MDNRegressor(**settings), kept * curve[-1]

    return fit


def falling(end):
    return np.linspace(3.0, end, 8)


def diverge(settings, callbacks):
    raise FitError.__new__(FitError, "Steps were not finite.")  # without what was learned so far


def search(fit, budget, report=lambda *_: None, space=SPACES["network"]):
    record = OwnTrials(0)
    best, _, trials, was_interrupted = tune.search(
        fit,
        tune.read_budget(budget),
        space=space,
        n_components=7,
        record=record,
        report=report,
    )
    return best, trials, was_interrupted


def test_the_search_keeps_the_best_and_stops_the_hopeless():
    reported = []
    best, trials, _ = search(
        trial_of([falling(1.0), falling(0.5), falling(2.0), falling(-1.0)]),
        "4 trials",
        lambda trial, top: reported.append((trial.number, top.number)),
    )
    assert [trial.ended for trial in trials] == ["complete", "complete", "hopeless", "complete"]
    assert len(trials[2].curve) == 2  # a quarter of its epochs
    assert reported == [(1, 1), (2, 2), (3, 2), (4, 4)]
    for name, value in trials[3].settings.items():
        assert getattr(best, name) == value


def test_the_first_trial_has_the_default_settings():
    _, (first, second), _ = search(trial_of([falling(1.0)] * 2), "2")
    assert first.settings["n_components"] == 7
    assert first.settings["hidden_sizes"] == MDNRegressor().hidden_sizes
    assert second.settings != first.settings
    assert second.settings["n_components"] in spaces.COMPONENTS
    assert second.settings["hidden_sizes"][0] in spaces.WIDTHS
    ratio = second.settings["learning_rate"] / first.settings["learning_rate"]
    assert spaces.RATE_FACTORS[0] <= ratio <= spaces.RATE_FACTORS[1]


def test_the_first_trial_of_trees_has_their_default_settings():
    first, second = (SPACES["trees"].sample(rng) for rng in (None, np.random.default_rng(0)))
    default = MixtureBoostingRegressor()
    of_one_member = {"weight_rate": 0.1}  # a trial has no folds that could choose it
    assert first == {name: getattr(default, name) for name in first} | of_one_member
    assert list(second) == list(first)
    assert second["n_components"] in spaces.COMPONENTS
    assert second["num_leaves"] in spaces.LEAVES
    assert second["min_rows_in_leaf"] in spaces.MIN_ROWS
    assert second["weight_rate"] in spaces.WEIGHT_RATES
    ratio = second["learning_rate"] / first["learning_rate"]
    assert spaces.TREE_RATE_FACTORS[0] <= ratio <= spaces.TREE_RATE_FACTORS[1]


@pytest.mark.parametrize(("by_rate", "ended"), [(True, "complete"), (False, "hopeless")])
def test_a_slow_trial_of_trees_is_compared_with_where_others_were_as_early(by_rate, ended):
    """With a quarter of the rate, a trial is after eight rounds where the others were after two."""
    rates = iter([0.4, 0.4, 0.1])
    space = spaces.Space(lambda rng: {"learning_rate": next(rates)}, by_rate)
    fast = falling(1.0)
    slow = np.interp(np.arange(1, 9) / 4, np.arange(1, 9), fast)
    _, trials, _ = search(trial_of([fast, fast, slow]), "3", space=space)
    assert trials[2].ended == ended


def test_a_trial_of_trees_that_falls_behind_is_hopeless():
    """Rounds at most do not matter, because boosting stops earlier: a quarter of the longest is."""
    space = spaces.Space(lambda rng: {"learning_rate": 0.1}, by_rate=True)
    curves = [falling(1.0)[:4], falling(1.0), falling(2.0)]
    _, trials, _ = search(trial_of(curves), "3", space=space)
    assert trials[2].ended == "hopeless"
    assert len(trials[2].curve) == 2


def test_complete_trials_are_compared_by_the_models_they_end_with():
    curves = [falling(1.0), falling(0.5)]
    best, trials, _ = search(trial_of(curves, kept=-1.0), "2")
    assert [trial.nll for trial in trials] == [-1.0, -0.5]
    assert best.learning_rate == trials[0].settings["learning_rate"]


def test_the_search_ends_in_time():
    _, trials, _ = search(trial_of([falling(1.0)] * 100, seconds=0.01), "0.2s")
    assert trials[0].ended == "complete"
    assert trials[-1].ended in ("complete", "out of time")
    assert 2 <= len(trials) <= 4


def test_an_interrupt_keeps_the_best_trial():
    def interrupt(settings, callbacks):
        raise KeyboardInterrupt

    fits = iter([trial_of([falling(1.0)]), trial_of([falling(0.5)]), interrupt])
    best, trials, was_interrupted = search(lambda *arguments: next(fits)(*arguments), "9")
    assert was_interrupted
    assert best.learning_rate == trials[1].settings["learning_rate"]
    with pytest.raises(KeyboardInterrupt):  # there is nothing to keep yet
        search(interrupt, "9")


def test_only_the_first_trial_must_not_diverge():
    fits = iter([trial_of([falling(1.0)]), diverge])
    _, trials, _ = search(lambda *arguments: next(fits)(*arguments), "2")
    assert [trial.ended for trial in trials] == ["complete", "diverged"]
    assert trials[1].as_dict()["nll"] is None
    with pytest.raises(ValueError, match="the first trial must succeed, got training that diverg"):
        search(diverge, "2")


@pytest.mark.parametrize(
    ("text", "budget"),
    [("60s", (60, None)), ("1.5m", (90, None)), ("2h", (7200, None)), ("3 trials", (None, 3))],
)
def test_budgets(text, budget):
    assert tune.read_budget(text) == budget


def test_a_budget_in_words():
    assert [str(tune.read_budget(text)) for text in ("1", "2", "1m")] == [
        "1 trial",
        "2 trials",
        "60 s",
    ]


@pytest.mark.parametrize("text", ["", "0", "0s", "-1", "ten", "5 minutes", "1.5"])
def test_bad_budgets(text):
    with pytest.raises(ValueError, match="--budget must be"):
        tune.read_budget(text)
