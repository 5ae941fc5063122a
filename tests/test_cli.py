"""The command, as a user runs it."""

import pytest
from typer.testing import CliRunner

import ngem
from ngem.cli import app


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
