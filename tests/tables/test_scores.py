"""Scores on rows with known targets, against scipy and scoringrules."""

import jax
import numpy as np
import pytest
import scipy.stats
import scoringrules

from ngem import MDNRegressor
from ngem.tables import scores

EVEN = (np.arange(500) + 0.5) / 500


@pytest.mark.parametrize(
    ("verdict", "pit"),
    [
        ("good, as far as 500 rows can show", EVEN),
        ("densities too wide", 0.5 + (EVEN - 0.5) / 2),
        ("densities too narrow", scipy.stats.beta.ppf(EVEN, 0.4, 0.4)),
        ("densities too low", np.sqrt(EVEN)),
        ("densities too high", EVEN**2),
    ],
)
def test_verdicts_on_calibration(verdict, pit):
    assert scores.calibration(pit)["calibration"] == verdict


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_coverage_of_a_uniform_pit(level):
    assert scores.coverage(EVEN, level) == pytest.approx(level)


def test_batches_join_to_the_whole():
    rng = np.random.default_rng(0)
    whole = scores.RowScores(rng.normal(size=9), *rng.normal(size=(3, 9, 2)))
    parts = [scores.RowScores(*(part[rows] for part in whole)) for rows in (slice(4), slice(4, 9))]
    for joined, part in zip(scores.join(parts), whole, strict=True):
        np.testing.assert_array_equal(joined, part)


@pytest.mark.trains
def test_a_summary_agrees_with_other_libraries():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 1))
    y = 30 * x[:, 0] + 1000 + rng.normal(size=40)
    model = MDNRegressor(2, hidden_sizes=(4,), max_epochs=2, random_state=0).fit(x, y)
    row_scores = scores.score_rows(model.model_, x, y[:, None])
    summary = scores.summarize(row_scores, model.model_, ["price"])
    with jax.enable_x64(True):
        mixture = model.predict_distribution(x)
    weights = np.asarray(mixture.weights)
    mean, scale = (np.asarray(part)[..., 0] for part in jax.tree.leaves(mixture.components))
    density = np.sum(weights * scipy.stats.norm.pdf(y[:, None], mean, scale), axis=1)
    pit = np.sum(weights * scipy.stats.norm.cdf(y[:, None], mean, scale), axis=1)
    errors = np.sum(weights * mean, axis=1) - y
    target = summary["targets"]["price"]
    assert summary["rows"] == 40
    assert summary["nll"] == pytest.approx(-np.mean(np.log(density)), rel=1e-5)
    standardized = summary["nll"] - np.log(model.diagnostics_["target_scale"][0])
    assert summary["nll_standardized"] == pytest.approx(standardized)
    assert summary["nll_standardised"] == summary["nll_standardized"]  # the key of version 0.1
    crps = scoringrules.crps_mixnorm(y, mean, scale, weights)
    assert target["crps"] == pytest.approx(np.mean(crps), rel=1e-5)
    assert target["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-5)
    assert target["coverage"]["0.9"] == np.mean((pit >= 0.05) & (pit <= 0.95))
    test = scipy.stats.kstest(pit, "uniform")
    assert target["pit_p_value"] == pytest.approx(test.pvalue, abs=1e-2)
