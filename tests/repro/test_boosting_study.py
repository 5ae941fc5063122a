"""The studies of boosted mixtures: what is chosen, by which rows, and how peers are scored."""

import numpy as np
import pytest
from scipy import stats

from ngem.repro import boosting_peers, boosting_study, runner, spec
from ngem.repro.boosted_densities import DENSITIES, Job
from ngem.repro.boosting_comparison import curvature_table, peers_table
from ngem.repro.store import Results


def a_run(curvature, components, validation_nll, nll, seed=0):
    return {
        "dataset": "yacht",
        "curvature": curvature,
        "components": components,
        "seed": seed,
        "validation_nll": validation_nll,
        "nll": nll,
    }


def test_held_out_rows_choose_and_test_rows_do_not():
    runs = [
        a_run("fisher", 1, 0.3, 9.0),
        a_run("fisher", 5, 0.4, 1.0),
        a_run("em", 1, 0.2, 8.0),
        a_run("em", 5, 0.5, 2.0),
        a_run("none", 1, 0.1, 7.0),
    ]
    chosen = {(r["curvature"], r["components"]): r["nll"] for r in boosting_study.derived(runs)}
    assert chosen == {
        ("ngem", 1): 8.0,
        ("ngem", 5): 1.0,
        ("fisher", "chosen"): 9.0,
        ("em", "chosen"): 8.0,
        ("ngem", "chosen"): 8.0,
        ("none", "chosen"): 7.0,
    }


def test_each_seed_is_chosen_by_itself():
    runs = [
        a_run("em", k, nll, k, seed) for seed in (0, 1) for k, nll in ((1, float(seed)), (5, 0.5))
    ]
    chosen = [r for r in boosting_study.derived(runs) if r["curvature"] == "em"]
    assert [(r["seed"], r["nll"]) for r in chosen] == [(0, 1), (1, 5)]


def test_derived_runs_are_paired_like_others(tmp_path):
    results = Results(tmp_path / "results.json", settings={}, budget="smoke")
    for curvature, nll in (("fisher", 1.0), ("em", 2.0), ("none", 4.0)):
        unit = {"dataset": "yacht", "curvature": curvature, "components": 3, "seed": 0}
        results.add(unit, {"nll": nll, "validation_nll": nll}, 0.0)
    results.derive(boosting_study.derived, results.unit_keys())
    ((ours, base),) = results.pairs({"curvature": "none"}, curvature="ngem", components="chosen")
    assert (ours["nll"], base["nll"]) == (1.0, 4.0)
    assert len(results.runs) == 3
    loaded = {
        "curvatures": {"fisher": [], "em": [], "none": []},
        "datasets": {"yacht": {"splits": 1, "components": [3]}},
    }
    table = curvature_table(spec.Spec("", "", "", "", "", loaded, [], [], "", ""), results)
    assert table[1] == ["yacht", "3", "1", "2", "4", "1", "1"]


def test_units_of_the_first_components_come_first():
    values = spec.load("boosting").settings
    settings = spec.make_settings(boosting_study.Settings, "boosting", values)
    units = boosting_study.units(settings)
    ranks = [
        (values["datasets"][unit["dataset"]]["components"].index(unit["components"]), unit["seed"])
        for unit in units
    ]
    assert ranks == sorted(ranks)


def test_the_crps_of_quantiles_is_near_the_crps_of_the_density():
    """Of a standard Normal, whose mean CRPS over its own draws is 1 / sqrt(pi)."""
    y = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    quantiles = np.broadcast_to(stats.norm.ppf(boosting_peers.LEVELS), (len(y), 10))
    crps = boosting_peers.quantile_crps(quantiles, y)
    assert crps == pytest.approx(1 / np.sqrt(np.pi), rel=0.01)
    assert boosting_peers.quantile_crps(quantiles + 0.3, y) > crps + 0.01


def test_a_library_that_is_not_installed_is_named_and_tried_again(data_dir, tmp_path, monkeypatch):
    method = {"library": "nobody", "learning_rate": 0.1}
    monkeypatch.setitem(DENSITIES, "nobody", (("no_such_library",), None))
    settings = boosting_peers.Settings({"yacht": 1}, {"Nobody": method}, [8], 2, 2, 0.2)
    (unit,) = boosting_peers.units(settings)
    result = boosting_peers.run(settings, unit)
    assert "no_such_library is not installed; try pip install" in result["absent"]
    path = tmp_path / "results.json"
    first = Results(path, settings={}, budget="smoke")
    first.add(unit, result, 0.0)
    loaded = {"datasets": {"yacht": 1}, "methods": {"Nobody": method}}
    table = peers_table(spec.Spec("", "", "", "", "", loaded, [], [], "", ""), first)
    assert table[1][2] == "not installed"
    assert not Results(path, settings={}, budget="smoke").has(unit)


@pytest.mark.slow  # importing some of them takes seconds
@pytest.mark.parametrize("library", list(DENSITIES))
def test_peers_learn_where_targets_are(library):
    packages, fit = DENSITIES[library]
    for name in packages:
        pytest.importorskip(name, reason=f"{name} is not installed")
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(300, 1))
    y = np.where(x[:, 0] < 0.5, -1.0, 1.0) + 0.1 * rng.standard_normal(300)
    job = Job(x[:200], y[:200], x[200:], y[200:], 4, 40, 10, 0)
    more = {"n_components": 1, "max_delta_step": 1.0, "stabilization": "L2", "initialize": False}
    mixture = fit(job, learning_rate=0.1, **(more if library == "lightgbmlss" else {}))(x)
    mean = np.asarray(mixture.mean())[:, 0]
    assert np.corrcoef(mean, np.sign(x[:, 0] - 0.5))[0, 1] > 0.9
    assert np.all(np.abs(mean) < 2)


def test_quantile_regressions_run_at_the_smoke_budget(data_dir):
    loaded = spec.load("boosting_peers", "smoke")
    module = runner.experiment(loaded.experiment)
    settings = spec.make_settings(module.Settings, "x", loaded.settings)
    unit = next(u for u in module.units(settings) if u["method"] == "LightGBM quantiles")
    result = module.run(settings, unit)
    assert 0 < result["quantile_crps"] < 20
