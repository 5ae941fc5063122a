"""Who may import whom, and what importing costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ngem

SOURCE = Path(ngem.__file__).parent

# Top to bottom; a module imports only from rows below its own. docs/architecture.md shows the same.
LAYERS = [
    ["cli"],
    ["demo", "data_command", "table_commands"],
    ["bench"],
    ["html_report", "repro", "tuning"],
    ["conformal"],
    ["plotting", "scorers", "sklearn"],
    ["model_files", "diagnostics", "conversion", "table_scores"],
    ["_settings", "prediction", "callbacks", "checkpoints", "tables"],
    ["training"],
    ["nn"],
    ["objectives"],
    ["geometry", "metrics"],
    ["mixture"],
    ["families", "univariate"],
    ["_blocks", "_errors", "_roots", "table_schema", "torch"],
    [
        "_choices",
        "_conditions",
        "_defaults",
        "_machine",
        "_types",
        "datasets",
        "files",
        "optimizers",
        "preprocessing",
    ],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts != ("__init__",):
            yield path, [part for part in parts if part != "__init__"]


def imported_rooms(path, parts):
    """Names of our top-level modules that a file imports."""
    depth = len(path.relative_to(SOURCE).parts) - 1
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            if node.level <= depth:
                continue  # within its own package
            names = [node.module.split(".")[0]] if node.module else [a.name for a in node.names]
            yield from (name for name in names if name != "__version__")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ngem":
            pytest.fail(f"{path.name} imports its own package by name: {node.module}")


def test_every_module_has_a_place():
    assert {parts[0] for _, parts in modules()} == set(RANK)


@pytest.mark.parametrize(
    ("path", "parts"), list(modules()), ids=lambda v: "-".join(v) if isinstance(v, list) else ""
)
def test_imports_point_down(path, parts):
    for room in imported_rooms(path, parts):
        assert RANK[room] > RANK[parts[0]], f"{'.'.join(parts)} must not import {room}"


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("matplotlib", {"plotting"}),
        ("typer", {"cli"}),
        ("sklearn", {"sklearn"}),
        ("optax", {"optimizers", "training", "repro"}),
        ("safetensors", {"files"}),
        ("torch", {"bench", "torch"}),
        ("tensorboardX", {"callbacks"}),
        ("pooch", {"datasets"}),
        ("requests", {"datasets"}),
        ("polars", {"tables"}),
        ("pyarrow", {"tables"}),
    ],
)
def test_each_library_has_its_home(library, homes):
    for path, parts in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            if any(name.split(".")[0] == library for name in names):
                assert parts[0] in homes, f"{path.name} imports {library}"


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_importing_ngem_is_cheap():
    loaded = run("import sys, ngem; print(*sys.modules)")
    assert not {"jax", "numpy", "torch", "sklearn", "matplotlib", "pandas"} & set(loaded)


def test_using_the_losses_loads_nothing_heavy():
    loaded = run("import sys, ngem; ngem.ngem_loss; print(*sys.modules)")
    assert not {"torch", "sklearn", "matplotlib", "pandas", "typer", "scipy.stats"} & set(loaded)


def test_every_public_name_loads():
    for name in ngem.__all__:
        assert getattr(ngem, name) is not None
    assert set(ngem.__all__) <= set(dir(ngem))


def test_the_architecture_page_lists_every_room():
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    for name in RANK:
        assert f"`{name}`" in page, f"docs/architecture.md does not mention {name}"
