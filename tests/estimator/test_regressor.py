"""The estimator: scikit-learn's own checks, units, shapes, weights, gaps and files.

Oracles are scikit-learn's linear models, scipy's densities and numerical integration. Nearly all
fits share a few shapes, so that little is compiled twice.
"""

import copy
import dataclasses
import functools
import os
import pickle
import subprocess
import sys
import textwrap
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import polars as pl
import pytest
from scipy import integrate, stats
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from ngem import MDNRegressor
from ngem.estimator import parameters, prediction
from ngem.estimator.encoding import encode as encode_rows
from ngem.estimator.preprocessing import Scaling
from ngem.objectives import NGEM, NLL
from ngem.training import FitError
from ngem.training.callbacks import TensorBoardLogger

from ..cases import slow_but
from .common import TINY, branches, correlated, fitted, mixed_table, scikit_learn_checks, tiny

pytestmark = pytest.mark.trains

#: For tables of many shapes, each of which needs a program of its own: this one compiles fastest.
SMALLEST = {"hidden_sizes": (), "objective": "nll", "early_stopping": False, "max_epochs": 20}


@pytest.fixture
def one():
    return fitted("one")


@pytest.fixture
def two():
    return fitted("two")


# scikit-learn's own checks

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "Compares to seven digits, where single precision has as many; and a repeated row can be "
        "held out and trained on at once, which a weighted one cannot. scikit-learn exempts its "
        "own stochastic estimators. See test_weights_count_like_repeated_rows."
    )
}


@pytest.mark.parametrize(
    ("estimator", "check"),
    scikit_learn_checks(MDNRegressor(**{**TINY, **SMALLEST}), EXPECTED_FAILURES),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


MEMBERS = {"n_members": 2, "dropout": 0.0, "guard": True, "max_epochs": 20}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "check"),
    scikit_learn_checks(MDNRegressor(**{**TINY, **MEMBERS}), EXPECTED_FAILURES),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks_of_members(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_it_clones_searches_and_sits_in_a_pipeline():
    x, y = branches()
    estimator = tiny(**SMALLEST)
    assert clone(estimator).get_params() == estimator.get_params()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), estimator),
        {"mdnregressor__learning_rate": [1e-3, 1e-2], "mdnregressor__max_epochs": [3, 20]},
        cv=2,
    )
    search.fit(x, y)
    assert search.predict(x).shape == y.shape
    assert cross_val_score(estimator, x, y, cv=2).shape == (2,)


@pytest.mark.slow
def test_text_is_refused_with_a_way_out_that_works():
    x, y = branches()
    table = pd.DataFrame({"a": x[:, 0], "b": np.where(x[:, 1] > 1, "high", "low")})
    with pytest.raises(ValueError, match="pass a data frame"):
        tiny().fit(np.array([["a", "1"], ["b", "2"]]), y[:2])
    with pytest.raises(ValueError, match=r"got a dictionary; for one row try pandas\.DataFrame"):
        tiny().fit({"a": x[:, 0]}, y)
    assert tiny(max_epochs=5).fit(table, y).predict(table).shape == y.shape
    for words in (y.astype(str), pd.Series(np.where(y > 0, "up", "down")).astype("category")):
        with pytest.raises(
            ValueError, match=r"y must hold numbers only, got text.*astype\(float\)"
        ):
            tiny().fit(x, words)
    with pytest.raises(ValueError, match="y must hold numbers only"):
        tiny().fit(x, pd.Series(pd.date_range("2020", periods=len(y))))
    encode = ColumnTransformer([("b", OneHotEncoder(), ["b"])], remainder="passthrough")
    assert make_pipeline(encode, tiny(**SMALLEST)).fit(table, y).predict(table).shape == y.shape


def test_names_of_features_are_kept_and_checked(tmp_path):
    x, y = branches()
    table = pd.DataFrame(x, columns=["größe", "b"])
    fitted = tiny().fit(table, pd.Series(y))
    assert list(fitted.feature_names_in_) == ["größe", "b"]
    fitted.save(tmp_path / "model")
    loaded = MDNRegressor.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(table), fitted.predict(table))
    for other in (table[["b", "größe"]], table.assign(more="x"), pl.from_pandas(table)):
        assert np.array_equal(loaded.predict(other), fitted.predict(table))
    with pytest.raises(ValueError, match=r"got none named 'größe'; it has 'Größe' instead"):
        loaded.predict(table.rename(columns={"größe": "Größe"}))
    with pytest.warns(UserWarning, match="valid feature names"):
        assert np.array_equal(loaded.predict(x), fitted.predict(table))


def test_a_data_frame_is_learned_from_as_it_is(tmp_path):
    table, y = mixed_table()
    model = tiny(missing="impute").fit(table, y)
    assert model.n_features_in_ == 5
    assert model.table_.targets == ("price",)
    assert model.score(table, y) > 0.9
    model.save(tmp_path / "model")
    loaded = MDNRegressor.load(tmp_path / "model")
    assert loaded.table_ == model.table_
    expected = model.predict(table)
    shuffled = pl.from_pandas(table[table.columns[::-1]])
    np.testing.assert_array_equal(loaded.predict(shuffled), expected)
    new = table.head(3).assign(place=["moon", "north", None])
    assert np.isfinite(loaded.log_prob(new, y[:3])).all()
    with pytest.raises(ValueError, match="contains NaN"):
        tiny().fit(table, y)


def test_the_distribution_function_is_that_of_scipy(one, two):
    x, _ = branches()
    mixture = one.predict_distribution(x)
    weights = np.asarray(mixture.weights)
    mean, scale = (np.asarray(part)[..., 0] for part in jax.tree.leaves(mixture.components))
    for t in (-1.0, 0.5):
        expected = np.sum(weights * stats.norm.cdf(t, mean, scale), axis=1)
        np.testing.assert_allclose(one.cdf(x, t), expected, atol=1e-5)
    both = one.cdf(x, [-1.0, 0.5])
    np.testing.assert_allclose(both[:, 1], one.cdf(x, 0.5), atol=1e-7)
    x, y = correlated()
    np.testing.assert_allclose(two.cdf(x, y[:3])[1], two.pit(x[[1] * 3], y[:3]), atol=1e-6)
    assert two.cdf(x, [1.0, 2.0, 3.0]).shape == (len(x), 3, 2)
    assert two.cdf(x, 1.0).shape == (len(x), 2)
    for t in ("a", None, [], np.nan, np.ones((2, 3)), np.ones((2, 2, 2))):
        with pytest.raises(ValueError, match=r"t must be a number or one sequence of them"):
            two.cdf(x, t)


def test_predict_gives_deviations_and_quantiles_also_through_a_pipeline(one, two):
    for model, (x, _) in ((one, branches()), (two, correlated())):
        mean, std, outside = model.predict(x, return_std=True, return_outside=True)
        np.testing.assert_array_equal(mean, model.predict(x))
        expected = np.sqrt(np.asarray(model.predict_distribution(x).variance(), np.float64))
        np.testing.assert_allclose(std, expected.reshape(std.shape), rtol=1e-4)
        assert outside.shape == (len(x),)
    x, _ = branches()
    pipeline = Pipeline([("same", FunctionTransformer()), ("model", one)])
    levels = [0.05, 0.95]
    expected = one.predict_quantiles(x, levels)
    np.testing.assert_array_equal(pipeline.predict(x, quantiles=levels), expected)
    mean, std = pipeline.predict(x, return_std=True)
    np.testing.assert_array_equal(mean, one.predict(x))


def test_another_number_of_draws_compiles_nothing(one, monkeypatch):
    x, _ = branches()
    one.sample(x, 60, random_state=0)
    programs = prediction._sample.n_programs
    for count in (17, 33, 64):
        assert one.sample(x, count, random_state=0).shape == (count, len(x))
    assert prediction._sample.n_programs == programs
    assert prediction._draws(1) == [1]
    assert prediction._draws(1024 + 5) == [1024, 16]
    assert prediction._draws(2048) == [1024, 1024]


@pytest.mark.slow
def test_a_frame_gives_the_inputs_of_a_one_hot_encoder():
    table, y = mixed_table()
    table = table.drop(columns="when").dropna()
    model = tiny(max_epochs=2).fit(table, y[table.index])
    encode = ColumnTransformer([("c", OneHotEncoder(), ["place", "grade"])])
    expected = np.column_stack([table["size"], encode.fit_transform(table), table["wet"]])
    found = model.model_.inputs.forward(encode_rows(table, model.table_.features))
    np.testing.assert_allclose(found, StandardScaler().fit_transform(expected), atol=0.2)
    standardized = model.model_.inputs.scaling.backward(found)
    np.testing.assert_allclose(standardized, expected.astype(float), atol=1e-6)


def test_text_is_found_in_any_table():
    x, y = branches()
    twice = pd.DataFrame(x, columns=["a", "a"]).astype(str)
    with pytest.raises(ValueError, match=r"column 'a'; pass a data frame .* a name for each"):
        tiny().fit(twice, y)
    pyarrow = pytest.importorskip("pyarrow")
    arrow = pyarrow.table({"a": x[:, 0], "b": x[:, 1]})
    assert np.isfinite(tiny(max_epochs=2).fit(arrow, y).predict(arrow)).all()
    words = arrow.set_column(1, "b", pyarrow.array(np.where(x[:, 1] > 1, "high", "low")))
    assert np.isfinite(tiny(max_epochs=2).fit(words, y).predict(words)).all()


# Parameters

BAD = {
    "n_components": [0, -1, 2.5, True, "5"],
    "hidden_sizes": [(0,), 128, "128", (1.5,)],
    "activation": ["sigmoid", 3],
    "covariance": ["round", 3],
    "objective": ["mle", None],
    "power": [-0.1, 2.0, (0.5, 0.0), (0.5, 0.0, 0.0), "half"],
    "optimizer": ["adma", None, ()],
    "learning_rate": [0.0, -1e-3, np.inf, np.nan, "auto"],
    "batch_size": [0, 1e3],
    "max_epochs": [0],
    "early_stopping": [1, None],
    "validation_fraction": [0, 1, -0.1],
    "patience": [0],
    "init": ["zeros"],
    "network": [3],
    "n_bins": [0, 1.5, "all"],
    "input_limit": [0, -1.0, "all"],
    "dropout": [1.0, -0.1, "some"],
    "clip_norm": [0],
    "learning_rate_schedule": ["step"],
    "warmup": [1.5],
    "ema": [1.0],
    "scale_floor": [0, -1],
    "missing": ["drop"],
    "callbacks": [[3], None],
    "checkpoint": [3],
    "verbose": [-1, "yes"],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in BAD.items() for v in vs])
def test_bad_parameters_are_refused_at_fit(name, value):
    estimator = tiny().set_params(**{name: value})
    with pytest.raises(ValueError, match=rf"{name} must be .*, got .*; for example {name}="):
        estimator.fit(*branches())


@pytest.mark.parametrize(
    ("dim", "n_rows", "changes", "expected"),
    [
        (1, 10**6, {}, (5, "diag")),
        (2, 999, {}, (5, "diag")),
        (2, 1000, {}, (20, "full")),
        (16, 1000, {}, (20, "full")),
        (17, 1000, {}, (20, "diag")),  # a full covariance would need too many outputs
        (3, 1000, {"family": "laplace"}, (20, "diag")),  # has no full covariance
        (3, 1000, {"network": len}, (5, "diag")),  # its number of outputs is fixed
        (3, 1000, {"n_components": 2}, (2, "full")),
        (3, 1000, {"covariance": "diag"}, (20, "diag")),
    ],
)
def test_components_and_covariance_follow_the_targets(dim, n_rows, changes, expected):
    settings = MDNRegressor(**changes).get_params()
    resolved = parameters.resolve(settings, dim, n_rows)
    assert (resolved["n_components"], resolved["covariance"]) == expected
    others = set(settings) - {"n_components", "covariance"}
    assert all(resolved[name] is settings[name] for name in others)


def test_parameters_that_need_each_other():
    x, y = branches()
    with pytest.raises(ValueError, match="init must be 'random' with a network of your own"):
        tiny(network=lambda row: row, init="kmeans").fit(x, y)
    with pytest.raises(ValueError, match="random_state must be an integer with a checkpoint"):
        tiny(checkpoint="file", random_state=None).fit(x, y)


SETTINGS = {
    "optax": {"family": "logistic", "power": None, "optimizer": optax.adam(1e-2), "init": "random"},
    "networks": {
        "separate_networks": True,
        "layer_norm": True,
        "dropout": 0.2,
        "n_bins": 4,
        "input_limit": 2.0,
        "power": 0.5,
        "learning_rate_schedule": "constant",
    },
    "everything else": {
        "objective": "beta-nll",
        "optimizer": "adamw",
        "ema": 0.9,
        "clip_norm": 1.0,
        "power": (1.0, 0.0, 0.5),
        "warmup": 0.1,
        "hidden_sizes": (),
        "scale_inputs": False,
        "scale_targets": False,
    },
}


@pytest.mark.parametrize("name", slow_but(SETTINGS, "everything else"))
def test_settings_reach_the_fit(name, one):
    x, y = branches()
    fitted = tiny(**SETTINGS[name]).fit(x, y)
    assert np.isfinite(fitted.log_prob(x, y)).all()
    assert not np.array_equal(fitted.predict(x), one.predict(x))


def test_a_network_of_your_own():
    x, y = branches()

    def body(row):
        return jnp.concatenate([jnp.zeros(2, row.dtype), jnp.tile(row, 2)])

    settings = {"init": "random", "scale_inputs": False, "scale_targets": False}
    fixed = tiny(network=body, max_epochs=1, **settings).fit(x, y)
    mixture = fixed.predict_distribution(x)
    np.testing.assert_allclose(mixture.components.mean[:, :, 0], np.tile(x[:, :1], 2), rtol=1e-6)
    module = eqx.nn.MLP(2, 6, 8, 1, key=jax.random.key(0))
    learned = tiny(network=module, **settings).fit(x, y)
    assert learned.log_prob(x, y).mean() > fixed.log_prob(x, y).mean()
    with pytest.raises(ValueError, match="the network must return 9 numbers"):
        tiny(network=module, init="random", n_components=3).fit(x, y)


# Units


@pytest.mark.slow  # `test_units_of_the_target_do_not_matter` has such an offset and a small network
def test_a_large_offset_loses_nothing():
    """y = 50000 + 1000 sin x + noise of 10, given as it is."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (1000, 1))
    truth = 50_000 + 1000 * np.sin(x[:, 0])
    y = truth + rng.normal(0, 10, 1000)
    fitted = tiny(hidden_sizes=(64, 64), max_epochs=300, learning_rate=1e-3).fit(x, y)
    prediction = fitted.predict(x)
    assert prediction.dtype == np.float64
    assert np.sqrt(np.mean((prediction - truth) ** 2)) < 3
    assert np.sqrt(np.mean((prediction - y) ** 2)) == pytest.approx(10, rel=0.05)
    tails = fitted.predict_quantiles(x[:200], [0.1587, 0.8413])
    assert np.median(np.diff(tails)) / 2 == pytest.approx(10, rel=0.2)


@pytest.mark.parametrize(("scale", "offset"), [(1e-9, 0.0), (1e9, -3e9), (1e-2, 5e4), (1e200, 0)])
def test_units_of_the_target_do_not_matter(scale, offset, one):
    x, y = branches()
    other = tiny().fit(x, offset + scale * y)
    moved = other.predict(x)
    expected = offset + scale * one.predict(x)
    # Rounding of what went in, in units of its spread, and what training makes of it.
    np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-3 * scale)
    shift = other.log_prob(x, offset + scale * y) - one.log_prob(x, y) + np.log(scale)
    np.testing.assert_allclose(shift, 0, atol=1e-2)
    assert other.diagnostics_["nll_offset"] == pytest.approx(
        one.diagnostics_["nll_offset"] + np.log(scale)
    )


DEGENERATE = {
    "five rows": (np.arange(5.0)[:, None], np.arange(5.0)),
    "constant columns": (np.ones((40, 1)), np.arange(40.0)),
    "duplicates": (np.tile(np.arange(4.0)[:, None], (10, 1)), np.tile(np.arange(4.0), 10)),
    "constant target": (np.arange(40.0)[:, None], np.full(40, 7e5)),
    "tiny": (np.arange(40.0)[:, None] * 1e-300, np.arange(40.0) * 1e9),
    "offset": (1e9 + 1e-9 * np.arange(40.0)[:, None], np.arange(40.0) * 1e-9),
}


@pytest.mark.parametrize(
    "name", slow_but(DEGENERATE, *(name for name in DEGENERATE if name != "duplicates"))
)
def test_degenerate_tables(name):
    x, y = DEGENERATE[name]
    fitted = tiny().fit(x, y)
    found = fitted.predict(x)
    assert np.isfinite(found).all()
    assert np.isfinite(fitted.log_prob(x, y)).all()
    slack = np.ptp(y) or 0.5  # a target that does not vary has 1 for its unit
    assert (found > y.min() - slack).all()
    assert (found < y.max() + slack).all()
    assert fitted.diagnostics_["validation_rows"] == (0 if len(x) == 5 else 10)


def test_features_far_outside_stay_finite(one):
    assert np.isfinite(one.predict(np.array([[1e300, -1e300], [1e30, 0.0]]))).all()
    x, y = branches()
    assert np.isfinite(tiny(max_epochs=2).fit(1e-300 * x, y).predict(1e300 * x)).all()


def with_outputs(model, raw):
    """Return a copy whose network gives these raw outputs for every row."""

    def last(tree):
        layer = tree.members.body.network.layers[-1]
        return layer.weight, layer.bias

    weight, _ = last(model.model_.network)
    constant = (jnp.zeros_like(weight), jnp.asarray([raw], weight.dtype))
    fixed = copy.copy(model)
    fixed.model_ = replace(
        model.model_,
        network=eqx.tree_at(last, model.model_.network, constant),
        targets=model.model_.targets._replace(location=np.zeros(1), scale=np.ones(1)),
    )
    return fixed


@pytest.mark.slow
def test_a_component_narrower_than_floats_at_its_mean_has_a_region(one):
    """As far outside the training rows, where means are huge and scales are at their floor."""
    fixed = with_outputs(one, [0.0, -1e4, 3e5, -20.0, 1e6, 3e17])
    region = fixed.predict_interval(branches()[0][:3])[:, 0]
    np.testing.assert_allclose(region, 3e5, rtol=1e-6)


# Predictions agree with each other and with scipy


def test_the_density_is_one_in_the_users_units():
    x, y = branches()
    y = 50_000 + 1e-3 * y
    fitted = tiny().fit(x, y)
    grid = np.linspace(y.min() - 3e-3, y.max() + 3e-3, 2001)
    row = np.repeat(x[:1], len(grid), axis=0)
    density = np.exp(fitted.log_prob(row, grid))
    assert integrate.simpson(density, x=grid) == pytest.approx(1, abs=1e-3)
    mean = integrate.simpson(density * (grid - 50_000), x=grid)
    assert fitted.predict(x[:1])[0] - 50_000 == pytest.approx(mean, abs=1e-5)


def normal_cdf(mixture, column, values):
    """Return P(Y <= value) of one target column, for values (rows, any number)."""
    weights, mean, scale = (
        np.asarray(leaf, np.float64) for leaf in (mixture.weights, *mixture.components)
    )
    scale = scale[:, :, column] if scale.ndim == 3 else np.linalg.norm(scale[:, :, column], axis=-1)
    standard = (values[..., None] - mean[:, None, :, column]) / scale[:, None]
    return np.sum(weights[:, None] * stats.norm.cdf(standard), axis=-1)


def test_quantiles_and_intervals_hold_what_they_say(one, two):
    for model, (x, _), columns in ((one, branches(), 1), (two, correlated(), 2)):
        mixture = model.predict_distribution(x[:20])
        quantiles = model.predict_quantiles(x[:20], [0.1, 0.5, 0.9]).reshape(20, 3, columns)
        tails = model.predict_interval(x[:20], 0.5, "equal-tailed").reshape(20, columns, 1, 2)
        region = model.predict_interval(x[:20], 0.8)
        pieces = region.shape[-2]  # as many as some row needs, at most one for each component
        assert 1 <= pieces <= 2
        assert np.isfinite(region[..., -1, :]).any()
        region = region.reshape(20, columns, pieces, 2)
        for column in range(columns):
            cdf = functools.partial(normal_cdf, mixture, column)
            expected = np.tile([0.1, 0.5, 0.9], (20, 1))
            np.testing.assert_allclose(cdf(quantiles[:, :, column]), expected, atol=1e-4)
            expected = np.tile([0.25, 0.75], (20, 1))
            np.testing.assert_allclose(cdf(tails[:, column, 0]), expected, atol=1e-4)
            ends = cdf(region[:, column].reshape(20, 2 * pieces)).reshape(20, pieces, 2)
            covered = np.nansum(np.diff(ends), axis=(1, 2))
            np.testing.assert_allclose(covered, 0.8, atol=1e-3)


def test_log_prob_of_several_targets_is_joint(two):
    x, y = correlated()
    found = two.log_prob(x[:5], y[:5])
    mixture = two.predict_distribution(x[:5])
    # scipy takes a covariance of such different units for singular; these two cancel.
    unit = np.array([1e3, 1e-3])
    means = np.asarray(mixture.components.mean) / unit
    factors = np.asarray(mixture.components.scale) / unit[:, None]
    for row in range(5):
        parts = zip(np.asarray(mixture.weights[row]), means[row], factors[row], strict=True)
        density = sum(
            weight * stats.multivariate_normal(mean, factor @ factor.T).pdf(y[row] / unit)
            for weight, mean, factor in parts
        )
        assert found[row] == pytest.approx(np.log(density), abs=1e-3)


@pytest.mark.slow
def test_samples_follow_the_distribution(two):
    x, _ = correlated()
    draws = two.sample(x[:3], 20_000, random_state=1)
    mixture = two.predict_distribution(x[:3])
    spread = np.sqrt(np.asarray(mixture.variance()))
    np.testing.assert_allclose((draws.mean(0) - two.predict(x[:3])) / spread, 0, atol=0.03)
    covariance = np.stack([np.cov(draws[:, row].T) for row in range(3)])
    expected = np.asarray(mixture.covariance())
    tolerance = 0.05 * spread[:, :, None] * spread[:, None, :]
    assert (np.abs(covariance - expected) < tolerance).all()
    assert np.array_equal(draws, two.sample(x[:3], 20_000, random_state=1))
    assert not np.array_equal(draws, two.sample(x[:3], 20_000, random_state=2))


SHAPES = {
    "predict": (lambda m, x: m.predict(x), (7,), (7, 2)),
    "quantiles": (lambda m, x: m.predict_quantiles(x, [0.1, 0.9]), (7, 2), (7, 2, 2)),
    "quantile": (lambda m, x: m.predict_quantiles(x, 0.1), (7,), (7, 2)),
    "hdr": (lambda m, x: m.predict_interval(x), (7, 2, 2), (7, 2, 2, 2)),
    "tails": (lambda m, x: m.predict_interval(x, 0.5, "equal-tailed"), (7, 1, 2), (7, 2, 1, 2)),
    "sample": (lambda m, x: m.sample(x, 3), (3, 7), (3, 7, 2)),
    "log_prob": (lambda m, x: m.log_prob(x, m.predict(x)), (7,), (7,)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_dtypes(name, one, two):
    method, *shapes = SHAPES[name]
    x, _ = branches()
    for model, shape in zip((one, two), shapes, strict=True):
        for dtype in (np.float32, np.float64):
            found = method(model, x[:7].astype(dtype))
            assert found.shape == shape or (name == "hdr" and found.shape[-2] == 1)
            assert found.dtype == np.float64


def test_the_mixture_and_a_column_of_targets(one):
    x, y = branches()
    assert one.predict_distribution(x).logits.dtype == jnp.float64
    assert one.predict_distribution(x.astype(np.float32)).logits.dtype == jnp.float64
    assert tiny(max_epochs=2).fit(x, y[:, None]).predict(x).shape == (120, 1)


def test_what_cannot_be_predicted_is_refused(one):
    x, y = branches()
    with pytest.raises(ValueError, match=r"q must lie between 0 and 1"):
        one.predict_quantiles(x, 50)
    with pytest.raises(ValueError, match=r"q must be a number or one sequence"):
        one.predict_quantiles(x, [[0.5]])
    for q in ([], "median"):
        with pytest.raises(ValueError, match=r"q must be a number or one sequence of them, got"):
            one.predict_quantiles(x, q)
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        one.predict_interval(x, 90.0)
    for coverage in ([0.5, 0.9], "90%", None):
        with pytest.raises(ValueError, match=r"coverage must be a number, got .*; for example"):
            one.predict_interval(x, coverage)
    with pytest.raises(ValueError, match="kind must be one of"):
        one.predict_interval(x, kind="hpd")
    with pytest.raises(ValueError, match="y must hold 1 target columns"):
        one.log_prob(x, np.stack([y, y], axis=1))
    for n_samples in (0, 10**6 + 1, 2**31):
        with pytest.raises(ValueError, match="n_samples must be an integer from 1 to 1,000,000"):
            one.sample(x, n_samples)
    for method in ("predict", "predict_distribution", "sample", "predict_interval"):
        with pytest.raises(NotFittedError):
            getattr(tiny(), method)(x)


def test_blocks_of_rows_change_nothing_and_compile_nothing(monkeypatch):
    x, y = branches(1000)
    traced = []

    def body(row):
        traced.append(row.shape)
        return jnp.concatenate([row, row, row])

    fitted = tiny(network=body, init="random", max_epochs=1).fit(x[:120], y[:120])
    whole = fitted.predict(x), fitted.predict_quantiles(x, [0.3])
    monkeypatch.setattr(prediction, "_SIZES", (64, 128))
    fitted.predict(x), fitted.predict_quantiles(x, [0.3])
    seen = len(traced)
    for n_rows in (1000, 999, 700):
        blocks = fitted.predict(x[:n_rows]), fitted.predict_quantiles(x[:n_rows], [0.3])
        for a, b in zip(whole, blocks, strict=True):
            np.testing.assert_allclose(a[:n_rows], b, rtol=1e-6, atol=1e-6)
    assert len(traced) == seen


# Training


def test_the_best_epoch_is_kept(one):
    history = one.history_
    assert history["validation_nll"].shape == history["train_nll"].shape == (1, one.n_iter_)
    x, y = branches(400, seed=1)
    settings = {"patience": 3, "max_epochs": 300, "objective": "nll"}
    watched = tiny(**settings).fit(x[:120], y[:120], eval_set=(x[120:], y[120:]))
    (curve,), (best,) = watched.history_["validation_nll"], watched.best_epoch_
    assert best == np.argmin(curve)
    assert watched.n_iter_ == best + 4 < 300
    # The curve has a light tail: one percent of a Cauchy density in standardized units.
    log_prob, scale = watched.log_prob(x[120:], y[120:]), watched.diagnostics_["target_scale"][0]
    tail = stats.cauchy(watched.diagnostics_["target_location"][0], scale).logpdf(y[120:])
    mixed = np.logaddexp(np.log(0.99) + log_prob, np.log(0.01) + tail)
    assert -mixed.mean() - np.log(scale) == pytest.approx(curve[best], abs=1e-4)
    assert watched.diagnostics_["training_rows"] == 120
    assert watched.diagnostics_["validation_rows"] == 280


def test_without_early_stopping_all_rows_are_trained_on():
    fitted = tiny(early_stopping=False, max_epochs=7).fit(*branches())
    assert fitted.n_iter_ == 7
    assert fitted.best_epoch_ == [6]
    assert np.isnan(fitted.history_["validation_nll"]).all()
    assert fitted.diagnostics_["gain_over_linear"] is None  # no rows to judge by
    assert np.isnan(fitted.oof_log_prob_).all()


def test_eval_set_is_checked():
    x, y = branches()
    with pytest.raises(ValueError, match=r"eval_set must be \(X, y\) or"):
        tiny().fit(x, y, eval_set=x)
    with pytest.raises(ValueError, match=r"eval_set y contains NaN.*at row 3"):
        tiny().fit(x, y, eval_set=(x, np.where(np.arange(120) == 3, np.nan, y)))
    with pytest.raises(ValueError, match="y must hold 1 target columns"):
        tiny().fit(x, y, eval_set=(x, np.stack([y, y], axis=1)))


def test_a_seed_decides_everything():
    x, y = branches()
    first, second = (tiny(max_epochs=5).fit(x, y).predict(x) for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, tiny(max_epochs=5, random_state=1).fit(x, y).predict(x))
    free = [tiny(max_epochs=5, random_state=None).fit(x, y).predict(x) for _ in range(2)]
    assert not np.array_equal(*free)


def test_a_weight_of_zero_drops_the_row():
    x, y = branches()
    keep = np.arange(120) % 6 > 0
    weights = np.where(keep, 2.5, 0.0)
    weighted = tiny(max_epochs=5).fit(x, np.where(keep, y, 1e6), sample_weight=weights)
    dropped = tiny(max_epochs=5).fit(x[keep], y[keep])
    assert np.array_equal(weighted.predict(x), dropped.predict(x))


def test_weights_count_like_repeated_rows():
    x, y = branches()
    counts = np.random.default_rng(0).integers(0, 4, 120)
    settings = {"early_stopping": False, "init": "random", "batch_size": 1000, "max_epochs": 20}
    weighted = tiny(**settings).fit(x, y, sample_weight=counts)
    repeated = tiny(**settings).fit(np.repeat(x, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.predict(x), repeated.predict(x), atol=1e-4)
    for name in ("target_location", "target_scale", "effective_components"):
        np.testing.assert_allclose(
            weighted.diagnostics_[name], repeated.diagnostics_[name], rtol=1e-3
        )


def test_weights_that_leave_too_little_are_refused():
    x, y = branches()
    with pytest.raises(ValueError, match="positive for at least two rows"):
        tiny().fit(x, y, sample_weight=np.arange(120) == 3)
    with pytest.raises(
        ValueError, match=r"one number of at least 0 for each of the 120 rows, .* -1 as the"
    ):
        tiny().fit(x, y, sample_weight=np.full(120, -1.0))


def test_a_fit_that_diverges_leaves_nothing_behind():
    x, y = branches()
    estimator = tiny().fit(x, y)
    estimator.set_params(learning_rate=1e29, optimizer="sgd")
    with pytest.raises(FitError, match="try") as caught:
        estimator.fit(x, y)
    assert np.isfinite(caught.value.result.network.body.network.layers[0].weight).all()
    with pytest.raises(NotFittedError):
        estimator.predict(x)


def test_a_run_resumes_from_its_checkpoint(tmp_path):
    x, y = branches()
    whole = tiny(max_epochs=30, patience=30).fit(x, y)

    def stop(progress):
        if progress.epoch == 5:
            raise KeyboardInterrupt

    settings = {"max_epochs": 30, "patience": 30, "checkpoint": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        tiny(callbacks=[stop], **settings).fit(x, y)
    assert (tmp_path / "run").exists()
    resumed = tiny(**settings).fit(x, y)
    assert np.array_equal(whole.predict(x), resumed.predict(x))
    assert np.array_equal(whole.history_["train_nll"], resumed.history_["train_nll"])
    assert np.array_equal(whole.predict(x), tiny(**settings, verbose=1).fit(x, y).predict(x))
    with pytest.raises(ValueError, match="other values of data"):
        tiny(**settings).fit(x, y + 1e-3 * x[:, 0])


@pytest.mark.slow
def test_a_checkpoint_tells_apart_what_would_train_otherwise(tmp_path):
    x, y = branches()
    settings = {"max_epochs": 2, "checkpoint": tmp_path / "run"}
    networks = [eqx.nn.MLP(2, 6, 4, 1, key=jax.random.key(seed)) for seed in range(2)]
    first = {"network": networks[0], "objective": NGEM(damping=0.5)}
    tiny(**settings, **first).fit(x, y, eval_set=(x[:50], y[:50]))
    with pytest.raises(ValueError, match="other values of data"):
        tiny(**settings, **first).fit(x, y, eval_set=(x[50:], y[50:]))
    same_arrays = eqx.tree_at(lambda net: net.activation, networks[0], jax.nn.tanh)
    changes = [
        ("network", networks[1]),
        ("network", same_arrays),
        ("objective", NGEM(damping=0.1)),
    ]
    for name, value in changes:
        with pytest.raises(ValueError, match=f"other values of {name};"):
            tiny(**settings, **{**first, name: value}).fit(x, y, eval_set=(x[:50], y[:50]))


@pytest.mark.slow
def test_a_checkpoint_tells_unnamed_optimizers_apart(tmp_path):
    """The same optimizer, made anew, goes on to the same bits; one with another rate is refused."""
    x, y = branches()
    settings = {"max_epochs": 6, "patience": 30, "checkpoint": tmp_path / "run"}

    def stop(progress):
        if progress.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tiny(callbacks=[stop], optimizer=optax.adam(1e-1), **settings).fit(x, y)
    with pytest.raises(ValueError, match="other values of optimizer;"):
        tiny(optimizer=optax.adam(1e-4), **settings).fit(x, y)
    resumed = tiny(optimizer=optax.adam(1e-1), **settings).fit(x, y)
    whole = tiny(optimizer=optax.adam(1e-1), max_epochs=6, patience=30).fit(x, y)
    assert np.array_equal(whole.predict(x), resumed.predict(x))


def test_it_is_silent_and_calls_back(capsys, tmp_path):
    seen = []
    board = TensorBoardLogger(tmp_path)
    estimator = tiny(max_epochs=3, verbose=1, callbacks=[seen.append, board])
    clone(estimator).fit(*branches())
    assert capsys.readouterr() == ("", "")
    assert [progress.epoch for progress in seen] == [1, 2, 3]
    # The copy's file is complete although nobody could close it: three likelihoods an epoch.
    (events,) = tmp_path.iterdir()
    assert events.read_bytes().count(b"_nll") == 9


def test_diagnostics_say_what_was_found():
    x, y = branches(600)
    x_new, y_new = branches(5000, seed=1)
    settings = {"n_components": 4, "early_stopping": False, "max_epochs": 150, "init": "kmeans"}
    found = tiny(**settings).fit(x, y, eval_set=(x_new, y_new))
    facts = found.diagnostics_
    in_use = np.exp(stats.entropy(found.predict_distribution(x).weights, axis=1).mean())
    assert facts["effective_components"] == pytest.approx(in_use, rel=1e-4)
    assert in_use > 1.8  # there are two branches
    assert facts["skipped_steps"] == 0
    own = found.log_prob(x_new, y_new).mean()
    # The simple models have wide densities beside them, which hardly matter without outliers.
    gaussian = stats.norm(y.mean(), y.std()).logpdf(y_new).mean()
    assert facts["gain_over_gaussian"] == pytest.approx(own - gaussian, abs=0.01)
    line = LinearRegression().fit(x, y)
    noise = stats.norm(0, (y - line.predict(x)).std())
    linear = noise.logpdf(y_new - line.predict(x_new)).mean()
    assert facts["gain_over_linear"] == pytest.approx(own - linear, abs=0.01)
    assert facts["gain_over_linear"] > 0.5
    np.testing.assert_allclose(facts["target_location"], y.mean())
    np.testing.assert_allclose(facts["target_scale"], y.std())


def test_dead_components_are_counted():
    x, y = branches()

    def body(row):
        return jnp.concatenate([jnp.array([0.0, -20.0], row.dtype), 0 * row, 0 * row])

    found = tiny(network=body, init="random", max_epochs=1).fit(x, y)
    assert found.diagnostics_["dead_components"] == [1]
    assert found.diagnostics_["effective_components"] == pytest.approx(1, abs=1e-3)


# Gaps


def test_what_is_not_finite_is_named():
    x, y = branches()
    for value, word in ((np.nan, "NaN"), (np.inf, "infinity")):
        bad = x.copy()
        bad[7, 1] = value
        with pytest.raises(ValueError, match=rf"Input X contains {word}.*row 7, column 1"):
            tiny().fit(bad, y)
        with pytest.raises(ValueError, match=rf"Input y contains {word}.*row 7"):
            tiny(missing="impute").fit(x, np.where(np.arange(120) == 7, value, y))
    with pytest.raises(ValueError, match="missing='impute'"):
        tiny().fit(np.where(x > 1.9, np.nan, x), y)
    with pytest.raises(ValueError, match=r"infinity.*row 7, column 1"):
        tiny(missing="impute").fit(bad, y)


def test_gaps_are_filled_and_told_to_the_network(tmp_path):
    """Where the feature is missing the target is ten: only an indicator can say so."""
    x, y = branches()
    gap = np.arange(120) % 4 == 0
    x[gap, 0] = np.nan
    y = np.where(gap, 10.0, x[:, 1])
    fitted = tiny(missing="impute", max_epochs=100).fit(x, y)
    assert fitted.model_.inputs.n_columns == 3
    seen = np.delete(x, fitted.validation_rows_, axis=0)
    np.testing.assert_array_equal(fitted.model_.inputs.fill, np.nanmedian(seen, axis=0))
    assert np.sqrt(np.mean((fitted.predict(x) - y) ** 2)) < 0.3
    # A gap in a column that had none is filled as well.
    assert np.isfinite(fitted.predict(np.array([[1.0, np.nan]]))).all()
    with pytest.raises(ValueError, match="infinity"):
        fitted.predict(np.array([[1.0, np.inf]]))
    fitted.save(tmp_path / "model")
    assert np.array_equal(MDNRegressor.load(tmp_path / "model").predict(x), fitted.predict(x))


# Copies


def assert_same(left, right, x, y):
    for method in ("predict", "predict_interval"):
        assert np.array_equal(getattr(left, method)(x), getattr(right, method)(x), equal_nan=True)
    assert np.array_equal(left.log_prob(x, y), right.log_prob(x, y))
    assert left.diagnostics_ == right.diagnostics_
    for name, values in left.history_.items():
        assert np.array_equal(values, right.history_[name], equal_nan=True)
    for name in ("n_iter_", "best_epoch_", "n_outputs_", "n_features_in_"):
        assert getattr(left, name) == getattr(right, name)


@pytest.mark.slow
def test_copies_are_the_same(one, two, tmp_path):
    for model, (x, y) in ((one, branches()), (two, correlated())):
        assert_same(model, pickle.loads(pickle.dumps(model)), x, y)
        model.save(tmp_path / "model")
        loaded = MDNRegressor.load(tmp_path / "model")
        assert_same(model, loaded, x, y)
        left, right = model.get_params(), loaded.get_params()
        resolved = parameters.resolve(left, model.n_outputs_, len(y))  # None is a value in a file
        assert resolved == right


@pytest.mark.slow
def test_a_file_holds_what_the_targets_chose(tmp_path):
    x, y = correlated(1000)
    model = tiny(**{**SMALLEST, "n_components": None, "max_epochs": 1}).fit(x, y)
    assert (model.n_components_, model.covariance_) == (20, "full")
    assert (model.n_components, model.covariance) == (None, None)
    model.save(tmp_path / "model")
    loaded = MDNRegressor.load(tmp_path / "model")
    for chosen in (loaded.n_components, loaded.n_components_):
        assert chosen == model.n_components_ == loaded.predict_distribution(x).n_components
    assert loaded.covariance == loaded.covariance_ == "full"
    assert np.array_equal(loaded.log_prob(x, y), model.log_prob(x, y))


def test_a_file_holds_what_was_fitted(one, tmp_path):
    """Parameters that were set afterwards belong to the next fit, not to this model."""
    x, _ = branches()
    changed = copy.copy(one).set_params(family="logistic", n_components=7, activation="relu")
    changed.save(tmp_path / "model")
    loaded = MDNRegressor.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_quantiles(x, 0.1), one.predict_quantiles(x, 0.1))
    fitted = parameters.resolve(one.get_params(), dim=1, n_rows=len(x))
    assert loaded.get_params() == fitted


@pytest.mark.slow
def test_what_a_file_cannot_hold(tmp_path):
    x, y = branches()
    path = tmp_path / "model"
    settings = {"early_stopping": False, "max_epochs": 1}
    model = tiny(objective=NLL(), callbacks=[id], hidden_sizes=np.array([8]), **settings)
    model.fit(x, y).save(path)
    loaded = MDNRegressor.load(path)
    assert (loaded.objective, loaded.callbacks, loaded.hidden_sizes) == ("nll", (), (8,))
    # Objects without a name: the model predicts, but says what it lacks to be fitted again.
    model.set_params(objective=NGEM(damping=0.5), optimizer=optax.adam(1e-3)).fit(x, y).save(path)
    loaded = MDNRegressor.load(path)
    assert np.array_equal(loaded.predict(x), model.predict(x))
    with pytest.raises(ValueError, match=r"objective must be one of .*got 'unsaved'"):
        loaded.fit(x, y)
    with pytest.raises(ValueError, match="our own networks only"):
        tiny(network=lambda row: jnp.tile(row, 3), **settings).fit(x, y).save(path)
    with pytest.raises(NotFittedError):
        tiny().save(path)


@pytest.mark.parametrize("unit", [1e39, 1e-39])
def test_features_in_single_precision_do_not_limit_the_units_of_targets(unit):
    x, y = branches()
    model = tiny(max_epochs=2, random_state=0).fit(x, unit * y)
    expected = tiny(max_epochs=2, random_state=0).fit(x, y)
    single = x.astype(np.float32)
    for ask in (
        lambda m, scale: m.predict(single) / scale,
        lambda m, scale: m.predict_quantiles(single, [0.1, 0.9]) / scale,
        lambda m, scale: m.predict_interval(single) / scale,
        lambda m, scale: m.crps(single, scale * y) / scale,
    ):
        np.testing.assert_allclose(ask(model, unit), ask(expected, 1.0), rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_it_works_with_the_settings_that_users_have():
    """Single precision, silent promotion allowed, warnings as errors, no type checks.

    Networks load neither LightGBM nor PyTorch.
    """
    code = """
        import sys
        import numpy as np, ngem
        from ngem.estimator.scorers import energy_scorer
        rng = np.random.default_rng(0)
        x = rng.normal(size=(120, 2))
        y = 5e4 + 1e-2 * (x[:, 0] + 0.1 * rng.normal(size=120))
        model = ngem.MDNRegressor(
            2, n_members=1, hidden_sizes=(8,), max_epochs=200, learning_rate=3e-2
        )
        p = model.fit(x, y).predict(x)
        assert p.dtype == np.float64 and model.score(x, y) > 0.9, model.score(x, y)
        assert np.isfinite(model.predict_quantiles(x[:3], [0.1, 0.9])).all()
        # Features in single precision: as many digits of the target as before.
        single = x.astype(np.float32)
        assert np.unique(model.predict(single)).size > 100
        assert np.abs(model.predict(single) - p).max() < 1e-4
        ends = model.predict_interval(single, 0.9, "equal-tailed")[:, 0]
        inside = np.mean((ends[:, 0] <= y) & (y <= ends[:, 1]))
        assert 0.8 < inside <= 1, inside
        assert np.abs(model.log_prob(single, y) - model.log_prob(x, y)).max() < 1e-2
        assert np.abs(model.sample(single, 5, random_state=0) - p).max() < 1
        try:
            model.predict_distribution(x)
        except ValueError as error:
            assert "must be in double precision, got JAX's float32" in str(error), error
        else:
            raise AssertionError("a mixture in single precision was not refused")
        assert np.isfinite(energy_scorer(model, x, y))
        model.fit(x, y - 5e4)
        assert str(model.predict_distribution(x).logits.dtype) == "float32"
        assert "lightgbm" not in sys.modules and "torch" not in sys.modules
        """
    warnings = ("-Werror", "-Wignore:Error reading persistent compilation cache")
    done = subprocess.run(
        [sys.executable, *warnings, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
    )
    assert done.returncode == 0, done.stderr


def test_units_of_targets_that_doubles_cannot_hold_are_named(one):
    x, y = branches()
    with pytest.raises(ValueError, match=r"got 1e\+308 to 1e\+308 in column 1; choose another"):
        tiny().fit(x, np.column_stack([y, np.full_like(y, 1e308)]))
    huge = dataclasses.replace(one.model_, targets=Scaling(np.zeros(1), np.array([1e200])))
    with pytest.raises(ValueError, match=r"scale 1e\+200 in column 0, whose square is none"):
        huge.uncertainty(x, 10, jax.random.key(0))
