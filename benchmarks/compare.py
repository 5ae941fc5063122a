"""Say which rows of two saved tables of `ngem bench` moved beyond noise.

    python benchmarks/compare.py OLD.json NEW.json

A row has moved if the Mann-Whitney test tells the rounds of the two runs apart at a level of 0.005.
Tables of the same code then differ in about one row of two hundred. Five rounds or fewer can never
reach that level: such a row has moved if no round of one run lies among those of the other, and the
medians differ by a tenth. Differences between machines and versions are printed first, since they
move rows too.
"""

import argparse
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from ngem.bench.results import load

LEVEL = 0.005

#: Ratio of medians from which a row with few rounds has moved.
FEW = 1.1


class Change(NamedTuple):
    """One row of both tables."""

    name: str
    old: float
    new: float
    moved: bool

    def __str__(self) -> str:
        change = f" ({self.new / self.old - 1:+.0%})" if self.old > 0 else ""
        return f"{self.name}: {self.old:.3g} -> {self.new:.3g}{change}"


def compare(old: dict, new: dict) -> tuple[list[Change], list[str]]:
    """Return the rows that both tables measured, and the names of rows that only one measured."""
    for table in (old, new):
        if table["smoke"]:
            raise SystemExit("expected two measurements, got a smoke run, which measures nothing.")
    measured = [
        {row["name"]: row for row in table["rows"] if row["value"] is not None}
        for table in (old, new)
    ]
    changes = [
        Change(name, was["value"], now["value"], _apart(was["values"], now["values"]))
        for name, was in measured[0].items()
        if (now := measured[1].get(name)) is not None
    ]
    return changes, sorted(set(measured[0]) ^ set(measured[1]))


def _apart(was: list[float], now: list[float]) -> bool:
    """Return whether two runs differ beyond noise."""
    if 2 / math.comb(len(was) + len(now), len(was)) < LEVEL:  # the least that the test can give
        return bool(stats.mannwhitneyu(was, now).pvalue < LEVEL)
    low, high = sorted((was, now), key=np.median)
    # Slopes may be negative or nearly zero, so a tenth is also one of 1.
    apart = np.median(high) - np.median(low) > (FEW - 1) * min(1.0, abs(np.median(low)))
    return bool(max(low) < min(high) and apart)


def main() -> None:
    """Print which rows moved, which only one table has, and how the machines differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    arguments = parser.parse_args()
    old, new = load(arguments.old), load(arguments.new)
    changes, alone = compare(old, new)
    for what in ("machine", "versions"):
        for fact in sorted({*old[what], *new[what]}):
            was, now = old[what].get(fact), new[what].get(fact)
            if was != now:
                print(f"{fact}: {was} before, {now} now")
    for change in changes:
        if change.moved:
            print(change)
    print(f"{sum(change.moved for change in changes)} of {len(changes)} rows moved beyond noise")
    if alone:
        print(f"in one table only: {', '.join(alone)}")


if __name__ == "__main__":
    main()
