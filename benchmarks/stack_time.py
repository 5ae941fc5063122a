"""How long a default stack takes to fit and to predict a million rows, and how much memory.

python benchmarks/stack_time.py --out docs/results/stack_time.json [--tables kin8nm]

Each table is fitted in a process of its own, programs compiled before not counted. Seconds of the
CPU matter most: other load on the machine moves those of the clock.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from ngem import DensityStack
from ngem import _files as files
from ngem._machine import available_cores
from ngem.datasets import load_uci

TABLES = ("power-plant", "kin8nm")

#: Rows to predict, repetitions of those of the table.
_ROWS = 1_000_000


def measure(table: str) -> dict[str, Any]:
    """Return what a fit and predictions take in this process."""
    x, y, _ = load_uci(table)
    began = clock()
    model = DensityStack(random_state=0).fit(x, y[:, 0])
    fitted = clock()
    model.predict(x)
    once = clock()
    model.predict(x[np.arange(_ROWS) % len(x)])
    return {
        "table": table,
        "rows": len(y),
        "cores": available_cores(),
        "load_at_start": round(os.getloadavg()[0], 1),
        "fit": since(began, fitted),
        "kinds": {kind.name: [kind.seconds, round(kind.weight, 3)] for kind in model.kinds_},
        "predict": since(fitted, once),
        f"predict {_ROWS:,} rows": since(once, clock()),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def clock() -> tuple[float, float]:
    """Return seconds of the clock and of the CPU."""
    return time.perf_counter(), time.process_time()


def since(start: tuple[float, float], end: tuple[float, float]) -> dict[str, float]:
    """Return the seconds between two moments."""
    wall, cpu = (round(b - a, 1) for a, b in zip(start, end, strict=True))
    return {"seconds": wall, "cpu_seconds": cpu}


def main() -> None:
    """Measure each table in a new process, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    options = parser.parse_args()
    if options.out is None:
        print(json.dumps(measure(options.tables[0])))
        return
    runs = []
    for table in options.tables:
        command = [sys.executable, __file__, "--tables", table]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
        print(json.dumps(runs[-1]), flush=True)
    lines = ",\n".join(map(json.dumps, runs))
    files.replace(options.out, f"[\n{lines}\n]\n".encode())


if __name__ == "__main__":
    main()
