"""Measuring one row: its turns, and the figure that they make."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ..datasets import is_here
from .peers import absent
from .rows import Row
from .timing import Turn, in_turns, slope, spread
from .workers import AbstractPool


@dataclass(frozen=True)
class Figure:
    """What a row came to.

    Attributes:
        name: Of the row.
        how: What the figure is.
        target: What we ask of it, in words.
        kind: How it was made of its parts.
        unit: Of the parts.
        value: Median over rounds, None where nothing was measured.
        low: Lower quartile.
        high: Upper quartile.
        met: Whether the target is met, None where there is none or nothing was measured.
        values: What each round came to.
        parts: Median of each side, or of each size.
        note: Why it was skipped, what failed, or what else is to be known.
        failed: Whether something went wrong.
    """

    name: str
    how: str
    target: str
    kind: str
    unit: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    met: bool | None = None
    values: list[float] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    note: str = ""
    failed: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, with six digits at most."""
        found = asdict(self)
        digits = lambda value: float(f"{value:.6g}") if isinstance(value, float) else value  # noqa: E731
        parts = {name: digits(value) for name, value in self.parts.items()}
        values = [digits(value) for value in self.values]
        found = {key: digits(value) for key, value in found.items()}
        return {**found, "parts": parts, "values": values}


def measure(row: Row, pool: AbstractPool, *, smoke: bool = False) -> Figure:
    """Return the row's figure; where something is not here it says so, and where it fails, too."""
    reason = _missing(row)
    if reason:
        return _figure(row, note=f"skipped: {reason}")
    small = row.small if smoke else {}
    if smoke and row.kind == "slope":
        row = replace(row, sides=row.sides[:2], sizes=row.sizes[:2])
    try:
        turns = [pool.build(side, small) for side in row.sides]
        found = KINDS[row.kind](row, turns, 2 if smoke else row.repeats)
    except Exception as error:
        # Libraries fail in their own ways. Other rows go on; the command ends with an error.
        return _figure(row, note=f"failed: {type(error).__name__}: {error}", failed=True)
    finally:
        pool.clear()
    between = spread(found.values)
    return _figure(
        row,
        **between._asdict(),
        # A smoke run is no measurement: its figures are judged by nobody.
        met=None if smoke else row.target.met(between.median),
        values=[float(value) for value in found.values],
        parts=found.parts,
        note=found.note,
    )


@dataclass(frozen=True)
class _Found:
    values: Sequence[float] | np.ndarray
    parts: dict[str, float]
    note: str = ""


def _figure(row: Row, *, median: float | None = None, **more: Any) -> Figure:
    return Figure(row.name, row.how, str(row.target), row.kind, row.unit, value=median, **more)


def _missing(row: Row) -> str:
    packages = absent([name for side in row.sides for name in side.needs])
    if packages:
        return f"{' and '.join(packages)} not installed (pip install 'ngem[peers]')"
    if row.data is not None and not is_here(row.data):
        return f"no data here (ngem data fetch {row.data})"
    return ""


def _times(row: Row, turns: list[Turn], repeats: int) -> tuple[np.ndarray, dict[str, float]]:
    times = in_turns(turns, repeats)
    medians = np.median(times, axis=0)
    labels = [side.label for side in row.sides]
    return times, {label: float(m) for label, m in zip(labels, medians, strict=True)}


def _ratio(row: Row, turns: list[Turn], repeats: int) -> _Found:
    times, parts = _times(row, turns, repeats)
    return _Found(times[:, 0] / times[:, 1], parts)


def _speedup(row: Row, turns: list[Turn], repeats: int) -> _Found:
    times, parts = _times(row, turns, repeats)
    return _Found(times[:, 1] / times[:, 0], parts)


def _value(row: Row, turns: list[Turn], repeats: int) -> _Found:
    times, parts = _times(row, turns, repeats)
    return _Found(times[:, 0], parts)


def _slope(row: Row, turns: list[Turn], repeats: int) -> _Found:
    times, parts = _times(row, turns, repeats)
    # Where sizes are small, what does not grow hides what does.
    return _Found([slope(row.sizes[-3:], values[-3:]) for values in times], parts)


def _reach(row: Row, turns: list[Turn], repeats: int) -> _Found:
    """Ours runs until it is as good as theirs was; the first time it also compiles."""
    ours, theirs = turns
    rounds, reached, goals = [], [], []
    for _ in range(repeats + 1):
        taken, goal = theirs()
        goals.append(goal)
        found, _ = ours(goal=goal)
        reached.append(found is not None)
        rounds.append((np.inf if found is None else found, taken))
    (first, first_theirs), later = rounds[0], np.array(rounds[1:])
    level = -float(np.median(goals[1:]))
    parts = {
        f"{side.label}, to a likelihood of {level:.3f}": float(np.median(later[:, index]))
        for index, side in enumerate(row.sides)
    }
    note = f"with compiling {first_theirs / first:.2f}"
    if not all(reached):
        note += f"; not reached in {reached.count(False)} of {len(reached)}"
    parts = {name: value for name, value in parts.items() if np.isfinite(value)}
    if np.isfinite(first):
        parts["ngem, compiling"] = float(first)
    return _Found(later[:, 1] / later[:, 0], parts, note)


KINDS: dict[str, Callable[[Row, list[Turn], int], _Found]] = {
    "ratio": _ratio,
    "speedup": _speedup,
    "value": _value,
    "slope": _slope,
    "reach": _reach,
}
