"""The `ngem` command: thin, and each subcommand imports what it needs when it runs."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Mixture density networks trained by natural gradient expectation maximization.",
)


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


def main() -> None:
    """Run the command."""
    app()
