"""The schema of a table: where columns go, and what a model file may hold."""

import json

import pytest

from ngem.estimator.schema import Column, Schema

SCHEMA = Schema(
    (Column("a", "number"), Column("b", "category", ("x", "y"))), ("c", "d"), "impute", "ngem fit"
)


MORE = Schema(
    (
        Column("when", "date", parts=("elapsed days", "hour"), format="%d.%m.%Y"),
        Column("b", "category", ("x", "y"), has_other=True),
        Column("c", "boolean"),
    ),
    ("d",),
    "keep",
    decimal=",",
)


def test_a_header_of_an_earlier_version_is_read():
    header = SCHEMA.to_header()
    del header["decimal"]
    for column in header["features"]:
        for name in ("has_other", "parts", "format", "common"):
            del column[name]
    assert Schema.from_header(header) == SCHEMA
    assert Schema.from_header({**header, "coding": "one-hot"}) == SCHEMA


def test_a_schema_knows_what_its_columns_become():
    assert SCHEMA.numbers == ["a", "b"]
    assert SCHEMA.inputs == ["a", "b=x", "b=y"]
    assert SCHEMA.sizes == [0, 2]
    assert SCHEMA.places == {"a": [0], "b": [1]}
    assert SCHEMA.coded == [1]
    assert MORE.numbers == ["when: elapsed days", "when: hour", "b", "c"]
    assert MORE.inputs == ["when: elapsed days", "when: hour", "b=x", "b=y", "b=(other)", "c"]
    assert MORE.sizes == [0, 0, 3, 0]
    assert MORE.places == {"when": [0, 1], "b": [2], "c": [3]}
    assert MORE.coded == [2]


def test_a_schema_survives_its_header():
    many = Schema((Column("b", "category", ("x", "y", "z"), common=1),), ("c",))
    for schema in (SCHEMA, MORE, many):
        assert Schema.from_header(json.loads(json.dumps(schema.to_header()))) == schema


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
        {"features": [{"name": "a", "kind": "date", "categories": []}]},
        {"features": [{"name": "a", "kind": "date", "categories": [], "parts": ["eval"]}]},
        {"features": [{"name": "a", "kind": "number", "categories": [], "parts": ["hour"]}]},
        {"features": [{"name": "a", "kind": "number", "categories": [], "has_other": 1}]},
        {"features": [{"name": "a", "kind": "number", "categories": [], "format": None}]},
        {"features": [{"name": "a", "kind": "number", "categories": [], "common": 0}]},
        {"features": [{"name": "a", "kind": "category", "categories": ["x"], "common": 1}]},
        {"features": [{"name": "a", "kind": "category", "categories": ["x"], "common": -1}]},
        {"features": [{"name": "a", "kind": "category", "categories": ["x"], "common": 0.5}]},
        {"decimal": "x"},
        {"command": 3},
        {"extra": 1},
    ],
)
def test_an_invalid_schema_is_refused(change):
    with pytest.raises(ValueError, match="must"):
        Schema.from_header({**SCHEMA.to_header(), **change})
