"""Text as numbers, dates, true and false."""

import datetime

import polars as pl
import pytest

from ngem.tables import parse


def parsed(texts, expression):
    frame = pl.DataFrame({"text": texts}, schema={"text": pl.String})
    return frame.select(expression(pl.col("text"))).to_series().to_list()


NUMBERS = {
    ".": {
        "1": 1, "-1.5": -1.5, "1e3": 1000, "+2": 2, ".5": 0.5, "1,234": 1234,
        "1,234,567.25": 1234567.25, "1 234": 1234, "1\u202f234.5": 1234.5, "1'234": 1234,
        "$1,234.50": 1234.5, "-$5": -5, "12 €": 12, "7%": 7, "\u22123": -3,
        "1,23": None, "12,34,567": None, "1.234.567": None, "$5%": None, "x": None, "": None,
        "1,5": None, "2024-01-02": None,
    },
    ",": {
        "1": 1, "1,5": 1.5, "-0,25": -0.25, "1.234": 1234, "1.234.567,5": 1234567.5,
        "1 234,5": 1234.5, "€ 1.234,50": 1234.5, "7,5 %": 7.5, "1,5e3": 1500,
        "1.5": None, "1,234,567": None, "x": None,
    },
}  # fmt: skip


@pytest.mark.parametrize("decimal", NUMBERS)
def test_numbers(decimal):
    cases = NUMBERS[decimal]
    found = parsed(list(cases), lambda text: parse.to_numbers(text, decimal))
    assert dict(zip(cases, found, strict=True)) == cases


DATES = {
    "2024-02-01": "2024-02-01", "2024-2-1": "2024-02-01", "2024/02/01": "2024-02-01",
    "2024-02-01 06:30": "2024-02-01T06:30", "2024-02-01T06:30:15Z": "2024-02-01T06:30:15",
    "2024-02-01T06:30:15.250+02:00": "2024-02-01T06:30:15.250", "2024-02": "2024-02-01",
    "31.01.2024": "2024-01-31", "31.01.24": "2024-01-31", "31/01/2024": "2024-01-31",
    "01/31/2024": "2024-01-31", "1/31/2024 6:30": "2024-01-31T06:30",
    "1/31/2024 6:30 PM": "2024-01-31T18:30", "31-Jan-2024": "2024-01-31",
    "31 Jan 2024": "2024-01-31", "31 January 2024": "2024-01-31", "Jan 31, 2024": "2024-01-31",
    "6:30": "1970-01-01T06:30", "18:30:05": "1970-01-01T18:30:05",
}  # fmt: skip


@pytest.mark.parametrize("text", DATES)
def test_dates(text):
    formats = parse.matching_formats(pl.Series([text]), parse.FORMATS)
    assert formats
    (found,) = parsed([text], lambda column: parse.to_dates(column, formats[0]))
    assert found == datetime.datetime.fromisoformat(DATES[text])


def test_one_format_must_fit_all_texts():
    texts = pl.Series(["01/02/2024", "02/03/2024", "13/02/2024"])
    assert parse.matching_formats(texts, parse.FORMATS) == ["%d/%m/%Y"]
    assert parse.matching_formats(texts[:2], parse.FORMATS) == ["%m/%d/%Y", "%d/%m/%Y"]
    assert parse.MONTH_OR_DAY["%m/%d/%Y"] == "%d/%m/%Y"
    for other in ("never", "2024-13-01", "12", "99:99"):
        assert not parse.matching_formats(pl.Series([*texts, other]), parse.FORMATS)


def test_true_and_false():
    assert parsed(["true", "FALSE", "yes", None], parse.to_booleans) == [True, False, None, None]
