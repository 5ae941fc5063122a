"""The campaign against ngem: random fits, bad inputs, damaged files, faults, many at once.

    python benchmarks/stress [--size smoke|stress|soak] [--seed 0] [--parts fits,kills]
        [--count 100] [--out docs/results/reliability.json]

`make stress` takes minutes, `make soak` more than half an hour. Exit code 1 if anything failed.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("NPROC", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import faults
import files
import fits
import inputs
import kills
import numpy as np
import sharing

#: What is tried, and how often in a smoke test, in `make stress` and in `make soak`. Those that
#: fork come first: a fork of a process in which JAX has computed is refused.
PARTS: dict[str, tuple[Any, tuple[int, int, int]]] = {
    "full disks and read-only or missing directories": (faults.run_disks, (9, 90, 900)),
    "kills of fits": (kills.run, (0, 100, 300)),
    "3 processes with one checkpoint and one output": (sharing.run_processes, (0, 5, 20)),
    "bad commands": (inputs.run_commands, (10, 1000, 5000)),
    "bad arguments of functions": (inputs.run_functions, (60, 8000, 50_000)),
    "bad arguments of methods": (inputs.run_methods, (20, 1000, 5000)),
    "bad parameters and targets of estimators": (inputs.run_estimators, (5, 300, 2000)),
    "damaged files": (files.run, (20, 2000, 5000)),
    "random fits": (fits.run, (1, 100, 500)),
    "checkpoints in a directory that vanishes": (faults.run_vanishing, (0, 6, 30)),
    "predictions in 8 threads": (sharing.run_threads, (8, 1000, 5000)),
    "fits of changing shapes, memory and open files": (sharing.run_leaks, (4, 1000, 1000)),
}

SIZES = ("smoke", "stress", "soak")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--size", choices=SIZES, default="stress")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", help="words in the names of the parts to run", default="")
    parser.add_argument("--count", type=int, help="try so many of each part")
    parser.add_argument("--out", type=Path, help="results; those of other parts in it are kept")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    words, results = options.parts.split(","), {}
    if options.out is not None and options.out.exists():
        results = json.loads(options.out.read_text())["parts"]
    for name, (run, counts) in PARTS.items():
        count = options.count or counts[SIZES.index(options.size)]
        if count == 0 or not any(word in name for word in words):
            continue
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as work:
            found = run(np.random.default_rng([options.seed, len(name)]), count, Path(work))
        for part, tally in (found if isinstance(found, dict) else {name: found}).items():
            seconds = time.perf_counter() - began
            results[part] = {**vars(tally), "seconds": round(seconds)}
            print(
                f"{part}: {tally.tried} tried, {tally.failed} failed ({seconds:.0f} s)", flush=True
            )
            for failure in tally.failures:
                print("   ", failure, flush=True)
        if options.out is not None:
            options.out.write_text(
                json.dumps({"seed": options.seed, "parts": results}, indent=1) + "\n"
            )
    sys.exit(any(part["failed"] for part in results.values()))


if __name__ == "__main__":
    main()
