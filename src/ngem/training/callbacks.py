"""Callbacks after each epoch: show progress, write metrics."""

import csv
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from .state import Progress


class ProgressBar:
    """Shows epochs, train and validation NLL and the time left, if there is a terminal.

    The likelihoods are those of the standardized targets.
    """

    def __init__(self, *, force: bool = False):
        self._bar: Any = None
        self._task: Any = None
        self._shown = force or sys.stderr.isatty()

    def __call__(self, progress: Progress) -> None:
        if not self._shown:
            return
        bar = self._bar or self._start(progress)
        bar.update(
            self._task,
            completed=progress.epoch,
            train=f"{progress.train_nll:.3f}",
            held_out=f"{progress.validation_nll:.3f}",
        )

    def close(self) -> None:
        """Stop the bar and release the terminal."""
        if self._bar is not None:
            self._bar.stop()

    def _start(self, progress: Progress) -> Any:
        from rich import progress as rich
        from rich.console import Console

        self._bar = rich.Progress(
            rich.TextColumn("epoch"),
            rich.MofNCompleteColumn(),
            rich.BarColumn(),
            rich.TextColumn("train {task.fields[train]} validation {task.fields[held_out]} nat"),
            rich.TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task("", total=progress.max_epochs, train="", held_out="")
        self._bar.start()
        return self._bar


class CSVLogger:
    """Appends one line per epoch to a CSV file, header first."""

    def __init__(self, path: str | os.PathLike):
        self._path = Path(path)
        with self._path.open("w", newline="") as file:
            csv.writer(file).writerow(Progress._fields)

    def __call__(self, progress: Progress) -> None:
        with self._path.open("a", newline="") as file:
            csv.writer(file).writerow(progress)


class TensorBoardLogger:
    """Writes likelihoods for TensorBoard, through tensorboardX (the `tensorboard` extra)."""

    def __init__(self, directory: str | os.PathLike):
        from tensorboardX import SummaryWriter

        # scikit-learn copies parameters and a writer cannot be copied: the first epoch opens it.
        self._open = partial(SummaryWriter, str(directory))
        self._writer: Any = None

    def __call__(self, progress: Progress) -> None:
        self._writer = self._writer or self._open()
        for name in ("train_nll", "validation_nll", "best_nll"):
            self._writer.add_scalar(name, getattr(progress, name), progress.epoch)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_writer": None}

    def close(self) -> None:
        """Write what is left; the next fit starts another file."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None
