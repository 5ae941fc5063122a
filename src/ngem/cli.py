"""The `ngem` command: thin, and each subcommand imports what it needs when it runs."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Mixture density networks trained by natural gradient expectation maximization.",
)

data = typer.Typer(no_args_is_help=True, help="Data sets: list, fetch and verify their files.")
app.add_typer(data, name="data")


def _version(value: bool) -> bool:
    if value:
        from . import __version__

        typer.echo(f"ngem {__version__}")
        raise typer.Exit
    return value


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Mixture density networks trained by natural gradient expectation maximization."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Directory for the pictures.")] = Path("out/demo"),
    epochs: Annotated[
        int, typer.Option(min=1, help="Passes over the data; three times as many for the network.")
    ] = 50,
) -> None:
    """Learn the paper's two synthetic examples with nll and ngem, side by side.

    Example: ngem demo --out out/demo
    """
    from .demo import run_demo

    run_demo(out, epochs=epochs)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID...", help="table1 to table6, fig1 to fig10, weights, uci, all."),
    ] = None,
    budget: Annotated[
        str, typer.Option(help="smoke (seconds), quick (minutes) or full (the paper's).")
    ] = "quick",
    out: Annotated[
        Path, typer.Option(help="Directory of results; what is there is continued.")
    ] = Path("out/reproduce"),
    workers: Annotated[int, typer.Option(min=1, help="Runs at a time.")] = 2,
    summary: Annotated[
        bool, typer.Option("--summary", help="Print the verdicts found in --out and run nothing.")
    ] = False,
) -> None:
    """Repeat the paper's tables and figures, with a verdict for each of its claims.

    Example: ngem reproduce table1 fig4 --budget full
    """
    from rich.console import Console

    from .repro import report

    with _readable_errors():
        if summary:
            report.summarise(out, Console())
        elif names:
            report.reproduce(names, budget=budget, out=out, workers=workers, console=Console())
        else:
            raise ValueError("expected what to reproduce, got nothing; try table1, fig4 or all.")


@app.command()
def bench(
    rows: Annotated[
        list[str] | None,
        typer.Argument(metavar="ROW...", help="Rows or groups, such as step or fit/toy; or all."),
    ] = None,
    smoke: Annotated[
        bool,
        typer.Option("--smoke", help="Tiny shapes: shows whether it works and measures nothing."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="JSON file for the table.")] = None,
    show: Annotated[
        Path | None, typer.Option(help="Print a saved table as Markdown and measure nothing.")
    ] = None,
) -> None:
    """Measure speed as ratios, on this machine and in turns; leave the machine alone meanwhile.

    Example: ngem bench step updates --out out/bench.json
    """
    from rich.console import Console

    from .bench import report

    with _readable_errors():
        if show is not None:
            typer.echo(report.as_markdown(report.load(show)))
        elif not report.bench(rows or [], smoke=smoke, out=out, console=Console()):
            raise typer.Exit(1)


@data.command("list")
def data_list() -> None:
    """Show every data set, its size, how much of it is here, and its licence.

    Example: ngem data list
    """
    from .data_command import show_list

    with _readable_errors():
        show_list()


@data.command("fetch")
def data_fetch(
    names: Annotated[list[str], typer.Argument(help="Names of data sets, or all.")],
) -> None:
    """Download what is not here yet, and check every file.

    Files in the directory NGEM_DATA_DIR come first. Running this again goes on after an error.

    Example: ngem data fetch energy yacht
    """
    from .data_command import fetch

    with _readable_errors():
        fetch(names)


@data.command("verify")
def data_verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of data sets; all that is here if none.")
    ] = None,
) -> None:
    """Check every file that is here; fail if one is damaged, or if a named set is not complete.

    Example: ngem data verify mnist
    """
    from .data_command import verify

    with _readable_errors():
        verify(names or [])


@contextlib.contextmanager
def _readable_errors() -> Iterator[None]:
    """Turn an error that is the user's to mend into one paragraph and a failing exit."""
    from .datasets import DataError

    try:
        yield
    except (DataError, ValueError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error


def main() -> None:
    """Run the command."""
    # Small factorisations gain nothing from BLAS threads and suffer where these fight over cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    app()
