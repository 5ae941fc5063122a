"""The command: options, help, completion, and what happens before a subcommand runs."""

import inspect
import os
import re
import sys
from typing import get_type_hints

import pytest
from typer.testing import CliRunner

import ngem
from ngem import cli
from ngem.cli import app, main
from ngem.estimator import portfolio
from ngem.tables.kinds import KINDS


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


def defaults_of(command):
    """Return the default of each option of a command."""
    parameters = inspect.signature(command).parameters.items()
    return {name: parameter.default for name, parameter in parameters}


def test_an_option_that_is_not_given_has_the_default_of_the_estimator():
    options = defaults_of(cli.fit)
    assert options["model"] is None
    for kind in KINDS.values():
        known = kind.estimator().get_params()
        assert known.get("validation_fraction", 0.1) == options["validation_fraction"]
        for name in kind.options:
            assert options[name.replace("-", "_")] is None
    tune = defaults_of(cli.tune)
    assert tune["model"] == "network"
    for name in set(tune) & set(options) - {"data", "target", "model", "budget"}:
        assert tune[name] == options[name]


@pytest.mark.parametrize("kind", KINDS)
def test_the_help_states_the_defaults_of_the_estimator(kind):
    estimator = KINDS[kind].estimator()
    for option, name in KINDS[kind].options.items():
        parameter = get_type_hints(cli.fit, include_extras=True)[option.replace("-", "_")]
        (info,) = parameter.__metadata__
        value = getattr(estimator, name)
        if isinstance(value, tuple):
            value = ",".join(map(str, value))
        if value is not None:  # otherwise the number of rows decides
            shown = f"{value:,}" if isinstance(value, int) else str(value)
            assert re.search(rf"\b{re.escape(shown)}\b", info.help), option


def test_completion_knows_the_commands():
    words = {"_NGEM_COMPLETE": "complete_bash", "COMP_WORDS": "ngem ev", "COMP_CWORD": "1"}
    result = run(env=words, prog_name="ngem")
    assert result.stdout.split() == ["evaluate"]


@pytest.mark.trains
@pytest.mark.slow
def test_demo_writes_pictures_and_tables(tmp_path, monkeypatch):
    small = {"hidden_sizes": (4,), "max_epochs": 2, "n_components": 2, "dropout": 0.0}
    kind = portfolio.KINDS["network"]._replace(settings=small)
    monkeypatch.setitem(portfolio.KINDS, "network", kind)
    result = run("demo", "--out", str(tmp_path), "--epochs", "1")
    assert result.exit_code == 0, result.output
    for name in ("two_gaussians.png", "two_sinusoids.png"):
        picture = tmp_path / name
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size > 50_000
    assert "entropy" in result.output
    assert "Table:    diabetes.csv, 400 rows\n" in result.output
    assert "In words: on rows that it had not seen, " in result.output
    assert "P(> 200)" in result.output
    page = (tmp_path / "report.html").read_text()
    assert "progression: diabetes.ngem on new.csv" in page
    assert len((tmp_path / "predicted.csv").read_text().splitlines()) == 4


@pytest.mark.parametrize("epochs", ["0", "many"])
def test_bad_options_are_refused(epochs, tmp_path):
    result = run("demo", "--out", str(tmp_path), "--epochs", epochs)
    assert result.exit_code == 2
    assert not list(tmp_path.iterdir())


def test_nothing_to_reproduce_is_refused():
    result = run("reproduce")
    assert result.exit_code == 1
    assert "try table1, fig4 or all" in result.stderr


def test_a_command_changes_no_setting_of_jax(monkeypatch):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    monkeypatch.setattr(os, "environ", kept)  # what the command sets does not outlive the test
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.setattr(sys, "argv", ["ngem", "data", "list"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    assert not any(name.startswith("JAX_") for name in os.environ)
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
