"""What all commands share: errors in one paragraph, Ctrl-C, progress bars, Markdown tables."""

import _thread
import contextlib
import errno
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ._errors import DataError

#: The extra that installs a package which a command may miss; "tables" for all others.
_EXTRAS = {"matplotlib": "plot", "pooch": "data", "requests": "data", "torch": "torch"}

#: The exit code that shells expect after Ctrl-C.
_INTERRUPTED = 130


@contextlib.contextmanager
def readable_errors(*, debug: bool = False) -> Iterator[None]:
    """Show an error that the user can mend as one paragraph, and exit with a failure."""
    try:
        yield
    except (DataError, ValueError, OSError, ModuleNotFoundError) as error:
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
    """Return what an error means to someone who only runs the command."""
    if isinstance(error, ModuleNotFoundError):
        extra = _EXTRAS.get((error.name or "").split(".")[0], "tables")
        return (
            f"this command needs {error.name}, which is not installed: pip install 'ngem[{extra}]'."
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            "the disk is full, with no room for the file to be written; an old file of that name "
            "is unchanged; make room, or choose another disk with --out."
        )
    return str(error)


def run_interruptible(command: Callable[[], Any]) -> None:
    """Run a command that Ctrl-C ends at once, even while JAX computes."""
    sys.unraisablehook = _repeat_interrupt
    try:
        command()
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            # JAX may still be computing; a normal shutdown of the interpreter would crash it.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(_INTERRUPTED)
        raise


def _repeat_interrupt(lost: Any) -> None:
    """Repeat a Ctrl-C that came where Python cannot raise, as in the garbage collector."""
    if lost.exc_type is KeyboardInterrupt:
        threading.Timer(0.1, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(lost)


def progress_bar(console: Console, unit: str, **settings: Any) -> Progress:
    """Return a progress bar that counts in some unit and shows the time left."""
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
    line = lambda cells: "| " + " | ".join(cells) + " |"  # noqa: E731
    return [line(rows[0]), "|" + "---|" * len(rows[0]), *map(line, rows[1:])]
