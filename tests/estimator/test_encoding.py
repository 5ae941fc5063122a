"""Tables of several libraries as numbers: kinds of columns, categories, dates, gaps."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ngem.estimator.encoding import describe, encode, target_names
from ngem.estimator.frames import has_names
from ngem.estimator.preprocessing import one_hot
from ngem.estimator.schema import Column, Schema

WHEN = [datetime.datetime(2024, 2, 29, 6), datetime.datetime(2023, 12, 31, 18, 30), None]
VALUES = {
    "size": [1.5, None, 3.0],
    "count": [1, 2, 3],
    "place": ["north", " south ", None],
    "wet": [True, False, None],
    "when": WHEN,
    "lasts": [datetime.timedelta(minutes=1), datetime.timedelta(days=1), None],
}

#: Every library's own way to hold the same table.
TABLES = {
    "polars": pl.DataFrame(VALUES, strict=False),
    "polars with categories": pl.DataFrame(VALUES).with_columns(
        place=pl.col("place").cast(pl.Categorical)
    ),
    "pandas": pd.DataFrame(VALUES),
    "pandas with categories": pd.DataFrame(VALUES).astype({"place": "category"}),
    "pandas with its own types": pd.DataFrame(VALUES).convert_dtypes(),
    "pandas with objects": pd.DataFrame(VALUES).astype({"place": object, "wet": object}),
    "pyarrow": pa.table(VALUES),
}

COLUMNS = (
    Column("size", "number"),
    Column("count", "number"),
    Column("place", "category", ("north", "south")),
    Column("wet", "boolean"),
    Column("when", "date", parts=("elapsed days", "day of the year", "weekday", "hour")),
    Column("lasts", "number"),
)


@pytest.mark.parametrize("name", TABLES)
def test_every_library_gives_the_same_columns_and_numbers(name):
    table = TABLES[name]
    assert has_names(table)
    assert describe(table) == COLUMNS
    days = [pd.Timestamp(when).timestamp() / 86400 for when in WHEN[:2]]
    np.testing.assert_allclose(
        encode(table, COLUMNS),
        [
            [1.5, 1, 0, 1, days[0], 60, 3, 6, 60],
            [np.nan, 2, 1, 0, days[1], 365, 6, 18.5, 86400],
            [3, 3, np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, np.nan],
        ],
        rtol=1e-12,
    )


def test_parts_of_dates_are_those_of_the_standard_library():
    rng = np.random.default_rng(0)
    stamps = pd.Series(pd.to_datetime(rng.uniform(-1e9, 4e9, 200), unit="s").floor("us"))
    table = pd.DataFrame({"when": stamps})
    found = encode(table, describe(table))
    when = stamps.dt
    np.testing.assert_allclose(found[:, 1:3], np.column_stack([when.dayofyear, when.weekday]))
    hours = when.hour + when.minute / 60 + (when.second + when.microsecond / 1e6) / 3600
    np.testing.assert_allclose(found[:, 3], hours, atol=1e-9)
    epoch = pd.Timestamp(0)
    np.testing.assert_allclose(found[:, 0], (stamps - epoch) / pd.Timedelta(days=1), atol=1e-9)


def test_times_of_a_zone_are_those_of_its_clocks():
    stamps = pd.to_datetime(["2024-01-01T12:00+02:00", "2024-01-02T13:00+02:00"])
    for table in (pd.DataFrame({"t": stamps}), pl.from_pandas(pd.DataFrame({"t": stamps}))):
        np.testing.assert_array_equal(encode(table, describe(table))[:, -1], [12, 13])


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("2013-01-02T06:00:00Z", "%Y-%m-%d %H:%M:%S%.f", "2013-01-02T06:00"),
        ("2013-01-02 06:00:00.5+02:00", "", "2013-01-02T06:00:00.5"),
        ("2013-02", "", "2013-02-01"),
        ("12/31/2024 6:05 PM", "%m/%d/%Y %I:%M %p", "2024-12-31T18:05"),
        ("31 Dec 2024", "%d %B %Y", "2024-12-31"),
        ("31 December 2024", "%d %B %Y", "2024-12-31"),
        ("31.12.24 10:11:12.5", "%d.%m.%y %H:%M:%S%.f", "2024-12-31T10:11:12.5"),
        ("10:30", "%H:%M", "1970-01-01T10:30"),
    ],
)
def test_dates_in_text_are_read_as_in_the_file_of_the_fit(text, form, expected):
    parts = ("elapsed days", "hour")
    (found,) = encode(
        pd.DataFrame({"when": [text]}), [Column("when", "date", (), False, parts, form)]
    )
    stamp = pd.Timestamp(expected)
    days = (stamp - pd.Timestamp(0)) / pd.Timedelta(days=1)
    hour = (stamp - stamp.normalize()) / pd.Timedelta(hours=1)
    np.testing.assert_allclose(found, [days, hour], rtol=1e-12)
    with pytest.raises(ValueError, match="must hold dates, as when the model was fitted, got 'no'"):
        encode(pd.DataFrame({"when": ["no"]}), [Column("when", "date", (), False, parts, form)])


def test_numbers_in_a_column_of_words_show_that_columns_were_mixed_up():
    words = Column("place", "category", ("east", "west"))
    with pytest.raises(ValueError, match=r"categories, such as 'east', got the number 3; check"):
        encode(np.array([[np.nan], [3.0]]), [words])
    gaps = encode(np.full((2, 1), np.nan), [words])
    assert np.isnan(gaps).all()
    numbers = Column("shop", "category", ("1", "west"))
    np.testing.assert_array_equal(encode(np.array([[1.0], [3.0]]), [numbers]), [[0], [2]])


def test_parts_that_do_not_vary_are_left_out():
    days = pd.DataFrame({"day": pd.to_datetime(["2024-01-01", "2024-01-08"])})
    assert describe(days)[0].parts == ("elapsed days", "day of the year")
    assert describe(days[:1])[0].parts == ("elapsed days",)


def test_columns_are_found_by_name_in_any_order():
    table = TABLES["pandas"]
    shuffled = table[["when", "wet", "lasts", "place", "count", "size"]].assign(more="x")
    np.testing.assert_array_equal(encode(shuffled, COLUMNS), encode(table, COLUMNS))
    with pytest.raises(ValueError, match=r"none named 'place', 'when'; it has 'Place' instead"):
        encode(table.rename(columns={"place": "Place"}).drop(columns="when"), COLUMNS)


def test_rare_categories_share_a_code_and_unseen_ones_have_one():
    common = [f"c{number}" for number in range(3)]
    table = pd.DataFrame({"c": 6 * common + ["once", "twice", "twice"]})
    (column,) = describe(table, most=4)
    assert column == Column("c", "category", tuple(common), has_other=True)
    found = encode(pd.DataFrame({"c": ["c1", "twice", "never", None]}), [column])[:, 0]
    np.testing.assert_array_equal(found, [1, 3, 3, np.nan])
    (column,) = describe(table, most=5)
    assert column == Column("c", "category", (*common, "once", "twice"))
    np.testing.assert_array_equal(encode(pd.DataFrame({"c": ["never"]}), [column]), [[5.0]])


def test_networks_have_inputs_for_common_categories_and_one_for_the_others():
    counts = {"b": 9, "z": 8, "a": 6, "once": 1, "few": 4}
    values = [name for name, count in counts.items() for _ in range(count)]
    (column,) = describe(pd.DataFrame({"c": values}), most=1000, common=2)
    assert column == Column("c", "category", ("b", "z", "a", "few", "once"), common=2)
    schema = Schema((column,), ("y",))
    assert schema.inputs == ["c=b", "c=z", "c=(other)"]
    assert (schema.sizes, schema.widths) == ([5], [3])
    codes = encode(pd.DataFrame({"c": ["z", "a", "once", "never", None]}), [column])
    np.testing.assert_array_equal(codes[:, 0], [1, 2, 4, 5, np.nan])
    read = one_hot(schema.sizes, schema.widths).forward(codes)
    np.testing.assert_array_equal(read, [[0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]])
    # Those with too few rows have no input, however few others there are.
    (column,) = describe(pd.DataFrame({"c": values}), most=1000, common=4)
    assert column.categories[: column.common] == ("a", "b", "z")
    (column,) = describe(pd.DataFrame({"c": values}), most=1000, common=5)
    assert column.common is None


def test_numbers_are_categories_where_asked():
    for table in (
        pd.DataFrame({"zip": [10, 9, None]}),
        pl.DataFrame({"zip": [10.0, 9.0, None]}),
        np.array([[10], [9], [np.nan]]),
        np.array([["10"], [9], [None]], object),
    ):
        (column,) = describe(table, categorical=[0])
        assert column.categories == ("9", "10")
        np.testing.assert_array_equal(encode(table, [column])[:, 0], [1, 0, np.nan])
    with pytest.raises(ValueError, match=r"got 'zap', where X has 1 columns named 'zip'"):
        describe(pd.DataFrame({"zip": [1]}), categorical=["zap"])
    with pytest.raises(ValueError, match="got 3, where X has 1 columns"):
        describe(np.ones((2, 1)), categorical=[3])


def test_text_is_read_as_what_the_column_held_before():
    table = pd.DataFrame(
        {"size": ["1.5"], "wet": ["TRUE"], "when": ["2024-02-29T06:00"], "place": [7.0]}
    )
    columns = [COLUMNS[0], COLUMNS[3], COLUMNS[4], Column("place", "category", ("7",))]
    np.testing.assert_allclose(encode(table, columns)[0], [1.5, 1, 19782.25, 60, 3, 6, 0])
    for index, (name, word, what) in enumerate(
        [("size", "big", "numbers"), ("wet", "maybe", "true and false"), ("when", "then", "dates")]
    ):
        with pytest.raises(ValueError, match=rf"{name!r} of X must hold {what}.*{word!r} in row 0"):
            encode(table.assign(**{name: word}), [columns[index]])
    with pytest.raises(ValueError, match=r"'when' of X must hold dates, got numbers"):
        encode(table.assign(when=3.0), [columns[2]])


def test_what_is_no_value_is_refused():
    for table in (pd.DataFrame({"a": [[1], [2]]}), pl.DataFrame({"a": [[1], [2]]})):
        with pytest.raises(ValueError, match=r"'a' of X must hold numbers, texts or dates, got"):
            describe(table)


def test_names_of_targets():
    y = pd.Series([1.0], name="price")
    assert target_names(y, 1, ["size"]) == ("price",)
    assert target_names(y, 1, ["price"]) == ("y",)
    assert target_names(y.to_frame(), 1, []) == ("price",)
    assert target_names(pl.Series("price", [1.0]), 1, []) == ("price",)
    assert target_names([1.0], 1, ["y"]) == ("y (target)",)
    assert target_names(np.ones((1, 2)), 2, []) == ("y1", "y2")
