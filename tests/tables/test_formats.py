"""Files as frames of rows: one pass, row numbers, no empty rows at the end."""

import polars as pl
import pytest

from ngem.tables import formats
from ngem.tables.formats import ROW, TableError


def write(path, text):
    path.write_text(text)
    return path


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
    path = write(tmp_path / "tail.csv", text)
    frames = list(formats.frames(path, ["a"], size))
    assert all(frame.columns == [ROW, "a"] for frame in frames)
    values = [value for frame in frames for value in frame["a"]]
    numbers = [number for frame in frames for number in frame[ROW]]
    assert values == TAILS[text]
    assert numbers == list(range(1, len(values) + 1))
    assert formats.count_rows(path) == len(values)


def test_rows_of_parquet_are_all_rows(tmp_path):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"a": [1, None], "b": [2, None]}).write_parquet(path)
    (frame,) = formats.frames(path, ["b"])
    assert frame.to_dict(as_series=False) == {ROW: [1, 2], "b": [2, None]}


def test_headers_are_read_without_a_pass(mixed, passes):
    assert list(formats.column_types(mixed)) == ["size", "place", "wet", "price"]
    assert passes == []
    assert formats.count_rows(mixed) == 4
    assert len(passes) == 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "empty file"),
        ("a.csv", "a,b,b\n1,2,2\n", "a different name for each column, got 'b' twice"),
        ("a.csv", "a,b\n1,2,3\n", "as many fields in each row"),
        ("a.xlsx", "a,b\n1,2\n", r"suffix \.csv"),
        ("a.parquet", "a,b\n1,2\n", "parquet file .* cannot be read"),
    ],
)
def test_files_that_cannot_be_read_are_refused(name, text, message, tmp_path):
    path = write(tmp_path / name, text)
    with pytest.raises(TableError, match=message):
        list(formats.frames(path, list(formats.column_types(path))))


def test_missing_files_and_directories_are_refused(tmp_path):
    with pytest.raises(TableError, match="nothing there"):
        formats.column_types(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match="got a directory"):
        formats.column_types(tmp_path / "folder.csv")


@pytest.mark.parametrize(
    ("columns", "hint"),
    [(["a", "B"], r"did you mean 'B'\?"), (["a;b"], "semicolons"), (["xyz"], "check the spelling")],
)
def test_unknown_names_get_a_hint(columns, hint, tmp_path):
    formats.check_names(tmp_path, columns, columns)
    with pytest.raises(TableError, match=f"must have a column 'b', got .*{hint}"):
        formats.check_names(tmp_path, ["b"], columns)
