"""Specs as data, results that survive interruption, and the whole command at the smoke budget."""

import json
import os
import re
import subprocess
import sys

import pytest

from ngem.repro import report, runner, spec, tables
from ngem.repro.figures import FIGURES
from ngem.repro.store import Results

PAPER = [f"table{n}" for n in (1, 2, 3, 4, 5, 6, 9)]
PAPER += [f"fig{n}" for n in (1, 2, 4, 5, 6, 7, 8, 9, 10)]

OURS = ["objectives", "pruning", "uci", "weights"]


def test_every_table_and_figure_of_the_paper_has_a_spec():
    assert spec.ids() == [*PAPER, *OURS]
    assert set(report.TABLES) | set(FIGURES) == set(spec.ids())


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
    with pytest.raises(ValueError, match="lacks n_grid"):
        spec.make_settings(module.Settings, "x", {k: values[k] for k in values if k != "n_grid"})
    with pytest.raises(ValueError, match="table1"):
        spec.load("table99")


class FakeExperiment:
    """Four runs, the third of which fails until the obstacle is gone."""

    ALONE = True
    broken = True
    ran: list[int] = []  # noqa: RUF012

    class Settings:
        pass

    @staticmethod
    def units(settings):
        return [{"seed": seed} for seed in range(4)]

    @classmethod
    def run(cls, settings, unit):
        if unit["seed"] == 2 and cls.broken:
            raise KeyboardInterrupt
        cls.ran.append(unit["seed"])
        return {"value": unit["seed"] ** 2}


def test_an_interrupted_experiment_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "experiment", lambda name: FakeExperiment)
    monkeypatch.setattr(runner, "make_settings", lambda *args: FakeExperiment.Settings())
    loaded = spec.parse("x", GOOD, "full")
    with pytest.raises(KeyboardInterrupt):
        runner.run(loaded, tmp_path, workers=1)
    kept = json.loads((tmp_path / "x" / "results.json").read_text())["runs"]
    assert [run["unit"]["seed"] for run in kept][:2] == [0, 1]
    FakeExperiment.broken = False
    before = len(FakeExperiment.ran)
    results = runner.run(loaded, tmp_path, workers=1)
    assert [r["value"] for r in results.select()] == [0, 1, 4, 9]
    assert 0 not in FakeExperiment.ran[before:]
    assert 1 not in FakeExperiment.ran[before:]


def test_runs_side_by_side_have_one_thread_each(monkeypatch):
    monkeypatch.setenv("NPROC", "3")
    with runner._pool(2) as pool:
        assert pool.submit(os.getenv, "NPROC").result() == "1"
    assert os.environ["NPROC"] == "3"


def test_results_of_other_settings_are_neither_continued_nor_lost(tmp_path):
    path = tmp_path / "results.json"
    Results(path, settings={"a": 1}, budget="full").add({"seed": 1}, {"v": 1.0}, 0.1)
    assert Results(path, settings={"a": 1}, budget="full").has({"seed": 1})
    for settings, budget in (({"a": 2}, "full"), ({"a": 1}, "quick")):
        with pytest.raises(ValueError, match="choose another directory"):
            Results(path, settings=settings, budget=budget)
    assert Results(path, settings={"a": 1}, budget="full").has({"seed": 1})


def test_committed_results_are_those_of_the_specs_and_the_reports_of_the_results(request):
    """What docs/results holds was made with the settings that the specs have now."""
    root = request.config.rootpath / report.COMMITTED
    reported = [name for name in spec.ids() if (root / name / "report.md").exists()]
    assert len(reported) > 10
    for name in reported:
        loaded = spec.load(name)
        path = root / loaded.runs / "results.json"
        found = json.loads(path.read_text())
        assert found["budget"] == "full"
        assert found["settings"] == json.loads(json.dumps(loaded.settings)), name
        results = Results(path, settings=loaded.settings, budget="full")
        text = (root / name / "report.md").read_text()
        if name in report.TABLES:
            for row in report.TABLES[name](loaded, results):
                assert "| " + " | ".join(row) + " |" in text, name
        claims = tables.CLAIMS[name](loaded, results) if name in tables.CLAIMS else []
        for claim in claims:
            assert f"| {claim.text} | {claim.paper} | {claim.ours} |" in text, name


def test_smoke_budget_of_everything(tmp_path, data_dir, hasty_compiler):
    """`ngem reproduce all --budget smoke`, as a user runs it."""
    program = "from ngem.cli import main; main()"
    arguments = ["reproduce", "all", "--budget", "smoke", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for name in spec.ids():
        text = (tmp_path / name / "report.md").read_text()
        assert re.search(r"Budget smoke: \d+ runs", text)
        if name in FIGURES:
            assert (tmp_path / name / f"{name}.png").stat().st_size > 5000


def test_summary_without_results_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="run ngem reproduce all first"):
        report.summary(tmp_path)
