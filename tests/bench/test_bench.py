"""What `ngem bench` measures is what it says; how fast anything is, no test asks."""

import importlib.util
import itertools
import json
import re
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from scipy import stats
from typer.testing import CliRunner

from ngem import training
from ngem.bench import measure, ours, peers, predictions, report, timing, workers
from ngem.bench.rows import ROWS, TABLE10, TWO_SINUSOIDS, Row, Target, choose
from ngem.cli import app
from ngem.datasets import load_uci, random_split
from ngem.repro import spec, two_sinusoids

ROOT = Path(__file__).parents[2]


def run(*arguments):
    return CliRunner().invoke(app, ["bench", *arguments])


def script(name):
    found = importlib.util.spec_from_file_location(name, ROOT / f"benchmarks/{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


# Turns.


def test_turns_alternate_and_keep_their_columns():
    taken = []
    turns = [lambda name=name: taken.append(name) or name for name in (1, 2, 3)]
    found = timing.in_turns(turns, 3)
    assert taken == [1, 2, 3, 3, 2, 1, 1, 2, 3]
    np.testing.assert_array_equal(found, [[1, 2, 3]] * 3)


def test_spread_is_median_and_quartiles():
    assert timing.spread([5, 1, 3, 2, 4]) == (3, 2, 4)


def test_slope_finds_the_exponent():
    sizes = [2, 4, 8, 16]
    assert timing.slope(sizes, [3.0 * size**1.5 for size in sizes]) == pytest.approx(1.5)


class Told(workers.AbstractPool):
    """A pool whose sides say what they were told to."""

    def __init__(self, **said):
        self.said = {name: itertools.cycle(values) for name, values in said.items()}

    def build(self, side, small):
        return lambda **_: next(self.said[side.label])

    def clear(self):
        pass

    def close(self):
        pass


def row(kind, *labels, **more):
    sides = tuple(workers.Side(label, "none:none") for label in labels)
    return Row("a/row", "how", Target("at most", 1.0), sides, kind=kind, repeats=3, **more)


@pytest.mark.parametrize(("kind", "expected"), [("ratio", 0.5), ("speedup", 2.0), ("value", 4.0)])
def test_ratios_pair_neighbours(kind, expected):
    """The machine slows down tenfold midway, and the ratio does not see it."""
    pool = Told(ours=[1.0, 4.0, 10.0], theirs=[2.0, 8.0, 20.0])
    found = measure.measure(row(kind, "ours", "theirs"), pool)
    assert found.value == pytest.approx(expected)
    assert found.parts == {"ours": 4.0, "theirs": 8.0}
    assert found.met is (expected <= 1)


def test_a_goal_that_is_never_reached_is_no_speedup():
    pool = Told(ours=[(None, 2.0)], theirs=[(3.0, 1.0)])
    found = measure.measure(row("reach", "ours", "theirs"), pool)
    assert found.value == 0
    assert "not reached in 4 of 4" in found.note


def test_the_first_fit_counts_as_compiling():
    pool = Told(ours=[(8.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0)], theirs=[(2.0, 1.0)])
    found = measure.measure(row("reach", "ours", "theirs"), pool)
    assert found.value == 2
    assert "with compiling 0.25" in found.note


def test_slopes_use_the_sizes():
    pool = Told(one=[2.0], two=[8.0])
    found = measure.measure(row("slope", "one", "two", sizes=(1, 2)), pool)
    assert found.value == pytest.approx(2)


def test_what_is_not_installed_is_skipped_and_says_so():
    side = workers.Side("theirs", "none:none", needs=("no_such_library",))
    missing = Row("a/row", "how", Target(), (side,), kind="value")
    found = measure.measure(missing, Told())
    assert found.value is None
    assert not found.failed
    assert "no_such_library not installed" in found.note


def test_a_row_that_fails_says_so():
    found = measure.measure(row("value", "ours"), workers.Local())
    assert found.failed
    assert "none" in found.note


def test_targets():
    assert Target("at most", 1.0).met(1.004)
    assert not Target("at most", 1.0).met(1.006)
    assert Target("at least", 8.0).met(8.0)
    assert Target().met(3.0) is None


# Workers.


def test_a_worker_takes_turns_and_tells_what_went_wrong():
    pool = workers.Processes()
    try:
        turn = pool.build(workers.Side("import", "start:bare_import"), {})
        assert 0 < turn() < 120
        with pytest.raises(RuntimeError, match="no_such_function"):
            pool.build(workers.Side("bad", "start:no_such_function"), {})
        pool.clear()
        with pytest.raises(RuntimeError, match="IndexError"):
            turn()
        # A worker that the system ended does not end the others' rows.
        (worker,) = pool._workers.values()
        worker._process.kill()
        worker._process.wait()
        pool.clear()
        assert not pool._workers
    finally:
        pool.close()


# Rows.


def test_rows_are_named_once_and_chosen_by_their_beginning():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert [row.name for row in choose(["step/mnist-3", "start"])] == [
        "step/mnist-3",
        "start/warm",
        "start/cold",
        "start/import",
    ]
    assert len(choose([])) == len(ROWS)
    assert {row.group for row in choose([], smoke=True)} == {row.group for row in ROWS}
    with pytest.raises(ValueError, match="got stp; try one of step, loss"):
        choose(["stp"])


def test_shapes_are_those_of_the_tables(data_dir):
    settings = spec.load("table6").settings
    for name, shape in TABLE10.items():
        found = load_uci(name)
        assert shape["rows"] == len(random_split(len(found.x), 1, test=0.2).train)
        assert (shape["features"], shape["dim"]) == (found.x.shape[1], found.y.shape[1])
        assert shape["batch"] == settings["datasets"][name]["batch_size"]
    assert TWO_SINUSOIDS["hidden"] == two_sinusoids.HIDDEN_SIZES
    assert TWO_SINUSOIDS["rows"] == spec.load("table2").settings["n_points"]


# What the sides compute.


def test_the_products_are_those_of_a_gradient():
    """Without activations, half the squared output has exactly these products as gradient."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 3))
    weights = [rng.standard_normal(shape) for shape in ((4, 3), (6, 4), (2, 6))]

    def half_square(weights):
        out = jnp.asarray(x)
        for weight in weights:
            out = out @ weight.T
        return 0.5 * jnp.sum(out**2)

    expected = jax.grad(half_square)([jnp.asarray(weight) for weight in weights])
    for found, wanted in zip(ours._chain(np.matmul, x, weights), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


@pytest.mark.parametrize("question", ["cdf", "quantile", "crps"])
def test_both_sides_answer_the_same_question(question):
    parts = predictions.draw(6, 4)
    answer, mixture, y = predictions.ours(question, 6, 4)
    expected = [predictions.SCIPY[question](*row) for row in zip(*parts, strict=True)]
    np.testing.assert_allclose(answer(mixture, y), expected, rtol=1e-6)


def test_the_pytorch_side_has_the_likelihood():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    rng = np.random.default_rng(0)
    raw, y = rng.standard_normal((4, 10)), rng.standard_normal((4, 2))
    nll = peers._torch_nll(lambda x: x, 2, 2)(torch.as_tensor(raw), torch.as_tensor(y))
    mean, log_scale = raw[:, 2:6].reshape(4, 2, 2), raw[:, 6:].reshape(4, 2, 2)
    density = stats.norm.pdf(y[:, None], mean, np.exp(log_scale)).prod(axis=-1)
    weights = np.exp(raw[:, :2]) / np.exp(raw[:, :2]).sum(axis=1, keepdims=True)
    assert float(nll) == pytest.approx(-np.log((weights * density).sum(axis=1)).mean(), rel=1e-6)


def test_distinct_conditions_do_not_repeat():
    """The side without repeated conditions must not be seen as having them."""
    found = []
    for distinct in (False, True):
        x, y = map(jnp.asarray, ours.noise(50, 3, 1, labels=3, distinct=distinct))
        found.append(training.condense(training.Data(x, y), 25))
    assert [data.condition is None for data in found] == [False, True]
    assert len(found[0].x) == 3


@pytest.mark.parametrize("question", ["cdf", "quantile"])
def test_skpro_answers_the_same_question(question):
    pytest.importorskip("skpro", reason="skpro is not installed")
    parts = predictions.draw(6, 4)
    expected = [predictions.SCIPY[question](*row) for row in zip(*parts, strict=True)]
    found = np.asarray(predictions.skpro(question, 6, 4)(), float)
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-5)


def test_answers_in_single_precision_agree_too():
    parts = predictions.draw(6, 4)
    for question, tolerance in (("cdf", 1e-5), ("quantile", 1e-4), ("crps", 1e-4)):
        answer, mixture, y = predictions.ours(question, 6, 4)
        mixture, y = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (mixture, y))
        expected = [predictions.SCIPY[question](*row) for row in zip(*parts, strict=True)]
        np.testing.assert_allclose(answer(mixture, y), expected, rtol=tolerance)


# The command.


@pytest.mark.trains
@pytest.mark.filterwarnings("default")  # of the libraries that are measured
def test_a_smoke_run_goes_through(tmp_path, hasty_compiler):
    out = tmp_path / "bench.json"
    result = run("--smoke", "--out", str(out))
    assert result.exit_code == 0, result.output
    saved = json.loads(out.read_text())
    assert saved["smoke"]
    assert [row["name"] for row in saved["rows"]] == [row.name for row in choose([], smoke=True)]
    for found in saved["rows"]:
        assert found["value"] is not None or found["note"].startswith("skipped"), found
        assert found["met"] is None
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
    # Facts of the machine, not of whose it is.
    assert str(Path.home()) not in out.read_text()
    assert set(saved["machine"]) == {
        "cores",
        "processor",
        "memory_gb",
        "system",
        "python",
        "load_at_start",
    }
    shown = run("--show", str(out))
    assert shown.exit_code == 0
    for found in saved["rows"]:
        assert f"| {found['name']} | {found['target']} |" in shown.output


def test_bad_names_and_files_are_refused(tmp_path):
    result = run("nothing")
    assert result.exit_code == 1
    assert "expected names of rows, got nothing" in result.output
    (tmp_path / "other.json").write_text("[]")
    result = run("--show", str(tmp_path / "other.json"))
    assert result.exit_code == 1
    assert "expected a table that ngem bench" in result.output


def table(smoke=False, **rows):
    return {
        "smoke": smoke,
        "rows": [
            {"name": name, "value": None if values is None else np.median(values), "values": values}
            for name, values in rows.items()
        ],
        "machine": {"cores": 2, "processor": "one", "load_at_start": 0.1},
        "versions": {},
    }


def test_compare_tells_what_moved(tmp_path, monkeypatch, capsys):
    near = [0.9, 0.95, 1.0, 1.0, 1.05, 1.1]
    old = table(same=near, slower=near, never=[0.0] * 6, gone=[1.0])
    new = table(
        same=[value + 0.05 for value in near],
        slower=[value + 0.3 for value in near],
        never=[2.0] * 6,
        skipped=None,
    )
    for name, content in (("old", old), ("new", new)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    files = [str(tmp_path / f"{name}.json") for name in ("old", "new")]
    monkeypatch.setattr("sys.argv", ["compare.py", *files])
    script("compare").main()
    printed = capsys.readouterr().out
    assert "slower: 1 -> 1.3 (+30%)" in printed
    assert "same:" not in printed
    assert "never: 0 -> 2\n" in printed
    assert "2 of 3 rows moved" in printed
    assert "in one table only: gone" in printed
    with pytest.raises(SystemExit, match="smoke run"):
        script("compare").compare(old, table(smoke=True))


def test_compare_is_seldom_alarmed_by_noise():
    rng = np.random.default_rng(0)
    old, new = (
        table(**{str(n): list(1 + 0.1 * rng.standard_normal(5 + n % 11)) for n in range(400)})
        for _ in range(2)
    )
    changes, _ = script("compare").compare(old, new)
    assert sum(change.moved for change in changes) < 8


def test_the_page_shows_the_committed_run():
    page = (ROOT / "docs/performance.md").read_text()
    between = re.search(r"<!-- bench -->\n(.*)<!-- /bench -->", page, re.S).group(1)
    committed = ROOT / "docs/results/bench.json"
    if committed.exists():
        assert between.strip() == report.as_markdown(report.load(committed)).strip()
    else:
        assert not between.strip()
    for row in ROWS:
        assert f"| `{row.group}` |" in page


@pytest.mark.trains
def test_rows_measured_before_may_be_kept(tmp_path):
    out = tmp_path / "bench.json"
    bench = partial(report.bench, smoke=True, out=out, console=Console(quiet=True), keep=True)
    assert bench(["loss/K=3,D=1"])
    assert bench(["loss/K=1,D=1"])
    found = json.loads(out.read_text())
    assert [row["name"] for row in found["rows"]] == ["loss/K=1,D=1", "loss/K=3,D=1"]
    found["versions"]["jax"] = "0.0.1"
    out.write_text(json.dumps(found))
    with pytest.raises(ValueError, match=r"these versions, got another jax; leave --keep out"):
        bench(["loss/K=1,D=1"])
    assert json.loads(out.read_text()) == found
    with pytest.raises(ValueError, match=r"--keep needs a saved table .* got no --out"):
        bench(["loss/K=1,D=1"], out=None)
