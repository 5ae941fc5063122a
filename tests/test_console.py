"""What commands share: output, errors in one paragraph, Ctrl-C, progress bars and tables."""

import errno
import io
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import typer
from rich.console import Console

from ngem import _console
from ngem._console import Output
from ngem._errors import DataError


@pytest.mark.parametrize(
    ("output", "stdout", "stderr"),
    [
        (Output(), "text\n", ""),
        (Output(to_stderr=True), "", "text\n"),
        (Output(quiet=True), "", ""),
        (Output(as_json=True), '{\n  "rows": 3\n}\n', ""),
        (Output(quiet=True, as_json=True), '{\n  "rows": 3\n}\n', ""),
    ],
)
def test_output_is_text_or_json_or_nothing(output, stdout, stderr, capsys):
    output.text("text")
    output.json({"rows": 3})
    assert tuple(capsys.readouterr()) == (stdout, stderr)
    assert output.is_text == ("text\n" in (stdout, stderr))


def test_json_that_scripts_cannot_read_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        Output(as_json=True).json({"nll": float("nan")})


ERRORS = [
    (DataError("no file"), 1, "Error: no file\n"),
    (ValueError("a must be b"), 1, "Error: a must be b\n"),
    (FileNotFoundError("gone"), 1, "Error: gone\n"),
    (ModuleNotFoundError(name="matplotlib.pyplot"), 1, "matplotlib.pyplot, .* 'ngem\\[plot\\]'"),
    (ModuleNotFoundError(name="polars"), 1, "needs polars, .* pip install 'ngem\\[tables\\]'"),
    (ModuleNotFoundError(name="jinja2"), 1, "needs jinja2, .* pip install 'ngem\\[tables\\]'"),
    (OSError(errno.ENOSPC, "No space left on device"), 1, "the disk is full, .* choose another"),
    (KeyboardInterrupt(), 130, "Interrupted.\n"),
]


@pytest.mark.parametrize(("error", "code", "message"), ERRORS)
def test_errors_are_one_paragraph(error, code, message, capsys):
    with pytest.raises(typer.Exit) as end, _console.readable_errors():
        raise error
    assert end.value.exit_code == code
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    assert stderr.count("\n") == 1
    assert "Traceback" not in stderr
    assert re.search(message, stderr)


@pytest.mark.parametrize("error", [ValueError("a must be b"), KeyboardInterrupt()])
def test_debug_shows_the_traceback_as_well(error, capsys):
    with pytest.raises(typer.Exit), _console.readable_errors(debug=True):
        raise error
    assert "Traceback" in capsys.readouterr().err


def test_other_errors_are_not_hidden():
    with pytest.raises(AttributeError), _console.readable_errors():
        raise AttributeError("a mistake of ours")


def test_a_table_in_markdown():
    assert _console.markdown([["a", "b"], ["1", "2"]]) == ["| a | b |", "|---|---|", "| 1 | 2 |"]


def test_a_progress_bar_shows_the_count_and_its_unit():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with _console.progress_bar(console, "epochs") as bar:
        bar.advance(bar.add_task("nll", total=8), 3)
    assert "nll" in screen.getvalue()
    assert "3/8" in screen.getvalue()
    assert "epochs" in screen.getvalue()


def test_exit_codes_other_than_an_interrupt_pass_through(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # restored after the test
    for code in (0, 1, 2):
        with pytest.raises(SystemExit) as end:
            _console.run_interruptible(lambda code=code: sys.exit(code))
        assert end.value.code == code


# Each of these needs a process of its own: an interrupt ends it without a normal shutdown.


def test_control_c_in_the_middle_of_a_fit(tmp_path):
    # A shell has its background jobs ignore interrupts, and their children inherit that.
    program = """
import signal
from ngem.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""
    data = tmp_path / "train.csv"
    data.write_text("a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(100)))
    small = ["--hidden", "4", "-k", "2", "--members", "1"]
    command = ["fit", data, "--target", "b", *small, "--out", tmp_path / "model"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *command, "--epochs", "1000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert process.stdout is not None
    while "Targets" not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(1.0)  # while it compiles or trains
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Interrupted" in stderr
    assert "Traceback" not in stderr
    assert list(tmp_path.iterdir()) == [data]


def test_control_c_where_python_cannot_raise_takes_effect_a_moment_later():
    program = """
import signal, sys, time
from ngem import _console

class Dying:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)  # the interrupt is raised here, and lost

def command():
    with _console.readable_errors():
        Dying()
        for _ in range(400):
            time.sleep(0.1)

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    _console.run_interruptible(command)
except Exception as error:  # nothing has turned the error of `typer` into an exit
    sys.exit(error.exit_code)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False
    )
    assert (result.returncode, result.stderr) == (130, "Interrupted.\n")
