"""Methods are compared with nll by seed."""

import pytest

from ngem.repro.objective_comparison import Comparison, compare
from ngem.repro.store import Results


@pytest.mark.parametrize(
    ("gain", "error", "verdict"),
    [(-0.2, 0.1, "better"), (-0.1, 0.1, "level"), (0.1, 0.1, "level"), (0.2, 0.1, "worse")],
)
def test_level_is_within_one_standard_error(gain, error, verdict):
    assert Comparison(gain, error, 1.0).verdict == verdict


def test_differences_are_paired_by_seed(tmp_path):
    results = Results(tmp_path / "results.json", settings={}, budget="full")
    # Seeds differ by far more than methods.
    for seed, base in ((1, 100.0), (2, 0.0)):
        for method, score in (("nll", base), ("ngem", base - seed)):
            result = {"test_nll": score, "curve": [score + 3, score]}
            results.add({"task": "t", "method": method, "seed": seed}, result, 0.0)
    assert compare(results, "t", "ngem") == pytest.approx((-1.5, 0.5, 1.0))
    results.add({"task": "t", "method": "nll", "seed": 3}, {}, 0.0)
    results.add({"task": "t", "method": "ngem", "seed": 3}, {"test_nll": 1.0, "curve": [1.0]}, 0.0)
    assert compare(results, "t", "ngem") is None
    assert compare(results, "t", "beta-nll") is None
