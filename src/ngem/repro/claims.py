"""Claims: statements of the paper and of ours that runs can contradict, read from specs.

A claim is a table of a spec:

- `text`: the statement. `{name}` stands for a variable in all texts.
- `each`: variables and their values, as a list or as the name of a setting. There is one claim for
  each combination.
- `over`: the same, but one claim is about all combinations, its cases.
- `values`: numbers by name. `of` is a score, `statistic` a name from `ngem.repro.statistics`
  ("mean" by default), `per` a score to divide by. Any other key selects runs by their unit, beside
  the variables. With `against`, each run is paired with the one whose unit has these values.
  `best_by` names the group of runs with the lowest value; `except` leaves runs out of it.
- `all` or `any`: conditions that a case must meet, such as "ours >= base - 0.005",
  "base >= 10 * ours" or "best in soap + ngem, soap + nll".
- `at_least`: the fraction of cases that must meet them, "1" by default; `except`: cases that are
  shown and not judged.
- `lists`: texts of the cases that meet the conditions of `if`, by name, joined.
- Cases of which nothing was run, because an experiment ended early, are named and do not hold.
- `ours` is formatted with our numbers, `paper` with the paper's figures, `required` (in its place,
  where the paper has none) with ours. `{held}`, `{judged}`, `{cases}` and `{needed}` are counts.
"""

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from .spec import Spec
from .statistics import PAIRED, STATISTICS
from .store import Results

#: The paper has one natural gradient, the one of its listing. It stands beside both of ours.
IN_THE_PAPER = {"ngem": "ngem-listing"}

_RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

_CONDITION = re.compile(
    r"(?P<left>\w+) (?P<relation><=|>=|<|>) ((?P<times>[-\d.]+) \* )?(?P<right>[-\w.]+)"
    r"( (?P<sign>[+-]) (?P<shift>[\d.]+))?"
)

#: Keys of a value that do not select runs.
_NOT_SELECTING = {"of", "statistic", "per", "against", "best_by", "except"}


class Claim(NamedTuple):
    """A statement with its verdict.

    Attributes:
        text: What is claimed.
        paper: The paper's figures, or what we require.
        ours: What we measured.
        holds: Whether the statement holds for ours.
    """

    text: str
    paper: str
    ours: str
    holds: bool


class NoRuns(ValueError):
    """Nothing was run that a value of a claim is about."""


class Numbers(list):
    """One number for each case; as text they are joined by commas."""

    def __format__(self, form: str) -> str:
        return ", ".join("not shown" if one is None else format(one, form) for one in self)


class Labels(list):
    """Texts of cases; `n` is how many there are."""

    separator = ", "

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self)

    def __format__(self, form: str) -> str:
        return self.separator.join(self) or "none"


def judge(spec: Spec, results: Results) -> list[Claim]:
    """Return every claim of a spec with its verdict."""
    return [
        _judge(claim, {"label": spec.label, **variables}, spec, results)
        for claim in spec.claims
        for variables in _combinations(claim.get("each", {}), spec)
    ]


def _judge(
    claim: Mapping[str, Any], fixed: Mapping[str, Any], spec: Spec, results: Results
) -> Claim:
    cases = [{**fixed, **over} for over in _combinations(claim.get("over", {}), spec)]
    measured, missing = _measure_all(claim, cases, results)
    judged = [case for case in measured if not _matches(case, claim.get("except"))]
    held = sum(_meets(claim, case) for case in judged)
    # What is not run does not hold.
    needed = math.ceil(Fraction(claim.get("at_least", "1")) * (len(judged) + len(missing)))
    counts = {"cases": len(cases), "judged": len(judged), "held": held, "needed": needed}
    ours = {**_joined(claim, measured), **fixed, **counts}
    if "paper" in claim:
        figures = [_evaluate(claim, case, lambda v, c: _published(spec, v, c)) for case in cases]
        paper = claim["paper"].format(**_joined(claim, figures), **fixed)
    else:
        paper = claim["required"].format(**ours)
    text = claim["ours"].format(**ours) if measured else ""
    if missing:
        names = [", ".join(str(case[name]) for name in claim.get("over", {})) for case in missing]
        text = "; ".join(filter(None, [text, f"not run: {', '.join(filter(None, names))}"]))
    return Claim(claim["text"].format(**fixed), paper, text.removesuffix(": "), held >= needed)


def _measure_all(
    claim: Mapping[str, Any], cases: list[dict[str, Any]], results: Results
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the cases with their numbers, and those of which nothing was run so far."""
    measured, missing = [], []
    for case in cases:
        try:
            measured.append(_evaluate(claim, case, lambda v, c: measure(results, v, c)))
        except NoRuns:
            if results.is_complete:
                raise
            missing.append(case)
    return measured, missing


def measure(results: Results, value: Mapping[str, Any], variables: Mapping[str, Any]) -> Any:
    """Return a value of a claim from runs: a number, or the name of the best group."""
    where, score = _selection(value, variables), _fill(value.get("of", ""), variables)
    # Variables that no unit has are there for texts only.
    where = {key: where[key] for key in where if key in results.unit_keys() or key in value}
    runs = results.select(**where)
    # A misspelled name would look like runs that diverged.
    if not runs or (score and not results.knows(score.split(".")[0])):
        raise NoRuns(f"a claim must be about runs that exist, got {score!r} where {where}.")
    if "best_by" in value:
        return _best(results, value, where)
    if "against" in value:
        pairs = results.pairs(value["against"], **where)
        if not pairs:
            raise NoRuns(f"a claim must be about runs that exist, got none like {value['against']}")
        return PAIRED[value["statistic"]](pairs, score)
    if "per" in value:
        runs = [{score: run[score] / run[value["per"]]} for run in runs]
    return STATISTICS[value.get("statistic", "mean")](runs, score)


def _best(results: Results, value: Mapping[str, Any], where: Mapping[str, Any]) -> str:
    """Return the names of the group of runs with the lowest value, joined by " + "."""
    groups = {
        tuple(run[key] for key in value["best_by"]): None
        for run in results.select(**where)
        if not _matches(run, value.get("except"))
    }
    rest = {key: value[key] for key in ("of", "statistic") if key in value}
    numbers = {
        group: measure(
            results, {**rest, **where, **dict(zip(value["best_by"], group, strict=True))}, {}
        )
        for group in groups
    }
    return " + ".join(min(numbers, key=lambda group: numbers[group]))


def _published(spec: Spec, value: Mapping[str, Any], variables: Mapping[str, Any]) -> float | None:
    """Return the paper's figure for a value of a claim, None if it has none."""
    where = {k: IN_THE_PAPER.get(v, v) for k, v in _selection(value, variables).items()}
    position = {"mean": 0, "median": 0, "std": 1}.get(value.get("statistic", "mean"))

    def figure(score: str) -> float | None:
        pair = spec.published(IN_THE_PAPER.get(score, score), **where)
        return None if pair is None or position is None else pair[position]

    number = figure(_fill(value.get("of", ""), variables))
    if "per" not in value or number is None:
        return number
    base = figure(value["per"])
    return None if base is None else number / base


def _selection(value: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    return {**variables, **{k: value[k] for k in value if k not in _NOT_SELECTING}}


def _fill(text: str, variables: Mapping[str, Any]) -> str:
    return text.format(**variables)


def _combinations(variables: Mapping[str, Any], spec: Spec) -> Iterator[dict[str, Any]]:
    """Yield every combination of values; a text instead of a list names a setting."""
    choices = [spec.settings[v] if isinstance(v, str) else v for v in variables.values()]
    for chosen in itertools.product(*choices):
        yield dict(zip(variables, chosen, strict=True))


def _evaluate(
    claim: Mapping[str, Any],
    variables: Mapping[str, Any],
    number: Callable[[Mapping[str, Any], Mapping[str, Any]], Any],
) -> dict[str, Any]:
    """Return the variables and numbers of one case."""
    values = claim.get("values", {})
    return {**variables, **{name: number(values[name], variables) for name in values}}


def _joined(claim: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what texts may name: the numbers of all cases, and lists of cases."""
    names: dict[str, Any] = {
        name: Numbers(case[name] for case in cases) for name in claim.get("values", {})
    }
    for name, content in claim.get("lists", {}).items():
        chosen = [case for case in cases if _meets({"all": content.get("if", [])}, case)]
        labels = Labels(content["label"].format(**case) for case in chosen)
        labels.separator = content.get("separator", Labels.separator)
        names[name] = labels
    return names


def _meets(claim: Mapping[str, Any], case: Mapping[str, Any]) -> bool:
    if "any" in claim:
        return any(is_met(condition, case) for condition in claim["any"])
    return all(is_met(condition, case) for condition in claim["all"])


def is_met(condition: str, numbers: Mapping[str, Any]) -> bool:
    """Return whether a condition such as "ours >= base - 0.005" holds for some numbers."""
    if " in " in condition:
        name, members = condition.split(" in ")
        return numbers[name] in members.split(", ")
    match = _CONDITION.fullmatch(condition)
    if match is None:
        raise ValueError(
            "a condition must read like 'a < 0.1', 'a >= 10 * b', 'a <= b + 0.005' or "
            f"'a in x, y', got {condition!r}."
        )
    bound = float(match["times"] or 1) * _number(match["right"], numbers)
    bound += float((match["sign"] or "+") + (match["shift"] or "0"))
    return bool(_RELATIONS[match["relation"]](_number(match["left"], numbers), bound))


def _number(text: str, numbers: Mapping[str, Any]) -> float:
    number = numbers[text] if text in numbers else float(text)
    return math.nan if number is None else float(number)  # None: the paper does not show it


def _matches(case: Mapping[str, Any], where: Mapping[str, Any] | None) -> bool:
    return where is not None and all(case.get(key) == value for key, value in where.items())
