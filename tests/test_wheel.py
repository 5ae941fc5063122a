"""The package as users get it: its version, and a wheel in an empty environment."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ngem

ROOT = Path(__file__).parents[1]


def run(*command, **settings):
    """Return what a command prints; its errors are part of the failure."""
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, **settings
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_version_is_the_same_everywhere():
    for name, pattern in (
        ("pyproject.toml", r'^version = "(.*)"'),
        ("CITATION.cff", "^version: (.*)"),
    ):
        (version,) = re.findall(pattern, (ROOT / name).read_text(), re.MULTILINE)
        assert version == ngem.__version__


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Two wheels of the same source."""
    found = []
    for name in ("first", "second"):
        folder = tmp_path_factory.mktemp(name)
        run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT)
        found += folder.glob("*.whl")
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_wheel_is_built_the_same_twice(wheels):
    first, second = (hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels)
    assert first == second


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_plain_install_has_estimator_and_command(wheels, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python, command = (tmp_path / "venv" / "bin" / name for name in ("python", "ngem"))
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    settings = {"cwd": tmp_path, "env": clean}
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheels[0], **settings)
    installed = run(python, "-m", "pip", "list", "--format", "freeze", **settings).lower()
    for extra in ("torch", "lightgbm", "matplotlib", "mkdocs", "pandas"):
        assert f"{extra}==" not in installed
    loaded = run(python, "-c", "import ngem, sys; print(*sys.modules)", **settings).split()
    assert not {"jax", "sklearn", "polars", "typer"} & set(loaded)
    x = np.random.default_rng(0).normal(size=100)
    lines = [f"{value},{2 * value}" for value in x]
    (tmp_path / "table.csv").write_text("\n".join(["x,y", *lines]))
    fit = ("fit", "table.csv", "--target", "y", "--epochs", "2", "--members", "1")
    assert "Model written to table.ngem" in run(command, *fit, **settings)
    assert run(command, "predict", "table.ngem", "table.csv", **settings).startswith("y_mean,y_sd")
    code = "import ngem, numpy; print(len(ngem.load('table.ngem').predict(numpy.ones((3, 1)))))"
    assert run(python, "-c", code, **settings).strip() == "3"
    report = ("report", "table.ngem", "table.csv", "--out", "page.html")
    done = subprocess.run(
        [command, *report], capture_output=True, text=True, check=False, **settings
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith("which is not installed: pip install 'ngem[tables]'.")
