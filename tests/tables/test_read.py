"""Tables in files: what columns hold, how rows are encoded, and what is refused."""

import datetime
import errno
import io

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.preprocessing import OneHotEncoder

from ngem.estimator.schema import Column, Schema
from ngem.tables import read as tables
from ngem.tables.read import TableError

TEXT = """size,place,wet,price
1,north,true,10
2.5,south,FALSE,20
 3 ,north,true,30
 NA ,west,false,40

"""


def write(path, text):
    path.write_text(text)
    return path


def load(path, targets=("price",), **settings):
    schema, rows = tables.describe(path, list(targets), **settings)
    return schema, tables.read(path, schema, rows=rows)


@pytest.fixture(name="mixed")
def _mixed(tmp_path):
    return write(tmp_path / "mixed.csv", TEXT)


def test_kinds_are_detected_and_encoded_as_by_scikit_learn(mixed):
    schema, found = load(mixed, missing="impute")
    assert [column.kind for column in schema.features] == ["number", "category", "boolean"]
    assert schema.inputs == ["size", "place=north", "place=south", "place=west", "wet"]
    frame = pd.read_csv(mixed, na_values=" NA ")
    one_hot = OneHotEncoder(sparse_output=False).fit_transform(frame[["place"]])
    wet = frame["wet"].astype(str).str.lower() == "true"
    expected = np.column_stack([frame["size"], one_hot, wet])
    np.testing.assert_array_equal(found.x, expected)
    np.testing.assert_array_equal(found.y, frame[["price"]])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_what_is_written_is_read_back(suffix, tmp_path):
    frame = pl.DataFrame(
        {"a": [1.5, None, 3.0], "b": ["x, y", 'say "z"', None], "c": [True, False, True]}
    )
    path = tmp_path / f"table{suffix}"
    with tables.writing(path) as append:
        append(frame[:2])
        append(frame[2:])
        assert not path.exists()
    schema, rows = tables.describe(path, ["a"], missing="drop")
    assert rows == 3
    assert [(c.kind, c.categories) for c in schema.features] == [
        ("category", ('say "z"', "x, y")),
        ("boolean", ()),
    ]
    found = tables.read(path, schema, rows=rows)
    np.testing.assert_array_equal(found.x, [[0, 1, 1]])
    np.testing.assert_array_equal(found.y, [[1.5]])
    assert found.dropped == 2
    with pytest.raises(TableError, match="suffix"), tables.writing(tmp_path / "table.xlsx"):
        pass


def test_rules_for_gaps(mixed):
    with pytest.raises(TableError, match=r"'size' .* no gaps, got ' NA ' in row 4"):
        load(mixed)
    _, dropped = load(mixed, missing="drop")
    assert (len(dropped.x), dropped.dropped) == (3, 1)
    _, imputed = load(mixed, missing="impute")
    assert np.isnan(imputed.x[-1, 0])
    assert imputed.dropped == 0
    # A gap in a target is never imputed.
    _, found = load(mixed, ["size"], missing="impute")
    assert (len(found.x), found.dropped) == (3, 1)


def test_only_empty_rows_at_the_end_are_none(tmp_path):
    path = write(tmp_path / "gaps.csv", "a,b\n1,2\n,\n3,4\nNA,?\n5,6\n,\n\n")
    schema, rows = tables.describe(path, ["b"], missing="drop")
    assert rows == 5
    (batch,) = tables.batches(path, schema, with_targets=True)
    np.testing.assert_array_equal(batch.complete, [True, False, True, False, True])
    np.testing.assert_array_equal(tables.read(path, schema).numbers, [1, 3, 5])


def test_gaps_and_names_are_the_same_in_every_format(tmp_path):
    frame = pl.DataFrame(
        {"a": [" x ", "NA", "", "y"], "code": [1.0, 2.0, None, 2.0], "c": [1, 2, 3, 4]}
    )
    path = tmp_path / "a.parquet"
    frame.write_parquet(path)
    schema, found = load(path, ["c"], categorical=["code"], missing="impute")
    assert [column.categories for column in schema.features] == [("x", "y"), ("1", "2")]
    np.testing.assert_array_equal(found.x, [[1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 1]])
    whole = write(tmp_path / "whole.csv", "a,code\nx,1\ny,2\n")
    (batch,) = tables.batches(whole, schema, with_targets=False)
    np.testing.assert_array_equal(batch.x, [[1, 0, 1, 0], [0, 1, 0, 1]])


def test_batches_are_the_whole_in_order(tmp_path):
    values = np.random.default_rng(0).standard_normal((1000, 3))
    path = tmp_path / "long.csv"
    pd.DataFrame(values, columns=list("abc")).to_csv(path, index=False)
    schema, rows = tables.describe(path, ["c"])
    parts = list(tables.batches(path, schema, with_targets=True, keep=["b"], size=64))
    assert len(parts) > 5
    np.testing.assert_array_equal(np.concatenate([p.x for p in parts]), values[:, :2])
    np.testing.assert_array_equal(np.concatenate([p.y for p in parts]), values[:, 2:])
    assert parts[0].kept.columns == ["b"]
    some = tables.read(path, schema, rows=rows, max_rows=100, seed=1)
    chosen = [int(np.flatnonzero(values[:, 2] == y)[0]) for y in some.y[:, 0]]
    assert len(set(chosen)) == 100
    np.testing.assert_array_equal(some.x, values[chosen, :2])
    counted = tables.read(path, schema, max_rows=100, seed=1)
    np.testing.assert_array_equal(counted.numbers, some.numbers)
    other = tables.read(path, schema, rows=rows, max_rows=100, seed=2)
    assert not np.array_equal(some.y, other.y)


def test_columns_are_chosen_by_name(mixed):
    schema, _ = tables.describe(mixed, ["price"], features=["size"])
    assert schema.inputs == ["size"]
    schema, _ = tables.describe(mixed, ["price"], exclude=["size", "wet"])
    assert [column.name for column in schema.features] == ["place"]
    schema, _ = tables.describe(mixed, ["price"], categorical=["size"])
    assert schema.features[0] == Column("size", "category", ("1", "2.5", "3"))
    assert tables.split_names("a, b,c", ["a", "b", "c"]) == ["a", "b", "c"]
    assert tables.split_names("a,b", ["a,b", "c"]) == ["a,b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty file"),
        ("a,b\n", "rows below its header, got none"),
        ("a,b\n1,2\n2,x\n3,4\n", r"'b' .* must hold numbers, got 'x' in row 2 \(1 such"),
        ("a,b\n1,x\n2,y\n3,z\n", "target 'b' .* got text"),
        ("a,b\n1,true\n2,false\n", "target 'b' .* got true and false"),
        ("a,b\n,1\n,2\n", r"'a' .* all are missing; leave it out: --exclude 'a'"),
        ("a,b\n1,\n2,\n", "'b' .* all are missing"),
        ("a,b\ninf,1\n2,2\n", "'a' .* finite numbers, got 'inf' in row 1"),
        ("a,b\n1,2,3\n", "as many fields in each row"),
        ("a,B\n1,2\n", "must have a column 'b', got a, B; did you mean 'B'?"),
        ("a;b\n1;2\n", "separated by semicolons"),
        ("b\n1\n", "at least one feature"),
        ("a,b,b\n1,2,2\n", "a name of its own for each column, got 'b' twice"),
    ],
)
def test_bad_tables_are_refused(text, message, tmp_path):
    with pytest.raises(TableError, match=message):
        load(write(tmp_path / "bad.csv", text), ["b"])


def test_more_bad_tables_are_refused(tmp_path, mixed):
    with pytest.raises(TableError, match="nothing there"):
        load(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match="got a directory"):
        load(tmp_path / "folder.csv")
    with pytest.raises(TableError, match=r"suffix \.csv"):
        load(write(tmp_path / "a.xlsx", TEXT))
    with pytest.raises(TableError, match="cannot be read"):
        load(write(tmp_path / "a.parquet", TEXT))
    with pytest.raises(TableError, match="none: all 2 were dropped"):
        load(write(tmp_path / "gaps.csv", "a,price\n1,\n,2\n"), missing="drop")
    with pytest.raises(TableError, match="'price' as both"):
        tables.describe(mixed, ["price"], features=["price", "size"])
    names = "\n".join(f"name {i},{i}" for i in range(101))
    with pytest.raises(TableError, match="at most 100 categories, got more"):
        load(write(tmp_path / "names.csv", "a,price\n" + names))
    frame = pl.DataFrame({"day": [datetime.date(2026, 1, 1)], "price": [1]})
    frame.write_parquet(tmp_path / "days.parquet")
    with pytest.raises(TableError, match=r"'day' .* got Date"):
        load(tmp_path / "days.parquet")


def test_an_unseen_category_is_a_gap(mixed, tmp_path):
    schema, _ = load(mixed, missing="impute")
    new = write(tmp_path / "new.csv", "size,place,wet\n1,north,1\n2,moon,0\n")

    def read(missing):
        return next(tables.batches(new, schema._replace(missing=missing), with_targets=False))

    np.testing.assert_array_equal(read("impute").x, [[1, 1, 0, 0, 1], [2, 0, 0, 0, 0]])
    np.testing.assert_array_equal(read("drop").complete, [True, False])
    with pytest.raises(TableError, match="one of north, south, west, got 'moon' in row 2"):
        read("error")


class FullDisk(io.FileIO):
    """A file on a disk that has room for a few bytes."""

    def write(self, content):
        if self.tell() + len(content) > 50:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(content)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_full_disk_leaves_the_old_file(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"old{suffix}"
    path.write_text("old")
    monkeypatch.setattr(type(path), "open", lambda self, mode: FullDisk(self, mode))
    frame = pl.DataFrame({"a": np.arange(100)})
    with pytest.raises(OSError, match="No space left"), tables.writing(path) as append:
        append(frame)
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_leaves_the_old_file(tmp_path):
    path = tmp_path / "old.parquet"
    path.write_text("old")

    def write_and_stop():
        with tables.writing(path) as append:
            append(pl.DataFrame({"a": [1]}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_stop()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


SCHEMA = Schema(
    (Column("a", "number"), Column("b", "category", ("x", "y"))), ("c", "d"), "impute", "ngem fit"
)


def test_a_schema_knows_where_its_columns_are():
    assert SCHEMA.places == {"a": [0], "b": [1, 2]}


def test_a_schema_survives_its_header():
    assert Schema.from_header(SCHEMA.to_header()) == SCHEMA


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
        {"command": 3},
        {"extra": 1},
    ],
)
def test_a_schema_that_cannot_be_is_refused(change):
    with pytest.raises(ValueError, match="must"):
        Schema.from_header({**SCHEMA.to_header(), **change})
