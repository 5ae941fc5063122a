"""Statistics of runs on examples whose answers are known."""

import numpy as np
import pytest
from scipy import stats

from ngem.repro import statistics
from ngem.repro.statistics import PAIRED, STATISTICS


def test_scores_join_seeds_and_tell_gaps_apart():
    runs = [{"a": 1.0}, {"a": [2.0, None]}, {"a": None}, {"diverged": "overflow"}]
    np.testing.assert_array_equal(statistics.scores(runs, "a"), [1, 2, np.inf, np.inf])
    np.testing.assert_array_equal(statistics.scores([{"a": {"b": 3.0}}], "a.b"), [3])


def test_the_standard_error_is_scipys():
    values = np.random.default_rng(0).normal(size=7)
    assert statistics.standard_error(values) == pytest.approx(stats.sem(values))
    assert statistics.standard_error([1.0]) == 0


@pytest.mark.parametrize("weight", [0.2, 0.5, 0.95])
def test_the_root_rule_is_the_ratio_of_roots(weight):
    learned = statistics.root_rule(weight)
    assert learned / (1 - learned) == pytest.approx(np.sqrt(weight / (1 - weight)))


def test_iterations_count_what_stays_near_the_optimum_on_the_mean_curve():
    run = {"optimum": 1.0, "iterations": [0, 10, 20, 30]}
    count = STATISTICS["iterations to stay"]
    assert count([{**run, "curve": [[5.0, 1.0, 5.0, 1.0], [5.0, 1.0, 1.0, 1.1]]}], "curve") == 30
    assert count([{**run, "curve": [[1.0] * 4]}], "curve") == 0
    assert count([{**run, "curve": [[5.0] * 4]}], "curve") == np.inf


def test_a_straight_path_has_no_detour_and_a_corner_has_one():
    straight = [[0.0, 0.0], [3.0, 0.0], [6.0, 0.0]]
    corner = [[0.0, 0.0], [3.0, 0.0], [3.0, 4.0]]
    for paths, expected in (([straight], 1), ([corner], 7 / 5), ([straight, corner], 6 / 5)):
        path = np.moveaxis(np.array(paths), 0, 1).tolist()
        assert STATISTICS["detour"]([{"path": path}], "path") == pytest.approx(expected)
    # Noise around the end is not part of the path.
    wandering = [*straight, [6.2, 0.3], [5.9, -0.2], [6.0, 0.0]]
    path = np.moveaxis(np.array([wandering]), 0, 1).tolist()
    assert STATISTICS["detour"]([{"path": path}], "path") == pytest.approx(1)


def test_modes_and_fits_are_counted():
    runs = [
        {"true_nll": 1.0, "test_nll": 1.9, "targets": 2, "grid": [{}, {"diverged": "overflow"}]},
        {"true_nll": 1.0, "test_nll": 2.1, "targets": 2, "grid": [{}]},
        {"true_nll": None, "test_nll": 9.0, "targets": 2, "grid": [{"diverged": "overflow"}]},
    ]
    names = ("lost modes", "runs with known truth", "diverged fits", "fits")
    assert [STATISTICS[name](runs, "") for name in names] == [1, 2, 2, 4]


def test_pairs():
    pairs = [({"a": 1.0}, {"a": 3.0}), ({"a": 5.0}, {"a": 4.0})]
    assert PAIRED["mean difference"](pairs, "a") == -0.5
    assert PAIRED["standard error"](pairs, "a") == pytest.approx(1.5)
    assert PAIRED["largest difference"](pairs, "a") == 2
    lost = [*pairs, ({"diverged": "overflow"}, {"a": 1.0})]
    assert np.isnan(PAIRED["mean difference"](lost, "a"))


def test_the_fraction_of_training_is_when_the_partners_end_is_reached():
    curves = ([4.0, 2.0, 1.0, 0.0], [4.0, 3.0, 2.0, 2.0])
    fraction = PAIRED["fraction of training"]
    assert fraction([({"curve": curves[0]}, {"curve": curves[1]})], "") == 0.5
    assert fraction([({"curve": curves[1]}, {"curve": curves[0]})], "") == np.inf
    assert fraction([({}, {"curve": curves[0]})], "") == np.inf


def test_a_coverage_is_at_fault_beyond_two_points_or_two_standard_errors():
    fault = STATISTICS["coverage fault"]
    few = [{"coverage50": 0.62, "test_rows": 60}, {"coverage50": 0.58, "test_rows": 40}]
    assert fault(few, "coverage50") == pytest.approx(0.1 - 2 * stats.binom(100, 0.5).std() / 100)
    many = [{"coverage90": 0.87, "test_rows": 10_000}]
    assert fault(many, "coverage90") == pytest.approx(0.03 - 0.02)
    assert fault([{"coverage99": 1.0, "test_rows": 50}], "coverage99") < 0
