"""What the documents show, runs."""

import doctest
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


@pytest.fixture(autouse=True)
def _settings_of_a_user():
    """Documents are written for JAX as it comes, in float32."""
    with (
        jax.enable_x64(False),
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
    ):
        yield


@pytest.mark.parametrize("index", range(len(BLOCKS)))
def test_readme_runs(index, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    if "import torch" in BLOCKS[index]:
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        torch.manual_seed(0)
    names = {}
    exec(BLOCKS[index], names)
    printed = capsys.readouterr().out
    if "negative log-likelihood" in BLOCKS[index]:
        assert float(printed.split()[-1]) < 0.6


@pytest.mark.parametrize("name", DOCTESTS)
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(f"ngem.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", ["_head", "_losses", "_mixture", "_schedule"])
def test_docstring_examples_for_pytorch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    module = importlib.import_module(f"ngem.torch.{name}")
    result = doctest.testmod(module, extraglobs={"torch": torch})
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("loss", ["nll", "ngem"])
def test_the_pytorch_example_learns(loss):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    done = subprocess.run(
        [sys.executable, ROOT / "examples/torch_two_sinusoids.py", "--loss", loss, "--steps", "60"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [float(number) for number in re.findall(r"likelihood (-?\d+\.\d+)", done.stdout)]
    assert found[-1] < found[0]


def test_the_natural_gradient_is_not_a_second_pass():
    """The committed counts are those of a fresh run, and far from the 2 of a second pass."""
    spec = importlib.util.spec_from_file_location("counts", ROOT / "benchmarks/operation_counts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    committed = json.loads((ROOT / "docs/results/operation_counts.json").read_text())
    page = (ROOT / "docs/costs.md").read_text()
    for label, (n_components, dim) in module.SHAPES.items():
        for name, row in committed["counts"][label].items():
            assert f"| {name} | {row['flops']:,.0f} |" in page
        nll = module.count(module.NLL(), n_components, dim)
        ngem = module.count(module.NGEM(), n_components, dim)
        assert ngem["flops"] < 1.4 * nll["flops"]
        if committed["jax"] == jax.__version__:
            assert ngem == committed["counts"][label]["ngem"]


def test_the_pytorch_losses_cost_what_the_page_says():
    committed = json.loads((ROOT / "docs/results/torch_loss.json").read_text())
    page = (ROOT / "docs/torch.md").read_text()
    for mode, target in committed["targets"].items():
        for label, found in committed[mode].items():
            assert found["ngem"]["ratio"] <= target
            assert f"| {mode} | {label} | ngem | {found['ngem']['ratio']:.2f} |" in page
