"""Rows as numbers: encoding, gaps, batches and samples."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ngem.estimator import encoding
from ngem.estimator.schema import Schema
from ngem.tables.columns import describe
from ngem.tables.encode import category_codes, unseen_rows
from ngem.tables.opening import TableError
from ngem.tables.read import batches, read

from .common import table, table_of


def schema_of(rows, targets=("price",), missing="impute", **settings):
    """What the columns of a table hold, with their categories, and how many rows there are."""
    found = describe(rows, list(targets), **settings)
    schema = Schema(found.features, found.targets, missing)
    batch, _ = read(rows, schema._replace(missing="impute"))
    columns = encoding.describe(batch.features)
    columns = [
        new._replace(kind=old.kind, format=old.format)
        for new, old in zip(columns, found.features, strict=True)
    ]
    return schema._replace(features=tuple(columns)), found.rows


def load(path, targets=("price",), missing="impute", **settings):
    rows = table_of(path)
    schema, _ = schema_of(rows, targets, missing, **settings)
    return schema, read(rows, schema)[0].encoded(schema)


def test_rows_are_encoded_as_by_pandas(mixed, tmp_path):
    schema, rows = load(mixed)
    assert [column.kind for column in schema.features] == ["number", "category", "boolean"]
    frame = pd.read_csv(mixed, na_values=" NA ")
    wet = frame["wet"].astype(str).str.lower() == "true"
    codes = frame["place"].astype("category").cat.codes
    np.testing.assert_array_equal(rows.x, np.column_stack([frame["size"], codes, wet]))
    np.testing.assert_array_equal(rows.y, frame[["price"]])
    np.testing.assert_array_equal(rows.numbers, [1, 2, 3, 4])
    assert rows.complete.all()
    new = table(tmp_path / "new.csv", "size,place,wet\n1,west,1\n2,moon,\n3,,0\n")
    (batch,) = batches(new, schema, with_targets=False)
    found = batch.encoded(schema)
    np.testing.assert_array_equal(found.x, [[1, 2, 1], [2, 3, np.nan], [3, np.nan, 0]])
    assert found.complete.all()
    np.testing.assert_array_equal(unseen_rows(found.x, schema), [False, True, False])
    np.testing.assert_array_equal(category_codes(found.x, schema, schema.features[1]), [2, -1, -1])


def test_rules_for_gaps(mixed):
    with pytest.raises(TableError, match=r"'size' .* no gaps, got a missing value in row 4"):
        load(mixed, missing="error")
    _, dropped = load(mixed, missing="drop")
    np.testing.assert_array_equal(dropped.numbers, [1, 2, 3])
    _, imputed = load(mixed)
    np.testing.assert_array_equal(np.isnan(imputed.x[:, 0]), [False, False, False, True])


@pytest.mark.parametrize("missing", ["impute", "keep", "drop", "error"])
def test_rows_without_a_target_are_left_out_whatever_the_rule_is(missing, mixed):
    rows = table_of(mixed)
    schema, _ = schema_of(rows, ["size"], missing)
    found, without_target = read(rows, schema)
    np.testing.assert_array_equal(found.numbers, [1, 2, 3])
    assert without_target == 1


def test_an_empty_row_between_others_is_a_row_of_gaps(tmp_path):
    rows = table(tmp_path / "gaps.csv", "a,b\n1,2\n,\n3,4\nNA,?\n5,6\n,\n\n")
    schema, count = schema_of(rows, ["b"], "drop")
    assert count == 5
    (batch,) = batches(rows, schema, with_targets=True)
    np.testing.assert_array_equal(batch.complete, [True, False, True, False, True])
    np.testing.assert_array_equal(read(rows, schema)[0].numbers, [1, 3, 5])


def test_gaps_and_categories_are_the_same_in_every_format(tmp_path):
    frame = pl.DataFrame(
        {"a": [" x ", "NA", "", "y"], "code": [1.0, 2.0, None, 2.0], "c": [1, 2, 3, 4]}
    )
    path = tmp_path / "a.parquet"
    frame.write_parquet(path)
    schema, rows = load(path, ["c"], categorical=["code"])
    assert [column.categories for column in schema.features] == [("x", "y"), ("1", "2")]
    nan = np.nan
    np.testing.assert_array_equal(rows.x, [[0, 0], [nan, 1], [nan, nan], [1, 1]])
    text = table(tmp_path / "text.csv", "a,code\nx,1\ny,2\n")
    (batch,) = batches(text, schema, with_targets=False)
    np.testing.assert_array_equal(batch.encoded(schema).x, [[0, 0], [1, 1]])


DAY = "2024-02-29"


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([DAY, None]),
        pl.Series([DAY, None]).str.to_date(),
        pl.Series([DAY, None]).str.to_datetime("%Y-%m-%d"),
    ],
    ids=["text", "date", "datetime"],
)
def test_dates_are_the_same_in_every_format(values, tmp_path):
    frame = pl.DataFrame({"day": values, "y": [1.0, 2.0]})
    frame.write_parquet(tmp_path / "a.parquet")
    schema, rows = load(tmp_path / "a.parquet", ["y"])
    assert schema.features[0].kind == "date"
    np.testing.assert_array_equal(rows.x, [[19782.0], [np.nan]])
    text = table(tmp_path / "new.csv", f"day\n{DAY}\n2024-03-01\n")
    (batch,) = batches(text, schema, with_targets=False)
    np.testing.assert_array_equal(batch.encoded(schema).x, [[19782.0], [19783.0]])
    bad = table(tmp_path / "bad.csv", "day\nsoon\n")
    with pytest.raises(
        TableError, match=r"'day' .* must hold dates as when .* got 'soon' in row 1"
    ):
        list(batches(bad, schema, with_targets=False))


def test_numbers_as_people_write_them(tmp_path):
    text = 'price,share,day,y\n"$1,234.50",5%,31.12.2023,1\n"$2,000",7%,01.01.2024,2\n'
    schema, rows = load(table(tmp_path / "a.csv", text).path, ["y"])
    np.testing.assert_array_equal(rows.x[:, :2], [[1234.5, 5], [2000, 7]])
    assert schema.features[2].format == "%d.%m.%Y"
    np.testing.assert_array_equal(np.diff(rows.x[:, 2]), [1])
    comma = table(tmp_path / "b.csv", "price;share;day;y\n1.234,5;5;31.12.2023;1,5\n")
    (batch,) = batches(comma, schema, with_targets=True)
    np.testing.assert_array_equal(batch.encoded(schema).x[0, :2], [1234.5, 5])
    assert batch.y[0, 0] == 1.5


@pytest.fixture(name="long")
def _long(tmp_path):
    values = np.random.default_rng(0).standard_normal((300, 3))
    path = tmp_path / "long.csv"
    pd.DataFrame(values, columns=list("abc")).to_csv(path, index=False)
    rows = table_of(path)
    schema, count = schema_of(rows, ["c"])
    return rows, schema, count, values


def test_batches_are_the_whole_in_order(long, passes):
    rows, schema, _, values = long
    passes.clear()
    parts = list(batches(rows, schema, with_targets=True, keep=["b"], size=64))
    assert len(passes) == 1
    assert len(parts) >= 5
    np.testing.assert_array_equal(
        np.concatenate([p.encoded(schema).x for p in parts]), values[:, :2]
    )
    np.testing.assert_array_equal(np.concatenate([p.y for p in parts]), values[:, 2:])
    np.testing.assert_array_equal(np.concatenate([p.numbers for p in parts]), np.arange(300) + 1)
    assert parts[0].kept.columns == ["b"]


def test_a_sample_of_rows_depends_on_the_seed_alone(long, passes):
    rows, schema, count, values = long
    passes.clear()
    sample = read(rows, schema, rows=count, max_rows=100, seed=1)[0].encoded(schema)
    assert len(passes) == 1
    chosen = sample.numbers - 1
    assert len(set(chosen)) == 100
    np.testing.assert_array_equal(sample.x, values[chosen, :2])
    np.testing.assert_array_equal(sample.y, values[chosen, 2:])
    passes.clear()
    counted, _ = read(rows, schema, max_rows=100, seed=1)
    assert len(passes) == 2  # one of them counts the rows
    np.testing.assert_array_equal(counted.numbers, sample.numbers)
    other, _ = read(rows, schema, rows=count, max_rows=100, seed=2)
    assert not np.array_equal(sample.numbers, other.numbers)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,price\n", "rows below its header, got none"),
        ("a,price\n1,\n,2\n", "none: all 2 were left out, 1 of them without a target; leave --mis"),
        ("a,price\n1,\n3,\n", "2 of them without a target; fill in the targets"),
        ("a,price\ninf,1\n2,2\n", "'a' .* finite numbers, got 'inf' in row 1; correct or empty it"),
        ("a,price\n1,1\nx,2\ny,3\n", r"'a' .* numbers, got 'x' in row 2 \(2 such values near"),
    ],
)
def test_bad_rows_are_refused(text, message, tmp_path):
    good = table(tmp_path / "good.csv", "a,price\n1,2\n2,3\n")
    schema, _ = schema_of(good, missing="drop")
    with pytest.raises(TableError, match=message):
        read(table(tmp_path / "bad.csv", text), schema)
