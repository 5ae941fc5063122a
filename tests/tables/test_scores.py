"""Scores of rows: coverage and verdicts; `test_commands` has the scores of a model."""

import numpy as np
import pytest
import scipy.stats

from ngem.tables import scores

EVEN = (np.arange(500) + 0.5) / 500


@pytest.mark.parametrize(
    ("verdict", "pit"),
    [
        ("no clear fault", EVEN),
        ("too wide", 0.5 + (EVEN - 0.5) / 2),
        ("too narrow", scipy.stats.beta.ppf(EVEN, 0.4, 0.4)),
        ("too low", np.sqrt(EVEN)),
        ("too high", EVEN**2),
    ],
)
def test_verdicts_on_calibration(verdict, pit):
    result = scores.calibration(pit)
    assert result["calibration"] == verdict
    text = scores.calibration_text(len(pit), result)
    assert ("no fault that 500 rows show" if "fault" in verdict else f"are {verdict};") in text


def test_a_fault_without_consequences_is_none_however_many_rows_show_it():
    pit = ((np.arange(2_000_000) + 0.5) / 2_000_000) ** 1.01
    assert abs(scores.coverage(pit, 0.9) - 0.9) < 0.002
    result = scores.calibration(pit)
    assert result["pit_p_value"] < 1e-20
    assert result["calibration"] == "good"
    assert "off by 0.37 percentage points" in scores.calibration_text(len(pit), result)


def test_a_few_rows_are_not_judged():
    for count, verdict in {3: "not judged", 19: "not judged", 20: "too high"}.items():
        result = scores.calibration(np.linspace(0.0, 0.3, count))
        assert result["calibration"] == verdict
    assert "3 rows are too few" in scores.calibration_text(3, scores.calibration(np.full(3, 0.5)))


def test_the_range_of_a_fault_holds_the_true_one():
    """The PIT is that of Beta(2, 1): its true distance from uniform is 1/4."""
    rng = np.random.default_rng(0)
    ranges = [scores.calibration(rng.beta(2, 1, 200))["pit_distance_range"] for _ in range(200)]
    assert np.mean([low <= 0.25 <= high for low, high in ranges]) >= 0.95


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_coverage_of_a_uniform_pit(level):
    assert scores.coverage(EVEN, level) == pytest.approx(level)


def test_batches_join_to_the_whole():
    rng = np.random.default_rng(0)
    whole = scores.RowScores(rng.normal(size=9), *rng.normal(size=(3, 9, 2)))
    parts = [scores.RowScores(*(part[rows] for part in whole)) for rows in (slice(4), slice(4, 9))]
    for joined, part in zip(scores.join(parts), whole, strict=True):
        np.testing.assert_array_equal(joined, part)
