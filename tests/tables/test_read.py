"""Rows as numbers: encoding, gaps, batches and samples."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.preprocessing import OneHotEncoder

from ngem.estimator.schema import RULES
from ngem.tables.columns import describe
from ngem.tables.encode import category_codes, category_features
from ngem.tables.formats import TableError
from ngem.tables.read import batches, read


def write(path, text):
    path.write_text(text)
    return path


def load(path, targets=("price",), **settings):
    schema, rows = describe(path, list(targets), **settings)
    return schema, read(path, schema, rows=rows)


def test_rows_are_encoded_as_by_scikit_learn(mixed):
    schema, rows = load(mixed, missing="impute")
    assert [column.kind for column in schema.features] == ["number", "category", "boolean"]
    assert schema.inputs == ["size", "place=north", "place=south", "place=west", "wet"]
    frame = pd.read_csv(mixed, na_values=" NA ")
    one_hot = OneHotEncoder(sparse_output=False).fit_transform(frame[["place"]])
    wet = frame["wet"].astype(str).str.lower() == "true"
    np.testing.assert_array_equal(rows.x, np.column_stack([frame["size"], one_hot, wet]))
    np.testing.assert_array_equal(rows.y, frame[["price"]])
    np.testing.assert_array_equal(rows.numbers, [1, 2, 3, 4])
    assert rows.complete.all()


def test_coded_categories_are_numbered_as_by_pandas(mixed, tmp_path):
    schema, rows = load(mixed, missing="keep", coding="codes")
    assert schema.inputs == ["size", "place", "wet"]
    frame = pd.read_csv(mixed, na_values=" NA ")
    wet = frame["wet"].astype(str).str.lower() == "true"
    codes = frame["place"].astype("category").cat.codes
    np.testing.assert_array_equal(rows.x, np.column_stack([frame["size"], codes, wet]))
    new = write(tmp_path / "new.csv", "size,place,wet\n1,west,1\n2,moon,\n3,,0\n")
    (batch,) = batches(new, schema, with_targets=False)
    np.testing.assert_array_equal(batch.x, [[1, 2, 1], [2, np.nan, np.nan], [3, np.nan, 0]])
    assert batch.complete.all()


def test_both_codings_give_the_same_categories_back(mixed):
    for coding in RULES:
        schema, rows = load(mixed, missing=RULES[coding][-1], coding=coding)
        place = schema.features[1]
        codes = category_codes(rows.x, schema, place).tolist()
        names = [place.categories[code] for code in codes]
        assert names == ["north", "south", "north", "west"][: len(names)]
        for code, row in zip(codes, rows.x, strict=True):
            features = category_features(code, schema, place)
            np.testing.assert_array_equal(features, row[schema.places["place"]])
        gap = np.full_like(rows.x[:1], 0.0 if coding == "one-hot" else np.nan)
        np.testing.assert_array_equal(category_codes(gap, schema, place), [-1])


def test_rules_for_gaps(mixed):
    with pytest.raises(TableError, match=r"'size' .* no gaps, got ' NA ' in row 4"):
        load(mixed)
    _, dropped = load(mixed, missing="drop")
    np.testing.assert_array_equal(dropped.numbers, [1, 2, 3])
    _, imputed = load(mixed, missing="impute")
    np.testing.assert_array_equal(np.isnan(imputed.x[:, 0]), [False, False, False, True])
    # A gap in a target is never imputed.
    _, without_target = load(mixed, ["size"], missing="impute")
    np.testing.assert_array_equal(without_target.numbers, [1, 2, 3])


def test_an_empty_row_between_others_is_a_row_of_gaps(tmp_path):
    path = write(tmp_path / "gaps.csv", "a,b\n1,2\n,\n3,4\nNA,?\n5,6\n,\n\n")
    schema, count = describe(path, ["b"], missing="drop")
    assert count == 5
    (batch,) = batches(path, schema, with_targets=True)
    np.testing.assert_array_equal(batch.complete, [True, False, True, False, True])
    np.testing.assert_array_equal(read(path, schema).numbers, [1, 3, 5])


def test_gaps_and_categories_are_the_same_in_every_format(tmp_path):
    frame = pl.DataFrame(
        {"a": [" x ", "NA", "", "y"], "code": [1.0, 2.0, None, 2.0], "c": [1, 2, 3, 4]}
    )
    path = tmp_path / "a.parquet"
    frame.write_parquet(path)
    schema, rows = load(path, ["c"], categorical=["code"], missing="impute")
    assert [column.categories for column in schema.features] == [("x", "y"), ("1", "2")]
    np.testing.assert_array_equal(rows.x, [[1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 1]])
    text = write(tmp_path / "text.csv", "a,code\nx,1\ny,2\n")
    (batch,) = batches(text, schema, with_targets=False)
    np.testing.assert_array_equal(batch.x, [[1, 0, 1, 0], [0, 1, 0, 1]])


@pytest.fixture(name="long")
def _long(tmp_path):
    values = np.random.default_rng(0).standard_normal((300, 3))
    path = tmp_path / "long.csv"
    pd.DataFrame(values, columns=list("abc")).to_csv(path, index=False)
    return path, values


def test_batches_are_the_whole_in_order(long, passes):
    path, values = long
    schema, _ = describe(path, ["c"])
    passes.clear()
    parts = list(batches(path, schema, with_targets=True, keep=["b"], size=64))
    assert len(passes) == 1
    assert len(parts) >= 5
    np.testing.assert_array_equal(np.concatenate([p.x for p in parts]), values[:, :2])
    np.testing.assert_array_equal(np.concatenate([p.y for p in parts]), values[:, 2:])
    np.testing.assert_array_equal(np.concatenate([p.numbers for p in parts]), np.arange(300) + 1)
    assert parts[0].kept.columns == ["b"]


def test_a_sample_of_rows_depends_on_the_seed_alone(long, passes):
    path, values = long
    schema, count = describe(path, ["c"])
    passes.clear()
    sample = read(path, schema, rows=count, max_rows=100, seed=1)
    assert len(passes) == 1
    chosen = sample.numbers - 1
    assert len(set(chosen)) == 100
    np.testing.assert_array_equal(sample.x, values[chosen, :2])
    np.testing.assert_array_equal(sample.y, values[chosen, 2:])
    passes.clear()
    counted = read(path, schema, max_rows=100, seed=1)
    assert len(passes) == 2  # one of them counts the rows
    np.testing.assert_array_equal(counted.numbers, sample.numbers)
    other = read(path, schema, rows=count, max_rows=100, seed=2)
    assert not np.array_equal(sample.numbers, other.numbers)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,price\n", "rows below its header, got none"),
        ("a,price\n1,\n,2\n", "none: all 2 were dropped"),
        ("a,price\ninf,1\n2,2\n", "'a' .* finite numbers, got 'inf' in row 1"),
        ("a,price\n1,1\nx,2\n", "'a' .* finite numbers, got 'x' in row 2"),
    ],
)
def test_bad_rows_are_refused(text, message, tmp_path):
    good = write(tmp_path / "good.csv", "a,price\n1,2\n")
    schema, _ = describe(good, ["price"], missing="drop")
    with pytest.raises(TableError, match=message):
        read(write(tmp_path / "bad.csv", text), schema)


def test_an_unseen_category_is_a_gap(mixed, tmp_path):
    schema, _ = describe(mixed, ["price"])
    new = write(tmp_path / "new.csv", "size,place,wet\n1,north,1\n2,moon,0\n")

    def read_new(missing):
        return next(batches(new, schema._replace(missing=missing), with_targets=False))

    np.testing.assert_array_equal(read_new("impute").x, [[1, 1, 0, 0, 1], [2, 0, 0, 0, 0]])
    np.testing.assert_array_equal(read_new("drop").complete, [True, False])
    with pytest.raises(TableError, match="one of north, south, west, got 'moon' in row 2"):
        read_new("error")
