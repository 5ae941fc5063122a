"""The command `ngem bench`: measures rows, prints their table and saves it."""

from pathlib import Path

from rich.console import Console

from .._console import progress_bar
from .measure import Figure, measure
from .results import as_rich, draw_growth, earlier_run, load, machine, save
from .rows import choose
from .workers import Local, Processes


def bench(
    names: list[str], *, smoke: bool, out: Path | None, console: Console, keep: bool = False
) -> bool:
    """Measure rows, print and save their table; return whether all rows succeeded.

    Args:
        names: Rows or groups, all if empty.
        smoke: Whether to use tiny shapes, which measures nothing.
        out: File for the table.
        console: Where to print.
        keep: Whether the file keeps its rows that are not measured now.
    """
    rows = choose(names, smoke=smoke)
    facts = machine()
    earlier, versions = earlier_run(out, facts, smoke=smoke) if keep else ([], {})
    pool = Local() if smoke else Processes()
    figures: list[Figure] = []
    with progress_bar(console, "rows", disable=not console.is_terminal) as progress:
        task = progress.add_task("bench", total=len(rows))
        try:
            for row in rows:
                progress.update(task, description=row.name)
                figures.append(measure(row, pool, smoke=smoke))
                progress.advance(task)
                if out is not None:  # after each row, so that an interrupted run is not lost
                    save(out, figures, facts, smoke=smoke, earlier=earlier, versions=versions)
        finally:
            pool.close()
    console.print(as_rich([figure.as_dict() for figure in figures]))
    if out is not None and draw_growth(load(out), out.with_suffix(".png")):
        console.print(f"growth drawn in {out.with_suffix('.png')}")
    return not any(figure.failed for figure in figures)
