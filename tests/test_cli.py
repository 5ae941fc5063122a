"""The command: options, help, completion, and what happens before a subcommand runs."""

import inspect
import os
import sys

import platformdirs
import pytest
from typer.testing import CliRunner

import ngem
from ngem import cli
from ngem.cli import app, main


def run(*arguments, **settings):
    return CliRunner().invoke(app, list(arguments), **settings)


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"ngem {ngem.__version__}"


COMMANDS = {
    "demo": "ngem demo --out",
    "reproduce": "ngem reproduce table1",
    "bench": "ngem bench step",
    "fit": "ngem fit energy",
    "predict": "ngem predict energy",
    "evaluate": "ngem evaluate energy",
    "report": "ngem report energy",
    "tune": "ngem tune energy",
    "data list": "ngem data list",
    "data fetch": "ngem data fetch energy",
    "data verify": "ngem data verify mnist",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command):
    assert f"Example: {COMMANDS[command]}" in run(*command.split(), "--help").output


def test_every_command_is_tested():
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    names |= {f"data {command.name}" for command in cli.data.registered_commands}
    assert names == set(COMMANDS)


def test_defaults_of_fit_are_those_of_the_estimator():
    options = {
        name: parameter.default for name, parameter in inspect.signature(cli.fit).parameters.items()
    }
    estimator = ngem.MDNRegressor()
    assert options["components"] == estimator.n_components
    assert options["members"] == estimator.n_members
    assert options["hidden"] == ",".join(map(str, estimator.hidden_sizes))
    assert options["epochs"] is estimator.max_epochs
    for name in ("covariance", "objective", "validation_fraction", "learning_rate", "missing"):
        assert options[name] == getattr(estimator, name)
    tune = inspect.signature(cli.tune).parameters
    for name in set(tune) & set(options) - {"data", "target"}:
        assert tune[name].default == options[name]


def test_completion_knows_the_commands():
    words = {"_NGEM_COMPLETE": "complete_bash", "COMP_WORDS": "ngem ev", "COMP_CWORD": "1"}
    result = run(env=words, prog_name="ngem")
    assert result.stdout.split() == ["evaluate"]


@pytest.mark.trains
def test_demo_writes_pictures_and_tables(tmp_path):
    result = run("demo", "--out", str(tmp_path), "--epochs", "1")
    assert result.exit_code == 0, result.output
    for name in ("two_gaussians.png", "two_sinusoids.png"):
        picture = tmp_path / name
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size > 50_000
    assert "entropy" in result.output


@pytest.mark.parametrize("epochs", ["0", "many"])
def test_bad_options_are_refused(epochs, tmp_path):
    result = run("demo", "--out", str(tmp_path), "--epochs", epochs)
    assert result.exit_code == 2
    assert not list(tmp_path.iterdir())


def test_nothing_to_reproduce_is_refused():
    result = run("reproduce")
    assert result.exit_code == 1
    assert "try table1, fig4 or all" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "is_cached"),
    [(["bench", "no-such-row"], 1, False), (["data", "list"], 0, True)],
)
def test_commands_other_than_bench_cache_compiled_programs(
    arguments, code, is_cached, monkeypatch, tmp_path
):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    monkeypatch.setattr(os, "environ", kept)  # what the command sets does not outlive the test
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.setattr(sys, "argv", ["ngem", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == code
    assert ("JAX_COMPILATION_CACHE_DIR" in os.environ) == is_cached
    assert (tmp_path / "ngem" / "compiled").is_dir() == is_cached
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
