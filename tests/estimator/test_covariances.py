"""Covariances of several targets, from a fit to a file: each finds what it can express."""

import jax
import numpy as np
import pytest
from scipy import stats

from ngem import MDNRegressor

pytestmark = pytest.mark.trains

COVARIANCES = ["spherical", "tied", "low-rank(1)"]
SETTINGS = {
    "n_components": 2,
    "hidden_sizes": (),
    "n_members": 1,
    "random_state": 0,
    "init": "kmeans",
    "learning_rate": 1e-2,
}


def rows(n=600):
    """Four targets with one factor in common, around a line and its mirror image."""
    rng = np.random.default_rng(0)
    x, sign = rng.normal(size=(n, 1)), rng.choice([-1.0, 1.0], (n, 1))
    noise = rng.normal(size=(n, 1)) * [1.0, -1.0, 0.5, 2.0] + 0.3 * rng.normal(size=(n, 4))
    return x, np.array([10.0, 1.0, 0.1, 5.0]) * (3 * sign * (1 + 0.1 * x) + noise)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.slow
def test_fit_predict_and_file(covariance, tmp_path):
    x, y = rows()
    model = MDNRegressor(covariance=covariance, max_epochs=4, **SETTINGS).fit(x, y)
    mixture = model.predict_distribution(x[:3])
    assert model.covariance_ == covariance.removesuffix("(1)")
    expected = [
        np.log(sum(weight * each.pdf(target) for weight, each in laws))
        for laws, target in zip(as_scipy(mixture), y[:3], strict=True)
    ]
    np.testing.assert_allclose(model.log_prob(x[:3], y[:3]), expected, rtol=1e-4)
    model.save(tmp_path / "model.ngem")
    loaded = MDNRegressor.load(tmp_path / "model.ngem")
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    given = mixture.condition_on((1, 3), y[:3, [1, 3]])
    assert given.mean().shape == (3, 2)
    if covariance.startswith("low-rank"):
        with pytest.raises(ValueError, match="no components with covariance='low-rank'"):
            model.to_torch()


def as_scipy(mixture):
    """Return weights and scipy's components of each row."""
    weights, means = np.asarray(mixture.weights), np.asarray(mixture.component_mean())
    covariances = jax.vmap(jax.vmap(mixture.family.covariance))(mixture.components)
    return [
        [
            (w, stats.multivariate_normal(m, np.asarray(c), allow_singular=True))
            for w, m, c in zip(*row, strict=True)
        ]
        for row in zip(weights, means, covariances, strict=True)
    ]


@pytest.mark.slow
def test_covariances_that_can_express_the_factor_learn_it():
    """In nats per row: one factor beats independent targets by far, and one scale does worst."""
    x, y = rows(2000)
    score = {}
    for covariance in ("spherical", "diag", "tied", "low-rank(1)"):
        model = MDNRegressor(covariance=covariance, max_epochs=100, **SETTINGS).fit(x, y)
        score[covariance] = np.nanmean(model.oof_log_prob_)
    assert score["low-rank(1)"] > score["diag"] + 1.5
    assert score["tied"] > score["diag"] + 1.5
    assert score["spherical"] < score["diag"] + 0.1


def test_wrong_options_are_refused():
    x, y = rows(20)
    with pytest.raises(ValueError, match=r"rank of covariance 'low-rank' must be a whole number"):
        MDNRegressor(covariance="low-rank(0)").fit(x, y)
    with pytest.raises(ValueError, match=r"covariance must be None or one of 'diag', 'full'"):
        MDNRegressor(covariance="round").fit(x, y)
    for covariance in ("tied", "low-rank(2)"):
        with pytest.raises(ValueError, match=r"must be 'diag' for rounded.*got"):
            MDNRegressor(covariance=covariance, resolution=1.0).fit(x, y)
