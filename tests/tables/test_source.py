"""The table that options name, and the command that repeats a fit."""

import shlex

import numpy as np
import pytest

from ngem import MDNRegressor, MixtureBoostingRegressor
from ngem.estimator.schema import Column
from ngem.tables.opening import How, TableError, opened
from ngem.tables.source import Source


def load(source):
    with opened(source.path, source.how) as table:
        return source.load(table)


def test_a_source_is_read_in_two_passes(mixed, passes):
    source = Source(mixed, "price", exclude="wet", missing="drop", max_rows=3, seed=1)
    schema, rows, facts = load(source)
    assert len(passes) == 2
    assert facts == {
        "rows": 4,
        "used_rows": len(rows.x),
        "dropped_rows": 3 - len(rows.x),
        "features": {"size": "number", "place": "category"},
        "rows_without_target": 0,
        "inputs": len(schema.inputs),
        "targets": ["price"],
        "steps": [None],
        "proposals": [None],
        "target_notes": [],
        "file_notes": [],
        "column_notes": {},
        "gaps": {},
        "seed": 1,
        "kind": "network",
    }


def test_one_row_is_refused(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match="at least two rows to learn from, got one"):
        load(Source(path, "b"))


def test_categories_are_those_of_the_rows_that_were_taken(tmp_path):
    path = tmp_path / "places.csv"
    lines = ["north,1", "south,", "west,2", "east,", ",3", "west,4"]
    path.write_text("\n".join(["place,y", *lines]))
    schema, rows, _ = load(Source(path, "y", model="trees"))
    assert schema.features == (Column("place", "category", ("north", "west")),)
    np.testing.assert_array_equal(rows.x[:, 0], [0, 1, np.nan, 1])
    _, _, facts = load(Source(path, "y", model="trees", missing="drop"))
    assert (facts["used_rows"], facts["dropped_rows"], facts["rows_without_target"]) == (3, 1, 2)


def test_rare_categories_are_told_of(tmp_path):
    path = tmp_path / "shops.csv"
    lines = [f"{f's{i % 3}' if i < 590 else f'r{i % 110}'},c{i % 300},{i}" for i in range(700)]
    path.write_text("\n".join(["shop,rare,y", *lines]))
    schema, rows, facts = load(Source(path, "y", model="network"))
    assert schema.features == (Column("shop", "category", ("s0", "s1", "s2"), has_other=True),)
    assert facts["column_notes"] == {
        "rare": "left out, because none of its categories has 5 rows",
        "shop": "read as its 3 most common categories; the others, in 110 rows, count as one: "
        "(other)",
    }
    assert np.sum(rows.x == 3) == 110
    schema, _, facts = load(Source(path, "y", model="trees"))
    assert len(schema.features[0].categories) == 113
    assert not facts["column_notes"]
    schema, _, facts = load(Source(path, "y", model="stack"))
    assert [column.common for column in schema.features] == [3, 0]
    assert facts["column_notes"]["shop"] == (
        "trees read its 113 categories; networks read its 3 most common ones, and the others as "
        "one: (other)"
    )
    assert "networks do not tell them apart" in facts["column_notes"]["rare"]
    with pytest.raises(TableError, match="must be a column to predict from, got rare: left out"):
        load(Source(path, "y", features="rare", model="network"))


def test_the_command_of_trees_names_their_own_options(tmp_path):
    source = Source(tmp_path / "a.csv", "y", model="trees")
    words = source.command(MixtureBoostingRegressor(3, num_leaves=7)).split()
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert (options["--model"], options["--missing"]) == ("trees", "keep")
    assert (options["--leaves"], options["--rounds"]) == ("7", "2000")
    assert {"--leaf-rows", "--learning-rate", "--members", "--components"} < set(options)
    assert "--components" not in source.command(MixtureBoostingRegressor())  # they are chosen
    assert not {"--hidden", "--covariance", "--objective", "--epochs"} & set(options)


def test_the_command_names_every_choice(tmp_path):
    how = How(separator=";")
    source = Source(tmp_path / "a b.csv", "y,z", exclude="id", max_rows=9, seed=4, how=how)
    estimator = MDNRegressor(3, n_members=2, hidden_sizes=(8, 4), max_epochs=7)
    words = shlex.split(source.command(estimator))
    assert words[:3] == ["ngem", "fit", str(tmp_path / "a b.csv")]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert options.pop("--family", "gaussian") == "gaussian"
    assert options == {
        "--model": "network",
        "--target": "y,z",
        "--exclude": "id",
        "--missing": "impute",
        "--max-rows": "9",
        "--validation-fraction": "0.1",
        "--members": "2",
        "--components": "3",
        "--hidden": "8,4",
        "--objective": "ngem",
        "--epochs": "7",
        "--batch-size": "128",
        "--seed": "4",
        "--separator": ";",
    }
