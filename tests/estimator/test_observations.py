"""Censored and missing targets: the likelihood of what is known."""

import numpy as np
import pytest
from scipy import stats

from ngem import DensityStack, MDNRegressor, MixtureBoostingRegressor

pytestmark = pytest.mark.trains

SMALL = {"hidden_sizes": (8,), "n_components": 1, "max_epochs": 150, "n_members": 2, "dropout": 0.0}
NOISE = 0.5


def times(n_rows=800, seed=0):
    """Features, true times y = 2 + x + noise, and what is seen of them: half end early."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n_rows, 1))
    truth = 2 + x[:, 0] + NOISE * rng.standard_normal(n_rows)
    end = rng.uniform(1, 3, n_rows)
    seen = np.minimum(truth, end)
    return x, truth, seen, np.where(truth <= end, seen, np.inf)


@pytest.fixture(scope="module", name="model")
def _model(promotes):
    x, _, lower, upper = times()
    with promotes():
        return MDNRegressor(**SMALL, random_state=0).fit(x, lower, upper=upper)


GRID = np.array([[-0.8], [0.0], [0.8]])


def test_the_truth_is_learned_from_censored_rows(model):
    """Half of the rows end before they are observed; taken as observed they would mislead."""
    x, _, lower, _ = times()
    naive = MDNRegressor(**SMALL, random_state=0).fit(x, lower)
    truth = 2 + GRID[:, 0]
    assert np.abs(model.predict(GRID) - truth).max() < 0.15
    assert np.abs(naive.predict(GRID) - truth).max() > 0.3
    spread = np.sqrt(model.predict_distribution(GRID).variance()[:, 0])
    np.testing.assert_allclose(spread, NOISE, rtol=0.25)


@pytest.mark.slow
def test_trees_learn_from_censored_rows_too():
    pytest.importorskip("lightgbm")
    x, _, lower, upper = times(1500)
    model = MixtureBoostingRegressor(n_components=1, n_members=2, max_rounds=80, random_state=0)
    model.fit(x, lower, upper=upper)
    assert np.abs(model.predict(GRID) - 2 - GRID[:, 0]).max() < 0.25


@pytest.mark.slow
def test_left_censored_rows_are_the_mirror_image_of_right_censored_ones(model):
    x, _, lower, upper = times()
    mirrored = MDNRegressor(**SMALL, random_state=0).fit(x, -upper, upper=-lower)
    np.testing.assert_allclose(mirrored.predict(GRID), -model.predict(GRID), atol=0.1)


def test_log_prob_is_a_density_where_targets_are_known_and_a_probability_elsewhere(model):
    """The oracle is scipy, with the moments of the model's own mixture."""
    x, _, lower, upper = times(20, seed=1)
    mixture = model.predict_distribution(x)
    weights, mean, scale = (np.asarray(part) for part in (mixture.weights, *mixture.components))
    law = stats.norm(mean[..., 0], scale[..., 0])
    is_known = lower == upper
    density = np.log((weights * law.pdf(lower[:, None])).sum(axis=1))
    beyond = np.log((weights * law.sf(lower[:, None])).sum(axis=1))
    found = model.log_prob(x, lower, upper=upper)
    assert 3 < is_known.sum() < 17
    np.testing.assert_allclose(found, np.where(is_known, density, beyond), atol=2e-4)


def test_held_out_scores_are_those_of_what_is_known(model):
    x, _, lower, upper = times()
    ends = np.stack([lower, upper], axis=1)
    for rows, member in model.held_out_models():
        expected = member.log_prob(x[rows], lower[rows, None], ends=ends[rows])
        # The guard leaves each row out in turn here, and has seen it there.
        np.testing.assert_allclose(model.oof_log_prob_[rows], expected, atol=0.1)


@pytest.mark.slow
def test_known_targets_given_as_intervals_are_known_targets():
    x, truth, _, _ = times(200)
    plain = MDNRegressor(**SMALL, random_state=0).fit(x, truth)
    given = MDNRegressor(**SMALL, random_state=0).fit(x, truth, upper=truth)
    np.testing.assert_allclose(given.predict(x), plain.predict(x), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(
        given.log_prob(x, truth, upper=truth), given.log_prob(x, truth), atol=1e-4
    )


@pytest.mark.slow
def test_a_stack_learns_from_censored_rows():
    x, _, lower, upper = times(300)
    stack = DensityStack([("network", MDNRegressor(**SMALL))], n_members=2, random_state=0)
    stack.fit(x, lower, upper=upper)
    assert np.abs(stack.predict(GRID) - 2 - GRID[:, 0]).max() < 0.3
    assert np.isfinite(stack.oof_log_prob_).all()


@pytest.mark.slow
def test_rows_to_stop_by_may_be_censored():
    x, _, lower, upper = times(200)
    other = times(100, seed=1)
    model = MDNRegressor(**{**SMALL, "n_members": 1, "max_epochs": 20}, random_state=0)
    model.fit(x, lower, upper=upper, eval_set=(other[0], other[2], other[3]))
    curve = model.history_["validation_nll"][0]
    assert np.isfinite(curve).all()
    assert curve[-1] < curve[0]


def both_targets(n_rows=600, seed=0):
    """Two targets of opposite slope; each is missing in a third of the rows, never both."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n_rows, 1))
    y = np.concatenate([1 + x, 3 - 2 * x], axis=1) + 0.3 * rng.standard_normal((n_rows, 2))
    gap = rng.integers(0, 3, n_rows)
    for column in (0, 1):
        y[gap == column, column] = np.nan
    return x, y


@pytest.mark.slow
def test_missing_targets_are_left_out_of_the_likelihood_exactly():
    x, y = both_targets()
    model = MDNRegressor(**SMALL, random_state=0).fit(x, y)
    truth = np.concatenate([1 + GRID, 3 - 2 * GRID], axis=1)
    assert np.abs(model.predict(GRID) - truth).max() < 0.2
    mixture = model.predict_distribution(x[:9])
    for column in (0, 1):
        rows = np.flatnonzero(np.isnan(y[:9, 1 - column]))
        alone = mixture.marginal(column).log_prob(np.asarray(y[:9, [column]], np.float32))
        assert len(rows)
        np.testing.assert_allclose(model.log_prob(x[:9], y[:9])[rows], alone[rows], atol=2e-4)
    with pytest.raises(ValueError, match="y must hold no NaN for this score"):
        model.pit(x, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y, u: (u, y), "upper must not be below y, got an upper end below .* in row 0"),
        (lambda y, u: (y, u[:-1]), r"upper must have the shape of y, \(50,\), got \(49,\)"),
        (lambda y, u: (np.where(y > 2, np.nan, y), u), "y must hold numbers, or -inf"),
        (lambda y, u: (y, np.full_like(u, np.nan)), "upper must hold numbers, or inf"),
        (lambda y, u: (y * 0 - np.inf, u * 0 + np.inf), "an interval must have at least one end"),
    ],
)
def test_intervals_that_make_no_sense_are_refused(change, message):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((50, 1)), rng.uniform(1, 3, 50)
    lower, upper = change(y, y + 1)
    with pytest.raises(ValueError, match=message):
        MDNRegressor().fit(x, lower, upper=upper)


def test_what_cannot_learn_from_intervals_is_refused():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((50, 1)), rng.standard_normal((50, 2))
    with pytest.raises(ValueError, match="covariance must be 'diag' for rounded, censored"):
        MDNRegressor(covariance="full").fit(x, y, upper=y + 1)
    with pytest.raises(ValueError, match="objective must be a likelihood"):
        MDNRegressor(objective="mse").fit(x, y, upper=y + 1)
    with pytest.raises(ValueError, match="resolution must be None where targets are intervals"):
        MDNRegressor(resolution=1.0).fit(x, y, upper=y + 1)
    y[3] = np.nan
    with pytest.raises(ValueError, match=r"a known target in each row .* got no target in row 3"):
        MDNRegressor().fit(x, y)
