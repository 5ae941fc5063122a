"""The campaign against ngem: random fits, bad inputs, damaged files, faults, many at once.

    python benchmarks/stress [--size smoke|stress|soak] [--seed 0] [--parts fits,kills]
        [--out docs/results/reliability.json]

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
import numpy as np
import sharing

#: Parts that must run before JAX computes: a fork of a process in which it has is refused.
PARTS: dict[str, Any] = {
    "full disks and read-only or missing directories": faults.run_disks,
    "bad commands": inputs.run_commands,
    "bad arguments of functions": inputs.run_functions,
    "bad parameters and targets of estimators": inputs.run_estimators,
    "damaged files": files.run,
    "random fits": fits.run,
    "kills of fits": faults.run_kills,
    "checkpoints in a directory that vanishes": faults.run_vanishing,
    "predictions in 8 threads": sharing.run_threads,
    "3 processes with one checkpoint and one output": sharing.run_processes,
    "fits of changing shapes, memory and open files": sharing.run_leaks,
}

#: How many of each part, in the order above.
SIZES = {
    "smoke": (9, 10, 60, 5, 20, 1, 0, 0, 8, 0, 4),
    "stress": (90, 300, 3000, 100, 200, 15, 4, 3, 200, 1, 30),
    "soak": (900, 5000, 50_000, 2000, 2000, 300, 100, 30, 5000, 20, 1000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--size", choices=SIZES, default="stress")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", help="words in the names of the parts to run", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results, words = {}, options.parts.split(",")
    for (name, run), count in zip(PARTS.items(), SIZES[options.size], strict=True):
        if count == 0 or not any(word in name for word in words):
            continue
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as work:
            found = run(np.random.default_rng([options.seed, len(name)]), count, Path(work))
        for part, tally in (found if isinstance(found, dict) else {name: found}).items():
            results[part] = vars(tally)
            seconds = time.perf_counter() - began
            print(
                f"{part}: {tally.tried} tried, {tally.failed} failed ({seconds:.0f} s)", flush=True
            )
            for failure in tally.failures:
                print("   ", failure, flush=True)
        if options.out is not None:
            about = {"size": options.size, "seed": options.seed}
            options.out.write_text(json.dumps({**about, "parts": results}, indent=1) + "\n")
    sys.exit(any(part["failed"] for part in results.values()))


if __name__ == "__main__":
    main()
