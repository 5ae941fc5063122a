"""Whole jobs: fits of members and stacks, regions of many rows, commands and their memory."""

import importlib
import shutil
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .ours import noise
from .timing import Turn, seconds

#: Runs a command and prints the peak of its memory in bytes, and its CPU seconds. The peak is over
#: all children that have ended, so each measurement has its own process.
_WATCH = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
use = resource.getrusage(resource.RUSAGE_CHILDREN)
print(use.ru_maxrss * 1024, use.ru_utime + use.ru_stime)
sys.exit(done.returncode)
"""

#: Rows that a model for measurements learns from.
_LEARNED = 2000


class Use(NamedTuple):
    """What a command used.

    Attributes:
        peak: Most memory in bytes.
        seconds: CPU seconds of all its threads.
    """

    peak: int
    seconds: float


def use_of(arguments: list[str]) -> Use:
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "ngem", *arguments]
    done = subprocess.run(
        [sys.executable, "-c", _WATCH, *command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"ngem {arguments[0]} failed: {last}")
    peak, cpu = done.stdout.split()
    return Use(int(peak), float(cpu))


class _Files:
    """A model of the command and tables for it, which go with this object."""

    def __init__(self, features: int):
        self._directory = Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, self._directory)
        self.features = features
        self.model = str(self.place("model.ngem"))
        learned, few = str(self.write("learned", _LEARNED)), ["--epochs", "2", "--quiet"]
        use_of(["fit", learned, "--target", "y", "--model", "network", *few, "--out", self.model])

    def place(self, name: str) -> Path:
        """Return the path of a file."""
        return self._directory / name

    def write(self, name: str, rows: int) -> Path:
        """Return a Parquet file of so many rows, written a part at a time."""
        arrow, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.parquet"))
        path = self.place(f"{name}.parquet")
        names = [*(f"x{index}" for index in range(self.features)), "y"]
        writer = None
        for start in range(0, rows, 100_000):
            x, y = noise(min(rows - start, 100_000), self.features, 1)
            part = arrow.table(dict(zip(names, [*x.T, y[:, 0]], strict=True)))
            writer = writer or parquet.ParquetWriter(path, part.schema)
            writer.write_table(part)
        assert writer is not None
        writer.close()
        return path


def predict_command(*, features: int) -> Turn:
    """Return a turn that gives the CPU seconds of `ngem predict` for one row."""
    files = _Files(features)
    row, out = str(files.write("one", 1)), str(files.place("out.csv"))

    def turn() -> float:
        return use_of(["predict", files.model, row, "--force", "--out", out]).seconds

    turn()  # leaves its programs for the next process
    return turn


def command_memory(*, command: str, rows: int, features: int) -> Turn:
    """Return a turn that gives how much more memory a command takes for so many rows, in MB.

    More than for a hundredth of them.
    """
    files = _Files(features)
    more = ["--force", "--out", str(files.place("out.parquet"))] if command == "predict" else []
    tables = [str(files.write(f"rows{count}", count)) for count in (rows // 100, rows)]

    def turn() -> float:
        few, many = (use_of([command, files.model, table, *more]).peak for table in tables)
        return (many - few) / 1e6

    return turn


def regions(*, rows: int, features: int) -> Turn:
    """Return a turn of highest-density regions of a default network."""
    from ..estimator.regressor import MDNRegressor

    x, y = noise(max(rows, _LEARNED), features, 1)
    model = MDNRegressor(max_epochs=3, random_state=0).fit(x[:_LEARNED], y[:_LEARNED, 0])
    model.predict_interval(x[:_LEARNED], 0.9)
    return lambda: seconds(lambda: model.predict_interval(x[:rows], 0.9))


def stack(*, rows: int, features: int, quality: str) -> Turn:
    """Return a turn that fits a stack, programs of other processes aside."""
    from ..estimator.stack import DensityStack

    x, y = _two_branches(rows, features)
    return lambda: seconds(lambda: DensityStack(quality=quality, random_state=0).fit(x, y))


def members(*, count: int, rows: int, features: int, epochs: int) -> Turn:
    """Return a turn that fits so many networks for so many epochs, without a choice of dropout."""
    from ..estimator.regressor import MDNRegressor

    x, y = _two_branches(rows, features)
    settings: dict[str, Any] = {"max_epochs": epochs, "patience": epochs, "dropout": 0.0}

    def work() -> None:
        MDNRegressor(n_members=count, random_state=0, **settings).fit(x, y)

    work()
    return lambda: seconds(work)


def _two_branches(rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows whose target is one of two sums of their features."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, features))
    side = rng.choice([-1.0, 1.0], rows)
    return x, side * x[:, 0] + np.sin(x[:, -1]) + 0.2 * rng.standard_normal(rows)
