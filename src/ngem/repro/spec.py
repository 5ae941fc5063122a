"""Specs: one TOML file for each table and figure, with settings, claims and the paper's figures."""

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

BUDGETS = ("smoke", "quick", "full")

_SPECS = resources.files("ngem.repro") / "specs"

#: Keys of any spec. `like` names a spec whose values hold where this one gives none.
_KEYS = {"title", "label", "experiment", "reading", "settings", "budgets", "paper", "claims"}

#: Keys of a spec that shows the runs of another one.
_FIGURE_KEYS = {"title", "runs", "claims"}

#: Keys of a claim; `ngem.repro.claims` says what each of them means.
_CLAIM_KEYS = {
    *("text", "each", "over", "except", "values", "all", "any", "at_least", "lists"),
    *("paper", "required", "ours"),
}


@dataclass(frozen=True)
class Spec:
    """What a table or figure needs.

    Attributes:
        id: Its name on the command line.
        title: What it shows, in one line.
        label: How its claims name it, such as "Table 3".
        experiment: Which of `EXPERIMENTS` makes its runs.
        reading: Our choices where the paper leaves a setting open.
        settings: The experiment's settings under a budget.
        paper: The paper's figures. Each record holds values of a unit, such as an objective, and
            scores as pairs of mean and standard deviation.
        claims: Statements to check, read by `ngem.repro.claims`.
        runs: The id whose runs it uses: its own, unless it shows those of another spec.
        budget: One of `BUDGETS`.
    """

    id: str
    title: str
    label: str
    experiment: str
    reading: str
    settings: Mapping[str, Any]
    paper: Sequence[Mapping[str, Any]]
    claims: Sequence[Mapping[str, Any]]
    runs: str
    budget: str

    def published(self, score: str, **where: Any) -> tuple[float, float] | None:
        """Return the paper's mean and standard deviation of a score, None if it has none.

        Args:
            score: Name of the score.
            **where: Values of the unit. Names that the paper's record does not have are ignored.
        """
        pairs = [
            record[score]
            for record in self.paper
            if score in record
            and all(record.get(key, value) == value for key, value in where.items())
        ]
        return (float(pairs[0][0]), float(pairs[0][1])) if len(pairs) == 1 else None


def ids() -> list[str]:
    """Return the ids of all specs: the paper's tables and figures, then our own."""
    names = [
        entry.name.removesuffix(".toml")
        for entry in _SPECS.iterdir()
        if entry.name.endswith(".toml")
    ]
    return sorted(names, key=_order)


def load(name: str, budget: str = "full") -> Spec:
    """Return a spec under a budget."""
    if budget not in BUDGETS:
        raise ValueError(f"budget must be one of {', '.join(BUDGETS)}; got {budget!r}.")
    return parse(name, _text(name), budget)


def parse(name: str, text: str, budget: str) -> Spec:
    """Return a spec from its TOML; unknown keys are refused."""
    content = tomllib.loads(text)
    if "runs" in content:
        check_keys(f"{name}.toml, which shows runs of another", content, _FIGURE_KEYS)
        own = {"title": content["title"], "claims": _claims(name, content), "paper": []}
        return dataclasses.replace(load(content["runs"], budget), id=name, **own)
    if "like" in content:
        content = _merge(tomllib.loads(_text(content.pop("like"))), content)
    check_keys(f"{name}.toml", content, _KEYS)
    budgets = content.get("budgets", {})
    check_keys(f"{name}.toml [budgets]", budgets, set(BUDGETS[:2]))
    settings = content.get("settings", {})
    changes = budgets.get(budget, {})
    check_keys(f"{name}.toml [budgets.{budget}]", changes, set(settings))
    return Spec(
        id=name,
        title=content["title"],
        label=content.get("label", ""),
        experiment=content["experiment"],
        reading=content["reading"],
        settings={**settings, **changes},
        paper=content.get("paper", {}).get("figures", []),
        claims=_claims(name, content),
        runs=name,
        budget=budget,
    )


def check_keys(where: str, content: Mapping[str, Any], known: set[str]) -> None:
    """Refuse keys that nothing reads."""
    unknown = sorted(set(content) - known)
    if unknown:
        raise ValueError(
            f"{where} must have known keys only, got {', '.join(unknown)}; known are "
            f"{', '.join(sorted(known))}."
        )


def make_settings(kind: type, where: str, values: Mapping[str, Any]) -> Any:
    """Return an experiment's settings; unknown and missing ones are refused."""
    fields = {field.name for field in dataclasses.fields(kind)}
    check_keys(where, values, fields)
    missing = sorted(fields - set(values))
    if missing:
        raise ValueError(f"{where} must give every setting, got none for {', '.join(missing)}.")
    return kind(**values)


def _text(name: str) -> str:
    if name not in ids():
        raise ValueError(f"id must be one of {', '.join(ids())}, or all; got {name!r}.")
    return (_SPECS / f"{name}.toml").read_text(encoding="utf-8")


def _claims(name: str, content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    claims = content.get("claims", [])
    for claim in claims:
        check_keys(f"{name}.toml [[claims]]", claim, _CLAIM_KEYS)
    return claims


def _merge(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return both, tables merged and other values replaced by the own ones."""
    merged = {**base, **own}
    for key in set(base) & set(own):
        if isinstance(base[key], dict) and isinstance(own[key], dict):
            merged[key] = _merge(base[key], own[key])
    return merged


def _order(name: str) -> tuple[int, int, str]:
    kind = name.rstrip("0123456789")
    rank = ("table", "fig").index(kind) if kind in ("table", "fig") else 2
    return rank, int(name[len(kind) :] or 0), name
