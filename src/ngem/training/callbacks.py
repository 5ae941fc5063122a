"""Callbacks after each epoch: show progress, write metrics."""

import csv
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .state import Progress

#: Seconds between lines of progress where there is no terminal.
_PAUSE = 10.0


def close(callbacks: Iterable[Any]) -> None:
    """Close the callbacks that can be closed; a clone's are copies that nobody else can close."""
    for callback in callbacks:
        getattr(callback, "close", lambda: None)()


class ProgressBar:
    """Shows epochs, train and validation NLL and the time left.

    In a terminal each member has a line of its own, because several train at a time. Elsewhere, as
    in a log file, a line is written every ten seconds. The likelihoods are those of the
    standardized targets.

    Args:
        label: Text of a line, with a place for the member's number.
        force: Show bars without a terminal too.
    """

    def __init__(self, label: str = "network {}, epoch", *, force: bool = False):
        self._label = label
        self._bar: Any = None
        self._tasks: dict[int, Any] = {}
        self._shown = force or sys.stderr.isatty()
        self._last = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if not self._shown:
            self._write_line(progress)
            return
        bar = self._bar = self._bar or _start_bar()
        if progress.member not in self._tasks:
            self._tasks[progress.member] = bar.add_task(
                self._label.format(progress.member + 1),
                total=progress.max_epochs,
                train="",
                held_out="",
            )
        bar.update(
            self._tasks[progress.member],
            completed=progress.epoch,
            train=f"{progress.train_nll:.3f}",
            held_out=f"{progress.validation_nll:.3f}",
        )

    def _write_line(self, progress: Progress) -> None:
        """Write where a member is, unless the last line is a few seconds old."""
        now = time.monotonic()
        if now - self._last < _PAUSE:
            return
        self._last = now
        label = self._label.format(progress.member + 1)
        print(
            f"{label} {progress.epoch:,} of at most {progress.max_epochs:,}, "
            f"{progress.seconds:.0f} s: train {progress.train_nll:.3f}, validation "
            f"{progress.validation_nll:.3f} nat",
            file=sys.stderr,
            flush=True,
        )

    def close(self) -> None:
        """Stop the bar and release the terminal; the next fit starts another bar."""
        if self._bar is not None:
            self._bar.stop()
        self._bar, self._tasks = None, {}


def _start_bar() -> Any:
    from rich import progress as rich
    from rich.console import Console

    bar = rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.MofNCompleteColumn(),
        rich.BarColumn(),
        rich.TextColumn("train {task.fields[train]} validation {task.fields[held_out]} nat"),
        rich.TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    bar.start()
    return bar


class CSVLogger:
    """Appends one line per epoch and member to a CSV file, header first."""

    def __init__(self, path: str | os.PathLike):
        self._path = Path(path)
        with self._path.open("w", newline="") as file:
            csv.writer(file).writerow(Progress._fields)

    def __call__(self, progress: Progress) -> None:
        with self._path.open("a", newline="") as file:
            csv.writer(file).writerow(progress)


class TensorBoardLogger:
    """Writes likelihoods for TensorBoard, through tensorboardX (the `tensorboard` extra).

    The first member writes to the directory itself, the others to `network_2` and so on below it:
    TensorBoard then draws one curve for each.
    """

    def __init__(self, directory: str | os.PathLike):
        from tensorboardX import SummaryWriter

        # scikit-learn copies parameters and a writer cannot be copied: the first epoch opens it.
        self._open = SummaryWriter
        self._directory = Path(directory)
        self._writers: dict[int, Any] = {}

    def __call__(self, progress: Progress) -> None:
        member = progress.member
        if member not in self._writers:
            below = self._directory / f"network_{member + 1}" if member else self._directory
            self._writers[member] = self._open(str(below))
        for name in ("train_nll", "validation_nll", "best_nll"):
            self._writers[member].add_scalar(name, getattr(progress, name), progress.epoch)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_writers": {}}

    def close(self) -> None:
        """Write what is left; the next fit starts other files."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {}
