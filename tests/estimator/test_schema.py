"""The schema of a table: where columns go, and what a model file may hold."""

import pytest

from ngem.estimator.schema import Column, Schema

SCHEMA = Schema(
    (Column("a", "number"), Column("b", "category", ("x", "y"))), ("c", "d"), "impute", "ngem fit"
)


CODES = SCHEMA._replace(missing="keep", coding="codes")


def test_categories_are_one_feature_each_if_coded():
    assert CODES.inputs == ["a", "b"]
    assert CODES.n_features == 2
    assert CODES.places == {"a": [0], "b": [1]}
    assert CODES.coded == [1]
    assert SCHEMA.coded == []


def test_a_header_of_an_earlier_version_has_one_input_per_category():
    header = SCHEMA.to_header()
    del header["coding"]
    assert Schema.from_header(header) == SCHEMA


def test_a_schema_knows_the_inputs_of_its_columns():
    assert SCHEMA.inputs == ["a", "b=x", "b=y"]
    assert SCHEMA.n_features == 3
    assert SCHEMA.places == {"a": [0], "b": [1, 2]}


def test_a_schema_survives_its_header():
    for schema in (SCHEMA, CODES):
        assert Schema.from_header(schema.to_header()) == schema


@pytest.mark.parametrize(
    "change",
    [
        {"features": []},
        {"features": None},
        {"features": [{"name": "a", "kind": "number"}]},
        {"features": [{"name": "a", "kind": "eval", "categories": []}]},
        {"features": [{"name": "a", "kind": ["number"], "categories": []}]},
        {"features": [{"name": "a", "kind": "number", "categories": ["x"]}]},
        {"features": [{"name": "a", "kind": "category", "categories": []}]},
        {"features": [{"name": "a", "kind": "category", "categories": ["x", "x"]}]},
        {"features": [{"name": 3, "kind": "number", "categories": []}]},
        {"features": [{"name": "c", "kind": "number", "categories": []}]},
        {"targets": []},
        {"targets": "cd"},
        {"targets": [1]},
        {"missing": "guess"},
        {"missing": "keep"},
        {"coding": "codes"},
        {"coding": "eval"},
        {"coding": ["codes"]},
        {"command": 3},
        {"extra": 1},
    ],
)
def test_an_invalid_schema_is_refused(change):
    with pytest.raises(ValueError, match="must"):
        Schema.from_header({**SCHEMA.to_header(), **change})
