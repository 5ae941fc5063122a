"""Run the notebooks of `docs/notebooks` and write what their cells show into them.

    python benchmarks/notebooks.py [docs/notebooks/table.ipynb ...]

Jupyter is not needed: a cell is run as Python, and it shows what it prints, the value of its last
expression, and the plots that it leaves open.
"""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

NOTEBOOKS = Path(__file__).parents[1] / "docs/notebooks"


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook with the outputs of its cells; names are those that its cells left."""
    names: dict[str, Any] = {"__name__": "__main__"}
    plt.close("all")  # plots that were open before are not the notebook's
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell = {**cell, "execution_count": count}
            cell["outputs"] = run_cell("".join(cell["source"]), names, count)
        cells.append(cell)
    return {**notebook, "cells": cells}


def run_cell(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Return what a cell shows."""
    tree, printed = ast.parse(source), io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        text = repr(value).splitlines(keepends=True)
        shown = {"data": {"text/plain": text}, "metadata": {}, "execution_count": count}
        outputs.append({"output_type": "execute_result", **shown})
    return outputs + [_picture(number) for number in plt.get_fignums()]


def _picture(number: int) -> dict[str, Any]:
    """Return an open plot as an output, and close it."""
    image = io.BytesIO()
    figure = plt.figure(number)
    figure.savefig(image, dpi=80, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)
    data = {"image/png": base64.b64encode(image.getvalue()).decode()}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def main() -> None:
    """Run the notebooks that are named, or all."""
    mpl.use("agg")
    for path in [Path(name).resolve() for name in sys.argv[1:]] or sorted(
        NOTEBOOKS.glob("*.ipynb")
    ):
        notebook, before = json.loads(path.read_text(encoding="utf-8")), Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # cells write files
            try:
                notebook = run(notebook)
            finally:
                os.chdir(before)
        text = json.dumps(notebook, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
        print(path.name, flush=True)


if __name__ == "__main__":
    main()
