"""Scores of Table 5 against numpy and scipy, and its scaled splits."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ngem
from ngem.repro import regression


def test_scores_are_those_of_their_definitions():
    rng = np.random.default_rng(0)
    logits, mean = rng.normal(size=(50, 2)), rng.normal(size=(50, 2, 1))
    scale, y = rng.uniform(0.5, 1.5, (50, 2, 1)), rng.normal(size=(50, 1))
    weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    density = (weights * stats.norm.pdf(y, mean[..., 0], scale[..., 0])).sum(axis=1)
    cdf = (weights * stats.norm.cdf(y, mean[..., 0], scale[..., 0])).sum(axis=1)
    center = (weights * mean[..., 0]).sum(axis=1)
    measured = regression.scores(ngem.gaussian_mixture(logits, mean, scale), jnp.asarray(y))
    assert measured["nll"] == pytest.approx(-np.log(density).mean())
    assert measured["rmse"] == pytest.approx(np.sqrt(np.mean((center - y[:, 0]) ** 2)))
    nearest = np.abs(mean[..., 0] - y).min(axis=1)
    assert measured["nearest_rmse"] == pytest.approx(nearest.mean())
    # A target lies between two quantiles if its cdf does.
    assert measured["coverage90"] == pytest.approx(np.mean((cdf >= 0.05) & (cdf <= 0.95)))


def test_columns_are_scaled_by_training_rows(data_dir):
    rows = regression.scaled_rows("yacht", 1, 0.2)
    for part in rows.train:
        if part is not None:
            np.testing.assert_allclose([part.min(), part.max()], [0, 1], atol=1e-6)
    assert (len(rows.train.y), len(rows.test.y)) == (246, 62)
