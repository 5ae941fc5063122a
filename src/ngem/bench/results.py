"""Saved tables of `ngem bench`: JSON files, their Markdown and their pictures."""

import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table as RichTable

from .. import __version__
from .._console import markdown
from .._machine import available_cores
from .measure import Figure
from .rows import ROWS

#: Packages whose versions matter to a figure.
PACKAGES = (
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "scikit-learn",
    "torch",
    "keras",
    "keras-mdn-layer",
    "sbi",
    "skpro",
    "zuko",
    "ngboost",
    "lightgbm",
    "lightgbmlss",
)

COLUMNS = ("row", "target", "median", "quartiles", "met", "parts and notes")


def machine() -> dict[str, Any]:
    """Return the facts of this machine that matter for speed, without names or paths."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": available_cores(),
        "processor": _processor(),
        "memory_gb": round(memory / 2**30, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def save(
    path: Path,
    figures: Sequence[Figure],
    facts: dict[str, Any],
    *,
    smoke: bool = False,
    earlier: Sequence[dict[str, Any]] = (),
    versions: Mapping[str, str] | None = None,
) -> None:
    """Write the table with versions and facts of the machine, rows in the order of `ROWS`.

    Args:
        path: Where to write.
        figures: The rows that were measured now.
        facts: Of the machine.
        smoke: Whether shapes were tiny.
        earlier: Rows of an earlier run to keep.
        versions: Versions with which these were measured.
    """
    rows = {row["name"]: row for row in [*earlier, *(figure.as_dict() for figure in figures)]}
    order = {row.name: place for place, row in enumerate(ROWS)}
    report = {
        "smoke": smoke,
        # Peers of earlier rows need not be installed here.
        "versions": {**(versions or {}), **_versions()},
        "machine": facts,
        "rows": sorted(rows.values(), key=lambda row: order.get(row["name"], len(order))),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")


def _versions() -> dict[str, str]:
    versions = {"ngem": __version__}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name).split("+")[0]
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def earlier_run(
    path: Path | None, facts: dict[str, Any], *, smoke: bool
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the rows and versions of a saved table, if it was made under the same conditions."""
    if path is None:
        raise ValueError(
            "--keep needs a saved table whose rows to keep, got no --out; name its file with --out."
        )
    if not path.exists():
        return [], {}
    table = load(path)
    differing = [
        name
        for part, values in (("machine", facts), ("versions", _versions()))
        for name, value in values.items()
        if name != "load_at_start" and table[part].get(name, value) != value
    ]
    if differing or table["smoke"] != smoke:
        raise ValueError(
            f"expected {path} to hold a table of this machine and these versions, got another "
            f"{', '.join(differing) or 'kind of run'}; leave --keep out to measure all rows."
        )
    return table["rows"], table["versions"]


def load(path: Path) -> dict[str, Any]:
    """Return a saved table.

    Raises:
        ValueError: If the file is not one.
    """
    try:
        report = json.loads(path.read_text())
    except json.JSONDecodeError:
        report = None
    if not isinstance(report, dict) or not {"rows", "machine", "versions"} <= set(report):
        raise ValueError(
            f"expected a table that ngem bench --out wrote, got {path}; make one first."
        )
    return report


def as_markdown(report: dict[str, Any]) -> str:
    """Return a saved table for a document."""
    facts, versions = report["machine"], report["versions"]
    head = (
        f"{facts['processor']}, {facts['cores']} cores, {facts['memory_gb']:g} GB; load at the "
        f"start {facts['load_at_start']:g}; Python {facts['python']}, "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + "."
    )
    if report["smoke"]:
        head += " A smoke run: tiny shapes, no measurement."
    return "\n".join([head, "", *markdown([list(COLUMNS), *map(_cells, report["rows"])])])


def draw_growth(report: dict[str, Any], path: Path) -> bool:
    """Draw time and memory against each size; return False if there is nothing to draw."""
    curves: dict[str, dict[str, tuple[list[int], list[float], float]]] = {}
    for row in report["rows"]:
        if row["kind"] == "slope" and row["value"] is not None:
            _, what, vary = row["name"].split("/")
            sizes = [int(label.split()[-1]) for label in row["parts"]]
            curves.setdefault(what, {})[vary] = (sizes, [*row["parts"].values()], row["value"])
    if not curves:
        return False
    from ..plotting import growth

    growth(curves, path)
    return True


def _cells(row: dict[str, Any]) -> list[str]:
    parts = "; ".join(f"{name} {_amount(v, row['unit'])}" for name, v in row["parts"].items())
    if row["kind"] == "slope":
        parts = ""
    more = ". ".join(text for text in (parts, row["note"]) if text)
    if row["value"] is None:
        return [row["name"], row["target"], "", "", "", more]
    verdict = {True: "yes", False: "no", None: ""}[row["met"]]
    quartiles = f"{row['low']:.2f} to {row['high']:.2f}"
    return [row["name"], row["target"], f"{row['value']:.2f}", quartiles, verdict, more]


def _amount(value: float, unit: str) -> str:
    """Return a time in a readable unit, or another number with its unit."""
    if unit != "s":
        return f"{value:.4g} {unit}".strip()
    for factor, name in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {name}"
    return f"{value * 1e9:.3g} ns"


def as_rich(rows: Sequence[dict[str, Any]]) -> RichTable:
    """Return rows as a table for the terminal."""
    table = RichTable(title="ngem bench: medians and quartiles of ratios")
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    colors = {True: "green", False: "red", None: ""}
    for row in rows:
        table.add_row(*_cells(row), style=colors[row["met"]])
    return table


def _processor() -> str:
    """Return the model of the processor if the system says it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
