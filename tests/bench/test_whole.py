"""Whole jobs of the benchmark, at tiny sizes: they run, and their figures mean what they say."""

import pytest

from ngem.bench import whole

pytestmark = pytest.mark.trains


def test_a_command_tells_what_it_used_and_why_it_failed():
    used = whole.use_of(["--version"])
    assert 10e6 < used.peak < 4e9
    assert 0 < used.seconds < 60
    with pytest.raises(RuntimeError, match=r"ngem predict failed: .*absent"):
        whole.use_of(["predict", "absent.ngem", "absent.csv"])


@pytest.mark.slow
@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_memory_is_measured_beyond_that_of_few_rows(command):
    turn = whole.command_memory(command=command, rows=400, features=2)
    assert abs(turn()) < 200  # megabytes: a few hundred rows take next to nothing


@pytest.mark.slow
def test_a_prediction_by_the_command_takes_cpu_seconds():
    assert 0.1 < whole.predict_command(features=2)() < 60


def test_members_and_regions_take_time():
    assert whole.members(count=2, rows=60, features=2, epochs=1)() > 0
    assert whole.regions(rows=20, features=2)() > 0
