"""Rounded targets: the probability of a step instead of a density that has no bound."""

import numpy as np
import pytest
from scipy import stats

import ngem
from ngem import DensityStack, MDNRegressor
from ngem.estimator.preprocessing import rounding_step

pytestmark = pytest.mark.trains

SMALL = {"hidden_sizes": (8,), "n_components": 2, "max_epochs": 40, "n_members": 2, "dropout": 0.0}


def rounded_rows(n_rows=600, seed=0):
    """Whole numbers around a line."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n_rows, 1))
    return x, np.round(2 * x[:, 0] + 0.8 * rng.standard_normal(n_rows))


@pytest.fixture(scope="module", name="model")
def _model(promotes):
    with promotes():
        return MDNRegressor(**SMALL, resolution=1.0, random_state=0).fit(*rounded_rows())


def test_log_prob_is_the_mass_of_the_step(model):
    x, y = rounded_rows(30, seed=1)
    cells = [model.pit(x, y + side) for side in (-0.5, 0.5)]
    np.testing.assert_allclose(np.exp(model.log_prob(x, y)), cells[1] - cells[0], atol=1e-4)


def test_the_true_probabilities_are_learned_and_add_up_to_one(model):
    x = np.array([[-0.6], [0.0], [0.7]])
    values = np.arange(-12.0, 13.0)
    law = stats.norm(2 * x, 0.8)
    truth = law.cdf(values + 0.5) - law.cdf(values - 0.5)
    learned = np.stack([np.exp(model.log_prob(x, np.full(3, value))) for value in values], axis=1)
    np.testing.assert_allclose(learned.sum(axis=1), 1, atol=5e-3)
    assert np.abs(learned - truth).max() < 0.1


@pytest.mark.slow
def test_the_likelihood_is_bounded_where_a_density_has_none(model):
    """All targets of a feature are one number: a density grows without bound, a mass does not."""
    x = np.repeat([[0.0], [1.0]], 60, axis=0)
    y = np.repeat([3.0, 5.0], 60)
    atoms = MDNRegressor(**SMALL, random_state=0).fit(x, y)
    masses = MDNRegressor(**SMALL, resolution=1.0, random_state=0).fit(x, y)
    assert atoms.log_prob(x, y).mean() > 1
    assert masses.log_prob(x, y).max() <= 0
    assert masses.log_prob(x, y).mean() > np.log(0.7)


def test_files_keep_the_resolution(model, tmp_path):
    x, y = rounded_rows(10, seed=2)
    model.save(tmp_path / "model.ngem")
    loaded = ngem.load(tmp_path / "model.ngem")
    assert loaded.resolution == 1.0
    np.testing.assert_array_equal(loaded.log_prob(x, y), model.log_prob(x, y))


@pytest.mark.slow
def test_a_stack_has_the_resolution_of_its_kinds(tmp_path):
    x, y = rounded_rows(120)
    stack = DensityStack([("network", MDNRegressor(**SMALL))], n_members=2, resolution=1.0)
    stack.set_params(random_state=0).fit(x, y)
    (part,) = stack.estimators_.values()
    np.testing.assert_allclose(stack.log_prob(x, y), part.log_prob(x, y), rtol=1e-5, atol=1e-6)
    assert stack.log_prob(x, y).max() <= 0
    stack.save(tmp_path / "stack.ngem")
    np.testing.assert_array_equal(
        ngem.load(tmp_path / "stack.ngem").log_prob(x, y), stack.log_prob(x, y)
    )


def test_a_full_covariance_is_refused():
    x, y = rounded_rows(50)
    with pytest.raises(ValueError, match="covariance must be 'diag' for rounded"):
        MDNRegressor(resolution=1.0, covariance="full").fit(x, np.stack([y, y], axis=1))


def test_held_out_scores_are_those_of_the_steps(model):
    """Each row is scored by the member that held it out, by the probability of its step."""
    x, y = rounded_rows()
    for rows, member in model.held_out_models():
        expected = member.log_prob(x[rows], y[rows, None])
        # The guard leaves each row out in turn here, and has seen it there.
        np.testing.assert_allclose(model.oof_log_prob_[rows], expected, atol=0.1)


def test_steps_that_single_precision_cannot_hold_are_refused():
    x, y = rounded_rows(50)
    with pytest.raises(ValueError, match="resolution must be at least 1e-05 standard deviations"):
        MDNRegressor(**SMALL, resolution=1e-6).fit(x, y)


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (lambda rng: rng.integers(3, 9, 500).astype(float), 1.0),
        (lambda rng: 0.25 * rng.integers(0, 12, 500), 0.25),
        (lambda rng: rng.standard_normal(500), None),
        (lambda rng: np.round(rng.standard_normal(500), 2), None),  # hardly any value repeats
        (lambda rng: rng.integers(0, 2, 500).astype(float), None),  # classes, not steps
        (lambda rng: rng.choice([0.0, 1.0, np.pi, 7.5], 500), None),  # no common step
    ],
)
def test_steps_are_found_where_targets_are_rounded(values, step):
    found = rounding_step(values(np.random.default_rng(0)))
    assert found == (None if step is None else pytest.approx(step))
