"""Faults of the machine: full disks, directories that are read-only or vanish."""

import os
import resource
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
from common import Tally

import ngem


def in_child(work: Any) -> str:
    """Run something in a child that may lose rights; return a fault, "" if it went well."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        fault = "an error in the child"
        try:
            fault = work()
        except BaseException as error:
            fault = f"{type(error).__name__}: {error}"
        finally:
            os.write(write, fault.encode()[:2000])
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


def run_disks(rng: np.random.Generator, count: int, work: Path) -> Tally:
    """Files that cannot be written completely: the old ones stay as they were."""
    from ngem import _files
    from ngem.tables.write import writing

    tally = Tally()
    frame = __import__("polars").DataFrame({"a": rng.normal(size=20_000)})
    arrays = {"a": rng.normal(size=20_000)}

    def model(path: Path) -> None:
        _files.write(path, arrays, {}, kind="stress", version=1)

    def table(path: Path) -> None:
        with writing(path) as append:
            for start in range(0, len(frame), 1000):
                append(frame[start : start + 1000])

    writers = {"model.ngem": model, "table.csv": table, "table.parquet": table}
    for number in range(count):
        name = list(writers)[number % 3]
        kind = ("full disk", "read-only directory", "missing directory")[number // 3 % 3]
        place = work / f"disk{number}"
        place.mkdir()
        path = place / name
        path.write_bytes(b"old")

        def attempt(path: Path = path, kind: str = kind, write: Any = writers[name]) -> str:
            if kind == "full disk":
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                size = int(rng.integers(1, 20_000))
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            elif kind == "read-only directory":
                path.parent.chmod(0o555)
                if os.geteuid() == 0:
                    os.seteuid(65534)
            else:
                shutil.rmtree(path.parent)
            try:
                write(path)
            except OSError:
                return ""
            return "no error"

        fault = in_child(attempt)
        left = sorted(one.name for one in place.iterdir()) if place.exists() else []
        if (
            not fault
            and kind != "missing directory"
            and (left != [name] or path.read_bytes() != b"old")
        ):
            fault = f"left {left}"
        (tally.bad(f"{kind}, {name}: {fault}") if fault else tally.good(kind))
        shutil.rmtree(place, ignore_errors=True)
    return tally


def run_vanishing(rng: np.random.Generator, count: int, work: Path) -> Tally:
    """A directory of checkpoints that vanishes in a fit: one error of the file system."""
    tally, x, y = Tally(), rng.normal(size=(60, 2)), rng.normal(size=60)
    for number in range(count):
        place = work / f"gone{number}"
        place.mkdir()
        model = ngem.MDNRegressor(
            n_members=1,
            hidden_sizes=(4,),
            max_epochs=200,
            guard=False,
            checkpoint=str(place / "fit.ckpt"),
            callbacks=[lambda _, place=place: shutil.rmtree(place, ignore_errors=True)],
        )
        try:
            model.fit(x, y)
            tally.bad("the fit ended without a word")
        except OSError:
            tally.good("refused")
        except Exception as error:
            tally.bad(f"{type(error).__name__}: {error}")
    return tally
