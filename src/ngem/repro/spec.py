"""Specs: one TOML file per table and figure, settings as data."""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

BUDGETS = ("smoke", "quick", "full")

_SPECS = resources.files("ngem.repro") / "specs"

_KEYS = {"title", "experiment", "reading", "settings", "budgets", "paper", "runs"}


@dataclass(frozen=True)
class Spec:
    """What a table or figure needs.

    Attributes:
        id: Its name on the command line.
        title: What it shows, in a line.
        experiment: Which of `EXPERIMENTS` makes its runs.
        reading: How settings that the paper leaves open are read here.
        settings: The experiment's settings under a budget.
        paper: The paper's own figures.
        runs: The id whose runs it uses: its own, unless it shows those of another.
        budget: One of `BUDGETS`.
    """

    id: str
    title: str
    experiment: str
    reading: str
    settings: Mapping[str, Any]
    paper: Mapping[str, Any]
    runs: str
    budget: str


def ids() -> list[str]:
    """Return the ids of all specs, tables and figures of the paper first."""
    names = [
        entry.name.removesuffix(".toml")
        for entry in _SPECS.iterdir()
        if entry.name.endswith(".toml")
    ]
    return sorted(names, key=_order)


def load(name: str, budget: str = "full") -> Spec:
    """Return a spec under a budget."""
    if name not in ids():
        raise ValueError(f"id must be one of {', '.join(ids())}, or all; got {name!r}.")
    if budget not in BUDGETS:
        raise ValueError(f"budget must be one of {', '.join(BUDGETS)}; got {budget!r}.")
    return parse(name, (_SPECS / f"{name}.toml").read_text(), budget)


def parse(name: str, text: str, budget: str) -> Spec:
    """Return a spec from its TOML; keys that it does not know are refused."""
    content = tomllib.loads(text)
    check_keys(f"{name}.toml", content, _KEYS)
    own = {"title": content["title"], "paper": content.get("paper", {})}
    if "runs" in content:
        check_keys(f"{name}.toml, which shows runs of another", content, {"title", "runs", "paper"})
        return dataclasses.replace(load(content["runs"], budget), id=name, **own)
    budgets = content.get("budgets", {})
    check_keys(f"{name}.toml [budgets]", budgets, set(BUDGETS[:2]))
    settings = content.get("settings", {})
    chosen = budgets.get(budget, {})
    check_keys(f"{name}.toml [budgets.{budget}]", chosen, set(settings))
    return Spec(
        id=name,
        experiment=content["experiment"],
        reading=content["reading"],
        settings={**settings, **chosen},
        runs=name,
        budget=budget,
        **own,
    )


def check_keys(where: str, found: Mapping[str, Any], known: set[str]) -> None:
    """Refuse what nobody would read."""
    unknown = sorted(set(found) - known)
    if unknown:
        raise ValueError(
            f"{where} has keys that mean nothing: {', '.join(unknown)}; known are "
            f"{', '.join(sorted(known))}."
        )


def make_settings(kind: type, where: str, values: Mapping[str, Any]) -> Any:
    """Return an experiment's settings, all of them given and none unknown."""
    fields = {field.name for field in dataclasses.fields(kind)}
    check_keys(where, values, fields)
    missing = sorted(fields - set(values))
    if missing:
        raise ValueError(f"{where} lacks {', '.join(missing)}.")
    return kind(**values)


def _order(name: str) -> tuple[int, int, str]:
    kind = name.rstrip("0123456789")
    rank = ("table", "fig").index(kind) if kind in ("table", "fig") else 2
    return rank, int(name[len(kind) :] or 0), name
