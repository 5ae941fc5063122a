"""The package as users get it: its version, and a wheel in an empty environment."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
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
def built(tmp_path_factory):
    """Wheel and source archive of two copies of the source, of different times and permissions."""
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv/bin/python"
    run(python, "-m", "pip", "install", "-q", "hatchling")
    leave_out = shutil.ignore_patterns(".git", ".venv", "out", ".*_cache", "__pycache__")
    found = []
    for number in range(2):
        copy, out = folder / f"copy{number}", folder / f"dist{number}"
        shutil.copytree(ROOT, copy, ignore=leave_out)
        for path in copy.rglob("*.py"):
            os.utime(path, (1e9 + 1e6 * number,) * 2)
            path.chmod(0o600 if number else 0o664)
        run(python, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", out, cwd=copy)
        found.append(sorted(out.iterdir()))
    return found


@pytest.fixture(scope="module")
def wheel(built):
    return next(path for path in built[0] if path.suffix == ".whl")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_wheel_and_source_are_built_the_same_twice(built):
    first, second = built
    assert [path.name for path in first] == [path.name for path in second]
    assert {path.suffix for path in first} == {".gz", ".whl"}
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_has_what_reports_need(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for name in ("page.html", "page.css", "page.js", "vendor/uplot.js", "vendor/LICENSE"):
        assert f"ngem/tables/report/{name}" in names
    assert sum(name.endswith("LICENSE") and "licenses" in name for name in names) == 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_plain_install_has_estimator_and_command(wheel, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python, command = (tmp_path / "venv" / "bin" / name for name in ("python", "ngem"))
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    settings = {"cwd": tmp_path, "env": clean}
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, **settings)
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
