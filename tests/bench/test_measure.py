"""Figures from turns whose times are given; no test asks how fast anything is."""

import itertools

import pytest

from ngem.bench import measure, workers
from ngem.bench.rows import Row, Target


class Scripted(workers.AbstractPool):
    """A pool whose sides give the values of a script."""

    def __init__(self, **script):
        self.script = {name: itertools.cycle(values) for name, values in script.items()}

    def build(self, side, small):
        return lambda **_: next(self.script[side.label])

    def clear(self):
        pass

    def close(self):
        pass


def row(kind, *labels, **more):
    sides = tuple(workers.Side(label, "none:none") for label in labels)
    return Row("a/row", "how", Target("at most", 1.0), sides, kind=kind, repeats=3, **more)


@pytest.mark.parametrize(("kind", "expected"), [("ratio", 0.5), ("speedup", 2.0), ("value", 4.0)])
def test_ratios_pair_neighbors(kind, expected):
    """The machine slows down tenfold midway, and the ratio does not see it."""
    pool = Scripted(ours=[1.0, 4.0, 10.0], theirs=[2.0, 8.0, 20.0])
    figure = measure.measure(row(kind, "ours", "theirs"), pool)
    assert figure.value == pytest.approx(expected)
    assert figure.parts == {"ours": 4.0, "theirs": 8.0}
    assert figure.met is (expected <= 1)


def test_a_goal_that_is_never_reached_is_no_speedup():
    pool = Scripted(ours=[(None, 2.0)], theirs=[(3.0, 1.0)])
    figure = measure.measure(row("reach", "ours", "theirs"), pool)
    assert figure.value == 0
    assert "not reached in 4 of 4" in figure.note


def test_the_first_fit_counts_as_compiling():
    pool = Scripted(ours=[(8.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0)], theirs=[(2.0, 1.0)])
    figure = measure.measure(row("reach", "ours", "theirs"), pool)
    assert figure.value == 2
    assert "with compiling 0.25" in figure.note


def test_slopes_use_the_sizes():
    pool = Scripted(one=[2.0], two=[8.0])
    figure = measure.measure(row("slope", "one", "two", sizes=(1, 2)), pool)
    assert figure.value == pytest.approx(2)


def test_what_is_not_installed_is_skipped_and_says_so():
    side = workers.Side("theirs", "none:none", needs=("no_such_library",))
    missing = Row("a/row", "how", Target(), (side,), kind="value")
    figure = measure.measure(missing, Scripted())
    assert figure.value is None
    assert not figure.failed
    assert "no_such_library not installed" in figure.note


def test_a_row_that_fails_says_so():
    figure = measure.measure(row("value", "ours"), workers.Local())
    assert figure.failed
    assert "none" in figure.note
