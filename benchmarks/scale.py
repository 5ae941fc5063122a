"""Measure fits to a stream against fits in memory: throughput, peak memory, and what order costs.

    python benchmarks/scale.py --out docs/results/scale.json

Writes Parquet files of ten features and a target to a temporary directory. Each fit runs in a
process of its own. Three things are measured:

- a stream of `--rows` rows: rows per second, the fraction of the time that steps wait for rows, and
  the peak of resident memory beyond that after importing. Seconds of training include compiling,
  and of a stream the shuffled copy on disk;
- the same for a stream and for memory, with `--memory-rows` rows;
- rows that are sorted by target, the worst case for a shuffle: the likelihood of test rows after
  a fit in memory, and after fits to streams with several windows, in nats.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_FEATURES = 10

#: Rows of a row group, half of Arrow's own default, and rows that are made at a time.
_GROUP = 2**19

#: Windows of the sorted data as fractions of its rows; of 30 million rows the default is a tenth.
_WINDOWS = {"a tenth": 0.1, "a hundredth": 0.01}

_TEST_ROWS, _PASSES = 20_000, 3

#: Large files need large batches; those of the default, 128, would take three times as long. Sorted
#: rows are fewer, and small batches make up for it: the steps in a window are what matters there.
_BATCH, _SMALL_BATCH = 1024, 32


def make_rows(rng: np.random.Generator, rows: int) -> pa.Table:
    """Return rows whose target has two branches and noise that depends on a feature."""
    x = rng.standard_normal((rows, _FEATURES))
    side = np.where(rng.random(rows) < 0.5, 1.0, -1.0)
    noise = 0.1 * np.exp(0.3 * x[:, 2]) * rng.standard_normal(rows)
    y = side * (1 + 0.5 * np.tanh(x[:, 0])) + np.sin(x[:, 1]) + noise
    return pa.table({**{f"x{index}": x[:, index] for index in range(_FEATURES)}, "y": y})


def write_rows(path: Path, rows: int, group: int = _GROUP, *, by_target: bool = False) -> None:
    """Write rows to a file, a row group at a time, or all sorted by target."""
    rng, writer = np.random.default_rng(0), None
    if by_target:
        pq.write_table(make_rows(rng, rows).sort_by("y"), path, row_group_size=group)
        return
    for start in range(0, rows, group):
        table = make_rows(rng, min(group, rows - start))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=group)
    if writer is not None:
        writer.close()


def resident_bytes() -> int:
    """Return how much memory this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Peak:
    """The largest resident memory while a block runs, looked at every few milliseconds."""

    def __enter__(self) -> "Peak":
        self._start = self.bytes = resident_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.bytes = max(self.bytes, resident_bytes())

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()
        self.beyond_imports = self.bytes - self._start


def fit(job: dict) -> dict:
    """Fit a model as asked; return what was measured."""
    from ngem import MDNRegressor
    from ngem.streams import Stream

    epochs: list[float] = []
    model = MDNRegressor(
        n_members=1,
        dropout=0.0,
        max_epochs=job["epochs"],
        random_state=job["seed"],
        callbacks=[lambda progress: epochs.append(progress.seconds)],
        **job["settings"],
    )
    began = time.perf_counter()
    with Peak() as peak:
        if job["kind"] == "memory":
            table = pq.read_table(job["path"])
            model.fit(table.drop(["y"]), table["y"].to_numpy())
            del table
        else:
            model.fit(Stream(job["path"], "y", **job["stream"]))
    seconds = time.perf_counter() - began
    result = {
        "kind": job["kind"],
        "rows": job["rows"],
        "epochs": job["epochs"],
        "settings": job["settings"],
        "seconds": round(seconds, 2),
        "training_seconds": round(epochs[-1], 2),
        "rows_per_second": round(job["rows"] * job["epochs"] / epochs[-1]),
        "peak_bytes_beyond_imports": peak.beyond_imports,
    }
    info = model.stream_info_
    if info is not None:
        # Of the time after the shuffled copy was written.
        waited = info["wait_seconds"] / (epochs[-1] - info["copy_seconds"])
        result |= {**info, "waiting_fraction": round(waited, 4)}
    if job["test"] is not None:
        test = pq.read_table(job["test"])
        result["test_nll"] = -float(np.mean(model.log_prob(test.drop(["y"]), test["y"].to_numpy())))
    return result


def make_job(kind: str, path: Path, rows: int, **more: object) -> dict:
    """Return what a fit is to do."""
    job = {"kind": kind, "path": str(path), "rows": rows, "epochs": 1, "seed": 0}
    return {**job, "settings": {}, "stream": {}, "test": None, **more}


def run(*jobs: dict) -> list[dict]:
    """Run fits in a process of their own; memory is that of the first."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", json.dumps(jobs)], stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"a fit failed: {jobs}")
    print(done.stdout, flush=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure_size(here: Path, rows: int, settings: dict) -> dict:
    """Return throughput and memory of a stream of so many rows."""
    settings = {"batch_size": _BATCH, **settings}
    path = here / "large.parquet"
    write_rows(path, rows)
    (result,) = run(make_job("stream", path, rows, settings=settings))
    result["file_bytes"] = path.stat().st_size
    path.unlink()
    return result


def measure_against_memory(here: Path, rows: int, settings: dict) -> dict:
    """Return throughput and memory of a stream and of a fit in memory to the same rows."""
    path = here / "both.parquet"
    write_rows(path, rows)
    # A window that does not hold all rows, so that it is a stream at all.
    stream = {"window": rows * (_FEATURES + 1) * 4 // 10}
    (memory,) = run(make_job("memory", path, rows, settings=settings))
    (streamed,) = run(make_job("stream", path, rows, settings=settings, stream=stream))
    path.unlink()
    return {
        "memory": memory,
        "stream": streamed,
        "ratio_of_rows_per_second": streamed["rows_per_second"] / memory["rows_per_second"],
        "ratio_of_memory": streamed["peak_bytes_beyond_imports"]
        / memory["peak_bytes_beyond_imports"],
    }


def measure_order(here: Path, rows: int, seeds: int, settings: dict) -> dict:
    """Return the likelihood of test rows after fits to sorted rows, in memory and as streams."""
    path, test = here / "sorted.parquet", here / "test.parquet"
    write_rows(path, rows, by_target=True)
    pq.write_table(make_rows(np.random.default_rng(1), _TEST_ROWS), test)
    settings = {"batch_size": _SMALL_BATCH, **settings}
    common: dict = {"epochs": _PASSES, "settings": settings, "test": str(test)}
    ways: dict = {"memory": ("memory", {})}
    for name, part in _WINDOWS.items():
        window = int(part * rows * (_FEATURES + 1) * 4)
        ways[f"stream, window of {name}"] = ("stream", {"window": window})
    jobs = [
        make_job(kind, path, rows, seed=seed, stream=stream, **common)
        for kind, stream in ways.values()
        for seed in range(seeds)
    ]
    results = iter(run(*jobs))
    found = {name: [next(results) for _ in range(seeds)] for name in ways}
    reference = np.mean([one["test_nll"] for one in found["memory"]])
    return {
        name: {
            "test_nll": [one["test_nll"] for one in runs],
            "loss_to_memory": float(np.mean([one["test_nll"] for one in runs]) - reference),
            "window_rows": runs[0].get("window_rows"),
        }
        for name, runs in found.items()
    }


def main() -> None:
    """Measure, print each fit, and save all if --out is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000_000)
    parser.add_argument("--memory-rows", type=int, default=500_000)
    parser.add_argument("--sorted-rows", type=int, default=150_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", choices=["size", "memory", "order"])
    parser.add_argument("--smoke", action="store_true", help="Small files and networks.")
    parser.add_argument("--directory", type=Path, help="For the files; by default a temporary one.")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        import jax  # noqa: F401
        import pyarrow.dataset  # noqa: F401

        import ngem.estimator.regressor  # noqa: F401

        results = []
        for job in json.loads(arguments.child):
            results.append(fit(job))
            print(json.dumps(results[-1]), file=sys.stderr, flush=True)
        print(json.dumps(results))
        return
    settings: dict = {}
    if arguments.smoke:
        arguments.rows = arguments.memory_rows = arguments.sorted_rows = 20_000
        arguments.seeds, settings = 1, {"hidden_sizes": [8], "n_components": 2}
    report = (
        json.loads(arguments.out.read_text()) if arguments.out and arguments.out.exists() else {}
    )
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        here = Path(directory)
        if arguments.only in (None, "size"):
            report["size"] = measure_size(here, arguments.rows, settings)
        if arguments.only in (None, "memory"):
            report["memory"] = measure_against_memory(here, arguments.memory_rows, settings)
        if arguments.only in (None, "order"):
            report["order"] = {
                "rows": arguments.sorted_rows,
                "passes": _PASSES,
                **measure_order(here, arguments.sorted_rows, arguments.seeds, settings),
            }
    from ngem import __version__, _files

    report["ngem"] = __version__
    if arguments.out is not None:
        _files.replace(arguments.out, (json.dumps(report, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
