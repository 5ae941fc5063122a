"""The boosted estimator: scikit-learn's checks, units, categories, gaps, folds and extremes."""

import functools
import itertools
import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ngem import ConformalRegressor, MixtureBoostingRegressor, nll_scorer
from ngem.estimator import boosting_parameters

from ..cases import slow_but
from .common import branches, scikit_learn_checks

pytest.importorskip("lightgbm")

#: Few rounds of few trees; most fits share shapes, so that little is compiled twice.
TINY = {
    "n_components": 2,
    "n_members": 2,
    "max_rounds": 10,
    "learning_rate": 0.3,
    "weight_rate": 0.3,
    "scale_rate": 0.3,
    "min_rows_in_leaf": 5,
}


def tiny(**settings):
    return MixtureBoostingRegressor(**{**TINY, "random_state": 0, **settings})


def table(n_rows=120, seed=0):
    """Numbers with gaps and a column of categories that decides the sign."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.uniform(1, 2, (n_rows, 2)), columns=["size", "other"])
    frame["sign"] = pd.Categorical(rng.choice(["minus", "plus"], n_rows))
    y = np.where(frame["sign"] == "plus", 1, -1) * frame["size"].to_numpy()
    frame.loc[::9, "other"] = np.nan
    return frame, y + 0.1 * rng.standard_normal(n_rows)


@functools.cache
def fitted(name):
    return tiny().fit(*{"numbers": branches, "table": table}[name]())


# scikit-learn's own checks

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "A repeated row can be held out and trained on at once, which a weighted one cannot."
    )
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "check"),
    scikit_learn_checks(MixtureBoostingRegressor(**{**TINY, "max_rounds": 20}), EXPECTED_FAILURES),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_it_clones_searches_pickles_and_sits_in_a_pipeline():
    x, y = branches()
    assert clone(tiny()).get_params() == tiny().get_params()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), tiny()),
        {"mixtureboostingregressor__max_rounds": [2, 8]},
        cv=2,
        scoring=nll_scorer,
    ).fit(x, y)
    assert search.predict(x).shape == y.shape
    model = fitted("numbers")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.log_prob(x, y), model.log_prob(x, y))


# What is learned


@pytest.mark.slow
def test_it_learns_both_branches():
    """The defaults come close to the true density, which one component is far from."""
    x, y = branches(2000)
    new, target = branches(500, seed=1)
    truth = stats.norm(0, 0.1)
    best = np.mean(np.log((truth.pdf(target - new[:, 0]) + truth.pdf(target + new[:, 0])) / 2))
    model = MixtureBoostingRegressor(random_state=0).fit(x, y)
    assert best - np.mean(model.log_prob(new, target)) < 0.15
    mixture = model.predict_distribution(new)
    for sign in (-1, 1):  # each branch has half of the mass, and its own width
        low, high = (sign * new[:, [0]] + offset for offset in (-0.3, 0.3))
        mass = np.asarray(mixture.cdf(high) - mixture.cdf(low))
        assert np.mean(mass) == pytest.approx(0.5, abs=0.03)
    one = tiny(n_components=1, max_rounds=60).fit(x, y)
    assert best - np.mean(one.log_prob(new, target)) > 0.8


@pytest.mark.parametrize(("name", "values"), [("n_components", (5, 3)), ("weight_rate", (0.1, 1))])
def test_held_out_rows_of_two_folds_choose_what_is_left_open(name, values):
    x, y = branches()
    each = {value: tiny(**{name: value}, n_members=3).fit(x, y) for value in values}
    stops = {
        value: np.nanmin(model.history_["validation_nll"], axis=1)[:2].mean()
        for value, model in each.items()
    }
    model = tiny(**{name: None}, n_members=3).fit(x, y)
    best = min(stops, key=stops.__getitem__)
    assert getattr(model, f"{name}_") == best
    np.testing.assert_array_equal(model.log_prob(x, y), each[best].log_prob(x, y))
    assert model.get_params()[name] is None
    one = tiny(**{name: None}, n_members=1, early_stopping=False).fit(x, y)
    assert getattr(one, f"{name}_") == values[0]


def test_what_is_left_open_is_tried_one_at_a_time():
    kinds = boosting_parameters.kinds
    first = {"n_components": 5, "weight_rate": 0.1}
    assert kinds({"n_components": None, "weight_rate": None}) == [
        first,
        {**first, "n_components": 3},
        {**first, "weight_rate": 1.0},
    ]
    assert kinds(first) == [first]
    assert len(kinds({"n_components": 1, "weight_rate": None})) == 1


@pytest.mark.slow
def test_predictions_are_those_of_the_predicted_mixture():
    x, y = branches()
    model = fitted("numbers")
    mixture = model.predict_distribution(x[:5])
    weights, means, scales = map(
        np.asarray, (mixture.weights, mixture.components.mean, mixture.components.scale)
    )
    for row in range(5):
        density = weights[row] @ stats.norm(means[row, :, 0], scales[row, :, 0]).pdf(y[row])
        assert model.log_prob(x[:5], y[:5])[row] == pytest.approx(np.log(density), abs=1e-4)
        below = weights[row] @ stats.norm(means[row, :, 0], scales[row, :, 0]).cdf(y[row])
        assert model.pit(x[:5], y[:5])[row] == pytest.approx(below, abs=1e-4)
    np.testing.assert_allclose(
        model.predict(x[:5]), np.sum(weights * means[:, :, 0], axis=1), rtol=1e-4, atol=1e-5
    )
    assert model.predict_quantiles(x[:5], [0.1, 0.9]).shape == (5, 2)
    assert model.predict_uncertainty(x[:5]).model_variance.shape == (5,)


@pytest.mark.slow
def test_several_targets():
    x, y = branches()
    model = tiny().fit(x, np.column_stack([y, 100 * x[:, 1]]))
    assert model.predict(x).shape == (120, 2)
    assert np.corrcoef(model.predict(x)[:, 1], x[:, 1])[0, 1] > 0.9
    assert np.all(np.isfinite(model.log_prob(x, np.column_stack([y, 100 * x[:, 1]]))))


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_units_of_the_target_change_densities_by_the_jacobian_alone(factor):
    x, y = branches()
    other = tiny().fit(x, factor * y)
    np.testing.assert_allclose(
        other.log_prob(x, factor * y) + np.log(factor), fitted("numbers").log_prob(x, y), atol=1e-3
    )


def test_the_same_seed_gives_the_same_bytes_whatever_the_cores(tmp_path):
    x, y = branches()
    for n_jobs in (1, 2):
        tiny(n_jobs=n_jobs).fit(x, y).save(tmp_path / str(n_jobs))
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    tiny(random_state=1).fit(x, y).save(tmp_path / "3")
    assert (tmp_path / "1").read_bytes() != (tmp_path / "3").read_bytes()


# Folds and stopping


def test_every_row_is_held_out_once_and_judged_by_a_member_that_has_not_seen_it():
    x, y = branches()
    # The guard would differ: for held-out scores its line leaves each row out.
    model = tiny(guard=False).fit(x, y)
    np.testing.assert_array_equal(np.sort(np.concatenate(model.folds_)), np.arange(120))
    for rows, member in model.held_out_models():
        np.testing.assert_allclose(
            member.log_prob(x[rows], y[rows, None]), model.oof_log_prob_[rows], atol=1e-6
        )
    assert model.history_["validation_nll"].shape == (2, model.n_iter_ + 1)
    best = np.nanargmin(model.history_["validation_nll"], axis=1)
    np.testing.assert_array_equal(model.best_round_, best)


@pytest.mark.slow  # `test_members.py` calibrates networks in the same way
def test_held_out_rows_calibrate_regions():
    x, y = branches()
    model = fitted("numbers")
    conformal = ConformalRegressor(model).calibrate_held_out(x, y)
    np.testing.assert_array_equal(conformal.scores_, np.sort(model.held_out_region_mass(x, y)))
    assert 0.8 <= np.mean(conformal.contains(*branches(1000, seed=1), 0.9)) <= 1


def test_rows_of_the_user_stop_all_members():
    x, y = branches()
    model = tiny(max_rounds=40, learning_rate=0.5, patience=3).fit(x, y, eval_set=branches(60, 1))
    assert model.n_iter_ < 40
    assert np.isnan(model.oof_log_prob_).all()
    free = tiny(early_stopping=False).fit(x, y)
    assert list(free.best_round_) == [10, 10]


@pytest.mark.slow
def test_weights_of_zero_are_as_if_the_rows_were_not_there():
    x, y = branches()
    weights = np.r_[np.zeros(20), np.ones(100)]
    some, none = tiny().fit(x, y, weights), tiny().fit(x[20:], y[20:])
    np.testing.assert_allclose(some.log_prob(x, y), none.log_prob(x, y), rtol=1e-5)


# Categories and gaps


def test_categories_of_pandas_polars_and_by_name_are_one_thing():
    frame, y = table()
    expected = fitted("table").log_prob(frame, y)
    assert fitted("table").table_.features[2].categories == ("minus", "plus")
    words = frame.assign(sign=frame["sign"].astype(str))
    for other, settings in (
        (pl.from_pandas(frame), {}),
        (words, {}),
        (words, {"categorical_features": ["sign"]}),
        (words.to_numpy(), {"categorical_features": [-1]}),
    ):
        model = tiny(**settings).fit(other, y)
        np.testing.assert_allclose(model.log_prob(other, y), expected, rtol=1e-5)
    assert np.mean(expected) > np.mean(tiny().fit(frame[["size", "other"]], y).oof_log_prob_) + 0.5


def test_numbers_can_be_categories():
    rng = np.random.default_rng(0)
    x = rng.choice([3.0, 10.0, 20.0], (120, 1))
    y = np.where(x[:, 0] == 10, 5.0, 0.0) + 0.1 * rng.standard_normal(120)
    model = tiny(categorical_features=[0]).fit(x, y)
    assert model.predict([[10.0]])[0] - model.predict([[3.0]])[0] > 3


def test_new_categories_are_all_alike_and_a_new_gap_is_filled():
    frame, y = table()
    model = fitted("table")
    odd = frame.head(3).assign(sign=pd.Categorical(["other", None, "plus"]))
    assert np.isfinite(model.log_prob(odd, y[:3])).all()
    np.testing.assert_array_equal(
        model.predict(odd.assign(sign="other")), model.predict(odd.assign(sign="another"))
    )
    # A gap in a column that had none is filled by its median.
    gap = frame.head(1).assign(size=np.nan)
    filled = frame.head(1).assign(size=frame["size"].median())
    assert model.predict(gap)[0] == pytest.approx(model.predict(filled)[0], abs=1e-5)


def test_text_and_infinity_are_refused_with_a_way_out():
    frame, y = table()
    with pytest.raises(ValueError, match=r"got text.* pass a data frame"):
        tiny().fit(frame.to_numpy(), y)
    with pytest.raises(ValueError, match="got 'sing', where X has 3 columns named 'size'"):
        tiny(categorical_features=["sing"]).fit(frame, y)
    with pytest.raises(ValueError, match="infinity"):
        tiny().fit(np.array([[1.0], [np.inf], [2.0]]), [1.0, 2.0, 3.0])


# What the trees look at


def test_importances_and_shap_values_find_the_column_that_matters():
    frame, _ = table()
    model = fitted("table")
    for kind in ("weights", "means", "scales"):
        found = model.feature_importances_[kind]
        assert found.shape == (3,)
        assert np.sum(found) == pytest.approx(1.0) or not found.any()
    assert np.argmax(model.feature_importances_["means"]) in (0, 2)
    with pytest.raises(ValueError, match="of must be one of 'weights', 'means', 'scales'"):
        model.shap_values(frame, of="mean")


def test_shap_values_add_up_to_the_raw_outputs():
    frame, _ = table()
    model = fitted("table")
    means = model.shap_values(frame, of="means").sum(axis=-1)
    scales = np.exp(model.shap_values(frame, of="scales").sum(axis=-1)) + model.scale_floor
    members = model.model_.network.n_members
    mixture = model.predict_distribution(frame)
    unit = model.model_.targets
    shape = (len(frame), members, 2)
    found = np.asarray(mixture.components.mean)[:, :4, 0].reshape(shape)
    np.testing.assert_allclose(unit.backward(means), found, rtol=1e-3, atol=1e-4)
    found = np.asarray(mixture.components.scale)[:, :4, 0].reshape(shape)
    np.testing.assert_allclose(unit.scale * scales, found, rtol=1e-3)


# Extremes

EXTREMES = {
    "constant features": (np.ones((30, 2)), np.arange(30.0), {}),
    "features of zeros": (np.zeros((500, 1)), np.arange(500.0), {}),
    "a constant target": (np.arange(30.0)[:, None], np.full(30, 7.0), {}),
    "five rows": (np.arange(5.0)[:, None], np.arange(5.0), {}),
    "two rows": (np.arange(2.0)[:, None], np.arange(2.0), {}),
    "duplicates": (np.ones((40, 1)), np.repeat([0.0, 1.0], 20), {}),
    "more components than rows": (np.arange(20.0)[:, None], np.arange(20.0), {"n_components": 50}),
    "a tiny scale": (np.arange(40.0)[:, None], 1e-9 * np.arange(40.0), {}),
    "a huge scale": (np.arange(40.0)[:, None], 1e9 * np.arange(40.0), {}),
    "a huge offset": (np.arange(40.0)[:, None], 1e9 + np.arange(40.0), {}),
    "features of all sizes": (np.outer(np.arange(40.0), [1e-250, 1e250]), np.arange(40.0), {}),
    "steps of full size": (*branches(), {"learning_rate": 1.0, "min_rows_in_leaf": 1}),
}


@pytest.mark.parametrize(
    ("name", "curvature"),
    slow_but(
        [*itertools.product(EXTREMES, ("em", "fisher"))],
        *((name, "em") for name in EXTREMES if name not in ("constant features", "five rows")),
        ("two rows", "fisher"),
    ),
)
def test_extremes_are_finite(name, curvature):
    x, y, settings = EXTREMES[name]
    model = tiny(**settings, curvature=curvature).fit(x, y)
    assert np.isfinite(model.log_prob(x, y)).all()
    assert np.isfinite(model.predict(x)).all()
    assert np.isfinite(model.predict(1e30 * x)).all()


# Parameters


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("curvature", "newton", "one of 'fisher', 'em'"),
        ("learning_rate", 0.0, "a number above 0 and at most 1"),
        ("num_leaves", 1, "an integer from 2 to 4096"),
        ("categorical_features", "sign", "'auto' or names or numbers"),
        ("n_jobs", 0, "None or -1 or an integer of at least 1"),
        ("family", "cauchy", "one of 'gaussian'"),
    ],
)
def test_parameters_are_checked(name, value, message):
    with pytest.raises(ValueError, match=f"{name} must be {message}"):
        tiny(**{name: value}).fit(*branches())


def test_without_lightgbm_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ImportError, match=r"pip install 'ngem\[boost\]'"):
        tiny().fit(*branches())
