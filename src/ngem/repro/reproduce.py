"""The command `ngem reproduce`: runs specs, prints and writes tables, verdicts and figures."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

from .. import _files
from .._console import markdown, progress_bar
from . import runner
from .claims import Claim, judge
from .comparison import TABLES, Table
from .figures import FIGURES
from .spec import BUDGETS, Spec, ids, load
from .store import Results

#: Where the repository keeps the results of the full budget.
COMMITTED = Path("docs/results")


def reproduce(
    names: Sequence[str], *, budget: str, out: Path, workers: int, console: Console
) -> None:
    """Run specs, print each with its verdicts and write its report.

    Args:
        names: Ids, or "all".
        budget: One of `BUDGETS`.
        out: Directory of results; runs that are already there are kept.
        workers: Runs at a time.
        console: Where to print.
    """
    chosen = ids() if "all" in names else list(names)
    specs = [load(name, budget) for name in chosen]  # a wrong name fails before hours of work
    for spec in specs:
        console.print(f"\n[bold]{spec.id}[/bold]: {spec.title} (budget {budget})")
        results = _run(spec, out, workers, console)
        table = TABLES[spec.id](spec, results) if spec.id in TABLES else None
        # Runs of the smallest budget are too short for a verdict.
        claims = judge(spec, results) if budget != BUDGETS[0] else []
        if table is not None:
            console.print(_rich(table))
        for claim in claims:
            console.print(_verdict(claim))
        path = write(spec, results, table, claims, out)
        console.print(f"Report: {path}")


def write(
    spec: Spec, results: Results, table: Table | None, claims: list[Claim], out: Path
) -> Path:
    """Write report.md, the figure and the verdicts of a spec; return the report's path."""
    folder = out / spec.id
    folder.mkdir(parents=True, exist_ok=True)
    if spec.id in FIGURES:
        FIGURES[spec.id](spec, results, folder / f"{spec.id}.png")
    verdicts = {
        "id": spec.id,
        "budget": spec.budget,
        "claims": [claim._asdict() for claim in claims],
    }
    _files.replace(folder / "claims.json", (json.dumps(verdicts, indent=1) + "\n").encode())
    _files.replace(folder / "report.md", as_markdown(spec, results, table, claims).encode())
    return folder / "report.md"


def as_markdown(spec: Spec, results: Results, table: Table | None, claims: list[Claim]) -> str:
    """Return the report of a spec."""
    lines = [f"# {spec.id}: {spec.title}", "", spec.reading, ""]
    if spec.id in FIGURES:
        lines += [f"![{spec.title}]({spec.id}.png)", ""]
    if table is not None:
        lines += [*markdown(table), ""]
    if claims:
        rows = [["claim", "paper", "ours", "verdict"]]
        rows += [[c.text, c.paper, c.ours, _word(c.holds)] for c in claims]
        lines += [*markdown(rows), ""]
    own = "" if spec.runs == spec.id else f" It shows the runs of {spec.runs}."
    lines.append(
        f"Budget {spec.budget}: {len(results.runs)} runs, {results.seconds() / 60:.1f} minutes of "
        f"one thread in all.{own} Repeat with `ngem reproduce {spec.id} --budget {spec.budget}`."
    )
    return "\n".join(lines) + "\n"


def print_summary(out: Path, console: Console) -> None:
    """Print every claim of saved reports with its verdict."""
    table = RichTable(title=f"claims judged in {out}", show_lines=True)
    for column in ("id", "claim", "paper", "ours", "verdict"):
        table.add_column(column)
    for row in summary(out):
        table.add_row(*row)
    console.print(table)


def summary(out: Path) -> list[list[str]]:
    """Return id, claim, paper's figure, ours and verdict of every saved claim."""
    rows = []
    for name in ids():
        path = out / name / "claims.json"
        if path.exists():
            for claim in json.loads(path.read_text())["claims"]:
                verdict = _word(claim["holds"])
                rows.append([name, claim["text"], claim["paper"], claim["ours"], verdict])
    if not rows:
        raise ValueError(
            f"{out} must hold results with verdicts, got none; run ngem reproduce all first, "
            "with budget quick or full."
        )
    return rows


def _run(spec: Spec, out: Path, workers: int, console: Console) -> Results:
    with progress_bar(console, "runs", disable=not console.is_terminal) as progress:
        task = progress.add_task(spec.runs, total=None)
        return runner.run(
            spec,
            out,
            workers=workers,
            report=lambda done, total: progress.update(task, completed=done, total=total),
        )


def _rich(table: Table) -> RichTable:
    shown = RichTable()
    for column in table[0]:
        shown.add_column(column)
    for row in table[1:]:
        shown.add_row(*row)
    return shown


def _verdict(claim: Claim) -> str:
    color = "green" if claim.holds else "red"
    word = f"[{color}]{_word(claim.holds)}[/{color}]"
    return f"{word}  {claim.text}\n       paper: {claim.paper}; ours: {claim.ours}"


def _word(holds: bool) -> str:
    return "holds" if holds else "fails"
