"""Who may import whom, and what importing costs."""

import ast
import functools
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ngem
from ngem import _moved

SOURCE = Path(ngem.__file__).parent

PAGE = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
TABLE = PAGE.split("## ")[1]

# Rows of the page's table, top to bottom; a module imports only from rows below its own.
LAYERS = [re.findall(r"`(\w+)`", row) for row in re.findall(r"^\| (`\w+`.*?) \|", TABLE, re.M)]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts != ("__init__",):
            yield path, [part for part in parts if part != "__init__"]


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


@functools.cache
def libraries(path):
    """Names of the libraries that a file imports."""
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").split(".")[0])
    return names


def imported_modules(path, parts):
    """Names of our top-level modules that a file imports."""
    depth = len(path.relative_to(SOURCE).parts) - 1
    for node in ast.walk(parsed(path)):
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
    for module in imported_modules(path, parts):
        assert RANK[module] > RANK[parts[0]], f"{'.'.join(parts)} must not import {module}"


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("matplotlib", {"plotting"}),
        ("typer", {"cli", "_console"}),
        ("sklearn", {"datasets", "estimator", "nn"}),
        ("optax", {"optimizers", "training", "repro"}),
        ("safetensors", {"_files"}),
        ("lightgbm", {"boosting"}),
        ("torch", {"bench", "torch"}),
        ("tensorboardX", {"training"}),
        ("pooch", {"datasets"}),
        ("requests", {"datasets"}),
        ("jinja2", {"tables"}),
        ("polars", {"tables"}),
        ("narwhals", {"estimator"}),
        ("pyarrow", {"streams", "tables"}),
    ],
)
def test_each_library_has_its_home(library, homes):
    for path, parts in modules():
        if library in libraries(path):
            assert parts[0] in homes, f"{path.name} imports {library}"


#: What a user does first, in this order, and what it must not load.
STEPS = {
    "import ngem": "jax numpy torch sklearn matplotlib pandas",
    "ngem.ngem_loss": "torch sklearn matplotlib pandas typer scipy.stats",
    "ngem.MDNRegressor": "torch sklearn matplotlib pandas typer scipy.stats polars lightgbm",
    "import ngem.tables.commands": "torch sklearn matplotlib jinja2 lightgbm",
}


@functools.cache
def loaded_after_steps():
    """Return the modules that are loaded after each step, all in one process."""
    code = "\n".join(["import sys", *(f"{step}\nprint(*sys.modules)" for step in STEPS)])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(STEPS, map(str.split, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("step", STEPS)
def test_the_first_steps_load_nothing_heavy(step):
    assert not set(STEPS[step].split()) & set(loaded_after_steps()[step])


def test_every_public_name_loads():
    for name in ngem.__all__:
        assert getattr(ngem, name) is not None
    assert set(ngem.__all__) <= set(dir(ngem))


def test_module_paths_of_version_0_1_still_work():
    for old, new in _moved.MOVED.items():
        sys.modules.pop(f"ngem.{old}", None)
        with pytest.warns(DeprecationWarning, match=rf"ngem\.{old} has moved to ngem\.{new}"):
            module = importlib.import_module(f"ngem.{old}")
        for name in vars(importlib.import_module(f"ngem.{new}")):
            assert name[:2] == "__" or hasattr(module, name)
    assert importlib.import_module("ngem.sklearn").MDNRegressor is ngem.MDNRegressor


def test_every_function_on_the_architecture_page_exists():
    paths = re.findall(r"^\| `([\w/]+\.py)` \| `(\w+)` \|", PAGE, re.M)
    assert len(paths) > 15
    for file, function in paths:
        assert re.search(rf"^ *def {function}\(", (SOURCE / file).read_text(), re.M), (
            file,
            function,
        )


def test_every_function_is_annotated():
    for path, parts in modules():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                bare = [a.arg for a in arguments if a.annotation is None]
                assert set(bare) <= {"self", "cls"}, f"{'.'.join(parts)}.{node.name}: {bare}"
                needs = node.name != "__init__"
                assert node.returns is not None or not needs, f"{'.'.join(parts)}.{node.name}"
