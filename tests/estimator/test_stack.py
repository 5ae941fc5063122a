"""The stack of networks and boosted trees as an estimator."""

import copy
import dataclasses

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import special
from sklearn.base import clone

import ngem
from ngem import (
    DensityStack,
    MDNRegressor,
    MixtureBoostingRegressor,
    _files,
)
from ngem.estimator import stack_file

from .common import mixed_table

pytestmark = pytest.mark.trains

NETWORK = MDNRegressor(
    2, hidden_sizes=(16,), batch_size=32, max_epochs=40, learning_rate=2e-2, dropout=0.0
)
TREES = MixtureBoostingRegressor(
    2, max_rounds=60, learning_rate=0.2, min_rows_in_leaf=10, scale_rate=0.1
)
KINDS = (("network", NETWORK), ("trees", TREES))


def steps(n_rows=300, seed=0):
    """A wave and steps: each kind learns one of them better."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n_rows, 2))
    y = 0.5 * np.sin(4 * x[:, 0]) + np.floor(3 * x[:, 1]) + 0.1 * rng.standard_normal(n_rows)
    return x, 100 + 20 * y


def at_width(model, width):
    """Return a copy of a stack whose components have another width."""
    changed = copy.copy(model)
    network = model.model_.network.at_width(width)
    changed.model_ = dataclasses.replace(model.model_, network=network)
    return changed


@pytest.fixture(scope="module", name="model")
def _model(promotes):
    with promotes():
        return DensityStack(KINDS, n_members=3, n_repeats=2, random_state=0).fit(*steps())


def test_the_density_is_that_of_the_kinds_with_their_weights(model):
    x, y = steps(40, seed=1)
    model = at_width(model, None)
    weights = np.array([kind.weight for kind in model.kinds_])
    assert weights.sum() == pytest.approx(1)
    assert [kind.outcome for kind in model.kinds_] == ["used", "used"]
    each = np.stack([one.log_prob(x, y) for one in model.estimators_.values()], axis=1)
    expected = special.logsumexp(each, b=weights, axis=1)
    np.testing.assert_allclose(model.log_prob(x, y), expected, rtol=1e-4, atol=1e-4)
    means = np.stack([one.predict(x) for one in model.estimators_.values()], axis=1)
    np.testing.assert_allclose(model.predict(x), means @ weights, rtol=1e-5)
    quantiles = model.predict_quantiles(x, [0.1, 0.9])
    np.testing.assert_allclose(model.pit(x, quantiles[:, 0]), 0.1, atol=1e-3)


def test_rows_are_encoded_once_for_several_predictions(model):
    x, y = steps(12, seed=2)
    encoded, inputs = model.model_.encoded(x)
    np.testing.assert_array_equal(encoded.mean(inputs), model.model_.mean(x))
    targets = y[:, None]
    np.testing.assert_array_equal(encoded.pit(inputs, targets), model.model_.pit(x, targets))


def test_the_stack_is_at_least_as_good_as_each_kind_on_held_out_rows(model):
    each = np.stack([one.oof_log_prob_ for one in model.estimators_.values()], axis=1)
    assert model.oof_log_prob_.mean() >= each.mean(axis=0).max() - 1e-6
    facts = model.diagnostics_
    assert facts["oof_nll"] == pytest.approx(-model.oof_log_prob_.mean())
    assert facts["gain_over_best_kind"] == pytest.approx(
        model.oof_log_prob_.mean() - each.mean(axis=0).max()
    )
    network = model.estimators_["network"]
    linear = network.oof_log_prob_.mean() - network.diagnostics_["gain_over_linear"]
    assert facts["gain_over_linear"] == pytest.approx(model.oof_log_prob_.mean() - linear, abs=1e-6)


def test_held_out_rows_are_judged_by_members_that_have_not_seen_them(model):
    x, y = steps()
    found = np.full(len(y), np.nan)
    for rows, held_out in model.held_out_models():
        assert held_out.network.n_members == 2 * 2  # of both kinds, those that held the rows out
        found[rows] = held_out.log_prob(x[rows], y[rows, None])
    # But for the linear model beside the members, which has left each of these rows out as well.
    np.testing.assert_allclose(found, model.oof_log_prob_, atol=0.1)
    assert found.mean() == pytest.approx(model.oof_log_prob_.mean(), abs=1e-2)


def test_held_out_rows_choose_the_width(model):
    x, y = steps()
    network = model.model_.network
    assert model.width_ == pytest.approx(float(network.width)) == model.diagnostics_["width"]

    def score(width):
        pools = at_width(model, width).held_out_models()
        each = [held_out.log_prob(x[rows], y[rows, None]) for rows, held_out in pools]
        return np.concatenate(each).mean()

    best = score(model.width_)
    assert best > max(score(0.95 * model.width_), score(1.05 * model.width_))
    assert model.diagnostics_["gain_of_width"] == pytest.approx(best - score(None), abs=1e-3)
    before = at_width(model, None).model_.mixture(x[:5])
    after = model.model_.mixture(x[:5])
    np.testing.assert_allclose(after.components.mean, before.components.mean, rtol=1e-5)
    scales = model.width_ * before.components.scale
    np.testing.assert_allclose(after.components.scale, scales, rtol=1e-5)


@pytest.mark.slow
def test_a_stack_may_hold_each_row_out_once():
    kinds = [("trees", clone(TREES).set_params(max_rounds=5))]
    fitted = DensityStack(kinds, n_members=3, n_repeats=1, random_state=0).fit(*steps())
    assert len(fitted.folds_) == 3
    assert fitted.model_.network.n_members == 3
    assert 0 < fitted.width_ <= 1


@pytest.mark.slow
def test_uncertainty_is_split_by_weighted_members(model):
    x, _ = steps(10, seed=2)
    parts = model.predict_uncertainty(x)
    inside = model.model_
    members = jax.jit(jax.vmap(inside.network.each))(inside.inputs.forward(x))
    means, variances = (np.asarray(m)[..., 0] for m in (members.mean(), members.variance()))
    weights, scale = np.asarray(inside.network.member_weights), inside.targets.scale[0] ** 2
    np.testing.assert_allclose(parts.noise_variance, scale * variances @ weights, rtol=2e-3)
    spread = means**2 @ weights - (means @ weights) ** 2
    np.testing.assert_allclose(parts.model_variance, scale * spread, rtol=1e-2)


@pytest.mark.slow
def test_gaps_are_accepted_and_weights_count():
    x, y = steps()
    x[3, 0] = np.nan
    weights = np.where(np.arange(len(y)) < 150, 2.0, 1.0)
    weights[::7] = 0.0
    kinds = [("network", clone(NETWORK).set_params(missing="impute", max_epochs=2))]
    fitted = DensityStack(kinds, n_members=2, random_state=0).fit(x, y, weights)
    assert np.isfinite(fitted.predict(x)).all()
    counted = weights > 0
    np.testing.assert_array_equal(np.isfinite(fitted.oof_log_prob_), counted)
    assert fitted.diagnostics_["oof_nll"] == pytest.approx(
        -np.average(fitted.oof_log_prob_[counted], weights=weights[counted])
    )
    for rows, held_out in fitted.held_out_models():
        found = held_out.log_prob(x[rows], y[rows, None])
        # The linear model beside the networks is another one without the only row with a gap.
        off = np.abs(found - fitted.oof_log_prob_[rows])[rows != 3]
        assert off.max() < 0.2


@pytest.mark.slow
def test_all_kinds_read_the_same_data_frame(tmp_path):
    """Networks read an input for each category, trees the codes; the file knows both."""
    table, y = mixed_table(300)
    y = y.where(table["place"] != "north", 3 * (table["grade"] == "a"))  # no line follows that
    kinds = [
        ("network", clone(NETWORK).set_params(missing="impute", max_epochs=10)),
        ("trees", clone(TREES).set_params(max_rounds=20)),
    ]
    model = DensityStack(kinds, n_members=2, random_state=0).fit(table, y)
    assert list(model.estimators_) == ["network", "trees"]
    assert model.estimators_["trees"].model_.inputs.n_features == 7  # a date is three
    assert model.score(table, y) > 0.5
    expected = model.predict(table)
    each = [one.predict(table) for one in model.estimators_.values()]
    weights = [kind.weight for kind in model.kinds_]
    np.testing.assert_allclose(expected, np.average(each, axis=0, weights=weights), rtol=1e-5)
    model.save(tmp_path / "stack")
    loaded = ngem.load(tmp_path / "stack")
    assert list(loaded.feature_names_in_) == list(table.columns)
    shuffled = pl.from_pandas(table[table.columns[::-1]])
    np.testing.assert_array_equal(loaded.predict(shuffled), expected)
    with pytest.raises(ValueError, match="got none named 'place'"):
        loaded.predict(table.drop(columns="place"))


@pytest.mark.slow
def test_trees_of_a_stack_read_more_categories_than_networks_have_inputs_for(tmp_path):
    rng = np.random.default_rng(0)
    shop = rng.permutation(np.arange(3000) % 150)
    level = rng.normal(size=150)
    table = pd.DataFrame({"shop": [f"s{one:03}" for one in shop], "x": rng.uniform(size=3000)})
    y = level[shop] + 0.1 * rng.standard_normal(3000)
    trees = clone(TREES).set_params(max_rounds=100, min_rows_in_leaf=3)
    network = clone(NETWORK).set_params(missing="impute", max_epochs=2)
    for name, kind in (("trees", trees), ("network", network)):
        settings = {"n_members": 2, "n_repeats": 1, "random_state": 0}
        model = DensityStack([(name, kind)], **settings).fit(table, y)
        column = model.table_.features[0]
        assert (len(column.labels), column.common) == (150, 100)
        model.save(tmp_path / name)
        loaded = ngem.load(tmp_path / name)
        np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
        used = model.estimators_[name]
        if name == "trees":
            rare = table["shop"].isin(column.categories[100:])
            assert used.score(table[rare], y[rare]) > 0.5  # they tell rare shops apart
        else:
            assert used.model_.inputs.n_columns == 100 + 1 + 1


def test_kinds_without_held_out_rows_are_refused():
    kinds = [("network", clone(NETWORK).set_params(early_stopping=False, max_epochs=1))]
    with pytest.raises(ValueError, match="the kinds of a stack must hold rows out"):
        DensityStack(kinds, n_members=2, random_state=0).fit(*steps(60))


def test_a_budget_leaves_kinds_out_and_says_so():
    fitted = DensityStack(KINDS, n_members=3, budget=0.001, random_state=0).fit(*steps())
    assert [kind.outcome for kind in fitted.kinds_] == [
        "used",
        "not fitted: the budget was used up",
    ]
    assert list(fitted.estimators_) == ["network"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kinds": ["forest"]}, "kinds must be .*'network'.*got"),
        ({"kinds": []}, "kinds must be"),
        ({"kinds": ["trees", "trees"]}, "kinds must be .*no name twice"),
        ({"quality": "great"}, "quality must be one of 'fast', 'good', 'best'"),
        ({"budget": -1}, "budget must be .*seconds"),
        ({"n_members": 1}, "n_members must be an integer of at least 2"),
        ({"n_repeats": 9}, "n_repeats must be 'auto' or an integer from 1 to 4"),
        ({"n_repeats": "many"}, "n_repeats must be 'auto'"),
    ],
)
def test_bad_parameters_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DensityStack(**settings).fit(*steps(20))


def test_a_saved_stack_predicts_the_same(model, tmp_path):
    path = tmp_path / "model.ngem"
    model.save(path)
    loaded = ngem.load(path)
    x, y = steps(30, seed=3)
    np.testing.assert_array_equal(loaded.log_prob(x, y), model.log_prob(x, y))
    assert loaded.kinds_ == model.kinds_
    assert loaded.diagnostics_ == model.diagnostics_
    assert loaded.get_params()["n_members"] == 3
    assert loaded.get_params()["n_repeats"] == 2
    loaded.set_params(random_state=0).fit(*steps())
    np.testing.assert_allclose(loaded.log_prob(x, y), model.log_prob(x, y), rtol=1e-6)


def test_a_stack_from_before_widths_is_read_as_it_was(model, tmp_path):
    path = tmp_path / "model.ngem"
    model.save(path)
    arrays, header = _files.read(path, kind=stack_file.KIND, version=1)
    new = ("width", "gain_of_width")
    facts = {name: value for name, value in header["diagnostics"].items() if name not in new}
    older = {name: value for name, value in header.items() if name != "n_repeats"}
    _files.write(path, arrays, {**older, "diagnostics": facts}, kind=stack_file.KIND, version=1)
    loaded, (x, y) = ngem.load(path), steps(20, seed=3)
    assert (loaded.width_, loaded.n_repeats) == (1.0, 1)
    np.testing.assert_array_equal(loaded.log_prob(x, y), at_width(model, None).log_prob(x, y))


@pytest.mark.slow
def test_a_changed_stack_is_refused(model, tmp_path):
    path = tmp_path / "model.ngem"
    model.save(path)
    arrays, header = _files.read(path, kind=stack_file.KIND, version=1)
    first, second = header["parts"]
    changes = [
        {"parts": []},
        {"parts": [first]},
        {"parts": [second, first]},
        {"parts": [{**first, "weight": 0.9}, second]},
        {"parts": [{**first, "kind": "ngem.Other"}, second]},
        {"parts": [{**first, "name": second["name"]}, second]},
        {"n_features": 3},
        {"n_outputs": 2},
        {"reports": [["network"]]},
        {"diagnostics": {}},
        {"quality": "great"},
        {"n_members": 1},
        {"more": 1},
        {"diagnostics": {**header["diagnostics"], "width": 1.5}},
        {"diagnostics": {**header["diagnostics"], "width": None}},
    ]
    for change in changes:
        _files.write(path, arrays, {**header, **change}, kind=stack_file.KIND, version=1)
        with pytest.raises(_files.FileError, match="a model file must hold"):
            ngem.load(path)
    _files.write(path, {**arrays, "9/x": np.zeros(2)}, header, kind=stack_file.KIND, version=1)
    with pytest.raises(_files.FileError, match="no arrays beyond"):
        ngem.load(path)
