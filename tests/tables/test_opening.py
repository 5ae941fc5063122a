"""Tables as users have them: compressed, in other encodings and with other separators."""

import gzip
import io
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import polars as pl
import pytest

from ngem.tables import opening
from ngem.tables.formats import column_types, frames
from ngem.tables.opening import How, TableError, opened, read_how

from .common import write

TEXT = 'name,size,price\nMünchen,1.5,3\n"a,b",2.25,4\n'


def read(path, **how):
    """Names of columns and rows of a table, and what was found about it."""
    with opened(path, How(**how)) as table:
        names = list(column_types(table))
        rows = [row[1:] for frame in frames(table, names) for row in frame.rows()]
        return names, rows, table


NAMES = ["name", "size", "price"]
ROWS = [("München", "1.5", "3"), ("a,b", "2.25", "4")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16"])
def test_the_encoding_is_found(encoding, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(TEXT.encode(encoding))
    names, rows, table = read(path)
    assert (names, rows) == (NAMES, ROWS)
    assert table.decimal == "."
    assert len(table.notes) == (not encoding.startswith("utf-8"))


def test_the_encoding_can_be_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(TEXT.encode("cp437"))
    assert read(path, encoding="cp437")[1] == ROWS
    for encoding in ("ascii", "utf-8"):
        message = f"must be in the encoding {encoding}, got other bytes"
        with pytest.raises(TableError, match=message):
            read(path, encoding=encoding)


@pytest.mark.parametrize("suffix", [".csv", ".txt", ".tsv"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(separator, suffix, tmp_path):
    text = TEXT.replace(",", separator).replace(f"a{separator}b", "a,b")
    names, rows, table = read(write(tmp_path / f"a{suffix}", text))
    assert (names, rows, table.separator) == (NAMES, ROWS, separator)


def test_spaces_separate_fields_of_txt_files_only(tmp_path):
    text = "a b\n1 2\n3 4\n"
    assert read(write(tmp_path / "a.txt", text))[0] == ["a", "b"]
    assert read(write(tmp_path / "a.csv", text))[0] == ["a b"]


def test_decimal_commas_are_found(tmp_path):
    _, rows, table = read(write(tmp_path / "a.csv", "a;b\n1,5;2\n1.234,5;x\n"))
    assert rows == [("1,5", "2"), ("1.234,5", "x")]
    assert (table.separator, table.decimal) == (";", ",")
    assert table.notes == (
        "its fields are separated by semicolons",
        "its numbers have decimal commas",
    )
    quoted = write(tmp_path / "b.csv", 'a,b\n"1,25",2\n"2,5",3\n')
    assert read(quoted)[2].decimal == ","
    assert read(quoted, decimal=".")[2].decimal == "."
    # Three digits may be thousands, but not behind a zero.
    assert read(write(tmp_path / "c.csv", 'a,b\n"1,234",2\n'))[2].decimal is None
    assert read(write(tmp_path / "d.csv", 'a,b\n"1,234",2\n"-0,512",3\n'))[2].decimal == ","
    assert read(write(tmp_path / "e.csv", "a,b\n1.234,2\n0.512,3\n"))[2].decimal == "."


def test_compressed_files_are_read(tmp_path):
    for name in ("a.csv.gz", "a.csv"):  # the content decides
        (tmp_path / name).write_bytes(gzip.compress(TEXT.encode()))
        assert read(tmp_path / name)[:2] == (NAMES, ROWS)
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(gzip.compress(1000 * TEXT.encode())[:-20])
    with pytest.raises(TableError, match=r"complete \.gz file, got a damaged one"):
        read(path)


def test_standard_input_is_read(tmp_path, monkeypatch):
    pl.DataFrame({"a": [1], "b": [2.5]}).write_parquet(tmp_path / "a.parquet")
    contents = {
        TEXT.encode(): (NAMES, ROWS),
        gzip.compress(TEXT.encode()): (NAMES, ROWS),
        (tmp_path / "a.parquet").read_bytes(): (["a", "b"], [(1, 2.5)]),
    }
    for content, expected in contents.items():
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        found = read(opening.Path("-"))
        assert found[:2] == expected
        assert str(found[2]) == "standard input"


def test_spreadsheets_need_a_package(tmp_path, monkeypatch):
    path = write(tmp_path / "a.xlsx", "PK")
    monkeypatch.setattr(opening, "find_spec", lambda name: None)
    with pytest.raises(
        TableError, match=r"a spreadsheet, which needs .* pip install 'ngem\[excel\]'"
    ):
        read(path)


@pytest.mark.skipif(
    not (find_spec("fastexcel") and find_spec("xlsxwriter")), reason="no package for spreadsheets"
)
def test_the_first_sheet_of_a_spreadsheet_is_read(tmp_path):
    import xlsxwriter

    path = tmp_path / "a.xlsx"
    with xlsxwriter.Workbook(path) as book:
        for name, value in (("first", 1.5), ("second", 9.0)):
            pl.DataFrame({"a": ["x"], "b": [value]}).write_excel(book, worksheet=name)
    names, rows, table = read(path)
    assert (names, rows) == (["a", "b"], [("x", 1.5)])
    assert table.notes == ("only the first of its 2 sheets, 'first', was read",)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "empty file"),
        ("a.csv", "a,b,b\n1,2,2\n", "a different name for each column, got 'b' twice"),
        ("a.csv", "1,2.5\n3,4\n", "names of its columns in the first line, got 1, 2.5; add"),
        ("a.doc", "a,b\n1,2\n", r"suffix \.csv.* got 'a.doc'; write it as one of them"),
    ],
)
def test_files_that_hold_no_table_are_refused(name, text, message, tmp_path):
    with pytest.raises(TableError, match=message):
        read(write(tmp_path / name, text))


def test_missing_files_and_directories_are_refused(tmp_path):
    with pytest.raises(TableError, match="nothing there"):
        read(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match="got a directory"):
        read(tmp_path / "folder.csv")


def test_options_that_cannot_be_are_refused():
    assert read_how("tab", None, None) == How("\t")
    for options, message in (
        ((";;", None, None), "--separator must be one character, got ';;'"),
        ((None, "x", None), "--decimal must be one of"),
        ((",", ",", None), "--separator and --decimal must differ"),
        ((None, None, "utf-9"), "--encoding must be an encoding that Python knows, got 'utf-9'"),
    ):
        with pytest.raises(ValueError, match=message):
            read_how(*options)
