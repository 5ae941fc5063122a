"""What all commands share: output, errors in one paragraph, Ctrl-C, progress bars, tables."""

import _thread
import contextlib
import errno
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ._errors import DataError

#: The extra that installs a missing package; "tables" installs all others.
_EXTRAS = {
    "lightgbm": "boost",
    "matplotlib": "plot",
    "pooch": "data",
    "requests": "data",
    "torch": "torch",
}

#: The exit code that shells expect after Ctrl-C.
_INTERRUPTED = 130


@dataclass(frozen=True)
class Output:
    """Where a command reports its results: as text, as one JSON object, or nowhere.

    Attributes:
        quiet: Print nothing.
        as_json: Print one JSON object at the end, and no text.
        to_stderr: Print text on standard error, because standard output carries data.
    """

    quiet: bool = False
    as_json: bool = False
    to_stderr: bool = False

    @property
    def is_text(self) -> bool:
        """Whether text for a person is printed."""
        return not (self.quiet or self.as_json)

    def text(self, message: str) -> None:
        """Print a message for a person."""
        if self.is_text:
            print(message, file=sys.stderr if self.to_stderr else sys.stdout, flush=True)

    def json(self, result: dict[str, Any]) -> None:
        """Print a result for a script."""
        if self.as_json:
            print(json.dumps(result, indent=2, allow_nan=False))


@contextlib.contextmanager
def readable_errors(*, debug: bool = False) -> Iterator[None]:
    """Print an error that the user can correct as one paragraph, and exit with a failure."""
    try:
        yield
    except (DataError, ValueError, OSError, ImportError) as error:
        if debug:
            traceback.print_exc()
        typer.echo(f"Error: {explain(error)}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        if debug:
            traceback.print_exc()
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(_INTERRUPTED) from error


def explain(error: Any) -> str:
    """Return the message of an error for someone who only runs the command."""
    if isinstance(error, ModuleNotFoundError):
        extra = _EXTRAS.get((error.name or "").split(".")[0], "tables")
        return (
            f"this command needs {error.name}, which is not installed: pip install 'ngem[{extra}]'."
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            "the disk is full, so the file could not be written; an old file of that name is "
            "unchanged; free some space, or choose another disk with --out."
        )
    return str(error)


def run_interruptible(command: Callable[[], Any]) -> None:
    """Run a command so that Ctrl-C ends it at once, even while JAX computes."""
    sys.unraisablehook = _repeat_interrupt
    try:
        command()
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            # JAX may still be computing. A normal shutdown of the interpreter would crash then.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(_INTERRUPTED)
        raise


def _repeat_interrupt(lost: Any) -> None:
    """Repeat a Ctrl-C that Python lost where it cannot raise, as in the garbage collector."""
    if lost.exc_type is KeyboardInterrupt:
        threading.Timer(0.1, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(lost)


def progress_bar(console: Console, unit: str, **settings: Any) -> Progress:
    """Return a progress bar that shows the count, its unit and the remaining time."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
        console=console,
        **settings,
    )


def markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table; its first row is the header."""
    header, *body = ["| " + " | ".join(cells) + " |" for cells in rows]
    return [header, "|" + "---|" * len(rows[0]), *body]
