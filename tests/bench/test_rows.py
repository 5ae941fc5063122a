"""Rows of the benchmark: names, targets and shapes."""

import pytest

from ngem.bench.rows import ROWS, TABLE10, TWO_SINUSOIDS, Target, choose
from ngem.datasets import load_uci, random_split
from ngem.repro import spec, two_sinusoids


def test_targets_judge_figures_as_printed():
    assert Target("at most", 1.0).met(1.004)
    assert not Target("at most", 1.0).met(1.006)
    assert Target("at least", 8.0).met(8.0)
    assert Target().met(3.0) is None


def test_rows_are_named_once_and_chosen_by_their_beginning():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert [row.name for row in choose(["step/mnist-3", "start"])] == [
        "step/mnist-3",
        "start/warm",
        "start/cold",
        "start/kept",
        "start/import",
    ]
    assert len(choose([])) == len(ROWS)
    assert {row.group for row in choose([], smoke=True)} == {row.group for row in ROWS}
    with pytest.raises(ValueError, match="got stp; try one of step, loss"):
        choose(["stp"])


def test_shapes_are_those_of_the_tables(data_dir):
    settings = spec.load("table6").settings
    for name, shape in TABLE10.items():
        data = load_uci(name)
        assert shape["rows"] == len(random_split(len(data.x), 1, test=0.2).train)
        assert (shape["features"], shape["dim"]) == (data.x.shape[1], data.y.shape[1])
        assert shape["batch"] == settings["datasets"][name]["batch_size"]
    assert TWO_SINUSOIDS["hidden"] == two_sinusoids.HIDDEN_SIZES
    assert TWO_SINUSOIDS["rows"] == spec.load("table2").settings["n_points"]
