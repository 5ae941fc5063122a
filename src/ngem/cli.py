"""The `ngem` command: options and calls. Each subcommand imports what it needs when it runs."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ._console import Output, readable_errors, run_interruptible

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Mixture density networks trained by natural gradient expectation maximization.",
)

data = typer.Typer(no_args_is_help=True, help="List, fetch and verify data sets.")
app.add_typer(data, name="data")

#: Largest seed that scikit-learn takes, and samples per row at most: each is a column.
MAX_SEED, MAX_SAMPLES = 2**32 - 1, 10_000


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
    out: Annotated[Path, typer.Option(help="Directory for pictures and files.")] = Path("out/demo"),
    epochs: Annotated[
        int,
        typer.Option(
            min=1, help="Epochs of the first example; the second runs three times as many."
        ),
    ] = 50,
) -> None:
    """Show why nll collapses and ngem does not, then learn from a table and use the model.

    Writes two pictures, a model of a table that scikit-learn brings along, its predictions for
    three rows, and report.html.

    Example: ngem demo --out out/demo
    """
    with readable_errors():
        from .demo import run_demo

        run_demo(out, epochs=epochs)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID...", help="table1 to table9, fig1 to fig10, weights, uci, all."),
    ] = None,
    budget: Annotated[
        str, typer.Option(help="smoke (seconds), quick (minutes) or full (the paper's).")
    ] = "quick",
    out: Annotated[
        Path, typer.Option(help="Directory of results; an unfinished run is continued.")
    ] = Path("out/reproduce"),
    workers: Annotated[int, typer.Option(min=1, help="Runs in parallel.")] = 2,
    summary: Annotated[
        bool, typer.Option("--summary", help="Print the verdicts in --out and run nothing.")
    ] = False,
) -> None:
    """Reproduce the paper's tables and figures, with a verdict for each of its claims.

    Example: ngem reproduce table1 fig4 --budget full
    """
    with readable_errors():
        from rich.console import Console

        from .repro import reproduce as command

        if summary:
            command.print_summary(out, Console())
        elif names:
            command.reproduce(names, budget=budget, out=out, workers=workers, console=Console())
        else:
            raise ValueError("ID must be given, got none; try table1, fig4 or all.")


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        allow_dash=True,
        help="A .csv, .tsv, .txt, .parquet or .xlsx file, also with .gz; - is standard input.",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file from `ngem fit`.")]
_TEXT = "How a text file is written"
Separator = Annotated[
    str | None,
    typer.Option(
        help="Between fields, such as ';' or 'tab'; by default it is found in the file.",
        rich_help_panel=_TEXT,
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(help="Before decimals, . or ,; by default it is found.", rich_help_panel=_TEXT),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="Of the text, such as latin-1; by default it is found.", rich_help_panel=_TEXT
    ),
]
Target = Annotated[str, typer.Option(metavar="COL[,COL]", help="Columns to predict.")]
Features = Annotated[
    str | None,
    typer.Option(metavar="COL[,COL]", help="Columns to predict from; by default all others."),
]
Exclude = Annotated[
    str | None, typer.Option(metavar="COL[,COL]", help="Columns that are not features.")
]
Categorical = Annotated[
    str | None,
    typer.Option(metavar="COL[,COL]", help="Numeric columns to treat as categories."),
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="stack, network, or trees: boosted trees, which take categories and gaps as they are. "
        "By default a stack of networks and trees, or the kind that the other options belong to.",
    ),
]
Single = Annotated[
    str,
    typer.Option(
        "--model", help="network, or trees: boosted trees, which take categories and gaps."
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        help="Rows with gaps in features: impute, error or drop; with --model trees keep, error or "
        "drop. The first is the default."
    ),
]
OtherMissing = Annotated[
    str | None, typer.Option("--missing", help="Rows with gaps; by default the model's own rule.")
]
MaxRows = Annotated[
    int | None, typer.Option(min=2, help="Sample at most this many rows of a larger file.")
]
Validation = Annotated[
    float,
    typer.Option(
        min=0.01, max=0.9, help="Fraction of rows that a single member holds out to stop by."
    ),
]
Members = Annotated[
    int | None,
    typer.Option(min=1, help="Models to average, 5 by default; each holds out a fold of the rows."),
]
Resolution = Annotated[
    float | None,
    typer.Option(
        min=0, help="Step to which the targets were rounded, such as 1 for whole numbers."
    ),
]
Family = Annotated[
    str | None,
    typer.Option(
        help="Components: gaussian (the default), gamma, poisson or another family; auto to "
        "choose; for each target its own: 'loss=zero-inflated gamma,visits=poisson'."
    ),
]

# Options that only one kind of model has, each in a panel of the help.
_NETWORK, _TREES = "Only with --model network", "Only with --model trees"
_STACK = "Only with --model stack"
Quality = Annotated[
    str | None,
    typer.Option(
        help="fast: networks; good (the default): networks and trees; best: all kinds, slowest.",
        rich_help_panel=_STACK,
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        min=0.001, help="Seconds after which no further kind begins.", rich_help_panel=_STACK
    ),
]
Hidden = Annotated[
    str | None,
    typer.Option(help="Widths of the hidden layers; 128,128 by default.", rich_help_panel=_NETWORK),
]
Covariance = Annotated[
    str | None,
    typer.Option(
        help="Covariance of a component: diag, full, tied, spherical or 'low-rank(4)', by the "
        "number of factors; by default it follows targets and rows.",
        rich_help_panel=_NETWORK,
    ),
]
Objective = Annotated[
    str | None,
    typer.Option(
        help="ngem (the default), nll or the name of another objective.", rich_help_panel=_NETWORK
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(
        min=1, help="Largest number of epochs; by default 40 to 1,000.", rich_help_panel=_NETWORK
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(min=1, help="Rows per step; 128 by default.", rich_help_panel=_NETWORK),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="File to save progress in; the same command goes on from it.",
        rich_help_panel=_NETWORK,
    ),
]
StreamRows = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Learn from Parquet files that need not fit into memory: DATA is a file, a directory "
        "or a quoted pattern. One network unless --members is given.",
        rich_help_panel=_NETWORK,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        help="What --stream may take beyond what starting takes; 1GiB by default.",
        rich_help_panel=_NETWORK,
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option(min=1, help="Largest number of rounds; 2,000 by default.", rich_help_panel=_TREES),
]
Leaves = Annotated[
    int | None,
    typer.Option(min=2, help="Leaves of a tree at most; 31 by default.", rich_help_panel=_TREES),
]
LeafRows = Annotated[
    int | None,
    typer.Option(min=1, help="Rows in a leaf at least; 20 by default.", rich_help_panel=_TREES),
]
_PROCESSES = "Several processes"
Processes = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Processes to start on this machine, or scheduler, where srun or mpirun starts each.",
        rich_help_panel=_PROCESSES,
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        help="What processes divide: members (the default), or rows: of each batch, or of trees.",
        rich_help_panel=_PROCESSES,
    ),
]
Seed = Annotated[
    int,
    typer.Option(min=0, max=MAX_SEED, help="Seed of the split, the start and the batches."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file --out, whatever it holds.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
ModelOut = Annotated[
    Path | None,
    typer.Option(help="Model file to write; by default DATA's name with .ngem, in this directory."),
]


@app.command()
def fit(
    data: Data,
    target: Target,
    model: Kind = None,
    features: Features = None,
    exclude: Exclude = None,
    categorical: Categorical = None,
    missing: Missing = None,
    max_rows: MaxRows = None,
    validation_fraction: Validation = 0.1,
    members: Members = None,
    quality: Quality = None,
    budget: Budget = None,
    resolution: Resolution = None,
    components: Annotated[
        int | None,
        typer.Option(
            "--components",
            "-k",
            min=1,
            help="Components; by default 5, or more for several targets; of trees 5 or 3.",
        ),
    ] = None,
    family: Family = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="Peak rate of Adam, 3e-3 by default; of trees, 0.1 by default."),
    ] = None,
    hidden: Hidden = None,
    covariance: Covariance = None,
    objective: Objective = None,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    checkpoint: Checkpoint = None,
    stream: StreamRows = False,
    memory: Memory = None,
    rounds: Rounds = None,
    leaves: Leaves = None,
    leaf_rows: LeafRows = None,
    seed: Seed = 0,
    out: ModelOut = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    processes: Processes = None,
    split: Split = None,
    debug: Debug = False,
) -> None:
    """Learn the density of some columns of a table given the others, and write the model.

    Example: ngem fit energy.csv --target heating,cooling --out energy.ngem
    """
    with readable_errors(debug=debug):
        _use_one_thread()
        from .tables import commands
        from .tables.kinds import choose_kind

        options = {
            "members": 1 if stream and members is None else members,
            "quality": quality,
            "budget": budget,
            "resolution": resolution,
            "components": components,
            "family": family,
            "learning-rate": learning_rate,
            "hidden": None if hidden is None else _read_sizes(hidden),
            "covariance": covariance,
            "objective": objective,
            "epochs": epochs,
            "batch-size": batch_size,
            "checkpoint": checkpoint,
            "rounds": rounds,
            "leaves": leaves,
            "leaf-rows": leaf_rows,
        }
        source = commands.Source(
            data, target, features, exclude, categorical, missing, max_rows,
            validation_fraction, seed, model or ("network" if stream else choose_kind(options)),
            commands.read_how(separator, decimal, encoding), _read_memory(memory, stream=stream),
        )  # fmt: skip
        code = commands.fit(
            source,
            source.kind.settings(options),
            out,
            Output(quiet, as_json),
            force=force,
            processes=processes,
            split=split,
        )
        if code:
            raise typer.Exit(code)


@app.command()
def predict(
    model: Model,
    data: Data,
    quantiles: Annotated[
        str, typer.Option(help="Probabilities of the quantiles; '' for none.")
    ] = "0.05,0.5,0.95",
    interval: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Also write an interval with this probability."),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="equal-tailed, or hdr: the smallest region, which may have several pieces."
        ),
    ] = "equal-tailed",
    samples: Annotated[
        int, typer.Option(min=0, max=MAX_SAMPLES, help="Also write this many samples per row.")
    ] = 0,
    above: Annotated[
        str | None,
        typer.Option(help="Also write the probability to exceed each of these thresholds."),
    ] = None,
    conformal: Annotated[
        bool,
        typer.Option(
            "--conformal",
            help="Calibrate the --interval by the rows that the model held out when it was fitted.",
        ),
    ] = False,
    calibration: Annotated[
        Path | None,
        typer.Option(help="Calibrate the --interval by these rows, which the model has not seen."),
    ] = None,
    keep: Annotated[
        str | None, typer.Option(metavar="COL[,COL]", help="Columns of DATA to copy to the output.")
    ] = None,
    formulas: Annotated[
        bool,
        typer.Option(
            "--formulas",
            help="Copy text that a spreadsheet would run as a formula as it is, without the ' that "
            "makes it text.",
        ),
    ] = False,
    missing: OtherMissing = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of the samples.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .csv, .tsv or .parquet file; by default CSV on standard output. A directory if "
            "DATA is many files."
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    processes: Processes = None,
    debug: Debug = False,
) -> None:
    """Write mean, standard deviation, quantiles, intervals and samples for each row of a table.

    Predictions are in the order of the rows.

    Rows are read and written in batches, so DATA may be larger than memory.

    DATA may also be a directory or a pattern in quotes, such as 'parts/*.parquet': each file then
    has its own output in the directory --out. Files that are done are not done again.

    Example: ngem predict energy.ngem new.csv --quantiles 0.05,0.5,0.95 --out predicted.csv
    """
    with readable_errors(debug=debug):
        from .tables import commands

        if as_json and out is None:
            raise ValueError(
                "--json must come with --out, because standard output cannot carry both, got no "
                "--out; add --out."
            )
        code = commands.predict(
            model,
            data,
            how=commands.read_how(separator, decimal, encoding),
            quantiles=quantiles,
            interval=interval,
            kind=kind,
            samples=samples,
            above=above,
            conformal=conformal,
            calibration=calibration,
            keep=keep,
            formulas=formulas,
            missing=missing,
            seed=seed,
            out=out,
            force=force,
            processes=processes,
            output=Output(quiet, as_json, to_stderr=out is None),
        )
        if code:
            raise typer.Exit(code)


@app.command()
def evaluate(
    model: Model,
    data: Data,
    missing: OtherMissing = None,
    quiet: Quiet = False,
    as_json: Json = False,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    debug: Debug = False,
) -> None:
    """Score a model on rows with known targets: NLL, CRPS, RMSE, coverage, PIT uniformity.

    Example: ngem evaluate energy.ngem test.csv --json
    """
    with readable_errors(debug=debug):
        from .tables import commands

        how = commands.read_how(separator, decimal, encoding)
        commands.evaluate(model, data, how=how, missing=missing, output=Output(quiet, as_json))


@app.command()
def report(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    force: Force = False,
    missing: OtherMissing = None,
    max_rows: MaxRows = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of the sample of rows.")] = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    debug: Debug = False,
) -> None:
    """Write one self-contained HTML page: scores, densities, intervals and calibration.

    Example: ngem report energy.ngem test.csv --out report.html
    """
    with readable_errors(debug=debug):
        from .tables import commands

        commands.report(
            model,
            data,
            out=out,
            how=commands.read_how(separator, decimal, encoding),
            missing=missing,
            max_rows=max_rows,
            seed=seed,
            force=force,
            output=Output(quiet, as_json),
        )


@app.command()
def tune(
    data: Data,
    target: Target,
    budget: Annotated[
        str, typer.Option(help="A time (60s, 10m, 1h) or a number of trials (20).")
    ] = "60s",
    model: Single = "network",
    features: Features = None,
    exclude: Exclude = None,
    categorical: Categorical = None,
    missing: Missing = None,
    max_rows: MaxRows = None,
    validation_fraction: Validation = 0.1,
    members: Members = None,
    family: Family = None,
    covariance: Covariance = None,
    objective: Objective = None,
    epochs: Epochs = None,
    rounds: Rounds = None,
    study: Annotated[
        Path | None,
        typer.Option(
            help="A file of trials that several processes share, on one machine or on several that "
            "see it; a finished trial is never run again. Needs Optuna."
        ),
    ] = None,
    seed: Seed = 0,
    out: ModelOut = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    debug: Debug = False,
) -> None:
    """Choose settings by validation NLL, and write the best model.

    Of networks: components, width and learning rate. Of trees: components, leaves, rows in a leaf
    and learning rate. Trials are single members. The first has the defaults of `ngem fit` and runs
    to its end whatever the budget is. The best settings are then fitted once more, with all
    members.

    Example: ngem tune energy.csv --target heating --budget 60s --out energy.ngem
    """
    with readable_errors(debug=debug):
        _use_one_thread()
        from .tables import commands

        source = commands.Source(
            data, target, features, exclude, categorical, missing, max_rows,
            validation_fraction, seed, model, commands.read_how(separator, decimal, encoding),
        )  # fmt: skip
        options = {
            "members": members,
            "family": family,
            "covariance": covariance,
            "objective": objective,
            "epochs": epochs,
            "rounds": rounds,
        }
        settings = source.kind.settings(options)
        output = Output(quiet, as_json)
        commands.tune(source, settings, budget, out, output, force=force, study=study)


def _read_memory(text: str | None, *, stream: bool) -> int | None:
    """Return the bytes that a stream may take; None without a stream."""
    from .streams import MEMORY
    from .tables.streamed import read_memory

    if text is not None and not stream:
        raise ValueError("--memory must come with --stream, got no --stream; add it.")
    if not stream:
        return None
    return MEMORY if text is None else read_memory(text)


def _read_sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError(
            f"--hidden must be whole numbers separated by commas, got {text!r}; for example "
            "--hidden 128,128."
        ) from None


def _use_one_thread() -> None:
    """Give XLA one thread unless NPROC is set: small networks then train 1.4 times as fast."""
    os.environ.setdefault("NPROC", "1")


@app.command()
def bench(
    rows: Annotated[
        list[str] | None,
        typer.Argument(metavar="ROW...", help="Rows or groups, such as step or fit/toy; or all."),
    ] = None,
    smoke: Annotated[
        bool,
        typer.Option("--smoke", help="Tiny shapes: check that it runs, measure nothing."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="JSON file for the table.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the rows of --out that are not measured now.")
    ] = False,
    show: Annotated[
        Path | None, typer.Option(help="Print a saved table as Markdown and measure nothing.")
    ] = None,
) -> None:
    """Measure speed as ratios between alternating runs on this machine, which should be idle.

    Example: ngem bench step updates --out out/bench.json
    """
    with readable_errors():
        from rich.console import Console

        from .bench import results, run

        if show is not None:
            typer.echo(results.as_markdown(results.load(show)))
        elif not run.bench(rows or [], smoke=smoke, out=out, keep=keep, console=Console()):
            raise typer.Exit(1)


@data.command("list")
def data_list() -> None:
    """Show every data set: its size, how much of it is here, and its license.

    Example: ngem data list
    """
    with readable_errors():
        from .datasets.commands import show_list

        show_list()


@data.command("fetch")
def data_fetch(
    names: Annotated[list[str], typer.Argument(help="Names of data sets, or all.")],
) -> None:
    """Download the files that are not here yet, and check every file.

    Files in the directory NGEM_DATA_DIR take precedence. After an error, run this again to resume.

    Example: ngem data fetch energy yacht
    """
    with readable_errors():
        from .datasets.commands import fetch

        fetch(names)


@data.command("verify")
def data_verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of data sets; by default all that are here.")
    ] = None,
) -> None:
    """Check every file that is here; fail if one is damaged or a named set is not complete.

    Example: ngem data verify mnist
    """
    with readable_errors():
        from .datasets.commands import verify

        verify(names or [])


def main() -> None:
    """Run the command."""
    # BLAS threads do not speed up small factorizations, and they compete for cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    run_interruptible(app)
