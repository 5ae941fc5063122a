"""What `ngem data` prints: the data sets, the progress of a download, the damaged files."""

import sys
from collections.abc import Sequence

from . import DataError, catalogue


def show_list() -> None:
    """Print every data set with its size, what is here of it, and its license."""
    rows = [("name", "contents", "size", "here", "license")]
    for data in catalogue.DATA_SETS.values():
        result = catalogue.check(data)
        rows.append((data.name, data.shape, _size(data.bytes), _state(result), data.license))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())


def fetch(names: Sequence[str]) -> None:
    """Download what is missing of some data sets, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    bar = Progress(
        "{task.description}",
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
    chosen = catalogue.choose(names)
    with bar:
        for data in chosen:
            task = bar.add_task(data.name, total=data.bytes)
            catalogue.fetch(
                [data.name], report=lambda done, _, task=task: bar.update(task, completed=done)
            )
    for data in chosen:
        print(f"{data.name}: {len(data.files)} files, {_size(data.bytes)}, all good")


def verify(names: Sequence[str]) -> None:
    """Print the state of each named data set, or of all if none is named.

    Raises:
        DataError: If a file is damaged, a named data set is not complete, or no file is here.
    """
    results = {data.name: catalogue.check(data) for data in catalogue.choose(names or ["all"])}
    for name, result in results.items():
        print(f"{name}: {_state(result)}")
    damaged = dict.fromkeys(path for result in results.values() for path in result.damaged)
    if damaged:
        raise DataError(
            f"every file must be as published, got {len(damaged)} damaged: "
            f"{', '.join(map(str, damaged))}; delete them and run `ngem data fetch`."
        )
    incomplete = [name for name in names if name in results and results[name].missing]
    if incomplete or not any(result.good for result in results.values()):
        raise DataError(
            f"{', '.join(incomplete) or 'some data set'} must be here to be verified, got missing "
            f"files; run `ngem data fetch {' '.join(incomplete) or 'all'}`."
        )


def _state(result: catalogue.Check) -> str:
    count = len(result.good) + len(result.damaged) + len(result.missing)
    if result.damaged:
        return f"{len(result.damaged)} of {count} damaged"
    if not result.missing:
        return "complete"
    return f"{len(result.good)} of {count}" if result.good else "no"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
