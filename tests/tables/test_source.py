"""The table that options name, and the command that repeats a fit."""

import shlex

import numpy as np
import pytest

from ngem import MDNRegressor, MixtureBoostingRegressor
from ngem.estimator.categories import find_categories
from ngem.estimator.schema import Column
from ngem.tables.formats import TableError
from ngem.tables.source import Source


def test_a_source_is_read_in_two_passes(mixed, passes):
    source = Source(mixed, "price", exclude="wet", missing="drop", max_rows=3, seed=1)
    schema, rows, facts = source.load()
    assert len(passes) == 2
    assert facts == {
        "rows": 4,
        "used_rows": len(rows.x),
        "dropped_rows": 3 - len(rows.x),
        "features": {"size": "number", "place": "category"},
        "inputs": schema.n_features,
        "targets": ["price"],
        "steps": [None],
        "proposals": [None],
        "seed": 1,
        "kind": "network",
    }


def test_one_row_is_refused(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match="at least two rows to learn from, got one"):
        Source(path, "b").load()


def test_codes_count_the_categories_of_the_rows_that_were_taken(tmp_path):
    """As `find_categories` of the estimator does: the two would disagree otherwise."""
    path = tmp_path / "places.csv"
    lines = ["north,1", "south,", "west,2", "east,", ",3", "west,4"]
    path.write_text("\n".join(["place,y", *lines]))
    schema, rows, _ = Source(path, "y", model="trees").load()
    assert schema.features == (Column("place", "category", ("north", "west")),)
    np.testing.assert_array_equal(rows.x[:, 0], [0, 1, np.nan, 1])
    assert find_categories(rows.x, schema.coded) == ((0,), ((0.0, 1.0),))
    _, _, facts = Source(path, "y", model="trees", missing="drop").load()
    assert (facts["used_rows"], facts["dropped_rows"]) == (3, 3)


def test_the_command_of_trees_names_their_own_options(tmp_path):
    source = Source(tmp_path / "a.csv", "y", model="trees")
    words = source.command(MixtureBoostingRegressor(num_leaves=7)).split()
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert (options["--model"], options["--missing"]) == ("trees", "keep")
    assert (options["--leaves"], options["--rounds"]) == ("7", "2000")
    assert {"--leaf-rows", "--learning-rate", "--members", "--components"} < set(options)
    assert not {"--hidden", "--covariance", "--objective", "--epochs"} & set(options)


def test_the_command_names_every_choice(tmp_path):
    source = Source(tmp_path / "a b.csv", "y,z", exclude="id", max_rows=9, seed=4)
    estimator = MDNRegressor(3, n_members=2, hidden_sizes=(8, 4), max_epochs=7)
    words = shlex.split(source.command(estimator))
    assert words[:3] == ["ngem", "fit", str(tmp_path / "a b.csv")]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert options.pop("--family", "gaussian") == "gaussian"
    assert options == {
        "--model": "network",
        "--target": "y,z",
        "--exclude": "id",
        "--missing": "error",
        "--max-rows": "9",
        "--validation-fraction": "0.1",
        "--members": "2",
        "--components": "3",
        "--hidden": "8,4",
        "--objective": "ngem",
        "--epochs": "7",
        "--seed": "4",
    }
