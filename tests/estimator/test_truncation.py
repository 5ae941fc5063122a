"""Targets that are seen through a window, against scipy's truncated laws and a known truth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ngem import MDNRegressor, MixtureBoostingRegressor
from ngem.families import DiagonalGaussian, LocationScale, get_family
from ngem.objectives import NGEM, NLL

pytestmark = pytest.mark.trains

RNG = np.random.default_rng(4)
QUICK = {"n_components": 1, "n_members": 1, "random_state": 0}
KINDS = [
    pytest.param(MixtureBoostingRegressor, {"max_rounds": 150, "patience": 20}, id="trees"),
    pytest.param(
        MDNRegressor,
        {"max_epochs": 150, "hidden_sizes": (16,)},
        id="networks",
        marks=pytest.mark.slow,
    ),
]


def _gaussian(y, objective=None):
    """The loss of one row under a standard Gaussian, in the given objective."""
    params = LocationScale(jnp.zeros((1, 1)), jnp.ones((1, 1)))
    return (objective or NLL()).loss(DiagonalGaussian(), jnp.zeros(1), params, jnp.asarray(y))


@pytest.mark.parametrize(
    ("y", "low", "high"), [(0.3, -1, 2), (31.0, 30, 1e4), (-12.2, -1e4, -12), (8.5, 8, 9)]
)
def test_density_in_a_window_is_scipys_far_in_the_tails(y, low, high):
    expected = -stats.truncnorm(low, high).logpdf(y)
    for objective in (NLL(), NGEM()):
        assert float(_gaussian([y, y, low, high], objective)) == pytest.approx(expected, rel=1e-7)
    censored = float(_gaussian([y, high, low, high]))
    assert censored == pytest.approx(-stats.truncnorm(low, high).logsf(y), rel=1e-6)


def test_windows_divide_the_mixture_and_not_its_components():
    weights, mean = np.array([0.7, 0.3]), np.array([[-1.0], [2.0]])
    y = jnp.array([0.5, 0.5, 0.0, jnp.inf])
    params = LocationScale(jnp.asarray(mean), jnp.ones((2, 1)))
    loss = NLL().loss(DiagonalGaussian(), jnp.log(jnp.asarray(weights)), params, y.at[3].set(1e4))
    above = weights @ stats.norm(mean[:, 0]).sf(0)
    expected = -np.log(weights @ stats.norm(mean[:, 0]).pdf(0.5) / above)
    assert float(loss) == pytest.approx(expected, rel=1e-8)


def test_gradients_are_finite_in_single_precision():
    def loss(mean, raw):
        params = LocationScale(mean[None, None], jnp.exp(raw)[None, None])
        y = jnp.array([1.0, 1.0, 0.5, 1e4], jnp.float32)
        return NLL().loss(DiagonalGaussian(), jnp.zeros(1, jnp.float32), params, y)

    for mean in (-300.0, -20.0, 0.0, 50.0):
        for raw in (-6.0, 0.0, 4.0):
            grad = jax.grad(loss, argnums=(0, 1))(jnp.float32(mean), jnp.float32(raw))
            assert np.isfinite(grad).all(), (mean, raw)


def test_counts_that_are_never_zero_are_a_zero_truncated_poisson():
    family = get_family("poisson")
    params = family.from_moments(jnp.array([1.3]), jnp.array([1.3]))
    params = jax.tree.map(lambda leaf: leaf[None], params)
    loss = NLL().loss(family, jnp.zeros(1), params, jnp.array([2.0, 2.0, 1.0, 1e4]))
    law = stats.poisson(1.3)
    assert float(loss) == pytest.approx(-law.logpmf(2) + law.logsf(0), rel=1e-9)


@pytest.mark.parametrize(("kind", "settings"), KINDS)
def test_the_distribution_of_all_targets_is_recovered(kind, settings):
    """Each row has a threshold of its own, below which it would not be there."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (3000, 1))
    y = x[:, 0] + rng.normal(0, 1, 3000)
    low = rng.uniform(-1.5, 0.5, 3000)
    seen = y > low
    x, y, low = x[seen], y[seen], low[seen]
    naive = kind(**QUICK, **settings).fit(x, y)
    model = kind(**QUICK, **settings).fit(x, y, truncation=(low, None))
    at = np.linspace(-0.8, 0.8, 9)[:, None]
    bias, naive_bias = (np.mean(one.predict(at) - at[:, 0]) for one in (model, naive))
    assert naive_bias > 0.25  # what was seen is larger than what there is
    assert abs(bias) < 0.12
    std = np.asarray(model.predict_distribution(at).std()).mean()
    assert std == pytest.approx(1.0, abs=0.12)
    truth = stats.truncnorm(low - x[:, 0], np.inf, x[:, 0]).logpdf(y).mean()
    assert truth - model.log_prob(x, y, truncation=(low, None)).mean() < 0.05
    assert model.log_prob(x, y, truncation=(low, None)).mean() > naive.log_prob(x, y).mean()
    held_out = model.oof_log_prob_[~np.isnan(model.oof_log_prob_)].mean()
    assert held_out == pytest.approx(truth, abs=0.15)


def test_the_density_in_a_window_is_divided_by_its_probability(tmp_path):
    x, y = RNG.normal(size=(200, 2)), RNG.gamma(2.0, 1.0, 200)
    settings = {"family": "gamma", "max_rounds": 10, **QUICK}
    model = MixtureBoostingRegressor(**settings).fit(x, y, truncation=(0.0, 20.0))
    window = np.full(200, 0.5), np.full(200, 20.0)
    inside = y > 0.5
    model.save(tmp_path / "model.ngem")
    model = MixtureBoostingRegressor.load(tmp_path / "model.ngem")
    x, y, window = x[inside], y[inside], tuple(end[inside] for end in window)
    low, high = (model.model_.cdf(x, end[:, None])[:, 0] for end in window)
    np.testing.assert_allclose(
        model.log_prob(x, y, truncation=window),
        model.log_prob(x, y) - np.log(high - low),
        atol=1e-4,
    )


@pytest.mark.parametrize(
    ("truncation", "message"),
    [
        ((1.0, None), "y must lie in its window of truncation, got 0 in row 0"),
        ((None, -1.0), r"whose window is \(-inf, -1\)"),
        (0.0, r"truncation must be \(low, high\)"),
        ((np.zeros(3), None), "arrays in the shape of y"),
        ((0.0, 0.0), "must lie in its window"),
    ],
)
def test_windows_that_cannot_be_are_refused(truncation, message):
    x, y = np.arange(8.0)[:, None], np.array([0.0, *range(1, 8)])
    with pytest.raises(ValueError, match=message):
        MixtureBoostingRegressor().fit(x, y, truncation=truncation)


def test_rows_to_stop_by_need_windows_too():
    x, y = np.arange(8.0)[:, None], np.arange(8.0)
    with pytest.raises(ValueError, match="eval_set must be None with truncation"):
        MDNRegressor().fit(x, y, truncation=(-1.0, None), eval_set=(x, y))
