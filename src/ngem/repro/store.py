"""Results on disk: written after every run, so that an interrupted experiment can continue."""

import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from .. import __version__, _files

#: What one run is about, such as its objective, learning rate and seed.
Unit = dict[str, Any]

#: A unit and its result in one dictionary.
Run = dict[str, Any]


class Results:
    """The runs of one spec in one JSON file.

    A file with other settings is neither continued nor replaced: it may hold hours of work.

    Attributes:
        runs: What was run.
        is_complete: Whether nothing that the spec asks for is missing.
    """

    def __init__(self, path: Path, *, settings: Mapping[str, Any], budget: str):
        self.path = path
        self._lock = threading.Lock()
        self._head = {
            "budget": budget,
            "settings": json.loads(json.dumps(settings)),
            "versions": {"ngem": __version__, "jax": jax.__version__},
        }
        self.runs: list[dict[str, Any]] = []
        self.is_complete = True
        self._derived: list[Run] = []
        if path.exists():
            saved = json.loads(path.read_text())
            if any(saved.get(key) != self._head[key] for key in ("budget", "settings")):
                raise ValueError(
                    f"{path} must hold runs of the same settings to be continued, got other ones "
                    f"(budget {saved.get('budget')}); choose another directory or delete it."
                )
            # What was not installed then may be now.
            self.runs = [run for run in saved["runs"] if "absent" not in run["result"]]

    def has(self, unit: Unit) -> bool:
        """Return whether a run is already there."""
        return any(run["unit"] == unit for run in self.runs)

    def add(self, unit: Unit, result: Mapping[str, Any], seconds: float) -> None:
        """Add a run and write the file."""
        with self._lock:
            self.runs.append({"unit": unit, "seconds": round(seconds, 2), "result": result})
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lines = ",\n".join(json.dumps(run) for run in self.runs)
            head = json.dumps(self._head, indent=1).removesuffix("\n}")
            _files.replace(self.path, f'{head},\n "runs": [\n{lines}\n]}}\n'.encode())

    def derive(self, rule: Callable[[Sequence[Run]], list[Run]], keys: Collection[str]) -> None:
        """Add runs that follow from the others, such as the best of some; the file has none.

        Args:
            rule: From all runs to further ones.
            keys: Names of what a unit is about.
        """
        every = rule([{**run["unit"], **run["result"]} for run in self.runs])
        self._derived = [
            {
                "unit": {key: run[key] for key in run if key in keys},
                "result": {key: run[key] for key in run if key not in keys},
            }
            for run in every
        ]

    def select(self, **where: Any) -> list[Run]:
        """Return the runs whose unit has these values, in the order of seeds."""
        return [{**run["unit"], **run["result"]} for run in self._chosen(where)]

    def pairs(self, against: Mapping[str, Any], **where: Any) -> list[tuple[Run, Run]]:
        """Return each run beside the run whose unit differs from it only by `against`.

        Runs whose partner is still missing are left out.
        """
        chosen = self._chosen(where)
        partners = [self.select(**{**run["unit"], **against}) for run in chosen]
        if not self.is_complete:
            chosen = [run for run, partner in zip(chosen, partners, strict=True) if partner]
            partners = list(filter(None, partners))
        return [
            ({**run["unit"], **run["result"]}, partner)
            for run, (partner,) in zip(chosen, partners, strict=True)
        ]

    def unit_keys(self) -> set[str]:
        """Return the names of all values that units have."""
        return {key for run in self.runs for key in run["unit"]}

    def knows(self, score: str) -> bool:
        """Return whether any run has a score or a value of the unit with this name."""
        return any(score in run["result"] or score in run["unit"] for run in self.runs)

    def seconds(self) -> float:
        """Return the total time of all runs."""
        return sum(run["seconds"] for run in self.runs)

    def _chosen(self, where: Mapping[str, Any]) -> list[dict[str, Any]]:
        chosen = [
            run
            for run in [*self.runs, *self._derived]
            if all(run["unit"].get(key) == value for key, value in where.items())
        ]
        return sorted(chosen, key=lambda run: run["unit"].get("seed", 0))


def rounded(values: Any, digits: int = 5) -> Any:
    """Return numbers with few significant digits, arrays as lists, for JSON."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, list):
        return [rounded(value, digits) for value in values]
    return float(f"{values:.{digits}g}") if isinstance(values, float) else values
