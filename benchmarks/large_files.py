"""Measure how much memory each command takes for a small and for a large file.

    python benchmarks/large_files.py --rows 3000000 --out docs/results/large_files.json

Writes a table of ten feature columns and a target to a temporary directory, once with a hundredth
of the rows and once with all, as CSV and as Parquet. Then runs each command on both, in its own
process, and reports the peak resident memory of each process and its ratio.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from ngem import __version__
from ngem import _files as files
from ngem.bench.whole import use_of

_FEATURES = 10
_CHUNK = 1_000_000

#: Each command, with M for the model, D for the data and O for the output.
_COMMANDS = {
    "fit --max-rows 20000": "fit D --target y --max-rows 20000 --epochs 2 --out O.ngem",
    "evaluate": "evaluate M D",
    "predict --interval 0.9": "predict M D --interval 0.9 --out O.parquet",
    "report --max-rows 20000": "report M D --max-rows 20000 --out O.html",
}


def write_table(stem: Path, rows: int) -> dict[str, Path]:
    """Write the same rows as CSV and Parquet, in chunks, and return both files."""
    rng = np.random.default_rng(0)
    csv, parquet = stem.with_suffix(".csv"), stem.with_suffix(".parquet")
    writer = None
    with csv.open("wb") as text:
        for start in range(0, rows, _CHUNK):
            x = rng.standard_normal((min(_CHUNK, rows - start), _FEATURES))
            frame = pl.DataFrame({f"x{i}": x[:, i] for i in range(_FEATURES)})
            frame = frame.with_columns(y=x[:, 0] + 0.1 * rng.standard_normal(len(x)))
            frame.write_csv(text, include_header=start == 0, float_precision=6)
            table = frame.to_arrow()
            writer = writer or pq.ParquetWriter(parquet, table.schema)
            writer.write_table(table)
    if writer is not None:
        writer.close()
    return {"csv": csv, "parquet": parquet}


def measure(rows: int) -> list[dict]:
    """Return one record for each command and kind of file."""
    records = []
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        small = write_table(here / "small", rows // 100)
        large = write_table(here / "large", rows)
        model = here / "model.ngem"
        use_of(["fit", str(small["csv"]), "--target", "y", "--epochs", "1", "--out", str(model)])
        for kind in small:
            for name, line in _COMMANDS.items():
                record: dict = {"command": name, "file": kind}
                for size, tables in (("small", small), ("large", large)):
                    words = {"M": str(model), "D": str(tables[kind])}
                    parts = [words.get(word, word) for word in line.split()]
                    parts = [word.replace("O.", f"{here}/out.") for word in parts]
                    peak, seconds = use_of(parts)
                    record[size] = {
                        "file_bytes": tables[kind].stat().st_size,
                        "peak_bytes": peak,
                        "cpu_seconds": round(seconds, 1),
                    }
                print(show(record), flush=True)
                records.append(record)
    return records


def show(record: dict) -> str:
    """Return a record as a row of a table."""
    small, large = record["small"], record["large"]
    sizes = (large["file_bytes"] / 1e9, small["peak_bytes"] / 1e9, large["peak_bytes"] / 1e9)
    ratio = large["peak_bytes"] / small["peak_bytes"]
    numbers = " | ".join(f"{size:.2f} GB" for size in sizes)
    return f"| `{record['command']}` | {record['file']} | {numbers} | {ratio:.2f} |"


def main() -> None:
    """Measure, print the table, and save it if --out is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    print("| command | file | its size | peak, a hundredth of the rows | peak, all rows | ratio |")
    print("|---|---|---|---|---|---|")
    records = measure(arguments.rows)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    report = {
        "rows": arguments.rows,
        "machine_bytes": memory,
        "ngem": __version__,
        "records": records,
    }
    if arguments.out is not None:
        files.replace(arguments.out, (json.dumps(report, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
