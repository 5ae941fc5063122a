"""`ngem fit --processes`: the model of one process, and runs that go on after a crash."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import ngem
from ngem._console import Output
from ngem.cli import app
from ngem.distributed import Place
from ngem.tables import commands
from ngem.tables.opening import TableError
from ngem.tables.processes import count_processes, make_team, work_directory


def test_what_is_divided(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_PROCESS_ID", "1")
    monkeypatch.setenv("JAX_NUM_PROCESSES", "2")
    out = tmp_path / "model.ngem"
    assert make_team(None, None, "stack", {}, out) is None
    assert make_team("1", None, "stack", {}, out) is None
    team = make_team("2", None, "network", {"n_members": 1}, out)
    assert team is not None
    assert team == (Place(1, 2), "rows", work_directory(out))
    for model, settings in (("stack", {}), ("trees", {"n_members": 1}), ("network", {})):
        team = make_team("scheduler", None, model, settings, out)
        assert team is not None
        assert team.split == "members"
    with pytest.raises(TableError, match="--split rows must come with --model network or trees"):
        make_team("2", "rows", "stack", {}, out)
    with pytest.raises(ValueError, match="--split must be one of"):
        make_team("2", "columns", "stack", {}, out)


@pytest.mark.parametrize("text", ["0", "two", "-1", "1.5"])
def test_numbers_of_processes(text):
    with pytest.raises(TableError, match="--processes must be a number of at least 1"):
        count_processes(text)


def test_processes_cannot_share_standard_input(tmp_path):
    words = ["fit", "-", "--target", "y", "--processes", "2", "--out", str(tmp_path / "m.ngem")]
    result = CliRunner().invoke(app, words, input="a,y\n1,2\n")
    assert result.exit_code == 1
    assert "DATA must be a file with --processes" in result.output


def test_one_file_needs_no_processes_to_predict(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "_load_model", lambda *_: (None, None))
    with pytest.raises(TableError, match="must come with a directory or a pattern of files"):
        commands.predict(tmp_path, tmp_path / "a.csv", processes="2", output=Output())


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (600, 2))
    y = rng.choice([-1, 1], 600) * x[:, 0] + 0.1 * rng.standard_normal(600)
    path = tmp_path / "table.csv"
    np.savetxt(path, np.column_stack([x, y]), delimiter=",", header="a,b,y", comments="")
    return path


def command(table, out, *options):
    words = ["fit", table, "--target", "y", "--model", "network", "--hidden", "8", "--out", out]
    return [sys.executable, "-m", "ngem", *map(str, words), *options]


def fit(table, out, *options):
    done = subprocess.run(command(table, out, *options), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def log_prob(path, table):
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    return ngem.load(path).log_prob(frame(rows), rows[:, 2])


def frame(rows):
    import polars as pl

    return pl.DataFrame({"a": rows[:, 0], "b": rows[:, 1]})


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("members", "tolerance"), [(1, 1e-4), (3, 0.0)])
def test_two_processes_fit_the_model_of_one(table, tmp_path, members, tolerance):
    one, two = tmp_path / "one.ngem", tmp_path / "two.ngem"
    options = ("--members", str(members), "--epochs", "10", "--json")
    first = fit(table, one, *options)
    second = fit(table, two, *options, "--processes", "2")
    assert second.stdout.startswith("{")  # nothing but JSON, and once
    assert second.stdout.count('"model"') == first.stdout.count('"model"')
    np.testing.assert_allclose(log_prob(two, table), log_prob(one, table), atol=tolerance)
    assert not work_directory(two).exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_process_is_named_and_the_run_goes_on_with_another_number(table, tmp_path):
    one, two = tmp_path / "one.ngem", tmp_path / "two.ngem"
    options = ("--members", "1", "--epochs", "150", "--learning-rate", "1e-4")
    fit(table, one, *options)
    running = subprocess.Popen(
        command(table, two, *options, "--processes", "2"), stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 200
    while not list(work_directory(two).glob("*.ngem")):
        assert time.monotonic() < deadline
        assert running.poll() is None, running.communicate()
        time.sleep(0.1)
    children = subprocess.run(
        ["pgrep", "-P", str(running.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    os.kill(int(children[1]), signal.SIGKILL)
    killed = time.monotonic()
    _, error = running.communicate(timeout=60)
    assert time.monotonic() - killed < 25
    assert "Traceback" not in error
    assert running.returncode == 1
    assert f"process 1 (pid {children[1]}) ended with signal SIGKILL" in error
    assert not two.exists()
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child), 0)
            raise AssertionError("a process is left")
    fit(table, two, *options, "--processes", "3")
    np.testing.assert_allclose(log_prob(two, table), log_prob(one, table), atol=1e-3)
