"""The documentation site: its pages exist, its links lead somewhere, and its code runs."""

import importlib.util
import json
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from . import documents
from .documents import DOCS, EPOCHS, ROOT, as_user, run, seeded_torch

PAGES = sorted(DOCS.rglob("*.md"))

# The working directory of a test is its own, and scripts create their output directory.
FEW_EPOCHS = ("--epochs", EPOCHS, "--out", "new")


@pytest.fixture(autouse=True)
def _user(monkeypatch, tmp_path):
    with as_user(monkeypatch, tmp_path):
        yield


def waves(n_rows=300):
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (n_rows, 1))
    return x, rng.choice([-1, 1], n_rows) * np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(n_rows)


def navigation():
    """Return the pages that mkdocs.yml names."""
    text = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    lines = [line for line in text.splitlines() if not line.strip().startswith("#")]
    return re.findall(r"[\w/]+\.md", "\n".join(lines))


def headings(page):
    """Return the anchors of a page, as the table of contents names them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", t).strip().lower()) for t in titles}


def test_the_navigation_names_every_page_once_and_no_other():
    reports = set(DOCS.glob("results/*/report.md"))
    assert sorted(navigation()) == sorted(
        page.relative_to(DOCS).as_posix() for page in PAGES if page not in reports
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_resolve(page):
    text = re.sub(r"<!--.*?-->|^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{page.name} links to {link}, which is not there"
        assert target.is_relative_to(DOCS), f"{page.name} links to {link}, outside the site"
        assert not anchor or anchor in headings(target), f"no heading for {link} in {page.name}"


def test_every_example_is_quoted_on_a_page():
    text = "".join(page.read_text() for page in DOCS.glob("examples/*.md"))
    quoted = set(re.findall(r'^--8<-- "(.*?)"$', text, re.M))
    assert quoted == {f"examples/{path.name}" for path in ROOT.glob("examples/*.py")}


def test_every_name_in_the_reference_exists():
    for page in sorted(DOCS.glob("api/*.md")):
        for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.M):
            if name.startswith("ngem.torch"):
                pytest.importorskip("torch", reason="PyTorch is not installed")
            assert _resolve(name) is not None


def _resolve(name):
    if importlib.util.find_spec(name.rpartition(".")[0]) and _is_module(name):
        return importlib.import_module(name)
    parent, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(parent), attribute)


def _is_module(name):
    parent = importlib.util.find_spec(name.rpartition(".")[0])
    return parent.submodule_search_locations is not None and importlib.util.find_spec(name)


def test_every_report_is_listed_on_the_page_of_results():
    hooks = runpy.run_path(str(DOCS / "site_hooks.py"))
    page = type("Page", (), {"file": type("File", (), {"src_uri": "results/index.md"})})
    config = type("Config", (), {"docs_dir": str(DOCS)})
    text = (DOCS / "results/index.md").read_text()
    markdown = hooks["on_page_markdown"](text, page, config, None)
    links = re.findall(r"\((\w+)/report\.md\)", markdown)
    assert set(links) == {report.parent.name for report in DOCS.glob("results/*/report.md")}
    assert links.index("fig2") < links.index("fig10")


@pytest.mark.slow  # every change runs the README, which has the same fit and the same loops
def test_the_tour_runs(capsys):
    seeded_torch()
    names = run(DOCS / "tour.md", {})
    printed = capsys.readouterr().out
    losses = [float(value) for value in re.findall(r"likelihood (-?\d+\.\d+)", printed)]
    assert len(losses) == 2
    assert max(losses) < 0.6  # one Gaussian: about 1.1
    assert names["model"].diagnostics_["gain_over_gaussian"] > 0
    assert Path("quantiles.png").stat().st_size > 0


def outputs():
    """The script that writes what blocks print, as a module."""
    return SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks/outputs.py")))


def test_every_block_that_prints_is_followed_by_what_it_prints():
    script = outputs()
    for page in (ROOT / "README.md", *DOCS.glob("*.md")):
        name = page.relative_to(ROOT).as_posix()
        for found in script.BLOCK.finditer(page.read_text()):
            if re.search(r"^\s*print\(", found["code"], re.M):
                assert name in script.PAGES
                assert found["output"], f"run benchmarks/outputs.py {name}: {found['code']}"


def test_outputs_are_written_below_their_blocks_and_replaced():
    page = "a\n```python\nx = 3\n```\nb\n```python\nprint(x * x)\n```\nc\n"
    once = outputs().with_outputs(page, {})
    assert once.count("```text") == 1
    assert 'print(x * x)\n```\n\n```text title="Output"\n9\n```\nc\n' in once
    assert outputs().with_outputs(once, {}) == once


def notebook(name):
    """Return a notebook of the site and the script that runs notebooks."""
    script = SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks/notebooks.py")))
    return json.loads((DOCS / f"notebooks/{name}.ipynb").read_text(encoding="utf-8")), script


def kinds_of_outputs(notebook):
    """Return what each cell shows: text, values or pictures."""
    cells = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    return [[output["output_type"] for output in cell["outputs"]] for cell in cells]


def test_the_notebook_on_losses_runs():
    seeded_torch()
    given, script = notebook("swap_one_loss")
    for cell in given["cells"]:
        cell["source"] = [line.replace("steps = 300", "steps = 30") for line in cell["source"]]
    done = script.run(given)
    assert kinds_of_outputs(done) == kinds_of_outputs(given)
    (text,) = [line for line in done["cells"][3]["outputs"][0]["text"] if "after 30 steps" in line]
    losses = [float(value) for value in re.findall(r"-?\d\.\d{3}", text)]
    assert len(losses) == 2
    assert max(losses) < 1.2  # it fell: the start is near 1.25


@pytest.mark.slow
def test_the_notebook_on_tables_runs():
    given, script = notebook("table_to_density")
    assert kinds_of_outputs(script.run(given)) == kinds_of_outputs(given)


def test_notebooks_become_pages_with_their_outputs():
    hooks = SimpleNamespace(**runpy.run_path(str(DOCS / "site_hooks.py")))
    for page in sorted(DOCS.glob("notebooks/*.md")):
        config = SimpleNamespace(docs_dir=str(DOCS))
        text = hooks.on_page_markdown(page.read_text(), None, config, None)
        given, _ = notebook(page.stem)
        shown = sum(map(len, kinds_of_outputs(given)))
        assert shown >= 3
        assert text.count('title="Output"') + text.count("data:image/png") == shown
        assert text.startswith("# ")
    assert {path.stem for path in DOCS.glob("notebooks/*.ipynb")} == {
        path.stem for path in DOCS.glob("notebooks/*.md")
    }


@pytest.mark.slow
@pytest.mark.parametrize("page", ["choosing.md", "troubleshooting.md"])
def test_the_guides_run(page, capsys):
    x, y = waves()
    from ngem import MDNRegressor

    run(DOCS / page, {"x": x, "y": y, "np": np, "MDNRegressor": MDNRegressor})
    printed = capsys.readouterr().out
    if page == "troubleshooting.md":
        assert "training expected finite losses" in printed
        assert re.search(r"^6\.9\d", printed, re.M)


def test_the_page_of_boosted_mixtures_runs(capsys):
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    names = run(DOCS / "boosting.md", {})
    assert np.all(np.isfinite(names["model"].oof_log_prob_))
    assert "quantiles [[" in capsys.readouterr().out


@pytest.mark.slow
def test_the_page_on_streams_runs():
    pl = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    x, y = waves(400)
    rows = pl.DataFrame({"x": x[:, 0], "price": y})
    Path("sales/north").mkdir(parents=True)
    rows.with_row_index("id").write_parquet("sales/north/2024.parquet")
    rows.write_parquet("new.parquet")
    features, prices = rows.select("x").to_pandas(), rows["price"].to_numpy()
    given = {"x": features, "y": prices, "new_x": features, "new_y": prices}
    names = run(DOCS / "streams.md", given)
    assert names["model"].drift_["rows"] == 400


@pytest.mark.slow
def test_the_page_on_serving_runs():
    x, y = waves(400)
    names = run(DOCS / "serving.md", {"X": x, "y": y})
    assert [len(part) for part in names["answers"]] == [1, 2, 300]


@pytest.mark.slow
def test_the_migration_notes_run():
    seeded_torch()
    x, y = waves()
    run(DOCS / "migration.md", {"X": x, "y": y, "X_new": x[:5], "y_new": y[:5]})


@pytest.fixture
def run_script(monkeypatch, capsys):
    """Return a function that runs an example in this process and returns what it prints."""

    def run_script(name, *options):
        monkeypatch.setattr(sys, "argv", [name, *map(str, options)])
        runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
        return capsys.readouterr().out

    return run_script


def numbers(text, pattern):
    return [float(value) for value in re.findall(pattern, text)]


@pytest.mark.slow
def test_inverse_kinematics(run_script):
    printed = run_script("inverse_kinematics.py", *FEW_EPOCHS)
    mean, one = numbers(printed, r"misses by (\d+\.\d+)")
    assert one < mean / 2
    assert Path("new/inverse_kinematics.png").stat().st_size > 10_000


def test_inverse_kinematics_joint_positions():
    """The hand of an arm that is bent by a right angle is at (1, 1)."""
    joints = runpy.run_path(str(ROOT / "examples/inverse_kinematics.py"))["joints"]
    shoulder, elbow, hand = joints(np.array([0.0, np.pi / 2]))
    np.testing.assert_allclose(shoulder, [0, 0])
    np.testing.assert_allclose(elbow, [1, 0])
    np.testing.assert_allclose(hand, [1, 1])


@pytest.mark.slow
@pytest.mark.usefixtures("data_dir")
def test_energy(run_script):
    printed = run_script("energy.py", *FEW_EPOCHS)
    (gain,) = numbers(printed, r"gain over one Gaussian (-?\d+\.\d+)")
    assert gain > 1
    heating, shorter, cooling, again = numbers(printed, r"mean length.* (\d+\.\d+)")
    assert shorter <= heating
    assert again <= cooling
    assert Path("new/energy.png").stat().st_size > 10_000


@pytest.mark.slow
def test_two_sinusoids(run_script, monkeypatch):
    monkeypatch.setattr(documents, "EPOCHS", 60)  # until there are two modes
    options = ("--epochs", 60, "--out", "new", "--objective", "ngem")
    printed = run_script("two_sinusoids.py", *options)
    tails, smallest = numbers(printed, r"length (\d+\.\d+)")
    assert smallest < tails
    assert all(80 < percent < 100 for percent in numbers(printed, r"contains (\d+\.\d+)%"))
    assert Path("new/two_sinusoids_ngem.png").stat().st_size > 10_000


@pytest.mark.parametrize("loss", ["nll", "ngem"])
def test_torch_two_sinusoids(loss, run_script):
    seeded_torch()
    printed = run_script("torch_two_sinusoids.py", "--loss", loss, "--steps", 60)
    losses = numbers(printed, r"likelihood (-?\d+\.\d+)")
    assert losses[-1] < losses[0]


def test_an_example_without_its_data_says_so(run_script, monkeypatch):
    def missing(name):
        from ngem.datasets import DataError

        raise DataError(f"expected the files of {name}, got none; run ngem data fetch {name}.")

    monkeypatch.setattr("ngem.datasets.load_uci", missing)
    with pytest.raises(SystemExit, match="ngem data fetch energy"):
        run_script("energy.py", *FEW_EPOCHS)


SMALL = ("--out", "new", "--epochs", 25)


@pytest.mark.slow
@pytest.mark.usefixtures("data_dir")
@pytest.mark.parametrize(
    ("name", "file", "rows"),
    [
        ("medical_expenses", "medexp.csv", 500),
        ("survival", "rotterdam.csv", 700),
        ("wind_direction", "weather.csv", 700),
    ],
)
def test_examples_of_families(name, file, rows, data_dir, run_script):
    if not (data_dir / "more" / file).exists():
        pytest.skip(f"{file} is missing: it must be in the directory more of NGEM_DATA_DIR")
    pytest.importorskip("polars")
    printed = run_script(f"{name}.py", *SMALL, "--rows", rows)
    assert Path(f"new/{name}.png").stat().st_size > 10_000
    if name == "medical_expenses":
        family, gaussian = numbers(printed, r"below zero: (\d+)%")
        assert family == 0 < gaussian
    elif name == "survival":
        ours, naive, truth = numbers(printed, r": (\d+)%")
        assert abs(ours - truth) < abs(naive - truth)
    else:
        family, gaussian = numbers(printed, r"log density (-\d+\.\d+)")
        assert family > gaussian
