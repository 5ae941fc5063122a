"""Weights that maximize the log score, against a general optimizer of scipy."""

import numpy as np
import pytest
from scipy import optimize, special

from ngem.ensemble import stacking_weights

PRIORS = {"none": np.zeros(4), "some": np.array([0.0, 0.5, 0.5, 0.1]), "strong": np.full(4, 10.0)}


def objective(weights, log_density, prior, counts):
    """Return the sum of log scores, with the log prior."""
    scores = special.logsumexp(log_density, b=weights, axis=1)
    return counts @ scores + special.xlogy(prior, weights).sum()


def scipy_weights(log_density, prior, counts):
    """Return the maximum on the simplex, by sequential quadratic programming."""
    found = optimize.minimize(
        lambda weights: -objective(weights, log_density, prior, counts),
        np.full(len(prior), 1 / len(prior)),
        method="SLSQP",
        bounds=[(1e-12, 1)] * len(prior),
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1},
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    assert found.success
    return found.x


def random_rows(n_rows, scale=1.0, n_kinds=4, seed=0):
    rng = np.random.default_rng(seed)
    return scale * rng.standard_normal((n_rows, n_kinds)), rng.uniform(0.2, 3, n_rows)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("scale", [0.3, 3.0])
@pytest.mark.parametrize("n_rows", [5, 300])
def test_weights_are_the_maximum(n_rows, scale, prior):
    log_density, counts = random_rows(n_rows, scale)
    weights = stacking_weights(log_density, prior, counts)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert weights.min() >= 0
    expected = scipy_weights(log_density, prior, counts)
    np.testing.assert_allclose(weights, expected, atol=1e-4)
    best = objective(expected, log_density, prior, counts)
    assert objective(weights, log_density, prior, counts) > best - 1e-5 * n_rows


@pytest.mark.parametrize("seed", range(5))
def test_without_a_prior_all_kinds_are_no_worse_than_the_best(seed):
    log_density, counts = random_rows(40, 0.2, seed=seed)
    log_density[:, seed % 4] += 0.3 * seed
    weights = stacking_weights(log_density, np.zeros(4), counts)
    best = (counts @ log_density).max()
    assert objective(weights, log_density, np.zeros(4), counts) > best - 1e-6 * counts.sum()


def test_a_kind_that_explains_nothing_has_the_weight_of_its_prior():
    log_density = np.zeros((20, 3))
    log_density[:, 1:] = [-np.inf, -1e4]
    weights = stacking_weights(log_density, np.array([0.0, 0.5, 1.5]))
    np.testing.assert_allclose(weights, np.array([20, 0.5, 1.5]) / 22, rtol=1e-6)


def test_equal_kinds_share_by_their_prior():
    weights = stacking_weights(np.zeros((20, 3)), np.array([1.0, 2.0, 5.0]))
    np.testing.assert_allclose(weights, [1 / 8, 2 / 8, 5 / 8], rtol=1e-4)


def test_without_rows_the_prior_decides():
    weights = stacking_weights(np.empty((0, 3)), np.array([6.0, 1.0, 1.0]))
    np.testing.assert_allclose(weights, [0.75, 0.125, 0.125], rtol=1e-12)


def test_a_row_that_counts_twice_is_two_rows():
    log_density, _ = random_rows(30)
    counts = np.random.default_rng(1).integers(0, 4, 30)
    repeated = stacking_weights(np.repeat(log_density, counts, axis=0), PRIORS["some"])
    counted = stacking_weights(log_density, PRIORS["some"], counts.astype(float))
    np.testing.assert_allclose(counted, repeated, atol=1e-6)


def test_a_row_that_no_kind_explains_changes_nothing():
    log_density, _ = random_rows(30)
    hopeless = np.concatenate([log_density, np.full((3, 4), -np.inf)])
    expected = stacking_weights(log_density, PRIORS["none"])
    np.testing.assert_allclose(stacking_weights(hopeless, PRIORS["none"]), expected, atol=1e-6)


def test_only_differences_of_log_densities_matter():
    log_density, counts = random_rows(30)
    expected = stacking_weights(log_density, PRIORS["some"], counts)
    shifted = log_density + np.linspace(-1e5, 1e5, 30)[:, None]
    found = stacking_weights(shifted, PRIORS["some"], counts)
    np.testing.assert_allclose(found, expected, atol=1e-8)
