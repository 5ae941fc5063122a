"""Predictions for a data set of many files: one output each, done once, never half."""

import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from ngem._console import Output
from ngem.tables import partitions
from ngem.tables.opening import TableError, opened
from ngem.tables.partitions import find_inputs, is_partitioned, predict_partitions
from ngem.tables.predicting import Counts, NoRowsError
from ngem.tables.write import writing

NAMES = ["day=1/part.parquet", "day=2/part.parquet", "day=3/part.parquet"]


@pytest.fixture(name="parts")
def _parts(tmp_path):
    for number, name in enumerate(NAMES):
        path = tmp_path / "parts" / name
        path.parent.mkdir(parents=True)
        pl.DataFrame({"a": [float(number), 2.0]}).write_parquet(path)
    (tmp_path / "parts" / "_SUCCESS").touch()
    return tmp_path / "parts"


@pytest.fixture(name="made")
def _made(monkeypatch):
    """The files that were predicted; a prediction is a copy."""
    done = []

    def copy(job, path, out, seed, number):
        with opened(path) as table, writing(out) as append:
            frame = pl.read_parquet(table.path)
            if not len(frame):
                raise NoRowsError("no rows")
            append(frame)
            done.append(path.parent.name)
            if job == path.parent.name:
                raise KeyboardInterrupt
        return Counts(len(frame), 0, 0, 0)

    monkeypatch.setattr(partitions, "predict_table", copy)
    return done


def predict(parts, out, job=None, asked=None, **settings):
    return predict_partitions(job, parts, out, asked or {}, 0, Output(quiet=True), **settings)


def test_which_files_are_a_data_set(parts, tmp_path):
    assert list(find_inputs(parts)) == NAMES
    assert list(find_inputs(parts / "*" / "*.parquet")) == NAMES
    assert list(find_inputs(parts / "day=[12]" / "*.parquet")) == NAMES[:2]
    assert is_partitioned(parts)
    assert is_partitioned(parts / "*.parquet")
    assert not is_partitioned(parts / NAMES[0])
    with pytest.raises(TableError, match="must hold tables, got none"):
        find_inputs(parts / "*.csv")


def test_each_input_has_an_output_and_is_done_once(parts, made, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        predict(parts, out, job="day=2")
    assert made == ["day=1", "day=2"]
    assert (out / NAMES[0]).exists()
    assert not (out / NAMES[1]).exists()
    (out / "day=2" / ".part.parquet.0123").touch()  # as a process that is killed leaves it
    assert predict(parts, out) == 0
    assert made[2:] == ["day=2", "day=3"]
    assert predict(parts, out) == 0
    assert made[4:] == []
    found = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert found == ["_predictions.json", *NAMES]
    for name in NAMES:
        assert pl.read_parquet(out / name).equals(pl.read_parquet(parts / name))


def test_an_input_that_changed_is_done_again(parts, made, tmp_path):
    predict(parts, tmp_path / "out")
    later = (tmp_path / "out" / NAMES[1]).stat().st_mtime + 10
    os.utime(parts / NAMES[1], (later, later))
    predict(parts, tmp_path / "out")
    assert made == ["day=1", "day=2", "day=3", "day=2"]


def test_a_file_without_rows_has_no_output(parts, made, tmp_path, capsys):
    pl.DataFrame({"a": []}, schema={"a": pl.Float64}).write_parquet(parts / NAMES[1])
    predict_partitions(None, parts, tmp_path / "out", {}, 0, Output())
    assert made == ["day=1", "day=3"]
    assert "1 have no rows and no output, day=2/part.parquet first" in capsys.readouterr().out


def test_outputs_of_something_else_are_kept(parts, made, tmp_path):
    out = tmp_path / "out"
    predict(parts, out, asked={"model": 1})
    with pytest.raises(TableError, match="another model or other options were used"):
        predict(parts, out, asked={"model": 2})
    assert predict(parts, out, asked={"model": 2}, force=True) == 0
    assert made == ["day=1", "day=2", "day=3"] * 2
    with pytest.raises(TableError, match="which holds something else"):
        predict(parts, tmp_path)
    with pytest.raises(TableError, match="must be a directory for the predictions of 3 files"):
        predict(parts, None)
    with pytest.raises(TableError, match="each output must have a name of its own"):
        predict(parts, parts)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_predict_as_one(tmp_path):
    """All outputs are those of single files; a damaged file is named, and the rest is kept."""
    rng = np.random.default_rng(0)
    rows = pl.DataFrame(rng.standard_normal((400, 3)), schema=["a", "b", "y"])
    rows.write_parquet(tmp_path / "all.parquet")
    (tmp_path / "parts").mkdir()
    for number in range(4):
        rows[100 * number : 100 * number + 100].write_parquet(tmp_path / f"parts/{number}.parquet")

    def run(*words):
        command = [sys.executable, "-m", "ngem", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    fit = ["all.parquet", "--target", "y", "--model", "trees", "--rounds", 3, "--members", 1]
    assert run("fit", *fit).returncode == 0
    whole = (tmp_path / "parts/2.parquet").read_bytes()
    (tmp_path / "parts/2.parquet").write_bytes(whole[:-50])
    words = ["predict", "all.ngem", "parts/*.parquet", "--out", "out", "--processes", 2]
    words += ["--samples", 1]
    broken = run(*words)
    assert broken.returncode == 1
    assert "parts/2.parquet" in broken.stderr
    assert not (tmp_path / "out/2.parquet").exists()
    (tmp_path / "parts/2.parquet").write_bytes(whole)
    done = run(*words)
    assert done.returncode == 0, done.stderr
    single = run("predict", "all.ngem", "parts/2.parquet", "--out", "two.parquet", "--samples", 1)
    assert single.returncode == 0, single.stderr
    exact, parallel = (
        pl.read_parquet(tmp_path / name) for name in ("two.parquet", "out/2.parquet")
    )
    assert exact.drop("y_sample1").equals(parallel.drop("y_sample1"))
    samples = [pl.read_parquet(tmp_path / f"out/{number}.parquet")["y_sample1"] for number in "01"]
    assert not samples[0].equals(samples[1])  # each file has randomness of its own
    assert sorted(os.listdir(tmp_path / "out")) == [
        *(f"{number}.parquet" for number in range(4)),
        "_predictions.json",
    ]
