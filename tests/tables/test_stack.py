"""The commands for tables with a stack, the default, as a user runs them."""

import html
import json
import re

import numpy as np
import pandas as pd
import pytest

import ngem
from ngem import DensityStack, MDNRegressor, MixtureBoostingRegressor
from ngem.estimator import portfolio, stack
from ngem.tables.kinds import choose_kind

from .test_commands import refuse, result_of, succeed

pytest.importorskip("lightgbm", reason="LightGBM is not installed")

pytestmark = pytest.mark.trains

SMALL = {
    "network": (
        MDNRegressor,
        {"n_components": 2, "hidden_sizes": (8,), "max_epochs": 20, "dropout": 0.0, "n_bins": 4},
    ),
    "trees": (MixtureBoostingRegressor, {"n_components": 2, "max_rounds": 30}),
}


def make_table(n_rows, seed):
    rng = np.random.default_rng(seed)
    size, kind = rng.uniform(1, 5, n_rows), rng.choice(["flat", "house"], n_rows)
    price = 100 + 5 * size + 9 * (kind == "house") + rng.standard_normal(n_rows)
    return pd.DataFrame({"size": size, "kind": kind, "price": price})


@pytest.fixture(autouse=True, scope="module")
def _small_kinds():
    kinds = {name: portfolio.Kind(*kind) for name, kind in SMALL.items()}
    with pytest.MonkeyPatch.context() as patch:
        for module in (portfolio, stack):
            patch.setattr(module, "KINDS", kinds)
            patch.setitem(module.QUALITIES, "good", ("network", "trees"))
        yield


@pytest.fixture(scope="module", name="here")
def _here(tmp_path_factory, promotes):
    """A directory with train.csv, test.csv and model.ngem."""
    here = tmp_path_factory.mktemp("stack")
    make_table(120, 0).to_csv(here / "train.csv", index=False)
    make_table(30, 1).to_csv(here / "test.csv", index=False)
    with promotes():
        command = ("fit", here / "train.csv", "--target", "price", "--members", "2")
        result = succeed(*command, "--out", here / "model.ngem")
    (here / "printed.txt").write_text(result.stdout)
    return here


def test_fit_gives_a_stack_and_tells_its_gains_first(here):
    model = ngem.load(here / "model.ngem")
    assert isinstance(model, DensityStack)
    printed = (here / "printed.txt").read_text().splitlines()
    gains, facts = printed[3], model.diagnostics_
    assert gains.startswith(f"Gain:     {facts['gain_over_linear']:.3f} over a straight line, ")
    assert f"{facts['gain_over_gaussian']:.3f} over one Gaussian for all rows, " in gains
    assert f"{facts['gain_over_best_kind']:.3f} over the best kind alone (" in gains
    split = "120 rows; 6 members of each kind, and each holds out one row in 2 (seed 0)"
    assert split in printed[4]
    narrower = f"{1 - model.width_:.0%} narrower, chosen by held-out rows"
    assert any(narrower in line for line in printed if line.startswith("Width:"))
    for kind, line in zip(model.kinds_, printed[6:8], strict=True):
        figures = f"NLL {kind.oof_nll:.3f}, weight {kind.weight:.2f}"
        assert line.startswith(f"  {kind.name:<7}  {figures}")


def test_predict_and_evaluate_use_all_kinds(here):
    frame, model = pd.read_csv(here / "test.csv"), ngem.load(here / "model.ngem")
    x, y = frame, frame["price"].to_numpy()
    succeed("predict", here / "model.ngem", here / "test.csv", "--out", here / "out.csv")
    predicted = pd.read_csv(here / "out.csv")
    np.testing.assert_allclose(predicted["price_mean"], model.predict(x), rtol=1e-6)
    np.testing.assert_allclose(
        predicted["price_q0.95"], model.predict_quantiles(x, 0.95), rtol=1e-6
    )
    scores = result_of("evaluate", here / "model.ngem", here / "test.csv")
    assert scores["nll"] == pytest.approx(-model.log_prob(x, y).mean(), rel=1e-4)


@pytest.mark.slow
def test_a_report_shows_the_kinds(here):
    succeed("report", here / "model.ngem", here / "test.csv", "--out", here / "page.html")
    page = html.unescape((here / "page.html").read_text())
    assert "Kinds of models in the stack" in page
    for kind in ngem.load(here / "model.ngem").kinds_:
        assert not kind.ran or f">{kind.name}</th><td>{kind.weight:.2f}</td>" in page
    assert re.search(r">--quality</t[hd]><td>good<", page)


def test_json_has_the_kinds_and_those_without_time(here):
    command = ("fit", here / "train.csv", "--target", "price", "--members", "2")
    options = ("--budget", "0.001", "--json", "--out", here / "short.ngem")
    result = json.loads(succeed(*command, *options).stdout)
    assert [kind["name"] for kind in result["kinds"]] == ["network", "trees"]
    assert result["kinds"][1]["outcome"] == "not fitted: the budget was used up"
    assert result["kinds"][1]["oof_nll"] is None
    assert result["best_kind"] == "network"


@pytest.mark.slow
def test_an_option_of_another_kind_chooses_it(here):
    out = here / "other.ngem"
    command = ("fit", here / "train.csv", "--target", "price", "--members", "2", "-q")
    succeed(*command, "--rounds", "2", "--out", out)
    assert isinstance(ngem.load(out), MixtureBoostingRegressor)
    absent = dict.fromkeys(["members", "quality", "epochs", "components", "rounds"])
    assert choose_kind(absent) == choose_kind({**absent, "members": 3}) == "stack"
    assert choose_kind({**absent, "epochs": 3}) == "network"
    assert choose_kind({**absent, "components": 3, "members": 2}) == "network"


def test_a_stack_is_not_tuned(here):
    error = refuse("tune", here / "train.csv", "--target", "price", "--model", "stack")
    assert "--model of ngem tune must be one of 'network', 'trees', got 'stack'" in error


@pytest.mark.slow
def test_without_lightgbm_the_networks_remain(monkeypatch):
    monkeypatch.setattr(stack, "find_spec", lambda name: None)
    frame = make_table(60, 2)
    model = DensityStack(n_members=2, random_state=0).fit(frame[["size", "kind"]], frame["price"])
    assert [kind.name for kind in model.kinds_ if kind.weight] == ["network"]
    assert "ngem[boost]" in model.kinds_[1].outcome
