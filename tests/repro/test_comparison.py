"""Cells of tables; the tables of committed runs are compared in `test_reproduce`."""

import pytest

from ngem.repro import comparison


def test_means_are_written_as_in_the_paper():
    assert comparison.mean_std([1.0, 3.0]) == "2.000 ± 1.000"
    assert comparison.mean_std([1, 3], 1) == "2.0 ± 1.0"
    assert comparison.mean_std([]) == "-"


@pytest.mark.parametrize("lost", [0, 1])
def test_runs_that_diverged_are_counted_and_not_averaged(lost):
    runs = [{"nll": 1.0}, {"nll": 3.0}] + [{"diverged": "overflow"}] * lost
    note = " (1 of 3 diverged)" if lost else ""
    assert comparison._with_divergence(runs, "nll", 2) == "2.00 ± 1.00" + note
