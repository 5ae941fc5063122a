"""Where the rows of a stream come from, and what goes wrong there."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ngem.streams import Stream, StreamError, as_stream

from .common import blocks


def table(n_rows=50, start=0):
    numbers = np.arange(start, start + n_rows)
    return pa.table({"a": numbers * 0.5, "b": numbers % 3, "y": numbers.astype(float)})


def rows_of(stream):
    """All targets of a stream, in order."""
    parts = [block.table[stream.targets[0]].to_numpy() for block in blocks(stream)]
    return np.concatenate(parts)


def write_hive(directory):
    for year in (2023, 2024):
        folder = directory / f"year={year}"
        folder.mkdir(parents=True)
        for part in range(2):
            rows = table(20, 40 * (year - 2023) + 20 * part)
            pq.write_table(rows, folder / f"{part}.parquet", row_group_size=7)


def sources(directory):
    """The same 80 rows from all kinds of sources, each with the columns that it must have."""
    write_hive(directory / "hive")
    pq.write_table(table(80), directory / "one.parquet", row_group_size=30)
    whole = table(80)
    batches = [(np.column_stack([t["a"], t["b"]]), t["y"].to_numpy()) for t in _parts(whole)]
    frames = [(t.select(["a", "b"]).to_pandas(), t["y"].to_pandas()) for t in _parts(whole)]
    one = ds.dataset(directory / "one.parquet")
    return {
        "file": (Stream(directory / "one.parquet", "y"), "a b"),
        "directory": (Stream(directory / "hive", "y"), "a b year"),
        "glob": (Stream(str(directory / "hive/*/*.parquet"), "y"), "a b year"),
        "dataset": (Stream(one, "y"), "a b"),
        "filtered": (Stream(one.filter(ds.field("y") >= 0), "y"), "a b"),
        "lazy": (Stream(pl.scan_parquet(directory / "one.parquet"), "y"), "a b"),
        "function": (Stream(lambda: iter(batches)), "x0 x1"),
        "list": (as_stream(batches, None), "x0 x1"),
        "frames": (Stream(lambda: iter(frames)), "a b"),
    }  # fmt: skip


def _parts(whole):
    return [whole.slice(start, 30) for start in range(0, 80, 30)]


def test_all_sources_give_the_same_rows(tmp_path):
    for name, (stream, features) in sources(tmp_path).items():
        assert stream.features == features.split(), name
        np.testing.assert_array_equal(rows_of(stream), np.arange(80), err_msg=name)


def test_partitions_are_columns_of_numbers(tmp_path):
    write_hive(tmp_path)
    stream = Stream(tmp_path, "y")
    assert stream.kinds["year"] == "number"
    years = np.concatenate([block.table["year"].to_numpy() for block in blocks(stream)])
    np.testing.assert_array_equal(years, np.repeat([2023, 2024], 40))


def test_kinds_of_columns(tmp_path):
    day = datetime.datetime(2024, 1, 1)
    rows = pd.DataFrame({"n": [1, 2], "t": ["u", "v"], "d": [day, day], "w": [True, False]})
    rows["c"], rows["y"] = rows["t"].astype("category"), [0.0, 1.0]
    rows.to_parquet(tmp_path / "k.parquet")
    kinds = Stream(tmp_path / "k.parquet", "y").kinds
    expected = {"n": "number", "t": "text", "d": "date", "w": "boolean", "c": "text", "y": "number"}
    assert kinds == expected


def damaged(path):
    """Damage the second row group of a file."""
    meta = pq.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    start = meta.data_page_offset
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)


def test_a_damaged_row_group_is_named(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(table(90), path, row_group_size=30, use_dictionary=False)
    damaged(path)
    with pytest.raises(StreamError, match=r"row group 1 of .*x.parquet must be readable, got"):
        rows_of(Stream(path, "y"))


def test_a_damaged_file_is_named(tmp_path):
    pq.write_table(table(), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"nothing")
    with pytest.raises(StreamError, match=r"b.parquet must be readable, got"):
        Stream(tmp_path, "y")


def test_a_column_that_changes_its_type_is_named_if_it_is_used(tmp_path):
    pq.write_table(table(), tmp_path / "a.parquet")
    other = table().set_column(1, "b", pa.array(["u"] * 50))
    pq.write_table(other, tmp_path / "b.parquet")
    words = (
        r"column 'b' must hold the same in all files: numbers in .*a.parquet, got texts in .*b.p"
    )
    with pytest.raises(StreamError, match=words):
        Stream(tmp_path, "y")
    assert Stream(tmp_path, "y", exclude=["b"]).features == ["a"]
    pq.write_table(table().drop(["b"]), tmp_path / "b.parquet")
    with pytest.raises(StreamError, match=r"numbers in .*a.parquet, got nothing in .*b.parquet"):
        Stream(tmp_path, "y")


def test_whole_numbers_and_others_are_both_numbers(tmp_path):
    pq.write_table(table(3), tmp_path / "a.parquet")
    pq.write_table(table(3, 3).set_column(1, "b", pa.array([1.5] * 3)), tmp_path / "b.parquet")
    np.testing.assert_array_equal(rows_of(Stream(tmp_path, "y")), np.arange(6))


def test_a_file_that_vanishes_is_named(tmp_path):
    for name in "ab":
        pq.write_table(table(), tmp_path / f"{name}.parquet")
    stream = Stream(tmp_path, "y")
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(StreamError, match=r"b.parquet must be there until the fit ends"):
        rows_of(stream)


def test_a_file_that_is_replaced_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path)
    stream = Stream(path, "y")
    pq.write_table(table(50).append_column("more", table(50)["a"]), path)
    with pytest.raises(StreamError, match=r"a.parquet must stay as it is while"):
        rows_of(stream)


def test_empty_partitions_are_left_out(tmp_path):
    pq.write_table(table(), tmp_path / "a.parquet")
    pq.write_table(table(0), tmp_path / "b.parquet")
    (tmp_path / "year=2023").mkdir()
    assert len(Stream(tmp_path, "y").source.pieces) == 1
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(StreamError, match="must hold rows, got 1 files without any"):
        Stream(tmp_path, "y")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: Stream(path / "*.csv", "y"), r"must be a file, a directory or a pattern"),
        (lambda path: Stream(path, "z"), r"target must name columns of the stream, got z"),
        (lambda path: Stream(path, "t"), r"target 't' must hold numbers, got texts"),
        (lambda path: Stream(iter([(1, 2)])), r"must be readable again for each pass"),
        (lambda path: Stream(lambda: iter([])), r"must yield batches \(x, y\), got none"),
        (lambda path: Stream(path, "y", memory=3), r"memory must be a number of bytes"),
        (lambda path: as_stream(str(path), np.zeros(3)), r"y must name the target columns"),
    ],
)
def test_errors_say_what_is_expected(tmp_path, make, words):
    rows = table().append_column("t", pa.array(["u"] * 50))
    pq.write_table(rows, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=words):
        make(tmp_path)


def test_batches_must_not_change_their_columns():
    def batches():
        yield np.zeros((3, 2)), np.zeros(3)
        yield np.zeros((3, 1)), np.zeros(3)

    with pytest.raises(StreamError, match=r"numbers in the first, got nothing in batch 1"):
        rows_of(Stream(batches))


def test_tables_in_memory_are_no_streams():
    for rows in (
        np.zeros((3, 2)),
        [[1.0, 2.0]],
        pd.DataFrame({"a": [1]}),
        pl.DataFrame({"a": [1]}),
    ):
        assert as_stream(rows, np.zeros(3)) is None
        assert as_stream(rows, None) is None
