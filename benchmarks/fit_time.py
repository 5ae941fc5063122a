"""How long a default fit takes, members included, after the program has been compiled.

python benchmarks/fit_time.py --out docs/results/fit_time.json

The target is a sine of the first of eight features with noise. Each size is fitted once to compile,
then three times with other seeds.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from ngem import MDNRegressor
from ngem._machine import available_cores

SIZES = (1000, 10_000)
REPEATS = 3


def seconds_of_fit(n_rows: int, seed: int) -> float:
    """Return the seconds that a fit of so many rows takes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 8))
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=n_rows)
    started = time.perf_counter()
    MDNRegressor(random_state=seed).fit(x, y)
    return time.perf_counter() - started


def main() -> None:
    """Print and write the seconds of each fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    runs = []
    for n_rows in SIZES:
        first, *others = (seconds_of_fit(n_rows, seed) for seed in range(1 + REPEATS))
        runs.append(
            {
                "rows": n_rows,
                "cores": available_cores(),
                "first": round(first, 1),
                "after compiling": [round(value, 1) for value in others],
            }
        )
        print(f"{n_rows} rows: {np.median(others):.1f} s, with compiling {first:.1f} s", flush=True)
    out.write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n")


if __name__ == "__main__":
    main()
