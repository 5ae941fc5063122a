"""`ngem fit`, `predict`, `evaluate` and `tune`, as a user runs them."""

import html
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.stats
import scoringrules
from typer.testing import CliRunner

from ngem import MDNRegressor, _files
from ngem.cli import app
from ngem.estimator.prediction import Model
from ngem.tables import commands as table_commands
from ngem.tables import read as tables
from ngem.tables import scores as table_scores
from ngem.tables import tune as tuning
from ngem.training import FitError, Progress

from .test_read import FullDisk

pytestmark = pytest.mark.trains

TINY = ("--epochs", "2", "--hidden", "4", "-k", "2")
LEARN = ("--target", "price", "--exclude", "id", *TINY)


def run(*arguments):
    arguments = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def succeed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refuse(*arguments, code=1):
    """Return what a failing command says: one paragraph on standard error."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.stderr
    return result.stderr


def diverged():
    """Return the error of a fit that diverged, without what it had learned until then."""
    return FitError.__new__(FitError, "Steps were not finite.")


def make_table(n_rows, seed):
    rng = np.random.default_rng(seed)
    size, place = rng.uniform(1, 5, n_rows), rng.choice(["north", "south"], n_rows)
    price = 1000 + 50 * size + 30 * (place == "north") + rng.standard_normal(n_rows)
    return pd.DataFrame({"id": np.arange(n_rows), "size": size, "place": place, "price": price})


@pytest.fixture(scope="module", name="here")
def _here(tmp_path_factory):
    """A directory with train.csv, test.csv and model.ngem."""
    here = tmp_path_factory.mktemp("tables")
    make_table(120, 0).to_csv(here / "train.csv", index=False)
    make_table(40, 1).to_csv(here / "test.csv", index=False)
    with jax.numpy_dtype_promotion("standard"):  # set up before the mark takes effect
        result = succeed("fit", here / "train.csv", *LEARN, "--out", here / "model.ngem")
    (here / "said.txt").write_text(result.stdout)
    return here


def encoded(frame):
    north = frame["place"] == "north"
    return np.column_stack([frame["size"], north, ~north]).astype(float)


def test_fit_says_what_it_did(here):
    said = (here / "said.txt").read_text()
    for line in (
        "Table:    train.csv, 120 rows",
        "Features: 2 columns (1 of numbers, 1 of categories), 3 inputs of the network",
        "Targets:  price",
        "Split:    108 rows to learn from, 12 held out to stop in time and to judge by (seed 0)",
        "On the 12 validation rows:",
        "(negative is fine: it is a log density)",
        "gain over one Gaussian",
        "gain over plain least squares",
        "calibration",
        f"Model written to {here / 'model.ngem'}",
    ):
        assert line in said


def test_the_summary_in_json_agrees_with_python(here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ("fit", here / "train.csv", "--target", "price", "--features", "size,place", *TINY)
    found = json.loads(succeed(*command, "--json").stdout)
    model = MDNRegressor.load(tmp_path / "train.ngem")  # the default name
    scale = model.diagnostics_["target_scale"][0]
    scores = found["scores"]
    assert scores["nll"] - scores["nll_standardised"] == pytest.approx(np.log(scale))
    best = np.min(model.history_["validation_nll"])
    assert scores["nll_standardised"] == pytest.approx(best, abs=1e-3)
    assert found["validation_rows"] == scores["rows"] == 12
    assert found["features"] == {"size": "number", "place": "category"}
    assert found["effective_components"] == model.diagnostics_["effective_components"]


def test_evaluate_agrees_with_other_libraries(here):
    found = json.loads(succeed("evaluate", here / "model.ngem", here / "test.csv", "--json").stdout)
    frame = pd.read_csv(here / "test.csv")
    x, y = encoded(frame), frame["price"].to_numpy()
    mixture = MDNRegressor.load(here / "model.ngem").predict_distribution(x)
    weights = np.asarray(mixture.weights)
    mean, scale = (np.asarray(part)[..., 0] for part in mixture.components)
    density = np.sum(weights * scipy.stats.norm.pdf(y[:, None], mean, scale), axis=1)
    pit = np.sum(weights * scipy.stats.norm.cdf(y[:, None], mean, scale), axis=1)
    crps = scoringrules.crps_mixnorm(y, mean, scale, weights)
    told = found["targets"]["price"]
    assert found["rows"] == 40
    assert found["nll"] == pytest.approx(-np.mean(np.log(density)), rel=1e-4)
    assert told["crps"] == pytest.approx(np.mean(crps), rel=1e-4)
    errors = np.sum(weights * mean, axis=1) - y
    assert told["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-4)
    assert told["coverage"]["0.9"] == np.mean((pit >= 0.05) & (pit <= 0.95))
    test = scipy.stats.kstest(pit, "uniform")
    assert told["pit_p_value"] == pytest.approx(test.pvalue, abs=1e-2)
    said = succeed("evaluate", here / "model.ngem", here / "test.csv").stdout
    assert f"RMSE {told['rmse']:.4g}" in said


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_predictions_are_those_of_python(suffix, here, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BATCH", 16)  # three batches
    out = tmp_path / f"predicted{suffix}"
    options = ("--quantiles", "0.1,0.5", "--interval", "0.8", "--samples", "2", "--keep", "id")
    succeed("predict", here / "model.ngem", here / "test.csv", *options, "--out", out)
    found = {
        ".csv": pd.read_csv,
        ".tsv": lambda path: pd.read_csv(path, sep="\t"),
        ".parquet": pd.read_parquet,
    }[suffix](out)
    model, x = MDNRegressor.load(here / "model.ngem"), encoded(pd.read_csv(here / "test.csv"))
    assert list(found["id"].astype(int)) == list(range(40))
    np.testing.assert_allclose(found["price_mean"], model.predict(x), rtol=1e-6)
    quantiles = model.predict_quantiles(x, [0.1, 0.5, 0.9])
    names = ["price_q0.1", "price_q0.5", "price_upper0.8"]
    np.testing.assert_allclose(found[names], quantiles, rtol=1e-6)
    np.testing.assert_array_equal(found["price_lower0.8"], found["price_q0.1"])
    draws = found[["price_sample1", "price_sample2"]].to_numpy()
    assert len(np.unique(draws)) == 80
    assert list(tmp_path.iterdir()) == [out]


def test_predictions_go_to_standard_output(here):
    command = ("predict", here / "model.ngem", here / "test.csv", "--quantiles", "")
    result = succeed(*command)
    frame = pl.read_csv(result.stdout.encode())
    assert frame.columns == ["price_mean"]
    assert len(frame) == 40
    assert "40 rows" in result.stderr
    quiet = succeed(*command, "--quiet")
    assert (quiet.stdout, quiet.stderr) == (result.stdout, "")


def test_regions_come_in_pieces(here, monkeypatch):
    """Two targets, three pieces: each end has its column, and a piece that is not there is NaN."""
    regions = np.arange(5 * 2 * 3 * 2, dtype=float).reshape(5, 2, 3, 2)
    monkeypatch.setattr(Model, "interval", lambda *_: regions)
    model = MDNRegressor.load(here / "model.ngem").model_
    names, ends = table_commands._interval(model, np.zeros((5, 3)), 0.9, "hdr")
    assert names == [f"{side}0.9_{piece}" for piece in (1, 2, 3) for side in ("lower", "upper")]
    np.testing.assert_array_equal(ends[4, names.index("upper0.9_2")], regions[4, :, 1, 1])


def test_rows_with_gaps_stay_in_their_place(here, tmp_path):
    data = tmp_path / "gaps.csv"
    data.write_text("size,place,price\n1,north,1000\n,north,1100\n3,moon,1200\n4,south,1250\n")
    said = refuse("predict", here / "model.ngem", data, "--out", tmp_path / "out.csv")
    assert "'size'" in said
    assert "row 2" in said
    assert not (tmp_path / "out.csv").exists()
    command = ("predict", here / "model.ngem", data, "--missing", "drop")
    result = succeed(*command, "--out", tmp_path / "out.csv", "--json")
    assert json.loads(result.stdout)["empty_rows"] == 2
    assert list(pd.read_csv(tmp_path / "out.csv")["price_mean"].isna()) == [
        False,
        True,
        True,
        False,
    ]
    assert "fitted with --missing impute" in refuse(*command[:-1], "impute")
    found = json.loads(
        succeed("evaluate", here / "model.ngem", data, "--missing", "drop", "--json").stdout
    )
    assert (found["rows"], found["dropped_rows"]) == (2, 2)


def test_gaps_are_imputed_where_the_model_learned_it(here, tmp_path):
    frame = pd.read_csv(here / "train.csv")
    frame.loc[::10, "size"] = np.nan
    frame.loc[0, "price"] = np.nan
    frame.to_parquet(tmp_path / "train.parquet")
    out = tmp_path / "model.ngem"
    command = ("fit", tmp_path / "train.parquet", "--target", "price", "--missing", "impute")
    found = json.loads(succeed(*command, *TINY, "--json", "--out", out, "--max-rows", "60").stdout)
    assert found["rows"] == 120
    assert found["used_rows"] + found["dropped_rows"] == 60
    (tmp_path / "new.csv").write_text("id,size,place\n1,,north\n2,2,moon\n")
    result = succeed("predict", out, tmp_path / "new.csv", "--quantiles", "")
    assert pl.read_csv(result.stdout.encode())["price_mean"].is_finite().all()


def test_several_targets_and_options(here, tmp_path):
    options = ("--covariance", "logistic", "--objective", "nll", "--seed", "3", "--quiet")
    command = ("fit", here / "train.csv", "--target", "price,size", *TINY, *options)
    assert succeed(*command, "--out", tmp_path / "model").output == ""
    model = MDNRegressor.load(tmp_path / "model")
    assert (model.covariance, model.objective, model.n_components) == ("logistic", "nll", 2)
    assert model.table_ is not None
    assert model.table_.targets == ("price", "size")
    found = json.loads(succeed("evaluate", tmp_path / "model", here / "test.csv", "--json").stdout)
    assert list(found["targets"]) == ["price", "size"]


BAD = [
    (("fit", "none.csv", "--target", "price"), "nothing there"),
    (("fit", "train.csv", "--target", "prise"), "did you mean 'price'"),
    (("fit", "train.csv", "--target", "place"), "'place' .*must hold numbers, got text"),
    (("fit", "train.csv", "--target", "price", "--missing", "guess"), "--missing must be one of"),
    (("fit", "train.csv", "--target", "price", "--hidden", "a"), "--hidden must be whole numbers"),
    (("fit", "train.csv", "--target", "price", "--covariance", "x"), "covariance must be one of"),
    (("fit", "train.csv", "--target", "price", "--out", "no/where"), "mkdir -p 'no'"),
    (("fit", "train.csv", "--target", "price", "--out", "train.csv"), "'train.csv', which is read"),
    (("predict", "none.ngem", "test.csv"), "`ngem fit` writes one"),
    (("predict", "model.ngem", "test.csv", "--out", "test.csv"), "'test.csv', which is read"),
    (("predict", "train.csv", "test.csv"), "written by ngem"),
    (("predict", "model.ngem", "test.csv", "--quantiles", "5"), "between 0 and 1"),
    (("predict", "model.ngem", "test.csv", "--quantiles", "a"), "--quantiles must be numbers"),
    (("predict", "model.ngem", "test.csv", "--kind", "a"), "--kind must be one of"),
    (("predict", "model.ngem", "test.csv", "--out", "a.txt"), "suffix"),
    (("predict", "model.ngem", "test.csv", "--keep", "sise"), "did you mean 'size'"),
    (("predict", "model.ngem", "test.csv", "--json"), "add --out"),
    (("predict", "model.ngem", "test.csv", "--keep", "price_mean"), "name that no prediction has"),
    (("evaluate", "model.ngem", "none.csv"), "nothing there"),
    (("report", "model.ngem", "none.csv"), "nothing there"),
    (("report", "model.ngem", "bare.csv"), "rows below its header"),
    (("report", "model.ngem", "test.csv", "--out", "test.csv"), "'test.csv', which is read"),
    (("tune", "train.csv", "--target", "price", "--budget", "soon"), "--budget must be"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_gives_one_paragraph_and_no_file(arguments, message, here, monkeypatch):
    monkeypatch.chdir(here)
    (here / "bare.csv").write_text("id,size,place,price\n")
    if "price_mean" in arguments:
        frame = pd.read_csv("test.csv").assign(price_mean=0)
        frame.to_csv("named.csv", index=False)
        arguments = [{"test.csv": "named.csv"}.get(word, word) for word in arguments]
    before = sorted(here.iterdir())
    assert re.search(message, refuse(*arguments))
    assert sorted(here.iterdir()) == before


def test_a_report_names_rows_as_the_file_does(here, tmp_path):
    frame = pd.read_csv(here / "test.csv")
    frame.loc[3, "size"] = np.nan
    frame.loc[9, "price"] = 1e5
    frame.to_csv(tmp_path / "rows.csv", index=False)
    out = tmp_path / "page.html"
    arguments = ("report", here / "model.ngem", tmp_path / "rows.csv", "--missing", "drop")
    found = json.loads(succeed(*arguments, "--out", out, "--json").stdout)
    assert found == {"report": str(out), "rows": 39}
    page = out.read_text()
    worst = re.search(r"surprise the model.*?<tbody><tr><th scope=\"row\">(\d+)<", page)
    assert worst is not None
    assert worst[1] == "10"
    command = re.search(r"<pre><code>(ngem fit .*?)</code>", page)
    assert command is not None
    repeated = tmp_path / "again.ngem"
    succeed(*shlex.split(html.unescape(command[1]))[1:], "--out", repeated)
    mine, theirs = (MDNRegressor.load(path) for path in (here / "model.ngem", repeated))
    np.testing.assert_array_equal(mine.history_["train_nll"], theirs.history_["train_nll"])


def test_a_report_of_some_rows_of_a_large_file(here, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "ngem.html_report.make_report", lambda _, table, **__: seen.append(table.numbers) or "page"
    )
    arguments = ("report", here / "model.ngem", here / "test.csv", "--out", tmp_path / "page.html")
    for seed in (0, 0, 1):
        succeed(*arguments, "--max-rows", "30", "--seed", str(seed))
    succeed(*arguments, "--max-rows", "1000")
    assert [len(set(numbers)) for numbers in seen] == [30, 30, 30, 40]
    np.testing.assert_array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[0], seen[2])


def test_tables_do_not_need_what_only_draws():
    code = "import sys, ngem.table_commands; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_completion_knows_the_commands():
    words = {"_NGEM_COMPLETE": "complete_bash", "COMP_WORDS": "ngem ev", "COMP_CWORD": "1"}
    code = "from ngem.cli import app; app(prog_name='ngem')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | words, capture_output=True, text=True
    )
    assert done.stdout.split() == ["evaluate"]


def test_few_rows(tmp_path):
    data = tmp_path / "few.csv"
    data.write_text("a,b\n1,2\n")
    assert "at least two rows" in refuse("fit", data, "--target", "b")
    data.write_text("a,b\n1,2\n2,3\n3,5\n")
    assert "too few to hold some out" in refuse("tune", data, "--target", "b", "--quiet")
    result = succeed("fit", data, "--target", "b", *TINY, "--out", tmp_path / "model")
    assert "On the 3 training rows" in result.stdout
    model = MDNRegressor.load(tmp_path / "model")
    assert model.table_ is not None
    # Fitted again in Python it has columns that no file described.
    assert model.fit(np.arange(3.0)[:, None], np.arange(3.0)).table_ is None


def test_models_that_know_no_table_or_are_of_another_version(here, tmp_path):
    def changed(change, version=1):
        arrays, header = _files.read(here / "model.ngem", kind="ngem.MDNRegressor", version=1)
        change(header)
        path = tmp_path / "changed.ngem"
        _files.write(path, arrays, header, kind="ngem.MDNRegressor", version=version)
        return refuse("predict", path, here / "test.csv")

    assert "got version 2; upgrade ngem" in changed(lambda header: None, version=2)
    assert "one fitted in Python" in changed(lambda header: header.pop("table"))
    assert "'number', 'boolean'" in changed(
        lambda header: header["table"]["features"][0].update(kind="eval")
    )
    assert "a table of its features" in changed(lambda header: header["table"]["features"].pop())
    assert "a table of its targets" in changed(
        lambda header: header["table"]["targets"].append("z")
    )


def test_debug_shows_where_an_error_came_from(here):
    result = run("fit", here / "train.csv", "--target", "prise", "--debug")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr


@pytest.mark.parametrize("command", ["fit", "predict", "report"])
def test_a_full_disk_leaves_the_old_file(command, here, tmp_path, monkeypatch):
    out = tmp_path / "old.csv"
    out.write_text("old")
    arguments = {
        "fit": (
            "fit",
            here / "train.csv",
            "--target",
            "price",
            "--exclude",
            "id",
            *TINY,
            "--quiet",
        ),
        "predict": ("predict", here / "model.ngem", here / "test.csv"),
        "report": ("report", here / "model.ngem", here / "test.csv"),
    }[command]
    monkeypatch.setattr("ngem.html_report.make_report", lambda *_, **__: 100 * "page")
    monkeypatch.setattr(type(out), "open", lambda self, mode: FullDisk(self, mode))
    assert "the disk is full" in refuse(*arguments, "--out", out)
    monkeypatch.undo()
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_a_fit_that_diverges_is_told(here, tmp_path, monkeypatch):
    def diverge(self, *_, **__):
        raise diverged()

    monkeypatch.setattr(MDNRegressor, "fit", diverge)
    out = tmp_path / "model"
    command = ("fit", here / "train.csv", "--target", "price", "--quiet", "--out", out)
    assert "try a lower --learning-rate" in refuse(*command)
    assert not out.exists()


def test_an_interrupt_while_predicting_leaves_the_old_file(here, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    out = tmp_path / "old.parquet"
    out.write_text("old")
    monkeypatch.setattr(table_commands, "_predictions", interrupt)
    said = refuse("predict", here / "model.ngem", here / "test.csv", "--out", out, code=130)
    assert "Interrupted" in said
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_control_c_in_the_middle_of_a_fit(here, tmp_path):
    # A shell has its background jobs ignore interrupts, and their children inherit that.
    program = """
import signal
from ngem.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""
    command = ["fit", here / "train.csv", "--target", "price", "--out", tmp_path / "model"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *command, "--epochs", "1000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert process.stdout is not None
    while "Split" not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(1.0)  # while it compiles or trains
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Interrupted" in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_control_c_where_python_cannot_raise_is_heard_a_moment_later():
    program = """
import signal, sys, time
from ngem import _console, cli

class Dying:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)  # where the interrupt is raised, to be lost

def app():
    with _console.readable_errors():
        Dying()
        for _ in range(400):
            time.sleep(0.1)

cli.app = app
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    cli.main()
except Exception as error:  # app is no command, so that nothing has turned it into an exit
    sys.exit(error.exit_code)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False
    )
    assert (result.returncode, result.stderr) == (130, "Interrupted.\n")


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "tune", "report"])
def test_help_has_an_example(command):
    assert f"Example: ngem {command} energy" in succeed(command, "--help").output


def test_fits_use_one_thread_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    run("fit", "none.csv", "--target", "a")
    assert os.environ["NPROC"] == "1"
    monkeypatch.setenv("NPROC", "2")
    run("fit", "none.csv", "--target", "a")
    assert os.environ["NPROC"] == "2"


def test_verdicts_on_calibration():
    even = (np.arange(500) + 0.5) / 500
    words = {
        "good": even,
        "too wide": 0.5 + (even - 0.5) / 2,
        "too narrow": scipy.stats.beta.ppf(even, 0.4, 0.4),
        "too low": np.sqrt(even),
        "too high": even**2,
    }
    for word, pit in words.items():
        assert word in table_scores.calibration(pit)["calibration"]
    assert table_scores.coverage(even, 0.9) == pytest.approx(0.9)


# The search, with trials whose curves are known.


def trial_of(curves, seconds=0.0):
    """Return a function that plays back one curve of validation NLL for each trial."""
    curves = iter(curves)

    def fit(settings, callbacks):
        for epoch, nll in enumerate(next(curves)):
            time.sleep(seconds)
            for callback in callbacks:
                callback(Progress(epoch + 1, 8, nll, nll, nll, 0, 0.0))
        return MDNRegressor(**settings)

    return fit


def falling(end):
    return np.linspace(3.0, end, 8)


def test_the_search_keeps_the_best_and_stops_the_hopeless():
    told = []
    curves = [falling(1.0), falling(0.5), falling(2.0), falling(-1.0)]
    best, trials = tuning.search(
        trial_of(curves),
        tuning.read_budget("4 trials"),
        seed=0,
        report=lambda trial, top: told.append((trial.number, top.number)),
    )
    assert [trial.ended for trial in trials] == ["complete", "complete", "hopeless", "complete"]
    assert len(trials[2].curve) == 2  # a quarter of its epochs
    assert told == [(1, 1), (2, 2), (3, 2), (4, 4)]
    assert best.get_params()["n_components"] == trials[3].settings["n_components"]
    assert trials[0].settings["n_components"] == MDNRegressor().n_components
    assert trials[0].settings["hidden_sizes"] == MDNRegressor().hidden_sizes


def test_the_search_ends_in_time_and_survives_divergence():
    _, trials = tuning.search(
        trial_of([falling(1.0)] * 100, seconds=0.01),
        tuning.read_budget("0.2s"),
        seed=0,
        report=lambda *_: None,
    )
    assert trials[0].ended == "complete"
    assert 2 <= len(trials) <= 4

    def diverge(settings, callbacks):
        if settings["hidden_sizes"] == (128, 128) and settings["n_components"] == 5:
            return trial_of([falling(1.0)])(settings, callbacks)
        raise diverged()

    _, trials = tuning.search(diverge, tuning.read_budget("2"), seed=0, report=lambda *_: None)
    assert trials[1].ended == "diverged"
    assert trials[1].plain()["nll"] is None


@pytest.mark.parametrize(
    ("text", "budget"),
    [("60s", (60, None)), ("1.5m", (90, None)), ("2h", (7200, None)), ("3 trials", (None, 3))],
)
def test_budgets(text, budget):
    assert tuning.read_budget(text) == budget


@pytest.mark.parametrize("text", ["", "0", "0s", "-1", "ten", "5 minutes", "1.5"])
def test_bad_budgets(text):
    with pytest.raises(ValueError, match="--budget must be"):
        tuning.read_budget(text)


def test_tune_writes_the_best_model(here, tmp_path, monkeypatch):
    # One shape of network, so that one program does for all trials.
    monkeypatch.setattr(tuning, "COMPONENTS", (5,))
    monkeypatch.setattr(tuning, "WIDTHS", (128,))
    out = tmp_path / "tuned.ngem"
    command = ("tune", here / "train.csv", "--target", "price", "--epochs", "2", "--budget", "2")
    result = succeed(*command, "--out", out)
    assert "Budget: 2 trials" in result.stdout
    assert "trial 2 of 2" in result.stdout
    assert "best so far" in result.stdout
    found = json.loads(succeed(*command, "--json", "--out", out).stdout)
    best = min(found["trials"], key=lambda trial: trial["nll"])
    model = MDNRegressor.load(out)
    for name in ("n_components", "hidden_sizes", "learning_rate"):
        assert getattr(model, name) == pytest.approx(best[name])
    assert found["scores"]["nll_standardised"] == pytest.approx(best["nll"], abs=1e-3)


PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()


def test_the_page_runs(data_dir, tmp_path, monkeypatch):
    """With a small network; what does not depend on training is printed as the page shows it."""
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(.*?)```", PAGE, re.S)[1], {})
    shown = re.findall(r"\$ ngem (fit|evaluate|predict) (.*)\n((?:.*\n)*?)```", PAGE)
    assert [name for name, _, _ in shown] == ["fit", "evaluate", "predict"]
    for name, options, printed in shown:
        said = succeed(name, *options.split(), *(TINY if name == "fit" else ())).stdout
        fixed = ("Table", "Features", "Targets", "Split", "On", "Predictions", "Model")
        for line in printed.splitlines():
            # Of the other lines only how they begin, before what training decides.
            assert (line if line.startswith(fixed) else line[:6]) in said
    columns = ["resistance", "resistance_mean", "resistance_q0.05", "resistance_q0.5"]
    assert list(pd.read_csv("predicted.csv"))[:4] == columns
