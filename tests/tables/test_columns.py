"""What columns hold, found in one pass over the file."""

import datetime

import numpy as np
import polars as pl
import pytest

from ngem.estimator.schema import Column
from ngem.tables import columns, formats
from ngem.tables.columns import describe
from ngem.tables.formats import TableError
from ngem.tables.read import read


def write(path, text):
    path.write_text(text)
    return path


def test_a_text_table_is_scanned_once_to_describe_it_and_once_to_read_it(tmp_path, passes):
    lines = [f"{i},{i / 7},{'xyz'[i % 3]},w{i % 5},{i % 2 == 0},{-i}" for i in range(50)]
    path = write(tmp_path / "a.csv", "\n".join(["a,b,c,d,e,y", *lines, ",,,,,", ""]))
    schema, rows = describe(path, ["y"], categorical=["a"])
    assert len(passes) == 1
    assert rows == 50
    assert [len(column.categories) for column in schema.features] == [50, 0, 3, 5, 0]
    assert len(read(path, schema, rows=rows, max_rows=20).x) == 20
    assert len(passes) == 2


def test_the_kind_of_a_column_is_decided_by_all_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BATCH", 7)
    text = "".join(
        f"{i},{'true' if i < 40 else 'no'},{'x' if i == 45 else i},{i}\n" for i in range(50)
    )
    path = write(tmp_path / "late.csv", f"a,b,c,y\n{text}")
    schema, rows = describe(path, ["y"], exclude=["c"])
    assert rows == 50
    assert schema.features == (Column("a", "number"), Column("b", "category", ("no", "true")))
    with pytest.raises(TableError, match=r"'c' .* got 'x' in row 46 \(1 such values in all\)"):
        describe(path, ["y"])


def test_columns_are_chosen_by_name(mixed):
    schema, _ = describe(mixed, ["price"], features=["size"])
    assert schema.inputs == ["size"]
    schema, _ = describe(mixed, ["price"], exclude=["size", "wet"])
    assert [column.name for column in schema.features] == ["place"]
    schema, _ = describe(mixed, ["price"], categorical=["size"])
    assert schema.features[0] == Column("size", "category", ("1", "2.5", "3"))


def test_the_number_of_categories_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BATCH", 16)

    def describe_codes(count, coding):
        # Each code as a whole number and as a float, which are the same category.
        lines = [f"{i},{i}\n{i}.0,{i}\n" for i in range(count)]
        path = write(tmp_path / "codes.csv", "code,y\n" + "".join(lines))
        schema, _ = describe(path, ["y"], categorical=["code"], coding=coding)
        return schema.features[0].categories

    monkeypatch.setitem(columns.MOST_CATEGORIES, "codes", 120)
    for coding, most in columns.MOST_CATEGORIES.items():
        assert describe_codes(most, coding) == tuple(sorted(map(str, range(most))))
        with pytest.raises(TableError, match=f"at most {most} categories, got more, such as '0'"):
            describe_codes(most + 1, coding)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "rows below its header, got none"),
        ("a,b\n1,2\n2,x\n3,4\n", r"'b' .* must hold numbers, got 'x' in row 2 \(1 such"),
        ("a,b\n1,x\n2,y\n3,z\n", "target 'b' .* got text"),
        ("a,b\n1,true\n2,false\n", "target 'b' .* got true and false"),
        ("a,b\n,1\n,2\n", r"'a' .* all are missing; leave it out: --exclude 'a'"),
        ("a,b\n1,\n2,\n", "'b' .* all are missing"),
        ("a,B\n1,2\n", "must have a column 'b', got a, B; did you mean 'B'?"),
        ("a;b\n1;2\n", "separated by semicolons"),
        ("b\n1\n", "at least one feature"),
    ],
)
def test_bad_tables_are_refused(text, message, tmp_path):
    with pytest.raises(TableError, match=message):
        describe(write(tmp_path / "bad.csv", text), ["b"])


def test_bad_roles_and_types_are_refused(tmp_path, mixed):
    with pytest.raises(TableError, match="'price' as both"):
        describe(mixed, ["price"], features=["price", "size"])
    frame = pl.DataFrame({"day": [datetime.date(2026, 1, 1)], "price": [1]})
    frame.write_parquet(tmp_path / "days.parquet")
    with pytest.raises(TableError, match=r"'day' .* got Date"):
        describe(tmp_path / "days.parquet", ["price"])


def test_types_of_parquet_are_kept(tmp_path):
    frame = pl.DataFrame(
        {
            "number": np.arange(4),
            "code": [1.0, 2.0, None, 2.0],
            "flag": [True, False, None, True],
            "name": pl.Series(["x", "NA", " y", "x"], dtype=pl.Categorical),
            "y": np.linspace(0, 1, 4),
        }
    )
    frame.write_parquet(tmp_path / "a.parquet")
    schema, rows = describe(tmp_path / "a.parquet", ["y"], categorical=["code"])
    assert rows == 4
    assert schema.features == (
        Column("number", "number"),
        Column("code", "category", ("1", "2")),
        Column("flag", "boolean"),
        Column("name", "category", ("x", "y")),
    )
