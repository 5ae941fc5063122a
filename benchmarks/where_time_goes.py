"""Where the CPU time of a fit and of a prediction goes, in a new process and in a running one.

python benchmarks/where_time_goes.py --out docs/results/where_time_goes.json

Parts are differences of CPU seconds of whole processes, all threads together, so a busy machine
moves them less than the clock. Each is the median of some runs. Draws a picture beside the file.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ngem.bench.whole import predict_command
from ngem.plotting import png

REPEATS = 2

#: Color of each part.
COLORS = {
    "imports": "#4477aa",
    "programs": "#bb8822",
    "training": "#cc3311",
    "options": "#88aacc",
    "model, programs, files": "#997733",
}

#: A fit, and what comes before it: prints CPU seconds after imports, after a first fit, and after a
#: second one.
FIT = """
import os
import numpy as np
import ngem
ngem.MDNRegressor
cpu = lambda: sum(os.times()[:2])
rng = np.random.default_rng(0)
x = rng.normal(size=(1000, 8))
y = np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=1000)
marks = [cpu()]
for _ in range({fits}):
    ngem.MDNRegressor(random_state=0).fit(x, y)
    marks.append(cpu())
print(*marks)
"""

#: Up to which point `ngem predict` is run: each adds to the one before.
STEPS = {
    "options": "import ngem.cli",
    "imports": "import ngem.cli, ngem.tables.commands",
}


def cpu_of(code: str, **environment: str) -> list[float]:
    """Return the numbers that a new process prints, or its CPU seconds if it prints none."""
    code += "\nimport os; print(sum(os.times()[:2]))" if "print" not in code else ""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return list(map(float, done.stdout.split()))


def median(values: list[float]) -> float:
    """Return the median, with two digits after the point."""
    return round(float(np.median(values)), 2)


def parts_of_a_fit(directory: str) -> dict[str, dict[str, float]]:
    """Return the parts of a first fit: without programs, with those of an earlier process."""
    private = {"XDG_CACHE_HOME": directory}
    cpu_of(FIT.format(fits=1), **private)  # leaves its programs
    runs = {
        "new process": [cpu_of(FIT.format(fits=1), NGEM_PROGRAMS="off") for _ in range(REPEATS)],
        "programs of an earlier process": [
            cpu_of(FIT.format(fits=2), **private) for _ in range(REPEATS)
        ],
    }
    training = median([marks[2] - marks[1] for marks in runs["programs of an earlier process"]])
    return {
        **{
            name: {
                "imports": median([marks[0] for marks in each]),
                "programs": median([marks[1] - marks[0] - training for marks in each]),
                "training": training,
            }
            for name, each in runs.items()
        },
        "the second fit of a process": {"training": training},
    }


def parts_of_a_prediction() -> dict[str, float]:
    """Return the parts of `ngem predict` for one row."""
    seconds = {
        name: median([cpu_of(code)[0] for _ in range(REPEATS)]) for name, code in STEPS.items()
    }
    command = predict_command(features=8)
    seconds["model, programs, files"] = median([command() for _ in range(REPEATS)])
    names = list(seconds)
    before = dict(zip(names, [0.0, *list(seconds.values())[:-1]], strict=True))
    return {name: round(seconds[name] - before[name], 2) for name in names}


def draw(report: dict, ax: Any) -> None:
    """Draw each process as one bar of parts."""
    bars = {f"fit: {name}": parts for name, parts in report["fit"].items()}
    bars["ngem predict, one row"] = report["predict"]
    for row, parts in enumerate(bars.values()):
        start = 0.0
        for name, seconds in parts.items():
            ax.barh(row, seconds, left=start, color=COLORS[name], height=0.6)
            start += seconds
        ax.text(start, row, f" {start:.1f} s", va="center", size=8)
    ax.set_yticks(range(len(bars)), list(bars))
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    named = [ax.barh(0, 0, color=color, label=name) for name, color in COLORS.items()]
    ax.legend(handles=named, loc="lower right")
    ax.set_xlabel("CPU seconds, all threads; 1,000 rows with eight columns")


def measure() -> dict:
    """Return all parts, and the load of the machine."""
    with tempfile.TemporaryDirectory() as directory:
        fit = parts_of_a_fit(directory)
    load = round(os.getloadavg()[0], 1)
    return {"load": load, "fit": fit, "predict": parts_of_a_prediction()}


def main() -> None:
    """Measure, print, save and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draw", action="store_true", help="only draw what the file holds")
    arguments = parser.parse_args()
    out = arguments.out
    report = json.loads(out.read_text()) if arguments.draw else measure()
    print(json.dumps(report, indent=1))
    out.write_text(json.dumps(report, indent=1) + "\n")
    out.with_suffix(".png").write_bytes(png(lambda ax: draw(report, ax), (7.5, 2.6)))


if __name__ == "__main__":
    main()
