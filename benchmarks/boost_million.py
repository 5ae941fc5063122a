"""Measure the memory and time of boosting a mixture on a large table.

    python benchmarks/boost_million.py --rounds 20 --out docs/results/boost_million.json

One member with default settings is fitted to noise with a step and two modes, ten columns, in a
process of its own: once with few rows, which is what libraries and programs take, and once with
all. Seconds are of the CPU, so that other load matters little.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from ngem import __version__
from ngem import _files as files

_CODE = """
import json, resource, sys, time
import numpy as np
from ngem import MixtureBoostingRegressor
rows, rounds, threads = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
x = rng.standard_normal((rows, 10))
y = np.where(x[:, 0] > 0, 1, rng.choice([-2, 2], rows)) + 0.1 * rng.standard_normal(rows)
started, cpu = time.perf_counter(), time.process_time()
model = MixtureBoostingRegressor(
    n_members=1, max_rounds=rounds, random_state=0, n_jobs=threads
).fit(x, y)
use = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "rows": rows,
    "rounds": model.n_iter_,
    "seconds": round(time.perf_counter() - started, 2),
    "cpu_seconds": round(time.process_time() - cpu, 2),
    "peak_bytes": use.ru_maxrss * 1024,
}))
"""


def measure(rows: int, rounds: int, threads: int) -> dict:
    """Return what one fit in a new process takes."""
    command = [sys.executable, "-c", _CODE, *map(str, (rows, rounds, threads))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description="Memory and time of a large fit.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    record = {
        "versions": {"ngem": __version__},
        "threads": options.threads,
        "load_at_start": round(os.getloadavg()[0], 1),
        "fits": [measure(rows, options.rounds, options.threads) for rows in (1000, options.rows)],
    }
    files.replace(options.out, (json.dumps(record, indent=1) + "\n").encode())
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
