"""What columns hold, found in one pass over the file, and which of them teach nothing."""

import datetime

import numpy as np
import polars as pl
import pytest

from ngem.estimator.schema import Column
from ngem.tables import formats, tally
from ngem.tables.columns import describe
from ngem.tables.opening import TableError
from ngem.tables.source import Source

from .common import table, table_of


def described(path, text, target="y", **settings):
    return describe(table(path, text), [target], **settings)


def lines(header, rows):
    return "\n".join([header, *rows, ""])


def test_a_file_is_described_in_one_pass(tmp_path, passes):
    rows = [f"{i / 7},{'xyz'[i % 3]},{i % 2 == 0},2024-01-{i % 28 + 1:02},{-i}" for i in range(50)]
    found = described(tmp_path / "a.csv", lines("b,c,e,d,y", [*rows, ",,,,"]))
    assert len(passes) == 1
    assert found.rows == 50
    assert found.features == (
        Column("b", "number"),
        Column("c", "category"),
        Column("e", "boolean"),
        Column("d", "date", format="%Y-%m-%d"),
    )
    assert found.notes == {"d": "read as dates, 2024-01-01 as year-month-day"}


def test_the_work_grows_with_the_number_of_columns_not_with_its_square(tmp_path, monkeypatch):
    asked, select = [], pl.DataFrame.select
    monkeypatch.setattr(
        pl.DataFrame, "select", lambda f, *a, **k: asked.append(f.width) or select(f, *a, **k)
    )

    def work(width):
        """How many columns all queries together look through, to describe and to read."""
        cells = [
            ["xyz"[row % 3] if i % 3 else str(i + row) for i in range(width)] for row in range(9)
        ]
        rows = [",".join([str(row**2), *line]) for row, line in enumerate(cells)]
        header = ",".join(["y", *(f"c{i}" for i in range(width))])
        rows = table(tmp_path / "wide.csv", lines(header, rows))
        asked.clear()
        assert Source(tmp_path / "wide.csv", "y").load(rows)[1].x.shape == (9, width)
        return sum(asked)

    assert work(120) < 2.2 * work(60)


def test_the_kind_of_a_column_is_decided_by_all_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BATCH", 7)
    rows = [f"{i / 3},{'true' if i < 40 else 'no'},{'x' if i == 45 else i},{i}" for i in range(50)]
    text = lines("a,b,c,y", rows)
    found = described(tmp_path / "late.csv", text, exclude=["c"])
    assert found.rows == 50
    assert found.features == (Column("a", "number"), Column("b", "category"))
    with pytest.raises(TableError, match=r"'c' .* got 'x' in row 46 \(1 such value in all\)"):
        described(tmp_path / "late.csv", text)


def test_columns_are_chosen_by_name(mixed):
    rows = table_of(mixed)
    names = [column.name for column in describe(rows, ["price"], features=["size"]).features]
    assert names == ["size"]
    found = describe(rows, ["price"], exclude=["size", "wet"])
    assert [column.name for column in found.features] == ["place"]
    found = describe(rows, ["price"], categorical=["size"])
    assert found.features[0] == Column("size", "category")


#: Columns of forty rows, and what is said of each; empty for one that is used as it is.
RNG = np.random.default_rng(0)
SUSPICIOUS = {
    "rownames": (range(1, 41), "left out, because it numbers the rows"),
    "Unnamed: 0": (range(40), "left out, because it numbers the rows"),
    "hour": (range(40), "kept, though it numbers the rows; --exclude leaves it out"),
    "order": (range(40), "left out, because it numbers the rows"),
    "rank": (RNG.permutation(40), ""),
    "PID": (RNG.permutation(40) + 1000, "left out, because it identifies rows, with another"),
    "patient_id": (
        [i // 3 % 40 for i in range(40)],
        "read as 14 categories, because its whole numbers name things",
    ),
    "name": ([f"n{i}" for i in range(40)], "left out, because nearly every row has another value"),
    "fixed": (40 * [7], "left out, because it is 7 in all rows"),
    "word": (40 * ["x"], "left out, because it is x in all rows"),
    "empty": (40 * [""], "left out, because it holds no values"),
    "often": (["a" if i % 2 else "" for i in range(40)], ""),
    "zip": ([f"0{i % 7}123" for i in range(40)], "read as categories, because its numbers begin"),
    "cost": ([f'"$1,{i:03}.50"' for i in range(40)], "read as numbers, without marks between"),
    "share": ([f"{i}%" for i in range(40)], "read as numbers, without percent signs; 12% is 12"),
    "day": ([f"{i % 12 + 1}/{i % 12 + 1}/2024" for i in range(40)], "read as dates, 1/1/2024 as"),
    "size": (RNG.uniform(size=40), ""),
    "humid": (RNG.uniform(size=40), ""),
    "kind": (["uv"[i % 2] for i in range(40)], ""),
}


@pytest.mark.parametrize("size", [7, 1000])
def test_suspicious_columns_are_named_with_what_was_done(size, tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BATCH", size)
    values = [list(map(str, values)) for values, _ in SUSPICIOUS.values()]
    rows = [",".join(row) + f",{i}" for i, row in enumerate(zip(*values, strict=True))]
    found = described(tmp_path / "a.csv", lines(",".join([*SUSPICIOUS, "y"]), rows))
    used = {column.name: column for column in found.features}
    for name, (_, note) in SUSPICIOUS.items():
        assert found.notes.get(name, "").startswith(note), name
        assert bool(note) == (name in found.notes)
        assert (name in used) == (not note.startswith("left out"))
    assert "month or day may come first" in found.notes["day"]
    assert (used["cost"].kind, used["zip"].kind, used["patient_id"].kind) == (
        "number",
        "category",
        "category",
    )
    asked = describe(
        table_of(tmp_path / "a.csv"), ["y"], features=["rownames", "fixed", "name", "PID", "empty"]
    )
    assert [column.name for column in asked.features] == ["rownames", "fixed", "name", "PID"]


def test_numbers_that_identify_many_things_are_left_out(tmp_path):
    rows = [f"{i // 2},{i % 5},{i}" for i in range(400)]
    found = described(tmp_path / "a.csv", lines("id,a,y", rows))
    assert found.notes["id"] == ("left out, because it identifies things, 200 of them in 400 rows")


def test_distinct_values_are_collected_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BATCH", 16)
    monkeypatch.setattr(tally, "MOST_DISTINCT", 100)
    keys = lines("key,a,y", [f"k{i},{i % 3},{i}" for i in range(400)])
    assert "another value" in described(tmp_path / "a.csv", keys).notes["key"]
    common = lines("key,a,y", [f"k{i % 90},{i % 3},{i}" for i in range(400)])
    assert not described(tmp_path / "a.csv", common).notes


def test_dates_with_the_day_first_are_those_of_files_with_semicolons(tmp_path):
    rows = [f"0{i + 1}/0{i + 2}/2024;{i % 3};{i}" for i in range(5)]
    found = described(tmp_path / "a.csv", lines("day;a;y", rows))
    assert found.features[0].format == "%d/%m/%Y"
    assert "as day/month/year; month or day may come first" in found.notes["day"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "rows below its header, got none"),
        ("a,b\n1,2\n2,x\n3,4\n", r"'b' .* must hold numbers, got 'x' in row 2 \(1 such"),
        ("a,b\n1,x\n2,y\n3,z\n", "target 'b' .* got text, such as 'x': .* classifier"),
        ("a,b\n1,true\n2,false\n", "target 'b' .* got true and false"),
        ("a,b\n1,2024-01-01\n2,2024-01-02\n", "target 'b' .* got dates.* such as days"),
        ("a,b\n,1\n,2\n", r"to predict from, got 1 of no use: a \(.* no values\); name one"),
        ("a,b\n1,\n2,\n", "'b' .* all are missing"),
        ("a,B\n1,2\n", "must have a column 'b', got a, B; did you mean 'B'?"),
        ("b\n1\n", "at least one feature and none twice, got none"),
    ],
)
def test_bad_tables_are_refused(text, message, tmp_path):
    with pytest.raises(TableError, match=message):
        described(tmp_path / "bad.csv", text, "b")


def test_numbers_with_thousands_may_be_a_target(tmp_path):
    found = described(tmp_path / "a.csv", 'a,y\n1,"123,456"\n3,"7,890"\n')
    assert found.notes == {"y": "read as numbers, without marks between thousands"}


def test_what_begins_with_a_zero_has_no_thousands(tmp_path):
    """0,512 was read as 512 where other columns have decimal points."""
    text = 'a,y\n1.5,"3,456"\n2.5,"0,512"\n'
    with pytest.raises(TableError, match="0,512"):
        described(tmp_path / "a.csv", text)


def test_signs_beside_numbers_with_decimal_commas_are_named(tmp_path):
    rows = [f"{i},5;1.{i:03},25 €;{i},75" for i in range(30)]
    found = described(tmp_path / "a.csv", lines("size;cost;y", rows))
    assert [column.kind for column in found.features] == ["number", "number"]
    assert found.notes == {
        "cost": "read as numbers, without marks between thousands and signs of money"
    }


def test_bad_roles_and_types_are_refused(tmp_path, mixed):
    with pytest.raises(TableError, match="'price' as both"):
        describe(table_of(mixed), ["price"], features=["price", "size"])
    frame = pl.DataFrame({"a": [[1], [2]], "b": [1, 2], "price": [1.0, 2.0]})
    frame.write_parquet(tmp_path / "lists.parquet")
    rows = table_of(tmp_path / "lists.parquet")
    assert describe(rows, ["price"]).notes == {"a": "left out, because it holds List(Int64)"}
    with pytest.raises(TableError, match=r"'a' .* got List\(Int64\); leave it out"):
        describe(rows, ["price"], features=["a"])


def test_types_of_parquet_are_kept(tmp_path):
    frame = pl.DataFrame(
        {
            "number": [0.5, 1.0, np.nan, 7.0],
            "code": [1.0, 2.0, None, 2.0],
            "flag": [True, False, None, True],
            "name": pl.Series(["x", "NA", " y", "x"], dtype=pl.Categorical),
            "day": [datetime.date(2026, 1, day) for day in (1, 2, 3, 4)],
            "time": [datetime.time(day) for day in (1, 2, 3, 4)],
            "wait": [datetime.timedelta(day) for day in (1, 2, 3, 4)],
            "y": np.linspace(0, 1, 4),
        }
    )
    frame.write_parquet(tmp_path / "a.parquet")
    found = describe(table_of(tmp_path / "a.parquet"), ["y"], categorical=["code"])
    assert found.rows == 4
    kinds = ["number", "category", "boolean", "category", "date", "date", "number"]
    assert [column.kind for column in found.features] == kinds
