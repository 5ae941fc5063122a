"""Runs survive an interruption, and parallel runs have one thread each."""

import json
import os

import pytest

from ngem.repro import runner, spec

SPEC = """
title = "t"
experiment = "one_gaussian"
reading = "r"
"""


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
    loaded = spec.parse("x", SPEC, "full")
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


def test_parallel_runs_have_one_thread_each(monkeypatch):
    monkeypatch.setenv("NPROC", "3")
    with runner._pool(2) as pool:
        assert pool.submit(os.getenv, "NPROC").result() == "1"
    assert os.environ["NPROC"] == "3"


def test_unknown_experiments_are_refused():
    with pytest.raises(ValueError, match=r"experiment must be one of .* got 'os'"):
        runner.experiment("os")
