"""Specs as data: what they may hold, and what every budget of each of them gives."""

import json

import pytest

from ngem.repro import runner, spec
from ngem.repro.comparison import TABLES
from ngem.repro.figures import FIGURES

PAPER = [f"table{n}" for n in (1, 2, 3, 4, 5, 6, 9)]
PAPER += [f"fig{n}" for n in (1, 2, 4, 5, 6, 7, 8, 9, 10)]

OURS = ["boosting", "boosting_peers", "families", "families_more", "low_rank", "objectives"]
OURS += ["pruning", "strength", "uci", "weights"]


def test_every_table_and_figure_of_the_paper_has_a_spec():
    assert spec.ids() == [*PAPER, *OURS]
    assert set(TABLES) | set(FIGURES) == set(spec.ids())


@pytest.mark.parametrize("budget", spec.BUDGETS)
@pytest.mark.parametrize("name", [*PAPER, *OURS])
def test_settings_fit_their_experiment(name, budget):
    loaded = spec.load(name, budget)
    module = runner.experiment(loaded.experiment)
    settings = spec.make_settings(module.Settings, name, loaded.settings)
    units = module.units(settings)
    assert units
    assert len({json.dumps(unit, sort_keys=True) for unit in units}) == len(units)


@pytest.mark.parametrize("name", ["table1", "table2", "table3", "table4", "table5", "table6"])
def test_each_table_compares_the_papers_objective_ours_and_nll(name):
    assert {"nll", "ngem-listing", "ngem"} <= set(spec.load(name).settings["objectives"])


def test_full_budgets_are_the_papers():
    """Tables 7 to 10."""
    plane, waves, images, rows = (
        spec.load(name).settings for name in ("table1", "table2", "table3", "table5")
    )
    seeds = [1, 2, 3, 4, 5]
    assert (plane["epochs"], plane["n_points"], plane["seeds"]) == (50, 200, seeds)
    assert (waves["epochs"], waves["n_points"], waves["seeds"]) == (1000, 2000, seeds)
    assert (images["epochs"], images["batch_size"], images["rows"]) == (100, 256, 60000)
    assert rows["datasets"]["kin8nm"] == {"learning_rate": 1e-3, "epochs": 250, "batch_size": 128}
    assert rows["datasets"]["energy"] == {"learning_rate": 1e-4, "epochs": 125, "batch_size": 16}
    assert rows["datasets"]["housing"] == {"learning_rate": 1e-4, "epochs": 125, "batch_size": 32}


GOOD = """
title = "t"
experiment = "one_gaussian"
reading = "r"
[settings]
weights = [1.0]
means = [0.0]
scales = [1.0]
n_grid = 11
"""


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("\n[setings]\nx = 1", "setings"),
        ("\n[budgets.smoke]\nn_gird = 3", "n_gird"),
        ("\n[budgets.huge]\nn_grid = 3", "huge"),
        ("\n[[claims]]\ntext = 'a'\nhodls = 'b'", "hodls"),
    ],
)
def test_unknown_keys_are_refused(extra, message):
    assert spec.parse("x", GOOD, "smoke").settings["n_grid"] == 11
    with pytest.raises(ValueError, match=message):
        spec.parse("x", GOOD + extra, "smoke")


def test_unknown_or_missing_settings_are_refused():
    module = runner.experiment("one_gaussian")
    values = spec.parse("x", GOOD, "full").settings
    with pytest.raises(ValueError, match="n_girds"):
        spec.make_settings(module.Settings, "x", {**values, "n_girds": 2})
    with pytest.raises(ValueError, match="got none for n_grid"):
        spec.make_settings(module.Settings, "x", {k: values[k] for k in values if k != "n_grid"})
    with pytest.raises(ValueError, match="table1"):
        spec.load("table99")


def test_a_spec_like_another_has_its_values_but_for_its_own():
    base, other = spec.load("table3"), spec.load("table4")
    assert other.settings == {**base.settings, "components": [10]}
    assert other.claims == base.claims
    assert other.published("entropy", objective="nll") == (0.456, 0.32)
    assert spec.load("table4", "smoke").settings["components"] == [3]


def test_figures_of_the_paper_are_found_by_their_unit():
    loaded = spec.load("table1")
    assert loaded.published("entropy", objective="nll", learning_rate=0.01) == (0.687, 0.01)
    assert loaded.published("entropy", objective="ngem", learning_rate=0.01) is None
    assert loaded.published("crps", objective="nll", learning_rate=0.01) is None
    assert loaded.published("entropy", objective="nll") is None  # three of them: which?


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_figures_are_about_units_that_run(name):
    """A misspelled objective or rate would show as a figure that is never compared."""
    loaded = spec.load(name)
    module = runner.experiment(loaded.experiment)
    units = module.units(spec.make_settings(module.Settings, name, loaded.settings))
    keys = {key for unit in units for key in unit}
    for record in loaded.paper:
        where = {key: record[key] for key in record if key in keys}
        assert any(where.items() <= unit.items() for unit in units), record
        scores = {key: record[key] for key in record if key not in keys}
        assert scores
        assert all(len(pair) == 2 and pair[1] >= 0 for pair in scores.values()), record
