"""Fits that are killed at random moments and resumed: they end with the same bits.

Each fit runs in a fork of this process, which has imported everything and must not have computed
yet. Compiled programs are kept between fits, in files that appear whole or not at all.
"""

import contextlib
import itertools
import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import Tally

import ngem
from ngem.streams import Stream
from ngem.training import checkpoints

#: Rows and columns of the fits, and rows of a window of a stream.
_ROWS, _COLUMNS, _WINDOW = 300, 2, 100

#: Kills of one fit at most, and seconds after its newest checkpoint until it is killed.
_MOST, _LATER = 6, 0.6


class Fit:
    """A fit in a process of its own.

    Args:
        settings: Of the estimator.
        rows: A directory of Parquet files to stream, or None for rows in memory.
        checkpoint: Where progress is kept, or None.
        out: What is written when the fit has ended.
    """

    def __init__(
        self, settings: dict[str, Any], rows: Path | None, checkpoint: Path | None, out: Path
    ) -> None:
        self.checkpoint, self.out = checkpoint, out
        self.process = forked(lambda: self._fit(settings, rows), out.parent)
        self.log = out.with_name(f"{self.process}.log")

    def _fit(self, settings: dict[str, Any], rows: Path | None) -> None:
        # After each piece of work that the host sees, not every ten seconds.
        checkpoints.Checkpoint.__init__.__kwdefaults__["every"] = 0.0
        path = None if self.checkpoint is None else str(self.checkpoint)
        model = ngem.MDNRegressor(**settings, checkpoint=path)
        x, y = table()
        if rows is None:
            model.fit(x, y)
        else:
            window = _WINDOW * 4 * (_COLUMNS + 1)
            model.fit(Stream(f"{rows}/*.parquet", "y", window=window))
        part = self.out.with_name(f"{os.getpid()}.npz")
        np.savez(part, quantiles=model.predict_quantiles(x, [0.1, 0.9]), **model.history_)
        part.replace(self.out)

    def kill(self, rng: random.Random) -> bool:
        """Kill the fit some time after its next checkpoint; return whether it still ran."""
        before = newest(self.checkpoint)
        while newest(self.checkpoint) == before and self.is_running():
            time.sleep(0.005)
        time.sleep(rng.uniform(0, _LATER))
        if not self.is_running():
            return False
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        return True

    def is_running(self) -> bool:
        """Return whether the fit has not ended; who has learned that it has asks no more."""
        return self.process > 0 and not self._has_ended(os.WNOHANG)

    def wait(self) -> str:
        """Wait for the end, and return what went wrong."""
        if self.process > 0:
            self._has_ended(0)
        return "" if self.out.exists() else self.log.read_text()[-300:] or "no result"

    def _has_ended(self, how: int) -> bool:
        has_ended = os.waitpid(self.process, how)[0] > 0
        self.process = 0 if has_ended else self.process
        return has_ended


def forked(work: Callable[[], None], directory: Path) -> int:
    """Run something in a fork of this process, with a log in a directory; return its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        file = os.open(directory / f"{os.getpid()}.log", os.O_CREAT | os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(file, stream)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(_ROWS, _COLUMNS)), rng.normal(size=_ROWS)


def write_rows(directory: Path) -> None:
    """Write the rows to two Parquet files."""
    import polars as pl

    directory.mkdir()
    x, y = table()
    frame = pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y})
    for number in range(2):
        frame[number::2].write_parquet(directory / f"{number}.parquet", row_group_size=50)


def newest(checkpoint: Path | None) -> int:
    """Return when one of the files of a checkpoint was last replaced."""
    assert checkpoint is not None, "a fit that is killed has a checkpoint"
    times = [0]
    for file in checkpoint.parent.glob(f"{checkpoint.name}*"):
        with contextlib.suppress(FileNotFoundError):  # what has just taken the place of another
            times.append(file.stat().st_mtime_ns)
    return max(times)


def kill_and_resume(
    settings: dict[str, Any], rows: Path | None, work: Path, rng: random.Random
) -> tuple[int, str]:
    """Kill a fit until it has ended, and return the kills and a fault."""
    for path in work.glob("kill*"):
        path.unlink()
    calm, torn, checkpoint = (work / f"kill{name}" for name in ("-calm.npz", "-torn.npz", ".ckpt"))
    fault, kills = Fit(settings, rows, None, calm).wait(), 0
    if fault:
        return 0, f"the fit that was left in peace failed: {fault}"
    while kills < _MOST and Fit(settings, rows, checkpoint, torn).kill(rng):
        kills += 1
    fault = "" if torn.exists() else Fit(settings, rows, checkpoint, torn).wait()
    if fault:
        return kills, f"the fit did not go on: {fault}"
    left, right = np.load(calm), np.load(torn)
    same = all(np.array_equal(left[name], right[name], equal_nan=True) for name in left.files)
    return kills, "" if same else "other bits than of the fit that was left in peace"


def run(rng: np.random.Generator, count: int, work: Path) -> Tally:
    """Kill fits of all optimizers, of one and two members, of rows in memory and in a stream."""
    os.environ.update(XDG_CACHE_HOME=str(work / "cache"), JAX_ENABLE_COMPILATION_CACHE="false")
    tally, dice, streamed = Tally(), random.Random(int(rng.integers(2**31))), work / "rows"
    os.waitpid(forked(lambda: write_rows(streamed), work), 0)
    optimizers = ["adam", "adamw", "sgd", "muon", "soap", "kfac"]
    cases = list(itertools.product(optimizers, (1, 2), (None, streamed)))
    for number in range(2 * count):  # a fit may end before it is killed
        if tally.tried >= count:
            break
        optimizer, n_members, rows = cases[number % len(cases)]
        settings = {
            "optimizer": optimizer,
            "n_members": n_members,
            "hidden_sizes": [16],
            "batch_size": 4,
            "max_epochs": 60,
            "dropout": dice.choice([0.0, 0.1]),
            "random_state": dice.randrange(100),
        }
        kills, fault = kill_and_resume(settings, rows, work, dice)
        for _ in range(kills - bool(fault)):
            tally.good("resumed to the same bits")
        if fault:
            tally.bad(f"{settings}, {'stream' if rows else 'memory'}: {fault}")
    return tally
