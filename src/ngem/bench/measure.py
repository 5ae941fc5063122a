"""Measures one row: takes its turns and computes its figure."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ..datasets import is_here
from .peers import absent
from .rows import Row
from .timing import Turn, in_turns, quartiles, slope
from .workers import AbstractPool


@dataclass(frozen=True)
class Figure:
    """The result of a row.

    Attributes:
        name: Name of the row.
        how: What the figure is.
        target: The target, in words.
        kind: How the figure follows from its parts.
        unit: Unit of the parts.
        value: Median over rounds, None if nothing was measured.
        low: Lower quartile.
        high: Upper quartile.
        met: Whether the target is met, None if there is none or nothing was measured.
        values: The figure of each round.
        parts: Median of each side, or of each size.
        note: Why the row was skipped, what failed, or a remark.
        failed: Whether an error occurred.
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
        """Return it for JSON, with at most six digits."""
        fields = asdict(self)
        digits = lambda value: float(f"{value:.6g}") if isinstance(value, float) else value  # noqa: E731
        parts = {name: digits(value) for name, value in self.parts.items()}
        values = [digits(value) for value in self.values]
        fields = {key: digits(value) for key, value in fields.items()}
        return {**fields, "parts": parts, "values": values}


def measure(row: Row, pool: AbstractPool, *, smoke: bool = False) -> Figure:
    """Return the row's figure; its note says if something is missing or failed."""
    reason = _missing(row)
    if reason:
        return _figure(row, note=f"skipped: {reason}")
    small = row.small if smoke else {}
    if smoke and row.kind == "slope":
        row = replace(row, sides=row.sides[:2], sizes=row.sizes[:2])
    try:
        turns = [pool.build(side, small) for side in row.sides]
        measured = KINDS[row.kind](row, turns, 2 if smoke else row.repeats)
    except Exception as error:
        # Peers may raise anything. Other rows continue; the command ends with an error.
        return _figure(row, note=f"failed: {type(error).__name__}: {error}", failed=True)
    finally:
        pool.clear()
    summary = quartiles(measured.values)
    return _figure(
        row,
        **summary._asdict(),
        # A smoke run measures nothing, so no target is judged.
        met=None if smoke else row.target.met(summary.median),
        values=[float(value) for value in measured.values],
        parts=measured.parts,
        note=measured.note,
    )


@dataclass(frozen=True)
class _Measured:
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


def _ratio(row: Row, turns: list[Turn], repeats: int) -> _Measured:
    times, parts = _times(row, turns, repeats)
    return _Measured(times[:, 0] / times[:, 1], parts)


def _speedup(row: Row, turns: list[Turn], repeats: int) -> _Measured:
    times, parts = _times(row, turns, repeats)
    return _Measured(times[:, 1] / times[:, 0], parts)


def _value(row: Row, turns: list[Turn], repeats: int) -> _Measured:
    times, parts = _times(row, turns, repeats)
    return _Measured(times[:, 0], parts)


def _slope(row: Row, turns: list[Turn], repeats: int) -> _Measured:
    times, parts = _times(row, turns, repeats)
    # The largest sizes only: at small ones, constant costs hide the growth.
    return _Measured([slope(row.sizes[-3:], values[-3:]) for values in times], parts)


def _reach(row: Row, turns: list[Turn], repeats: int) -> _Measured:
    """Run theirs, then ours until it is as good; the first round includes compilation."""
    ours, theirs = turns
    rounds, reached, goals = [], [], []
    for _ in range(repeats + 1):
        taken, goal = theirs()
        goals.append(goal)
        needed, _ = ours(goal=goal)
        reached.append(needed is not None)
        rounds.append((np.inf if needed is None else needed, taken))
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
    return _Measured(later[:, 1] / later[:, 0], parts, note)


KINDS: dict[str, Callable[[Row, list[Turn], int], _Measured]] = {
    "ratio": _ratio,
    "speedup": _speedup,
    "value": _value,
    "slope": _slope,
    "reach": _reach,
}
