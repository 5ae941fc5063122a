"""The commands for tables with `--model trees`, as a user runs them."""

import html
import re
import shlex
import sys

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.stats

import ngem
from ngem import MixtureBoostingRegressor
from ngem.tables.spaces import SPACES

from .test_commands import refuse, result_of, succeed

pytest.importorskip("lightgbm", reason="LightGBM is not installed")

pytestmark = pytest.mark.trains

TREES = ("--model", "trees", "--target", "price")
SMALL = (*TREES, "--rounds", "12", "--learning-rate", "0.2", "-k", "2", "--leaf-rows", "5")
FEATURES = ["size", "place", "kind", "wet"]


def make_table(n_rows, seed):
    """Return rows with 150 places, two kinds, and gaps in both and in the sizes."""
    rng = np.random.default_rng(seed)
    size, place = rng.uniform(1, 5, n_rows), np.arange(n_rows) % 150
    kind, wet = rng.choice(["flat", "house"], n_rows), rng.uniform(size=n_rows) < 0.3
    price = 1000 + 50 * size + 90 * (kind == "house") + 40 * wet + rng.standard_normal(n_rows)
    frame = pd.DataFrame({"size": size, "kind": kind, "wet": wet, "price": price})
    frame.insert(1, "place", [f"p{number:03}" for number in place])
    frame.loc[rng.uniform(size=n_rows) < 0.1, "size"] = np.nan
    frame.loc[rng.uniform(size=n_rows) < 0.1, "kind"] = None
    return frame


@pytest.fixture(scope="module", name="here")
def _here(tmp_path_factory, promotes):
    """A directory with train.csv, test.csv and model.ngem."""
    here = tmp_path_factory.mktemp("trees")
    make_table(300, 0).to_csv(here / "train.csv", index=False)
    new = make_table(40, 1)
    new.loc[0, "place"], new.loc[1, "place"] = "nowhere", None
    new.to_csv(here / "test.csv", index=False)
    with promotes():
        command = ("fit", here / "train.csv", *SMALL, "--members", "2")
        result = succeed(*command, "--out", here / "model.ngem")
    (here / "printed.txt").write_text(result.stdout)
    return here


def encoded(frame):
    """Return features with the number of each category."""
    place = frame["place"].map({f"p{number:03}": number for number in range(150)})
    kind = frame["kind"].map({"flat": 0, "house": 1})
    return np.column_stack([frame["size"], place, kind, frame["wet"]]).astype(float)


def test_fit_reports_what_it_did(here):
    printed = (here / "printed.txt").read_text()
    for line in (
        "Table:    train.csv, 300 rows\n",
        "Features: 4 columns (1 numeric, 1 true or false, 2 categorical)\n",
        "Split:    300 rows in 2 folds; each member holds one fold out (seed 0)\n",
        "Training: boosted trees, 2 members, at most 12 rounds in ",
        "On the 300 held-out rows of 2 folds, each by a member that had not seen it:\n",
        "components of each member: 2, ",
    ):
        assert line in printed
    assert "network" not in printed
    gain = re.search(r"gain over one Gaussian for all rows: (.*) nat", printed)
    assert gain is not None
    assert float(gain[1]) > 0.5


@pytest.mark.slow
def test_fit_hands_over_codes_and_gaps(here, tmp_path, monkeypatch, passes):
    fitted = []
    fit = MixtureBoostingRegressor.fit
    monkeypatch.setattr(
        MixtureBoostingRegressor,
        "fit",
        lambda self, *rows: fitted.append((self, *rows)) or fit(self, *rows),
    )
    command = ("fit", here / "train.csv", *SMALL, "--rounds", "3", "--members", "1")
    result = result_of(*command, "--out", tmp_path / "model.ngem")
    assert len(passes) == 2
    ((estimator, (x, schema), y),) = fitted
    frame = pd.read_csv(here / "train.csv")
    np.testing.assert_allclose(x, encoded(frame), rtol=1e-15)  # two readers of decimal numbers
    assert schema.coded == [1, 2]
    assert (result["kind"], result["judged_by"]) == ("trees", "validation")
    assert result["dropped_rows"] == 0
    assert result["rounds"] == estimator.n_iter_ == 3
    assert result["best_rounds"] == estimator.best_round_.tolist()
    held_out = estimator.validation_rows_
    nll = -np.mean(estimator.oof_log_prob_[held_out])
    assert result["scores"]["nll"] == pytest.approx(nll)
    errors = estimator.predict(frame.iloc[held_out]) - y[held_out]
    rmse = result["scores"]["targets"]["price"]["rmse"]
    assert rmse == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-5)


def test_the_model_file_knows_the_columns(here):
    model = ngem.load(here / "model.ngem")
    assert isinstance(model, MixtureBoostingRegressor)
    assert model.table_.numbers == list(model.feature_names_in_) == FEATURES
    assert model.table_.missing == "keep"
    assert len(model.table_.features[1].categories) == 150


def test_predictions_are_those_of_python(here, tmp_path):
    out = tmp_path / "predicted.parquet"
    options = ("--quantiles", "0.1,0.5", "--interval", "0.8", "--samples", "2", "--keep", "place")
    command = ("predict", here / "model.ngem", here / "test.csv", *options, "--out", out)
    assert result_of(*command)["empty_rows"] == 0
    predicted = pd.read_parquet(out)
    model, x = ngem.load(here / "model.ngem"), pd.read_csv(here / "test.csv")
    np.testing.assert_allclose(predicted["price_mean"], model.predict(x), rtol=1e-6)
    quantiles = model.predict_quantiles(x, [0.1, 0.5, 0.9])
    names = ["price_q0.1", "price_q0.5", "price_upper0.8"]
    np.testing.assert_allclose(predicted[names], quantiles, rtol=1e-6)
    assert len(np.unique(predicted[["price_sample1", "price_sample2"]])) == 80
    assert predicted["place"][0] == "nowhere"


@pytest.mark.slow  # `test_predictions.py` checks the same of columns without a compiled region
def test_regions_have_as_many_pieces_as_a_member_has_components(here):
    command = ("predict", here / "model.ngem", here / "test.csv", "--quantiles", "")
    printed = succeed(*command, "--interval", "0.8", "--kind", "hdr").stdout
    predicted = pl.read_csv(printed.encode(), infer_schema_length=None)
    names = [f"price_{side}0.8_{piece}" for piece in (1, 2) for side in ("lower", "upper")]
    assert predicted.columns == ["price_mean", "price_sd", *names, "outside"]


def test_an_unknown_category_is_accepted(here, tmp_path):
    data = tmp_path / "new.csv"
    rows = ["2,p001,flat,true", "2,nowhere,flat,true", "2,,flat,true", "2,p001,castle,"]
    data.write_text("\n".join([",".join(FEATURES), *rows]))
    command = ("predict", here / "model.ngem", data, "--quantiles", "")
    means = pl.read_csv(succeed(*command).stdout.encode())["price_mean"]
    assert means.is_finite().all()
    assert "2 rows have a category that the model has not seen" in succeed(*command).stderr
    dropped = pl.read_csv(succeed(*command, "--missing", "drop").stdout.encode())["price_mean"]
    assert dropped.is_null().to_list() == [False, False, True, True]
    assert dropped[0] == means[0]
    error = refuse(*command, "--missing", "error")
    assert re.search("'place' .* a missing value in row 3", error)
    assert "'keep', 'error', 'drop', got 'impute'" in refuse(*command, "--missing", "impute")


def test_evaluate_agrees_with_scipy(here):
    result = result_of("evaluate", here / "model.ngem", here / "test.csv")
    frame = pd.read_csv(here / "test.csv")
    mixture = ngem.load(here / "model.ngem").predict_distribution(frame)
    y, weights = frame["price"].to_numpy(), np.asarray(mixture.weights)
    mean, scale = (np.asarray(part)[..., 0] for part in jax.tree.leaves(mixture.components))
    density = np.sum(weights * scipy.stats.norm.pdf(y[:, None], mean, scale), axis=1)
    assert (result["rows"], result["dropped_rows"]) == (40, 0)
    assert result["nll"] == pytest.approx(-np.mean(np.log(density)), rel=1e-4)
    errors = np.sum(weights * mean, axis=1) - y
    rmse = result["targets"]["price"]["rmse"]
    assert rmse == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-4)


@pytest.mark.slow
def test_a_report_speaks_of_trees(here, tmp_path):
    out = tmp_path / "page.html"
    command = ("report", here / "model.ngem", here / "test.csv", "--out", out)
    assert result_of(*command) == {"report": str(out), "rows": 40}
    page = html.unescape(out.read_text())
    assert "network" not in page.lower()
    for text in (
        "Boosted trees</th><td>2 members, kept ",
        "Negative log-likelihood over 12 rounds",
        "What the trees split: fractions of the gain of all splits",
        '<th scope="col">for weights</th><th scope="col">for means</th>',
        "where members disagree",
        "kind = flat",  # where the pointer is
        "<td>2 categories</td><td>",
    ):
        assert text in page
    places = re.search(r"place</th><td>(\d+) categories</td>.*?<td>(\d+)</td></tr>", page)
    assert places is not None
    assert places.groups() == ("38", "2")  # of forty rows one has no place and one an unknown one
    command = ngem.load(here / "model.ngem").table_.command
    assert command not in page
    succeed(*shlex.split(command)[1:], "--out", tmp_path / "again.ngem")
    one, other = (ngem.load(path) for path in (here / "model.ngem", tmp_path / "again.ngem"))
    np.testing.assert_array_equal(one.history_["train_nll"], other.history_["train_nll"])


@pytest.mark.slow
def test_tune_writes_the_best_model(here, tmp_path, monkeypatch):
    space, small = SPACES["trees"], {"n_components": 2}  # one program for all trials
    smaller = space._replace(sample=lambda rng: {**space.sample(rng), **small})
    monkeypatch.setitem(SPACES, "trees", smaller)
    out = tmp_path / "tuned.ngem"
    command = ("tune", here / "train.csv", *TREES, "--rounds", "4", "--out", out)
    printed = succeed(*command, "--budget", "2", "--members", "2").stdout
    for text in (
        "trial 2 of 2",
        "Last fit: components 2, leaves ",
        ", 2 members\n",
        "The trials were single members",
    ):
        assert text in printed
    assert ngem.load(out).n_members == 2
    result = result_of(*command, "--budget", "2", "--members", "1")
    complete = [trial for trial in result["trials"] if trial["ended"] == "complete"]
    best = min(complete, key=lambda trial: trial["nll"])
    model = ngem.load(out)
    for name in ("num_leaves", "min_rows_in_leaf", "learning_rate"):
        assert getattr(model, name) == pytest.approx(best[name])
    assert result["scores"]["nll_standardized"] == pytest.approx(best["nll"])


WRONG = [
    (("trees", "--hidden", "8"), "--hidden must come with --model network, got --model trees"),
    (("trees", "--covariance", "diag"), "--covariance must come with --model network"),
    (("trees", "--objective", "nll"), "--objective must come with --model network"),
    (("trees", "--epochs", "2"), "--epochs must come with --model network"),
    (("network", "--rounds", "2"), "--rounds must come with --model trees, got --model network"),
    (("network", "--leaves", "4"), "--leaves must come with --model trees"),
    (("network", "--leaf-rows", "4"), "--leaf-rows must come with --model trees"),
    (("trees", "--missing", "impute"), "one of 'keep', 'error', 'drop', got 'impute'"),
    (("network", "--missing", "keep"), "one of 'impute', 'error', 'drop', got 'keep'"),
    (("stack", "--epochs", "2"), "--epochs must come with --model network, got --model stack"),
    (("network", "--quality", "best"), "--quality must come with --model stack"),
    (("stack", "--quality", "superb"), "quality must be one of 'fast', 'good', 'best'"),
    (("trees", "--learning-rate", "7"), "--learning-rate must be a number above 0"),
    (("forest",), "--model must be one of 'stack', 'network', 'trees', got 'forest'"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_combinations_are_refused_before_anything_is_read(options, message):
    assert message in refuse("fit", "none.csv", "--target", "price", "--model", *options)


def test_a_missing_lightgbm_is_one_paragraph(here, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    out = tmp_path / "model.ngem"
    error = refuse("fit", here / "train.csv", *SMALL, "--quiet", "--out", out)
    assert "pip install 'ngem[boost]'" in error
    assert not out.exists()
