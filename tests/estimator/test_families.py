"""Families behind the estimators: targets keep to where they lie, units do not matter, files."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ngem import MDNRegressor, MixtureBoostingRegressor
from ngem.estimator.file_parts import FileError

from ..cases import slow_but

KINDS = {
    "network": lambda family: MDNRegressor(
        2, family=family, hidden_sizes=(8,), max_epochs=8, n_members=1, random_state=0
    ),
    "trees": lambda family: MixtureBoostingRegressor(
        2, family=family, max_rounds=12, num_leaves=4, n_members=2, random_state=0, n_jobs=1
    ),
}

#: Options, the law of standard targets, and the ends of the interval where they lie.
TARGETS = {
    "gamma": (stats.gamma(3), 0.0, np.inf),
    "lognormal": (stats.lognorm(0.5), 0.0, np.inf),
    "weibull": (stats.weibull_min(1.5), 0.0, np.inf),
    "logitnormal(0, 100)": (stats.beta(3, 2, scale=100), 0.0, 100.0),
    "beta(0, 100)": (stats.beta(3, 2, scale=100), 0.0, 100.0),
    "inverse-gaussian": (stats.invgauss(1.0), 0.0, np.inf),
    "asymmetric-laplace": (stats.laplace_asymmetric(0.5), -np.inf, np.inf),
    "student-learned": (stats.t(4), -np.inf, np.inf),
    "student(4)": (stats.t(4), -np.inf, np.inf),
    "gumbel": (stats.gumbel_r, -np.inf, np.inf),
}


def make_rows(family, n=120):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    law, low, high = TARGETS[family]
    y = law.rvs(size=n, random_state=rng)
    return x, y * np.exp(0.5 * x[:, 0]) if (low, high) == (0, np.inf) else y


@pytest.mark.trains
@pytest.mark.parametrize(
    ("family", "kind"),
    slow_but(
        [(family, kind) for family in TARGETS for kind in KINDS],
        ("lognormal", "network"),
    ),
)
def test_predictions_keep_to_where_targets_lie(family, kind, tmp_path):
    x, y = make_rows(family)
    _, low, high = TARGETS[family]
    model = KINDS[kind](family).fit(x, y)
    quantiles = model.predict_quantiles(x[:40], [1e-3, 0.5, 0.999])
    assert np.all((quantiles > low) & (quantiles < high))
    assert np.all(np.diff(quantiles, axis=1) > 0)
    draws = model.sample(x[:40], 200, random_state=1)
    assert np.all((draws > low) & (draws < high))
    # The densities of rows are those of the mixtures, in the user's units.
    mixture = model.predict_distribution(x[:40])
    np.testing.assert_allclose(
        mixture.log_prob(jnp.asarray(y[:40])), model.log_prob(x[:40], y[:40]), rtol=1e-3, atol=1e-3
    )
    np.testing.assert_allclose(mixture.mean()[:, 0], model.predict(x[:40]), rtol=1e-3)
    # Held-out densities are in the same units: what rows say of the model is nearly the same.
    assert abs(np.nanmean(model.oof_log_prob_) - model.log_prob(x, y).mean()) < 1
    model.save(tmp_path / "model.ngem")
    loaded = type(model).load(tmp_path / "model.ngem")
    np.testing.assert_allclose(loaded.predict(x[:40]), model.predict(x[:40]))
    np.testing.assert_allclose(loaded.log_prob(x, y), model.log_prob(x, y))
    loaded.save(tmp_path / "again.ngem")
    again = type(model).load(tmp_path / "again.ngem")
    np.testing.assert_array_equal(again.predict(x[:40]), loaded.predict(x[:40]))


@pytest.mark.trains
@pytest.mark.parametrize("family", slow_but(("gamma", "lognormal", "weibull"), "lognormal"))
def test_another_unit_of_positive_targets_changes_nothing_else(family):
    x, y = make_rows(family)
    one, other = KINDS["trees"](family).fit(x, y), KINDS["trees"](family).fit(x, 1e6 * y)
    np.testing.assert_allclose(other.predict(x), 1e6 * one.predict(x), rtol=1e-4)
    np.testing.assert_allclose(
        other.log_prob(x, 1e6 * y), one.log_prob(x, y) - np.log(1e6), atol=1e-3
    )


@pytest.mark.parametrize("kind", KINDS)
def test_targets_outside_are_refused(kind):
    x, y = make_rows("gamma")
    with pytest.raises(ValueError, match=r"y must be above 0 for family='gamma', got 0 in row 3"):
        KINDS[kind]("gamma").fit(x, np.where(np.arange(len(y)) == 3, 0.0, y))
    with pytest.raises(ValueError, match=r"y must be between 0 and 1 for family='logitnormal'"):
        KINDS[kind]("logitnormal").fit(x, y + 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("family", "message"),
    [
        ("gama", r"family must be one of 'gaussian'.*got 'gama'"),
        ("student(1)", r"df of family 'student' must be a number above 2"),
        ("student(a)", r"family 'student' must have numbers df, got 'a'"),
        ("gamma(3)", r"family 'gamma' must have no options, got '3'"),
        ("logitnormal(1, 0)", r"bounds of family 'logitnormal' must be two numbers in ascending"),
    ],
)
def test_wrong_names_and_options_are_refused(kind, family, message):
    x, y = make_rows("student(4)")
    with pytest.raises(ValueError, match=message):
        KINDS[kind](family).fit(x, y)


@pytest.mark.trains
@pytest.mark.slow
def test_censored_positive_targets_are_learned_from():
    """Times that end when a study ends: the mean is that of all times, not of those seen."""
    rng = np.random.default_rng(0)
    x, times = rng.normal(size=(300, 1)), rng.weibull(1.5, size=300)
    end = 0.9
    seen, upper = np.minimum(times, end), np.where(times < end, times, np.inf)
    model = MixtureBoostingRegressor(
        1, family="weibull", max_rounds=20, num_leaves=2, n_members=1, random_state=0, n_jobs=1
    )
    model.fit(x, seen, upper=upper)
    predicted = float(np.mean(model.predict(x)))
    assert abs(predicted - times.mean()) < 0.12
    assert seen.mean() < 0.75 * times.mean()


@pytest.mark.trains
def test_a_family_with_options_that_cannot_be_is_no_model_file(tmp_path):
    from ngem.estimator import tree_file

    x, y = make_rows("student(4)")
    model = KINDS["trees"]("student(4)").fit(x, y)
    arrays, header = tree_file.pack(model._to_saved())
    header["parameters"] = {**header["parameters"], "family": "student(1)"}
    with pytest.raises(FileError, match="a known family"):
        tree_file.unpack(arrays, header)
