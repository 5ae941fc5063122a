"""Several at once: threads that predict, processes that share files; memory that stays flat."""

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from common import Tally
from kills import Fit

import ngem

#: Growth of memory over the second half of the fits that counts as flat, in MB.
FLAT = 60


def run_threads(rng: np.random.Generator, count: int, _: Path) -> Tally:
    """Eight threads, changing numbers of rows: the bits that one thread gives."""
    tally, x, y = Tally(), rng.normal(size=(300, 2)), rng.normal(size=300)
    model = ngem.MDNRegressor(n_members=2, hidden_sizes=(8,), max_epochs=3, random_state=0)
    model.fit(x, y)

    def ask(rows: slice) -> np.ndarray:
        return model.predict_quantiles(x[rows], [0.1, 0.9])

    starts = rng.integers(0, 250, count)
    rows = [slice(int(start), int(start + rng.integers(1, 50))) for start in starts]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, rows))
    for part, answer in zip(rows, answers, strict=True):
        is_same = np.array_equal(answer, ask(part))
        tally.good("the same") if is_same else tally.bad(f"rows {part} differ")
    return tally


def run_processes(rng: np.random.Generator, count: int, work: Path) -> Tally:
    """Three processes with one checkpoint and one output: all end, and the result is whole."""
    tally = Tally()
    for number in range(count):
        settings: dict[str, Any] = {"n_members": 1, "hidden_sizes": [8], "max_epochs": 40}
        settings["random_state"] = int(rng.integers(100))
        checkpoint, out, calm = (
            work / f"{name}{number}" for name in ("shared.ckpt", "shared.npz", "alone.npz")
        )
        fits = [Fit(settings, None, checkpoint, out) for _ in range(3)]
        faults = [
            fault
            for fault in (*(fit.wait() for fit in fits), Fit(settings, None, None, calm).wait())
            if fault
        ]
        if faults:
            tally.bad(faults[0])
        elif not np.array_equal(np.load(out)["quantiles"], np.load(calm)["quantiles"]):
            tally.bad("other numbers than of one process")
        else:
            tally.good("the same")
    return tally


def memory() -> float:
    """Return the memory of this process in MB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def run_leaks(rng: np.random.Generator, count: int, _: Path) -> Tally:
    """Fits of changing shapes: memory and open files are flat once each shape was seen."""
    tally, shapes = Tally(), [(40, 1), (60, 2), (80, 3), (120, 2)]
    seen, used = [], []
    for number in range(count):
        rows, columns = shapes[number % len(shapes)]
        x, y = rng.normal(size=(rows, columns)), rng.normal(size=rows)
        model = ngem.MDNRegressor(n_members=1, hidden_sizes=(4,), max_epochs=2, guard=False)
        model.fit(x, y).predict(x)
        tally.good("fitted")
        seen.append(len(os.listdir("/proc/self/fd")))
        used.append(memory())
    half = count // 2
    if count > 2 * len(shapes):
        if used[-1] - used[half] > FLAT:
            tally.bad(f"memory grew from {used[half]:.0f} to {used[-1]:.0f} MB in {half} fits")
        if seen[-1] > seen[half]:
            tally.bad(f"open files grew from {seen[half]} to {seen[-1]}")
    return tally
