"""Say which rows of two saved tables of `ngem bench` moved beyond noise.

    python benchmarks/compare.py OLD.json NEW.json

A row has moved if the ranges between its quartiles do not overlap. Tables of two machines differ
for other reasons than the code, so their facts are compared first.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

from ngem.bench.report import load


class Change(NamedTuple):
    """One row of both tables."""

    name: str
    old: float
    new: float
    moved: bool


def compare(old: dict, new: dict) -> tuple[list[Change], list[str]]:
    """Return the rows that both tables measured, and the names that only one of them did."""
    measured = [
        {row["name"]: row for row in table["rows"] if row["value"] is not None}
        for table in (old, new)
    ]
    changes = [
        Change(name, was["value"], now["value"], _apart(was, now))
        for name, was in measured[0].items()
        if (now := measured[1].get(name)) is not None
    ]
    return changes, sorted(set(measured[0]) ^ set(measured[1]))


def _apart(was: dict, now: dict) -> bool:
    return was["high"] < now["low"] or now["high"] < was["low"]


def main() -> None:
    """Print what moved, what only one table has, and whether the machines are the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    arguments = parser.parse_args()
    old, new = load(arguments.old), load(arguments.new)
    for fact in ("cores", "processor", "load_at_start"):
        if old["machine"][fact] != new["machine"][fact]:
            print(f"{fact}: {old['machine'][fact]} before, {new['machine'][fact]} now")
    changes, alone = compare(old, new)
    for change in changes:
        if change.moved:
            print(
                f"{change.name}: {change.old:.3g} -> {change.new:.3g} "
                f"({change.new / change.old - 1:+.0%})"
            )
    print(f"{sum(change.moved for change in changes)} of {len(changes)} rows moved beyond noise")
    if alone:
        print(f"in one table only: {', '.join(alone)}")


if __name__ == "__main__":
    main()
