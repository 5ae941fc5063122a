"""Files as frames of rows: one pass, row numbers, no empty rows at the end."""

import numpy as np
import polars as pl
import pytest

from ngem.tables import formats, parquet
from ngem.tables.formats import ROW
from ngem.tables.opening import TableError, TableFile

from .common import table, table_of


def test_names_may_contain_commas():
    assert formats.split_names("a, b,c", ["a", "b", "c"]) == ["a", "b", "c"]
    assert formats.split_names("a,b", ["a,b", "c"]) == ["a,b"]
    assert formats.split_names(None, ["a"]) == []


TAILS = {
    "a,b\n1,2\n,\n3,4\nNA,?\n5,6\n,\n\n": ["1", None, "3", None, "5"],
    "a,b\n1,2\n": ["1"],
    "a,b\n,2\n,\n": [None],
    "a,b\n,\n,\n": [],
    "a\n1\n\n2\n\n": ["1", None, "2", None],  # an empty line of one column is a missing value
}


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("text", TAILS)
def test_empty_rows_are_left_out_at_the_end_only(text, size, tmp_path):
    tail = table(tmp_path / "tail.csv", text)
    frames = list(formats.frames(tail, ["a"], size))
    assert all(frame.columns == [ROW, "a"] for frame in frames)
    values = [value for frame in frames for value in frame["a"]]
    numbers = [number for frame in frames for number in frame[ROW]]
    assert values == TAILS[text]
    assert numbers == list(range(1, len(values) + 1))
    assert formats.count_rows(tail) == len(values)


def test_rows_of_parquet_are_all_rows(tmp_path):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"a": [1, None], "b": [2, None]}).write_parquet(path)
    (frame,) = formats.frames(table_of(path), ["b"])
    assert frame.to_dict(as_series=False) == {ROW: [1, 2], "b": [2, None]}


def test_headers_are_read_without_a_pass(mixed, passes):
    rows = table_of(mixed)
    assert list(formats.column_types(rows)) == ["size", "place", "wet", "price"]
    assert passes == []
    assert formats.count_rows(rows) == 4
    assert len(passes) == 1


def test_names_of_columns_lose_spaces_and_quotes(tmp_path):
    rows = table(tmp_path / "a.csv", '"size ""m""", b ,,"c,d"\n1,2,3,4\n')
    assert list(formats.column_types(rows)) == ['size "m"', "b", "unnamed_3", "c,d"]
    (frame,) = formats.frames(rows, ['size "m"', "c,d"])
    assert frame.row(0) == (1, "1", "4")


@pytest.mark.parametrize(
    ("text", "row", "count"),
    [
        ("a,b\n1,2\n1,2,3\n", 2, 3),
        ("a,b,c\n1,2,3\n4,5\n6,7,8\n", 2, 2),
        ('a,b,c\n"1\n1",2,3\n4,5,6\n7\n', 3, 1),
        ("a,b,c\n1,2,3\n,,\n4,5,6\n7,8\n", 4, 2),
    ],
)
def test_a_ragged_row_is_named(text, row, count, tmp_path):
    rows = table(tmp_path / "a.csv", text)
    with pytest.raises(TableError, match=rf"fields in each row.* got {count} in row {row};"):
        list(formats.frames(rows, ["a"]))


def test_gaps_in_the_last_column_are_no_ragged_rows(tmp_path):
    rows = table(tmp_path / "a.csv", "a,b,c\n1,2,\n\n3,4,5\n")
    (frame,) = formats.frames(rows, ["a", "c"])
    assert frame["c"].to_list() == [None, None, "5"]


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match="complete Parquet file, got one that cannot be read"):
        formats.column_types(TableFile(str(path), path))


@pytest.mark.parametrize(
    ("columns", "hint"),
    [(["a", "B"], r"did you mean 'B'\?"), (["xyz"], "check the spelling")],
)
def test_unknown_names_get_a_hint(columns, hint, tmp_path):
    rows = TableFile("a.csv", tmp_path)
    formats.check_names(rows, columns, columns)
    with pytest.raises(TableError, match=f"must have a column 'b', got .*{hint}"):
        formats.check_names(rows, ["b"], columns)


def test_damaged_parquet_is_one_error_without_panics(tmp_path, capfd):
    """Rust's panics go past Python: neither an exception of theirs nor their text may be seen."""
    path, rng = tmp_path / "a.parquet", np.random.default_rng(0)
    columns = {
        "a": rng.normal(size=900),
        "b": rng.choice(["x", "yy"], 900),
        "c": [[1.0, 2.0]] * 900,
    }
    frame = pl.DataFrame(columns).with_columns(d=pl.col("b").cast(pl.Categorical))
    frame.write_parquet(path, row_group_size=300)
    content, outcomes = path.read_bytes(), []
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for number in range(120):
        damaged = bytearray(content)
        for _ in range(3):
            place = rng.integers(footer if number % 2 else 0, len(content))
            damaged[place] = rng.integers(256)
        path.write_bytes(bytes(damaged))
        rows = TableFile("a.parquet", path)
        try:
            names = list(formats.column_types(rows))
            outcomes.append(sum(len(part) for part in formats.frames(rows, names)))
        except TableError:
            outcomes.append("refused")
    assert outcomes.count("refused") > 30
    assert capfd.readouterr().err == ""


def test_arrow_and_polars_read_the_same_parquet(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    columns = {"a": [1.5, None, 2.0], "a.b": ["x", "y", None], "c": [True, False, None]}
    pl.DataFrame(columns).with_columns(d=pl.col("a.b").cast(pl.Categorical)).write_parquet(path)
    rows, read = TableFile("a.parquet", path), []
    for has_arrow in (True, False):
        monkeypatch.setattr(parquet, "_has_arrow", lambda has_arrow=has_arrow: has_arrow)
        types = formats.column_types(rows)
        parts = list(formats.frames(rows, ["c", "a", "d"], 2))
        read.append((types, pl.concat(parts), [part.columns for part in parts]))
        assert formats.count_rows(rows) == 3
    (types, frame, names), (other_types, other_frame, other_names) = read
    assert types == other_types
    assert names == other_names
    assert frame.equals(other_frame)
