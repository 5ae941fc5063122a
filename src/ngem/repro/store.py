"""Results on disk: written after every run, so that an interrupted experiment goes on."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from .. import __version__, _files

Unit = dict[str, Any]


class Results:
    """The runs of one spec in one JSON file.

    A file of other settings is neither continued nor replaced: hours of work may be in it.
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
        if path.exists():
            found = json.loads(path.read_text())
            if any(found.get(key) != self._head[key] for key in ("budget", "settings")):
                raise ValueError(
                    f"{path} must hold runs of the same settings to be continued, found other ones "
                    f"(budget {found.get('budget')}); choose another directory or delete it."
                )
            self.runs = found["runs"]

    def has(self, unit: Unit) -> bool:
        """Return whether a run is already there."""
        return any(run["unit"] == unit for run in self.runs)

    def add(self, unit: Unit, result: Mapping[str, Any], seconds: float) -> None:
        """Keep a run."""
        with self._lock:
            self.runs.append({"unit": unit, "seconds": round(seconds, 2), "result": result})
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lines = ",\n".join(json.dumps(run) for run in self.runs)
            head = json.dumps(self._head, indent=1).removesuffix("\n}")
            _files.replace(self.path, f'{head},\n "runs": [\n{lines}\n]}}\n'.encode())

    def select(self, **where: Any) -> list[dict[str, Any]]:
        """Return results whose unit has these values, in the order of seeds."""
        chosen = [
            run
            for run in self.runs
            if all(run["unit"].get(key) == value for key, value in where.items())
        ]
        return [run["result"] for run in sorted(chosen, key=lambda r: r["unit"].get("seed", 0))]

    def seconds(self) -> float:
        """Return the time that all runs took together."""
        return sum(run["seconds"] for run in self.runs)


def rounded(values: Any, digits: int = 5) -> Any:
    """Return numbers as lists that are short to write."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, list):
        return [rounded(value, digits) for value in values]
    return float(f"{values:.{digits}g}") if isinstance(values, float) else values
