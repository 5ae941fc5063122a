"""The command, as a user runs it."""

import os
import sys
from pathlib import Path

import platformdirs
import pytest
from typer.testing import CliRunner

import ngem
from ngem.cli import app, main


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"ngem {ngem.__version__}"


def test_help_has_an_example():
    result = run("demo", "--help")
    assert "ngem demo --out" in result.output


@pytest.mark.trains
def test_demo_writes_pictures_and_tables(tmp_path):
    result = run("demo", "--out", str(tmp_path), "--epochs", "2")
    assert result.exit_code == 0, result.output
    for name in ("two_gaussians.png", "two_sinusoids.png"):
        picture = tmp_path / name
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size > 50_000
    assert "entropy" in result.output


@pytest.mark.parametrize("epochs", ["0", "many"])
def test_bad_options_are_refused(epochs, tmp_path):
    result = run("demo", "--out", str(tmp_path), "--epochs", epochs)
    assert result.exit_code != 0
    assert not list(tmp_path.iterdir())


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Run the command as from a shell where nothing says where compiled programs go."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    monkeypatch.setattr(os, "environ", kept)  # what the command sets does not outlive the test
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)

    def run_main(*arguments):
        monkeypatch.setattr(sys, "argv", ["ngem", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code

    return run_main


def test_commands_keep_compiled_programs_but_the_bench_does_not(command, tmp_path):
    assert command("bench", "no-such-row") == 1
    assert not list(tmp_path.iterdir())
    assert command("data", "list") == 0
    place = Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    assert place.is_dir()
    assert place.parent == tmp_path / "ngem" / "compiled"


def test_who_has_named_a_place_for_programs_is_left_alone(command, tmp_path):
    os.environ["JAX_COMPILATION_CACHE_DIR"] = "elsewhere"
    assert command("data", "list") == 0
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "elsewhere"
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_is_no_error(command, tmp_path):
    (tmp_path / "ngem").write_text("in the way")
    assert command("data", "list") == 0
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ
