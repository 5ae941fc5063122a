"""The code in README and docstrings runs, and the costs that pages state are true."""

import doctest
import importlib
import json
import re
import subprocess
import sys

import jax
import pytest

from .cases import slow_but
from .documents import ROOT, as_user, blocks, seeded_torch

README = blocks(ROOT / "README.md")
#: Every change runs the page of boosted mixtures and the laws of the losses in loops instead.
LONG = ("trees.predict_interval", "import torch", "import equinox", "equinox as eqx")
PACKAGE = ROOT / "src/ngem"


@pytest.fixture(autouse=True)
def _user(monkeypatch, tmp_path):
    with as_user(monkeypatch, tmp_path):
        yield


def modules_with_examples():
    """Return the names of modules whose docstrings contain examples."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if ">>> " in path.read_text():
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            yield ".".join(part for part in parts if part != "__init__")


def benchmark(name):
    """Return a script of `benchmarks/` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"benchmarks/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "block",
    slow_but(README, *(b for b in README if not any(text in b for text in LONG))),
    ids=lambda block: block.split("\n")[0],
)
def test_readme_runs(block, capsys):
    if "import torch" in block:
        seeded_torch()
    exec(block, {})
    printed = capsys.readouterr().out
    if "negative log-likelihood" in block:
        assert float(printed.split()[-1]) < 0.6  # one Gaussian: about 1.1


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_docstring_examples(name):
    names = {"torch": seeded_torch()} if name.startswith("ngem.torch") else {}
    result = doctest.testmod(importlib.import_module(name), extraglobs=names)
    assert result.attempted > 0
    assert result.failed == 0


def test_the_natural_gradient_is_not_a_second_pass():
    """The committed counts are those of a fresh run, and far from the 2 of a second pass."""
    module = benchmark("operation_counts")
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


#: Levels of quantiles and intervals, which are settings and no results.
SETTINGS = {"5%", "90%", "95%"}


def test_pages_of_examples_quote_what_the_scripts_printed():
    """A block for each run, and no figure in a sentence that no script printed."""
    module = benchmark("examples")
    committed = json.loads(module.RESULT.read_text())
    assert list(committed) == list(module.RUNS)
    figure = r"\d+\.\d+%?|\d+%"
    printed = {number for lines in committed.values() for number in re.findall(figure, str(lines))}
    for name in set(module.RUNS.values()):
        page = (ROOT / "docs/examples" / name).read_text()
        for command in (command for command in committed if module.RUNS[command] == name):
            assert command in page
            assert module.quote(committed[command]) in page
        sentences = "\n".join(line for line in page.splitlines() if not line.startswith("    "))
        assert set(re.findall(figure, sentences)) <= printed | SETTINGS


def elements_written(loss, inputs):
    """Return how many numbers PyTorch writes to memory for a loss and its gradients."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    written = []

    class Counter(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            result = operation(*args, **(kwargs or {}))
            if not operation.is_view:
                written.extend(leaf.numel() for leaf in tree_leaves(result))
            return result

    with Counter():
        loss(*inputs).backward()
    return sum(written)


@pytest.mark.parametrize(("shape", "most"), [("K = 3, D = 1", 1.0), ("K = 20, D = 784", 0.5)])
def test_the_closed_form_saves_memory_traffic_in_pytorch(shape, most, monkeypatch):
    """The counts behind the ratios of docs/torch.md, which are times and do not repeat exactly."""
    seeded_torch()
    module = benchmark("torch_loss")
    monkeypatch.setattr(module, "BATCH", 8)
    n_components, dim, _ = module.SHAPES[shape]
    plain, ngem = (
        elements_written(module.LOSSES[name], module.inputs(n_components, dim))
        for name in ("plain nll", "ngem")
    )
    assert ngem < most * plain


def test_the_page_of_scale_quotes_the_committed_figures():
    module = benchmark("processes")
    committed = json.loads((ROOT / "docs/results/processes.json").read_text())
    page = (ROOT / "docs/scale.md").read_text()
    assert committed["model"] == module.model_table()
    for name, row in committed["model"]["at 80% busy"].items():
        hosts, size = re.findall(r"\d\S*", name)
        seconds, each, all_rows = row.values()
        cells = f"{hosts} | {float(size):,.0f} | {seconds:g} | {each:,.0f} | {all_rows:,.0f}"
        assert f"| {cells} |" in page
    for group, shapes in committed["groups"].items():
        for shape, found in shapes.items():
            ratios = f"{found['alone / mesh']:.2f} | {found['alone / (part + sum)']:.2f}"
            assert f"| {group} | {shape} | {ratios} |" in page
            assert found["sums of a step"] == 1
            assert (
                6
                < found["flops of a step"]
                / found["parameters"]
                / int(shape.split()[-1].replace(",", ""))
                < 6.6
            )


@pytest.mark.slow
def test_the_script_that_measures_processes_goes_through(tmp_path):
    words = [sys.executable, ROOT / "benchmarks/processes.py", "--smoke", "--turns", "1"]
    out = tmp_path / "processes.json"
    subprocess.run([*words, "--out", out], check=True, capture_output=True)
    (group,) = json.loads(out.read_text())["groups"].values()
    assert group["8, batch 16"]["sums of a step"] == 1
