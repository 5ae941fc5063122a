"""`ngem fit`, `predict`, `evaluate`, `report` and `tune`, as a user runs them."""

import html
import json
import os
import re
import shlex
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.stats
import scoringrules
from typer.testing import CliRunner

import ngem
from ngem import MDNRegressor, MixtureBoostingRegressor, _files
from ngem.cli import app
from ngem.estimator import members, portfolio
from ngem.tables import formats, predicting
from ngem.tables.report import page
from ngem.tables.spaces import SPACES
from ngem.training import FitError

pytestmark = pytest.mark.trains

SMALL = ("--epochs", "2", "--hidden", "4", "-k", "2")
TINY = (*SMALL, "--members", "1")
LEARN = ("--target", "price", "--exclude", "id", *TINY)


def run(*arguments):
    arguments = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def succeed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def result_of(*arguments):
    """Return what a command prints for scripts."""
    return json.loads(succeed(*arguments, "--json").stdout)


def refuse(*arguments, code=1):
    """Return what a failing command says: one paragraph on standard error."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.stderr
    return result.stderr


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
    (here / "printed.txt").write_text(result.stdout)
    return here


@pytest.fixture(autouse=True)
def _no_choice_of_dropout(monkeypatch):
    """Each dropout needs a program of its own; `test_members.py` has the choice."""
    monkeypatch.setattr(members, "_DROPOUTS", (0.0,))


@pytest.fixture
def small_trials(monkeypatch):
    """Give all trials of `ngem tune` the network of `TINY`, whose program is compiled once."""
    space = SPACES["network"]
    small = {"n_components": 2, "hidden_sizes": (4,)}
    smaller = space._replace(sample=lambda rng: {**space.sample(rng), **small})
    monkeypatch.setitem(SPACES, "network", smaller)


def test_fit_reports_what_it_did(here):
    printed = (here / "printed.txt").read_text()
    for line in (
        "Table:    train.csv, 120 rows\n",
        "Features: 2 columns (1 numeric, 1 categorical), 3 network inputs\n",
        "Targets:  price\n",
        "Split:    108 rows for training, 12 for validation (seed 0)\n",
        "Training: 2 epochs in ",
        "On the 12 validation rows:\n",
        "gain over one Gaussian",
        "calibration",
        f"Model written to {here / 'model.ngem'}\n",
    ):
        assert line in printed


def test_fit_judges_by_the_rows_that_the_estimator_held_out(here, tmp_path, monkeypatch, passes):
    fitted = []
    fit = MDNRegressor.fit
    monkeypatch.setattr(
        MDNRegressor, "fit", lambda self, *rows: fitted.append((self, *rows)) or fit(self, *rows)
    )
    monkeypatch.chdir(tmp_path)
    command = ("fit", here / "train.csv", "--target", "price", "--features", "size,place", *TINY)
    result = result_of(*command)
    assert len(passes) == 2
    ((estimator, (_, schema), y),) = fitted
    assert schema.names == ["size", "place"]
    held_out, x = estimator.validation_rows_, pd.read_csv(here / "train.csv")
    assert len(held_out) == result["validation_rows"] == result["scores"]["rows"] == 12
    assert result["training_rows"] == 108
    assert (result["members"], result["judged_by"]) == (1, "validation")
    nll = -np.mean(estimator.oof_log_prob_[held_out])
    assert result["scores"]["nll"] == pytest.approx(nll)
    # The linear model beside the network has seen these rows; `oof_log_prob_` leaves each out.
    x = x.iloc[held_out]
    seen = -np.mean(estimator.log_prob(x, y[held_out]))
    assert seen < nll < seen + 0.1
    errors = estimator.predict(x) - y[held_out]
    rmse = result["scores"]["targets"]["price"]["rmse"]
    assert rmse == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-5)
    model = MDNRegressor.load(tmp_path / "train.ngem")  # the default name
    assert result["scores"]["nll_standardized"] == nll - model.diagnostics_["nll_offset"]
    assert result["features"] == {"size": "number", "place": "category"}
    assert result["effective_components"] == model.diagnostics_["effective_components"]
    assert model.validation_rows_ is None


@pytest.mark.slow
def test_members_judge_rows_that_they_have_not_seen(tmp_path, monkeypatch):
    """Of 122 rows in three folds of 41, one is held out twice; it counts once."""
    frame = make_table(123, 0)
    frame.loc[0, "size"] = np.nan  # dropped, so rows of the file have other numbers than ours
    frame.loc[60, "price"] = 9e4
    frame.to_csv(tmp_path / "rows.csv", index=False)
    fitted = []
    fit = MDNRegressor.fit
    monkeypatch.setattr(
        MDNRegressor, "fit", lambda self, *rows: fitted.append((self, *rows)) or fit(self, *rows)
    )
    command = ("fit", tmp_path / "rows.csv", *LEARN, "--members", "3", "--missing", "drop")
    result = result_of(*command, "--out", tmp_path / "model.ngem")
    ((estimator, (x, _), y),) = fitted
    assert sum(map(len, estimator.folds_)) == 123
    assert result["training_rows"] == result["validation_rows"] == result["scores"]["rows"] == 122
    assert (result["members"], result["judged_by"]) == (3, "folds")
    assert result["best_epochs"] == [int(epoch) + 1 for epoch in estimator.best_epoch_]
    errors = np.full(122, np.nan)
    for member, fold in reversed([*enumerate(estimator.folds_)]):
        errors[fold] = estimator.model_.member(member).mean(x[fold])[:, 0] - y[fold]
    rmse = result["scores"]["targets"]["price"]["rmse"]
    assert rmse == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert result["scores"]["nll"] == pytest.approx(-np.mean(estimator.oof_log_prob_))
    assert result["outlier_rows"] == [61]
    printed = succeed(*command, "--out", tmp_path / "model.ngem").stdout
    for line in (
        "Split:    122 rows in 3 folds; each network holds one fold out (seed 0)\n",
        "Training: 3 networks, at most 2 epochs in ",
        "On the 122 held-out rows of 3 folds, each by a network that had not seen it:\n",
        "outliers: 1 row, number 61. It is far from",
    ):
        assert line in printed


def test_evaluate_agrees_with_other_libraries(here):
    command = ("evaluate", here / "model.ngem", here / "test.csv")
    result = result_of(*command)
    frame = pd.read_csv(here / "test.csv")
    x, y = frame, frame["price"].to_numpy()
    model = MDNRegressor.load(here / "model.ngem")
    mixture = model.predict_distribution(x)
    weights = np.asarray(mixture.weights)
    mean, scale = (np.asarray(part)[..., 0] for part in jax.tree.leaves(mixture.components))
    density = np.sum(weights * scipy.stats.norm.pdf(y[:, None], mean, scale), axis=1)
    pit = np.sum(weights * scipy.stats.norm.cdf(y[:, None], mean, scale), axis=1)
    crps = scoringrules.crps_mixnorm(y, mean, scale, weights)
    errors = np.sum(weights * mean, axis=1) - y
    target = result["targets"]["price"]
    assert (result["rows"], result["dropped_rows"]) == (40, 0)
    assert result["nll"] == pytest.approx(-np.mean(np.log(density)), rel=1e-4)
    standardized = result["nll"] - np.log(model.diagnostics_["target_scale"][0])
    assert result["nll_standardized"] == pytest.approx(standardized)
    assert result["nll_standardised"] == result["nll_standardized"]  # the key of version 0.1
    assert target["crps"] == pytest.approx(np.mean(crps), rel=1e-4)
    assert target["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-4)
    assert target["coverage"]["0.9"] == np.mean((pit >= 0.05) & (pit <= 0.95))
    test = scipy.stats.kstest(pit, "uniform")
    assert target["pit_p_value"] == pytest.approx(test.pvalue, abs=1e-2)
    printed = succeed(*command).stdout
    assert printed.startswith("On the 40 rows of test.csv:\n")
    assert f"RMSE {target['rmse']:.4g}" in printed


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_predictions_are_those_of_python(suffix, here, tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BATCH", 20)  # two batches
    out = tmp_path / f"predicted{suffix}"
    options = ("--quantiles", "0.1,0.5", "--interval", "0.8", "--samples", "2", "--keep", "id")
    options = (*options, "--above", "1100,1200")
    succeed("predict", here / "model.ngem", here / "test.csv", *options, "--out", out)
    predicted = {
        ".csv": pd.read_csv,
        ".tsv": lambda path: pd.read_csv(path, sep="\t"),
        ".parquet": pd.read_parquet,
    }[suffix](out)
    model, x = MDNRegressor.load(here / "model.ngem"), pd.read_csv(here / "test.csv")
    assert list(predicted["id"].astype(int)) == list(range(40))
    mean, std = model.predict(x, return_std=True)
    np.testing.assert_allclose(predicted["price_mean"], mean, rtol=1e-6)
    np.testing.assert_allclose(predicted["price_sd"], std, rtol=1e-6)
    np.testing.assert_allclose(predicted["price_above1100"], 1 - model.cdf(x, 1100), atol=1e-6)
    quantiles = model.predict_quantiles(x, [0.1, 0.5, 0.9])
    names = ["price_q0.1", "price_q0.5", "price_upper0.8"]
    np.testing.assert_allclose(predicted[names], quantiles, rtol=1e-6)
    np.testing.assert_array_equal(predicted["price_lower0.8"], predicted["price_q0.1"])
    np.testing.assert_array_equal(predicted["outside"], model.predict(x, return_outside=True)[1])
    samples = predicted[["price_sample1", "price_sample2"]].to_numpy()
    assert len(np.unique(samples)) == 80
    assert list(tmp_path.iterdir()) == [out]


def test_python_reads_the_columns_by_their_names(here):
    """In any order, of any library; other columns are an error that names them."""
    frame = pd.read_csv(here / "test.csv")
    model = ngem.load(here / "model.ngem")
    assert list(model.feature_names_in_) == ["size", "place"]
    expected = model.predict(frame[["size", "place"]])
    for other in (
        frame[["place", "size"]],
        pl.from_pandas(frame),
        frame.astype({"place": "category"}),
    ):
        np.testing.assert_array_equal(model.predict(other), expected)
    assert model.score(frame, frame["price"]) == pytest.approx(
        1
        - np.sum((expected - frame["price"]) ** 2)
        / np.sum((frame["price"] - frame["price"].mean()) ** 2)
    )
    with pytest.raises(ValueError, match=r"none named 'size'; it has 'id', 'price' instead"):
        model.predict(frame.drop(columns="size"))


def predicted_interval(*command):
    printed = pl.read_csv(succeed(*command, "--quantiles", "").stdout.encode())
    return printed.select("price_lower0.8", "price_upper0.8").to_numpy()


@pytest.mark.slow
def test_conformal_intervals_have_the_quantile_of_held_out_rows(here, tmp_path):
    """Those of the model at another probability: the one that held-out rows need."""
    model = ngem.load(here / "model.ngem")
    assert model.held_out_pit_.shape == (12, 1)  # the rows that the network held out
    scores = np.sort(np.abs(2 * model.held_out_pit_[:, 0] - 1))
    mass = scores[int(np.ceil(13 * 0.8)) - 1]
    frame = pd.read_csv(here / "test.csv")
    command = ("predict", here / "model.ngem", here / "test.csv", "--interval", "0.8")
    found = predicted_interval(*command, "--conformal")
    expected = model.predict_interval(frame, mass, kind="equal-tailed")[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert (
        f"calibrated by 12 rows; to hold 80% of the targets they have probability {mass:.1%}"
        in (succeed(*command, "--conformal").stderr)
    )
    # Other rows: those that calibrate are covered as asked.
    found = predicted_interval(*command, "--calibration", here / "test.csv")
    inside = (found[:, 0] <= frame["price"]) & (frame["price"] <= found[:, 1])
    assert inside.mean() >= 0.8
    regions = succeed(*command, "--calibration", here / "test.csv", "--kind", "hdr").stdout
    assert "price_lower0.8_1" in regions


def test_conformal_intervals_need_rows_and_an_interval(here, tmp_path):
    command = ("predict", here / "model.ngem", here / "test.csv", "--conformal")
    assert "must come with --interval, got none" in refuse(*command)
    regions = refuse(*command, "--interval", "0.8", "--kind", "hdr")
    assert "--calibration ROWS" in regions
    model = ngem.load(here / "model.ngem")
    model.held_out_pit_ = None
    model.save(tmp_path / "other.ngem")
    other = ("predict", tmp_path / "other.ngem", *command[2:], "--interval", "0.8")
    assert "a model that knows its held-out rows" in refuse(*other)


def test_a_model_of_a_data_frame_is_used_by_the_command(here, tmp_path):
    frame = make_table(40, 3)
    model = MDNRegressor(2, n_members=1, hidden_sizes=(4,), max_epochs=2, random_state=0)
    model.fit(frame[["size", "place"]], frame["price"]).save(tmp_path / "model.ngem")
    command = ("predict", tmp_path / "model.ngem", here / "test.csv", "--quantiles", "")
    printed = pl.read_csv(succeed(*command).stdout.encode())
    expected = model.predict(pd.read_csv(here / "test.csv"))
    np.testing.assert_allclose(printed["price_mean"], expected, rtol=1e-6)


def test_columns_may_be_named_like_those_of_an_array(tmp_path):
    rows = "".join(f"{i},{i % 7},{i % 5}\n" for i in range(40))
    (tmp_path / "plain.csv").write_text("x0,x1,y\n" + rows)
    out = tmp_path / "plain.ngem"
    succeed("fit", tmp_path / "plain.csv", "--target", "y", *TINY, "--quiet", "--out", out)
    assert succeed("predict", out, tmp_path / "plain.csv").stdout.count("\n") == 41


def test_predictions_go_to_standard_output(here, passes):
    command = ("predict", here / "model.ngem", here / "test.csv", "--quantiles", "")
    result = succeed(*command)
    assert len(passes) == 1
    frame = pl.read_csv(result.stdout.encode())
    assert frame.columns == ["price_mean", "price_sd", "outside"]
    assert len(frame) == 40
    assert "40 rows" in result.stderr
    quiet = succeed(*command, "--quiet")
    assert (quiet.stdout, quiet.stderr) == (result.stdout, "")


def test_kept_formulas_are_text_for_a_spreadsheet(here, tmp_path):
    data, out = tmp_path / "formulas.csv", tmp_path / "out.csv"
    cell = '=HYPERLINK(""http://a.example"")'
    data.write_text(f'size,place,note,code\n2,north,"{cell}",-3\n3,south,plain,+4e1\n')
    command = ("predict", here / "model.ngem", data, "--keep", "note,code", "--out", out)
    assert result_of(*command)["quoted_cells"] == 1
    kept = pl.read_csv(out, infer_schema=False)
    assert kept["note"].to_list() == ["'" + cell.replace('""', '"'), "plain"]
    assert kept["code"].to_list() == ["-3", "+4e1"]
    assert "1 cells begin with =" in succeed(*command).stdout
    assert result_of(*command, "--formulas")["quoted_cells"] == 0
    assert pl.read_csv(out)["note"][0] == cell.replace('""', '"')


def test_rows_with_gaps_stay_in_their_place(here, tmp_path):
    data = tmp_path / "gaps.csv"
    data.write_text("size,place,price\n2,north,1000\n,north,1100\n3,moon,1200\n9,south,1250\n")
    command = ("predict", here / "model.ngem", data, "--out", tmp_path / "out.csv")
    error = refuse(*command, "--missing", "error")
    assert "'size'" in error
    assert "row 2" in error
    assert not (tmp_path / "out.csv").exists()
    result = result_of(*command, "--missing", "drop")
    assert (result["empty_rows"], result["rows_with_unseen_categories"]) == (1, 1)
    predicted = pl.read_csv(tmp_path / "out.csv")
    assert predicted["price_mean"].is_null().to_list() == [False, True, False, False]
    assert predicted["outside"].to_list() == [False, None, False, True]  # no size was above 5
    result = result_of("evaluate", here / "model.ngem", data, "--missing", "drop")
    assert (result["rows"], result["dropped_rows"]) == (3, 1)
    assert result_of(*command)["empty_rows"] == 0
    assert pl.read_csv(tmp_path / "out.csv")["price_mean"].is_finite().all()


def test_a_model_that_refuses_gaps_does_not_fill_them_later(here, tmp_path):
    out = tmp_path / "model.ngem"
    succeed("fit", here / "train.csv", *LEARN, "--missing", "error", "--out", out)
    error = refuse("predict", out, here / "test.csv", "--missing", "impute")
    assert "fitted with --missing impute" in error


@pytest.mark.slow
def test_a_few_rows_with_gaps(tmp_path, small_trials):
    """Too few rows to hold some out, of which one has no target and two have gaps."""
    frame = make_table(13, 0)
    frame.loc[:1, "size"] = np.nan
    frame.loc[2, "price"] = np.nan
    frame.to_parquet(tmp_path / "few.parquet")
    out = tmp_path / "model.ngem"
    command = ("fit", tmp_path / "few.parquet", *LEARN, "--missing", "impute", "--out", out)
    result = result_of(*command)
    assert (result["rows"], result["used_rows"], result["dropped_rows"]) == (13, 12, 0)
    assert result["rows_without_target"] == 1
    assert result["gaps"] == {"size": 2}
    assert (result["validation_rows"], result["judged_by"]) == (0, "training")
    assert result["scores"]["rows"] == 12
    (tmp_path / "new.csv").write_text("size,place\n,north\n2,moon\n")
    printed = succeed("predict", out, tmp_path / "new.csv", "--quantiles", "").stdout
    assert pl.read_csv(printed.encode())["price_mean"].is_finite().all()
    options = ("--target", "price", "--exclude", "id", "--missing", "impute", "--epochs", "2")
    error = refuse("tune", tmp_path / "few.parquet", *options, "--quiet")
    assert "got 12 rows, too few to hold some out" in error
    # Fitted again in Python to an array, a model has columns without names.
    model = MDNRegressor.load(out)
    assert model.table_ is not None
    assert model.fit(np.eye(12), np.arange(12.0)).table_ is None
    model.save(tmp_path / "array.ngem")
    assert "fitted in Python to an array" in refuse(
        "predict", tmp_path / "array.ngem", tmp_path / "new.csv"
    )


@pytest.mark.filterwarnings("ignore:.*logistic:FutureWarning")
@pytest.mark.slow
def test_several_targets_and_options(here, tmp_path):
    options = ("--covariance", "logistic", "--objective", "nll", "--seed", "3", "--quiet")
    command = ("fit", here / "train.csv", "--target", "price,size", *TINY, *options)
    assert succeed(*command, "--max-rows", "60", "--out", tmp_path / "model").output == ""
    model = MDNRegressor.load(tmp_path / "model")
    assert (model.family, model.covariance) == ("logistic", "diag")
    assert (model.objective, model.n_components) == ("nll", 2)
    assert model.diagnostics_["training_rows"] + model.diagnostics_["validation_rows"] == 60
    assert model.table_ is not None
    assert model.table_.targets == ("price", "size")
    result = result_of("evaluate", tmp_path / "model", here / "test.csv")
    assert list(result["targets"]) == ["price", "size"]
    assert result["targets"]["size"]["crps"] > 0


@pytest.mark.parametrize("command", [("fit",), ("tune", "--budget", "1")])
def test_the_family_reaches_the_estimator(command, here, monkeypatch):
    class Stop(Exception):
        pass

    def stop(self, *_):
        raise Stop(self.family, self.covariance)

    monkeypatch.setattr(MDNRegressor, "fit", stop)
    name, *options = command
    with pytest.raises(Stop) as stopped:
        run(name, here / "train.csv", "--target", "price", "--family", "laplace", *options)
    assert stopped.value.args == ("laplace", None)


BAD = [
    (("fit", "none.csv", "--target", "price"), "nothing there"),
    (("fit", "train.csv", "--target", "prise"), "did you mean 'price'"),
    (("fit", "train.csv", "--target", "place"), "'place' .*must hold numbers, got text"),
    (("fit", "train.csv", "--target", "price", "--missing", "guess"), "--missing .*must be one of"),
    (("fit", "train.csv", "--target", "price", "--hidden", "a"), "--hidden must be whole numbers"),
    (("fit", "train.csv", "--target", "price", "--covariance", "x"), "--covariance must be one of"),
    (("fit", "train.csv", "--target", "price", "--objective", "x"), "for example --objective nll"),
    (("predict", "model.ngem", "test.csv", "--above", "x"), "--above must be numbers separated"),
    (("fit", "train.csv", "--target", "price", "--out", "no/where"), "mkdir -p no"),
    (("fit", "train.csv", "--target", "price", "--out", "train.csv"), "'train.csv', which is an"),
    (("fit", "one.csv", "--target", "price"), "at least two rows"),
    (("predict", "none.ngem", "test.csv"), "`ngem fit` writes one"),
    (("predict", "model.ngem", "test.csv", "--out", "test.csv"), "'test.csv', which is an input"),
    (("predict", "train.csv", "test.csv"), "written by ngem"),
    (("predict", "model.ngem", "test.csv", "--quantiles", "5"), "between 0 and 1"),
    (("predict", "model.ngem", "test.csv", "--quantiles", "a"), "--quantiles must be numbers"),
    (("predict", "model.ngem", "test.csv", "--kind", "a"), "--kind must be one of"),
    (("predict", "model.ngem", "test.csv", "--out", "a.txt"), "suffix"),
    (("predict", "model.ngem", "test.csv", "--keep", "sise"), "did you mean 'size'"),
    (("predict", "model.ngem", "test.csv", "--json"), "add --out"),
    (("predict", "model.ngem", "named.csv", "--keep", "price_mean"), "name that no prediction has"),
    (("predict", "model.ngem", "bare.csv"), "rows below its header"),
    (("evaluate", "model.ngem", "none.csv"), "nothing there"),
    (("evaluate", "model.ngem", "bare.csv"), "rows without gaps, got none"),
    (("report", "model.ngem", "none.csv"), "nothing there"),
    (("report", "model.ngem", "bare.csv"), "rows below its header"),
    (("report", "model.ngem", "test.csv", "--out", "test.csv"), "'test.csv', which is an input"),
    (("tune", "train.csv", "--target", "price", "--budget", "soon"), "--budget must be"),
]

MANY = [
    ("predict", "model.ngem", "test.csv", "--samples", 2**31),
    ("predict", "model.ngem", "test.csv", "--samples", 10_001),
    *(
        (*command, "--seed", seed)
        for command in (
            ("predict", "model.ngem", "test.csv"),
            ("fit", "train.csv", "--target", "price"),
            ("report", "model.ngem", "test.csv"),
            ("tune", "train.csv", "--target", "price"),
        )
        for seed in (2**32, 99999999999999999999, -1)
    ),
]


@pytest.mark.parametrize("arguments", MANY)
def test_numbers_that_are_too_large_are_refused_before_any_work(arguments, here, monkeypatch):
    monkeypatch.chdir(here)
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.search("--(seed|samples).*(greater|less) than or equal to", result.stderr, re.S)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_gives_one_paragraph_and_no_file(arguments, message, here, monkeypatch):
    monkeypatch.chdir(here)
    (here / "bare.csv").write_text("id,size,place,price\n")
    (here / "one.csv").write_text("id,size,place,price\n0,1,north,3\n")
    pd.read_csv("test.csv").assign(price_mean=0).to_csv("named.csv", index=False)
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
    assert result_of(*arguments, "--out", out) == {"report": str(out), "rows": 39}
    text = out.read_text()
    first = re.search(r"Rows that surprise.*?<tbody>\s*<tr><th scope=\"row\">(\d+)<", text, re.S)
    assert first is not None
    assert first[1] == "10"
    command, repeated = MDNRegressor.load(here / "model.ngem").table_.command, tmp_path / "again"
    assert command not in html.unescape(text)  # nothing to paste: the file may be anybody's
    succeed(*shlex.split(command)[1:], "--out", repeated)
    one, other = (MDNRegressor.load(path) for path in (here / "model.ngem", repeated))
    np.testing.assert_array_equal(one.history_["train_nll"], other.history_["train_nll"])


def test_a_report_of_a_sample_of_a_large_file(here, tmp_path, monkeypatch):
    samples = []
    monkeypatch.setattr(
        page, "make_report", lambda _, rows, *__, **___: samples.append(rows.numbers) or "page"
    )
    arguments = ("report", here / "model.ngem", here / "test.csv", "--out", tmp_path / "page.html")
    arguments = (*arguments, "--force")  # the page above is none
    for seed in (0, 0, 1):
        succeed(*arguments, "--max-rows", "30", "--seed", str(seed))
    succeed(*arguments, "--max-rows", "1000")
    assert [len(set(numbers)) for numbers in samples] == [30, 30, 30, 40]
    np.testing.assert_array_equal(samples[0], samples[1])
    assert not np.array_equal(samples[0], samples[2])


def test_a_report_says_which_of_its_rows_are_those_of_the_fit(here, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(
        page, "make_report", lambda *_, of_the_fit, **__: said.append(of_the_fit) or "page"
    )
    train, test = ((here / f"{name}.csv").read_text() for name in ("train", "test"))
    (tmp_path / "train.csv").write_text(test)  # others of that name
    (tmp_path / "renamed.csv").write_text(train)
    half = train.splitlines()[: len(test.splitlines())]
    (tmp_path / "both.csv").write_text("\n".join([*half, *test.splitlines()[1:]]))
    for data in (
        here / "train.csv",
        *(tmp_path / f"{n}.csv" for n in ("train", "renamed", "both")),
    ):
        succeed("report", here / "model.ngem", data, "--out", tmp_path / "page.html", "--force")
    assert said == [1, 0, 1, 0.5]
    whole = result_of("evaluate", here / "model.ngem", tmp_path / "both.csv")
    assert whole["rows_of_the_fit"] == 0.5
    text = succeed("evaluate", here / "model.ngem", tmp_path / "both.csv")
    assert "About 50% of these rows are equal to rows that the model was fitted to." in text.output


def test_models_without_a_table_or_of_another_version_are_refused(here, tmp_path):
    def changed(change, version=3):
        arrays, header = _files.read(here / "model.ngem", kind="ngem.MDNRegressor", version=3)
        change(header)
        path = tmp_path / "changed.ngem"
        _files.write(path, arrays, header, kind="ngem.MDNRegressor", version=version)
        return refuse("predict", path, here / "test.csv")

    assert "a name for each feature" in changed(lambda header: header.pop("table"))
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


def test_other_files_are_replaced_by_force_only(here, tmp_path, monkeypatch):
    """What was there before stays; predictions, models and pages of ours may be replaced."""
    monkeypatch.setattr(page, "make_report", lambda *_, **__: "<!DOCTYPE html>")
    commands = {
        "a model": ("fit", here / "train.csv", *LEARN),
        "predictions": ("predict", here / "model.ngem", here / "test.csv"),
        "a page": ("report", here / "model.ngem", here / "test.csv"),
    }
    for what, command in commands.items():
        for name in ("table.csv", "other.csv"):
            out = tmp_path / name
            out.write_text("id,size\n1,2\n" if name == "table.csv" else "")
            before = out.read_text()
            error = refuse(*command, "--out", out)
            assert f"must be a new file or {what} to replace" in error
            assert out.read_text() == before
        succeed(*command, "--out", out, "--force")
        succeed(*command, "--out", out)


def test_a_directory_that_cannot_be_written_to_needs_no_mkdir(here, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # also for root
    error = refuse("fit", here / "train.csv", *LEARN, "--out", tmp_path / "a.ngem")
    assert "may not write to" in error
    assert "mkdir" not in error


@pytest.mark.parametrize("command", ["fit", "predict", "report"])
def test_a_full_disk_leaves_the_old_file(command, here, tmp_path, monkeypatch, request):
    out = tmp_path / "old.csv"
    out.write_text("old")
    arguments = {
        "fit": ("fit", here / "train.csv", *LEARN, "--quiet"),
        "predict": ("predict", here / "model.ngem", here / "test.csv"),
        "report": ("report", here / "model.ngem", here / "test.csv"),
    }[command]
    monkeypatch.setattr(page, "make_report", lambda *_, **__: 100 * "page")
    request.getfixturevalue("full_disk")
    assert "the disk is full" in refuse(*arguments, "--out", out, "--force")
    monkeypatch.undo()
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_a_fit_that_diverges_is_one_paragraph(here, tmp_path, monkeypatch):
    def diverge(self, *_, **__):
        raise FitError.__new__(FitError, "Steps were not finite.")  # without what was learned

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
    monkeypatch.setattr(predicting, "prediction_columns", interrupt)
    command = ("predict", here / "model.ngem", here / "test.csv", "--out", out, "--force")
    error = refuse(*command, code=130)
    assert "Interrupted" in error
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_fits_use_one_thread_unless_the_user_sets_another_number(monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    run("fit", "none.csv", "--target", "a")
    assert os.environ["NPROC"] == "1"
    monkeypatch.setenv("NPROC", "2")
    run("fit", "none.csv", "--target", "a")
    assert os.environ["NPROC"] == "2"


def test_tune_writes_the_best_model(here, tmp_path, small_trials):
    out = tmp_path / "tuned.ngem"
    command = ("tune", here / "train.csv", "--target", "price", "--exclude", "id", "--epochs", "2")
    printed = succeed(*command, "--budget", "3", "--members", "2", "--out", out).stdout
    for text in (
        "Budget:   3 trials",
        "trial 2 of 3",
        "best so far",
        "Last fit: components 2, width 4, learning rate",
        "On the 120 held-out rows of 2 folds",
        "The trials were single networks",
    ):
        assert text in printed
    assert MDNRegressor.load(out).n_members == 2
    result = result_of(*command, "--budget", "3", "--members", "1", "--out", out)
    assert len(result["trials"]) == 3
    complete = [trial for trial in result["trials"] if trial["ended"] == "complete"]
    best = min(complete, key=lambda trial: trial["nll"])
    model = MDNRegressor.load(out)
    for name in ("n_components", "hidden_sizes", "learning_rate"):
        assert getattr(model, name) == pytest.approx(best[name])
    assert result["scores"]["nll_standardized"] == pytest.approx(best["nll"])
    assert result["judged_by"] == "validation"  # one network is not fitted again


def test_an_interrupted_search_writes_the_best_trial(here, tmp_path, small_trials, monkeypatch):
    fit, count = MDNRegressor.fit, iter(range(9))

    def interrupt_the_third(self, *rows):
        if next(count) == 2:
            raise KeyboardInterrupt
        return fit(self, *rows)

    monkeypatch.setattr(MDNRegressor, "fit", interrupt_the_third)
    out = tmp_path / "tuned.ngem"
    command = ("tune", here / "train.csv", "--target", "price", "--exclude", "id", "--epochs", "2")
    result = run(*command, "--budget", "9", "--members", "2", "--out", out)
    assert result.exit_code == 130
    assert "Interrupted: this is the best trial so far, a single network" in result.stdout
    assert MDNRegressor.load(out).n_members == 1


PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()


@pytest.mark.slow  # the tests above run each of these commands
def test_the_page_runs(data_dir, tmp_path, monkeypatch):
    """With small models; what does not depend on training is printed as the page shows it."""
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    monkeypatch.chdir(tmp_path)
    small_network = {"n_components": 2, "hidden_sizes": (8,), "max_epochs": 3, "dropout": 0.0}
    for name, kind in portfolio.KINDS.items():
        small = {"max_rounds": 3} if kind.estimator is MixtureBoostingRegressor else small_network
        monkeypatch.setitem(portfolio.KINDS, name, kind._replace(settings=small))
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    for block in blocks:
        if ".ngem" not in block:  # the others read a model that the commands write
            exec(block, {})
    shown = re.findall(r"\$ ngem (fit|evaluate|predict) (.*)\n((?:.*\n)*?)```", PAGE)
    assert [name for name, _, _ in shown] == ["fit", "evaluate", "predict", "fit", "evaluate"]
    for name, options, printed in shown:
        small = ("--rounds", "3", "-k", "2") if "--model trees" in options else ()
        output = succeed(name, *options.split(), *(small if name == "fit" else ())).stdout
        numbers = re.compile(r"-?\d[\d.,]*(e-\d+)?")
        for line in printed.splitlines():
            fixed = ("Table", "Features", "Targets", "Split", "On", "Predictions", "Model")
            if line.strip().startswith("The density at"):  # or that a line is as good
                verdicts = ("The density at", "A straight line")
                assert any(other.strip().startswith(verdicts) for other in output.splitlines())
            elif line.startswith(fixed):
                assert line in output.splitlines()
            else:  # the numbers, and the words of a verdict, come from the training
                start = numbers.split(line)[0].split("calibration")[0]
                assert any(other.startswith(start) for other in output.splitlines()), line
    (reading,) = (block for block in blocks if ".ngem" in block)
    exec(reading, {})
    columns = ["mean", "sd", "q0.05", "q0.5", "q0.95"]
    predicted = list(pd.read_csv("predicted.csv"))
    assert predicted[:6] == ["resistance", *(f"resistance_{name}" for name in columns)]
    assert predicted[-1] == "outside"
