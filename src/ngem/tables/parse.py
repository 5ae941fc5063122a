"""Text of a file as numbers, dates, true and false."""

import itertools
from collections.abc import Sequence

import polars as pl

_SYMBOLS = r"[$€£¥₹%]"

#: What may stand between thousands, besides the mark that is not that of decimals.
_SPACES = r" '\u2019\u00a0\u202f"

#: Formats of dates, of times, and of both. Where month or day may come first, the month is before
#: the other. Years of two digits come before those of four, which would read them as of old.
_MONTH_FIRST = ("%m/%d/%y", "%m/%d/%Y", "%m-%d-%y", "%m-%d-%Y")
_DAY_FIRST = ("%d/%m/%y", "%d/%m/%Y", "%d-%m-%y", "%d-%m-%Y")
_DATES = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    *itertools.chain(*zip(_MONTH_FIRST, _DAY_FIRST, strict=True)),
    "%d.%m.%y",
    "%d.%m.%Y",
    "%d %B %Y",
    "%d-%B-%Y",
    "%B %d, %Y",
)
_TIMES = ("", " %H:%M", " %H:%M:%S%.f", " %I:%M %p", " %I:%M:%S %p")
FORMATS = (
    *(date + time for date, time in itertools.product(_DATES, _TIMES)),
    "%H:%M",
    "%H:%M:%S%.f",
)

#: Pairs of formats that differ in what comes first, the month or the day.
MONTH_OR_DAY = {
    date + time: other + time
    for date, other in zip(_MONTH_FIRST, _DAY_FIRST, strict=True)
    for time in _TIMES
}


def to_numbers(text: pl.Expr, decimal: str) -> pl.Expr:
    """Return numbers, null where a text is none; signs of money and percent are left out.

    Args:
        text: Texts without spaces around them.
        decimal: The mark before decimals; the other one may stand between thousands.
    """
    one_sign = text.str.count_matches(_SYMBOLS) <= 1
    bare = text.str.replace_all(_SYMBOLS, "").str.strip_chars().str.replace("\u2212", "-")
    other, mark = (",", r"\.") if decimal == "." else (r"\.", ",")
    # Thousands never begin with a zero: 0,512 is half of one, or no number.
    grouped = rf"^[+-]?[1-9]\d{{0,2}}([{_SPACES}{other}]\d{{3}})+({mark}\d*)?$"
    without = bare.str.replace_all(rf"[{_SPACES}{other}]", "")
    bare = pl.when(bare.str.contains(grouped)).then(without).otherwise(bare)
    if decimal == ",":
        # A point that is not between thousands is no mark of such a number.
        bare = pl.when(~bare.str.contains(".", literal=True)).then(bare).str.replace(",", ".")
    return pl.when(one_sign).then(bare.cast(pl.Float64, strict=False))


def to_dates(text: pl.Expr, form: str) -> pl.Expr:
    """Return dates, null where a text is none of this format; a time alone is on one day."""
    text = _without_zone(text)
    if form.startswith("%H"):
        text, form = "1970-01-01 " + text, f"%Y-%m-%d {form}"
    return text.str.to_datetime(form, time_unit="us", strict=False)


def _without_zone(text: pl.Expr) -> pl.Expr:
    """Return ISO dates as other dates are written: a space, and no zone; the clock stays."""
    zone = r"^(\d{4}-\d{1,2}-\d{1,2})[T ](\d{1,2}:\d{2}[\d:.]*) ?(Z|UTC|[+-]\d{2}:?\d{2})?$"
    return text.str.replace(zone, "${1} ${2}").str.replace(r"^(\d{4}-\d{2})$", "${1}-01")


def matching_formats(text: pl.Series, formats: Sequence[str]) -> list[str]:
    """Return the formats of which all texts are dates."""
    if not text.len() or not formats:
        return list(formats)
    if not text.head(20).str.contains(r"\d").all():  # plain words, in most tables
        return []
    found = list(formats)
    for part in (text.head(20), text):  # most formats fail at once
        frame = part.alias("text").to_frame()
        failing = frame.select(
            to_dates(pl.col("text"), form).is_null().any().alias(form) for form in found
        )
        found = [form for form in found if not failing[form][0]]
        if not found:
            break
    return found


def to_booleans(text: pl.Expr) -> pl.Expr:
    """Return true and false, null for other texts."""
    lower = text.str.to_lowercase()
    return pl.when(lower == "true").then(True).when(lower == "false").then(False)
