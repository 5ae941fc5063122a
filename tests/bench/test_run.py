"""`ngem bench` at its smoke budget."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from ngem.bench.measure import Figure
from ngem.bench.rows import choose
from ngem.bench.run import bench
from ngem.cli import app


def run(*arguments):
    return CliRunner().invoke(app, ["bench", *arguments])


def figure(row, pool, *, smoke):
    """Return a figure without measuring anything."""
    return Figure(row.name, row.how, str(row.target), row.kind, row.unit, 1.0, 1.0, 1.0)


# A loss and a curve, which is drawn; the slow test runs all rows.
SOME = ("loss/K=3,D=1", "growth/time/batch")


@pytest.mark.parametrize("rows", [SOME, ()], ids=["some", "all"])
@pytest.mark.slow
def test_a_smoke_run_goes_through(rows, tmp_path):
    """As a user runs it, in single precision and in a process that loads only what it measures."""
    out = tmp_path / "bench.json"
    program = "from ngem.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "bench", *rows, "--smoke", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    saved = json.loads(out.read_text())
    assert saved["smoke"]
    assert [row["name"] for row in saved["rows"]] == [
        row.name for row in choose(list(rows), smoke=True)
    ]
    for row in saved["rows"]:
        assert row["value"] is not None or row["note"].startswith("skipped"), row
        assert row["met"] is None
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
    # Facts of the machine, not of whose it is.
    assert str(Path.home()) not in out.read_text()
    assert set(saved["machine"]) == {
        "cores",
        "processor",
        "memory_gb",
        "system",
        "python",
        "load_at_start",
    }
    shown = run("--show", str(out))
    assert shown.exit_code == 0
    for row in saved["rows"]:
        assert f"| {row['name']} | {row['target']} |" in shown.output


def test_bad_names_and_files_are_refused(tmp_path):
    result = run("nothing")
    assert result.exit_code == 1
    assert "expected names of rows, got nothing" in result.output
    (tmp_path / "other.json").write_text("[]")
    result = run("--show", str(tmp_path / "other.json"))
    assert result.exit_code == 1
    assert "expected a table that ngem bench" in result.output


def test_rows_measured_before_may_be_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("ngem.bench.run.measure", figure)
    out = tmp_path / "bench.json"
    smoke = partial(bench, smoke=True, out=out, console=Console(quiet=True), keep=True)
    assert smoke(["loss/K=3,D=1"])
    assert smoke(["loss/K=1,D=1"])
    saved = json.loads(out.read_text())
    assert [row["name"] for row in saved["rows"]] == ["loss/K=1,D=1", "loss/K=3,D=1"]
    saved["versions"]["jax"] = "0.0.1"
    out.write_text(json.dumps(saved))
    with pytest.raises(ValueError, match=r"these versions, got another jax; leave --keep out"):
        smoke(["loss/K=1,D=1"])
    assert json.loads(out.read_text()) == saved
    with pytest.raises(ValueError, match=r"--keep needs a saved table .* got no --out"):
        smoke(["loss/K=1,D=1"], out=None)
