"""Families by name, with options in parentheses: "student", "student(4)", "student(df=4)"."""

import re
from collections.abc import Sequence

_FORM = re.compile(r"\s*([a-z][a-z -]*?)\s*(?:\(([^()]*)\))?\s*")


def parse_name(text: str) -> tuple[str, list[str]]:
    """Return the name of a family and what stands in the parentheses behind it."""
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return text, []
    name, inside = found.groups()
    return name, [part.strip() for part in inside.split(",")] if inside else []


def read_options(
    family: str, options: Sequence[str], values: Sequence[str], what: str = "family"
) -> dict[str, float]:
    """Return the options of a family, or of its covariance, as numbers by name."""
    read: dict[str, float] = {}
    for place, value in enumerate(values):
        key, _, number = value.rpartition("=")
        key = key.strip() or (options[place] if place < len(options) else "")
        try:
            known = key in options and key not in read
            read[key] = float(number) if known else float("nan")
        except ValueError:
            known = False
        if not known:
            takes = f"numbers {', '.join(options)}" if options else "no options"
            example = f"{family}({', '.join(f'{name}=1' for name in options)})"
            raise ValueError(
                f"{what} {family!r} must have {takes}, got {value!r}; for example "
                f"{example if options else family}."
            )
    return read
