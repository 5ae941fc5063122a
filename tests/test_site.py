"""The documentation site: its pages exist, its links lead somewhere, and its code runs."""

import importlib.util
import re
import runpy
import sys
from pathlib import Path

import jax
import matplotlib as mpl
import numpy as np
import pytest

from ngem.estimator import parameters

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

# Long enough to learn something, short enough for a test.
EPOCHS = 10


@pytest.fixture(autouse=True)
def _a_user_in_a_hurry(monkeypatch, tmp_path):
    """JAX as it comes, in float32, and few epochs where a page leaves their number open."""
    whole = parameters.max_epochs
    monkeypatch.setattr(parameters, "max_epochs", lambda *given: min(EPOCHS, whole(*given)))
    monkeypatch.chdir(tmp_path)
    with (
        jax.enable_x64(False),
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
        mpl.rc_context({"backend": "agg"}),
    ):
        yield


def blocks(name):
    """Return the Python of a page."""
    return re.findall(r"^```python\n(.*?)^```", (DOCS / name).read_text(), re.S | re.M)


def run(name, names):
    """Run the page's blocks in order, as a reader would."""
    assert blocks(name)
    for block in blocks(name):
        exec(compile(block, name, "exec"), names)
    return names


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
    home, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(home), attribute)


def _is_module(name):
    home = importlib.util.find_spec(name.rpartition(".")[0])
    return home.submodule_search_locations is not None and importlib.util.find_spec(name)


def test_every_report_is_listed_on_the_page_of_results():
    hooks = runpy.run_path(str(DOCS / "site_hooks.py"))
    page = type("Page", (), {"file": type("File", (), {"src_uri": "results/index.md"})})
    config = type("Config", (), {"docs_dir": str(DOCS)})
    text = (DOCS / "results/index.md").read_text()
    made = hooks["on_page_markdown"](text, page, config, None)
    links = re.findall(r"\((\w+)/report\.md\)", made)
    assert set(links) == {report.parent.name for report in DOCS.glob("results/*/report.md")}
    assert links.index("fig2") < links.index("fig10")


def test_the_tour_runs(capsys):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    names = run("index.md", {})
    printed = capsys.readouterr().out
    losses = [float(value) for value in re.findall(r"likelihood (-?\d+\.\d+)", printed)]
    assert len(losses) == 2
    assert max(losses) < 0.6  # one Gaussian: about 1.1
    assert names["model"].diagnostics_["gain_over_gaussian"] > 0
    assert Path("quantiles.png").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.parametrize("page", ["choosing.md", "troubleshooting.md"])
def test_the_guides_run(page, capsys):
    x, y = waves()
    from ngem import MDNRegressor

    run(page, {"x": x, "y": y, "np": np, "MDNRegressor": MDNRegressor})
    printed = capsys.readouterr().out
    if page == "troubleshooting.md":
        assert "training expected finite losses" in printed
        assert re.search(r"^6\.9\d", printed, re.M)


@pytest.mark.slow
def test_the_migration_notes_run():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.manual_seed(0)
    x, y = waves()
    run("migration.md", {"X": x, "y": y, "X_new": x[:5], "y_new": y[:5]})


def example(name, tmp_path, monkeypatch, capsys, *options):
    """Run a script as a user would, in this process, and return what it printed."""
    arguments = [name, "--epochs", str(EPOCHS), "--out", str(tmp_path / "new"), *options]
    monkeypatch.setattr(sys, "argv", arguments)
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    return capsys.readouterr().out


def numbers(text, pattern):
    return [float(value) for value in re.findall(pattern, text)]


def test_inverse_kinematics(tmp_path, monkeypatch, capsys):
    printed = example("inverse_kinematics.py", tmp_path, monkeypatch, capsys)
    mean, one = numbers(printed, r"misses by (\d+\.\d+)")
    assert one < mean / 2
    assert (tmp_path / "new/inverse_kinematics.png").stat().st_size > 10_000


def test_inverse_kinematics_knows_where_the_hand_is():
    """By the law of cosines, on the arm whose elbow is bent by a right angle."""
    joints = runpy.run_path(str(ROOT / "examples/inverse_kinematics.py"))["joints"]
    shoulder, elbow, hand = joints(np.array([0.0, np.pi / 2]))
    np.testing.assert_allclose(shoulder, [0, 0])
    np.testing.assert_allclose(elbow, [1, 0])
    np.testing.assert_allclose(hand, [1, 1])


def test_energy(tmp_path, monkeypatch, capsys, data_dir):
    printed = example("energy.py", tmp_path, monkeypatch, capsys)
    (gain,) = numbers(printed, r"gain over one Gaussian (-?\d+\.\d+)")
    assert gain > 1
    heating, shorter, cooling, again = numbers(printed, r"mean length.* (\d+\.\d+)")
    assert shorter <= heating
    assert again <= cooling
    assert (tmp_path / "new/energy.png").stat().st_size > 10_000


@pytest.mark.slow
def test_two_sinusoids(tmp_path, monkeypatch, capsys):
    printed = example("two_sinusoids.py", tmp_path, monkeypatch, capsys, "--objective", "ngem")
    tails, smallest = numbers(printed, r"length (\d+\.\d+)")
    assert smallest < tails
    assert all(80 < share < 100 for share in numbers(printed, r"holds (\d+\.\d+)%"))
    assert (tmp_path / "new/two_sinusoids_ngem.png").stat().st_size > 10_000


def test_an_example_without_its_data_says_so(tmp_path, monkeypatch, capsys):
    def missing(name):
        from ngem.datasets import DataError

        raise DataError(f"expected the files of {name}, found none; run ngem data fetch {name}.")

    monkeypatch.setattr("ngem.datasets.load_uci", missing)
    with pytest.raises(SystemExit, match="ngem data fetch energy"):
        example("energy.py", tmp_path, monkeypatch, capsys)
