"""Results on disk."""

import pytest

from ngem.repro.store import Results, rounded


def test_results_of_other_settings_are_neither_continued_nor_lost(tmp_path):
    path = tmp_path / "results.json"
    Results(path, settings={"a": 1}, budget="full").add({"seed": 1}, {"v": 1.0}, 0.1)
    assert Results(path, settings={"a": 1}, budget="full").has({"seed": 1})
    for settings, budget in (({"a": 2}, "full"), ({"a": 1}, "quick")):
        with pytest.raises(ValueError, match="choose another directory"):
            Results(path, settings=settings, budget=budget)
    assert Results(path, settings={"a": 1}, budget="full").has({"seed": 1})


@pytest.fixture(name="results")
def _results(tmp_path):
    results = Results(tmp_path / "results.json", settings={}, budget="full")
    for seed in (2, 1):
        for method in ("a", "b"):
            results.add({"method": method, "seed": seed}, {"score": f"{method}{seed}"}, 0.1)
    return results


def test_runs_are_selected_by_their_unit_in_the_order_of_seeds(results):
    assert [run["score"] for run in results.select(method="a")] == ["a1", "a2"]
    assert results.select(method="b", seed=2) == [{"method": "b", "seed": 2, "score": "b2"}]
    assert results.select(method="c") == []


def test_runs_are_paired_by_all_else(results):
    pairs = results.pairs({"method": "b"}, method="a")
    assert [(run["score"], other["score"]) for run, other in pairs] == [("a1", "b1"), ("a2", "b2")]
    with pytest.raises(ValueError, match="unpack"):
        results.pairs({"method": "c"}, method="a")


def test_numbers_are_rounded_to_significant_digits():
    assert rounded([[1.23456789, 1234567.8]], 4) == [[1.235, 1235000.0]]
    assert rounded(7) == 7
