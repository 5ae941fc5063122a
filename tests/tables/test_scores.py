"""Scores of rows: coverage and verdicts; `test_commands` has the scores of a model."""

import numpy as np
import pytest
import scipy.stats

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
