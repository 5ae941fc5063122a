"""Run the Python blocks of pages and write what they print below each of them.

    python benchmarks/outputs.py [docs/tour.md ...]

Blocks of a page run in order and share their names, as a reader would run them. Times and warnings
are not printed, so another run changes a page only where results changed.
"""

import argparse
import contextlib
import io
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from ngem import MDNRegressor, MixtureBoostingRegressor

ROOT = Path(__file__).parents[1]

#: A block, and the output below it, if there is one.
BLOCK = re.compile(
    r'^```python\n(?P<code>.*?)^```\n(?P<output>\n```text title="Output"\n.*?^```\n)?', re.S | re.M
)

#: Pages whose blocks stand alone: those that print nothing are not run.
ALONE = ("README.md", "docs/families.md")

#: Pages whose blocks print something.
PAGES = (
    "README.md",
    "docs/tour.md",
    "docs/families.md",
    "docs/troubleshooting.md",
    "docs/boosting.md",
    "docs/stacking.md",
    "docs/calibration.md",
    "docs/choosing.md",
)


def waves(n_rows: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the tour, half on a wave and half on its mirror image."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (n_rows, 1))
    sign = rng.choice([-1, 1], n_rows)
    return x, sign * np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(n_rows)


def names_of(page: str) -> dict[str, Any]:
    """Return what a page takes for granted."""
    x, y = waves()
    if page.endswith("families.md"):
        y = np.exp(y)  # positive, as the page says
    shared = (MDNRegressor, MixtureBoostingRegressor)
    return {"x": x, "y": y, "np": np, **{one.__name__: one for one in shared}}


def with_outputs(text: str, names: dict[str, Any], *, alone: bool = False) -> str:
    """Return the text of a page with what its blocks print below each of them."""

    def run(found: re.Match[str]) -> str:
        printed = io.StringIO()
        if alone and "print(" not in found["code"]:
            return found[0]
        with contextlib.redirect_stdout(printed):
            exec(compile(found["code"], "page", "exec"), names)
        block = f"```python\n{found['code']}```\n"
        output = printed.getvalue().rstrip()
        return f'{block}\n```text title="Output"\n{output}\n```\n' if output else block

    return BLOCK.sub(run, text)


def main() -> None:
    """Run the pages that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", default=PAGES)
    mpl.use("agg")
    for page in parser.parse_args().pages:
        path = ROOT / page
        before = Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # blocks write files
            try:
                text = path.read_text(encoding="utf-8")
                text = with_outputs(text, names_of(page), alone=page in ALONE)
            finally:
                os.chdir(before)
        path.write_text(text, encoding="utf-8")
        print(page, flush=True)


if __name__ == "__main__":
    main()
