"""Tables that are written: complete or not at all, and read back as they were."""

import numpy as np
import polars as pl
import pytest

from ngem.tables.encode import Rows
from ngem.tables.opening import TableError, opened
from ngem.tables.source import Source
from ngem.tables.write import quote_formulas, with_predictions, writing


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_what_is_written_is_read_back(suffix, tmp_path):
    frame = pl.DataFrame(
        {
            "a": [1.5, None, 3.0, 4.0],
            "b": ["x, y", 'say "z"', None, "x, y"],
            "c": [True, False, True, False],
        }
    )
    path = tmp_path / f"table{suffix}"
    with writing(path) as append:
        append(frame[:2])
        append(frame[2:])
        assert not path.exists()
    with opened(path) as table:
        schema, rows, facts = Source(path, "a").load(table)
    assert facts["rows"] == 4
    assert [(c.kind, c.categories) for c in schema.features] == [
        ("category", ("x, y",)),
        ("boolean", ()),
    ]
    np.testing.assert_array_equal(rows.x, [[0, 1], [np.nan, 1], [0, 0]])
    np.testing.assert_array_equal(rows.y[:, 0], [1.5, 3, 4])
    np.testing.assert_array_equal(rows.numbers, [1, 3, 4])


def test_other_suffixes_are_refused(tmp_path):
    with pytest.raises(TableError, match="suffix"), writing(tmp_path / "table.xlsx"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_predictions_stay_in_line_with_kept_columns():
    complete = np.array([True, False, True])
    kept = pl.DataFrame({"id": ["a", "b", "c"]})
    rows = Rows(np.zeros((3, 1)), np.empty((3, 0)), np.arange(3) + 1, complete, kept)
    frame = with_predictions(rows, {"mean": np.array([1.0, 3.0])})
    assert frame.to_dict(as_series=False) == {"id": ["a", "b", "c"], "mean": [1.0, None, 3.0]}
    alone = with_predictions(rows._replace(kept=pl.DataFrame()), {"mean": np.array([1.0, 3.0])})
    assert alone.to_dict(as_series=False) == {"mean": [1.0, None, 3.0]}
    marked = with_predictions(rows, {"outside": np.array([True, False])})["outside"]
    assert marked.to_list() == [True, None, False]
    gaps = rows._replace(complete=np.zeros(3, bool))
    none = with_predictions(gaps, {"outside": np.zeros(0, bool)})
    assert none["outside"].dtype == marked.dtype == pl.Boolean  # batches must agree
    with pytest.raises(TableError, match="a name that no prediction has, got 'id'"):
        with_predictions(rows, {"id": np.zeros(2)})


def test_text_that_a_spreadsheet_would_run_is_quoted():
    bad = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1"]
    good = ["-3.5", "+1e5", "a=b", "", None, "'=1"]
    kinds = {"text": pl.String, "kind": pl.Categorical}
    frame = pl.DataFrame({name: pl.Series([*bad, *good], dtype=t) for name, t in kinds.items()})
    frame = frame.with_columns(number=pl.Series(range(12)), **{"=name": pl.lit(1)})
    quoted, count = quote_formulas(frame)
    assert count == 2 * len(bad) + 1
    for name in kinds:
        assert quoted[name].to_list() == [*("'" + cell for cell in bad), *good]
    assert quoted.columns == ["text", "kind", "number", "'=name"]
    assert quoted["number"].equals(frame["number"])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_full_disk_leaves_the_old_file(suffix, tmp_path, request, monkeypatch):
    path = tmp_path / f"old{suffix}"
    path.write_text("old")
    request.getfixturevalue("full_disk")
    frame = pl.DataFrame({"a": np.arange(100)})
    with pytest.raises(OSError, match="No space left"), writing(path) as append:
        append(frame)
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_leaves_the_old_file(tmp_path):
    path = tmp_path / "old.parquet"
    path.write_text("old")

    def write_and_stop():
        with writing(path) as append:
            append(pl.DataFrame({"a": [1]}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_stop()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
