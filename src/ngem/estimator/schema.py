"""What a model knows of the table it was fitted on: columns, their kinds, and what to do with gaps.

Plain Python, so that a model file can be read where no library for tables is installed.
"""

import itertools
from typing import Any, NamedTuple

from .._errors import check_choice

KINDS = ("number", "boolean", "category")
MISSING = ("error", "drop", "impute")


class Column(NamedTuple):
    """One feature of a table.

    Attributes:
        name: As in the file's header.
        kind: "number"; "boolean", read as 0 and 1; or "category", one input for each.
        categories: Those of the file that the model was fitted on, in order.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()

    @property
    def inputs(self) -> list[str]:
        """Names of the numbers that this column becomes."""
        if self.kind != "category":
            return [self.name]
        return [f"{self.name}={category}" for category in self.categories]


class Schema(NamedTuple):
    """How the columns of a file become features and targets.

    Attributes:
        features: Columns to predict from.
        targets: Names of the columns to predict, all of numbers.
        missing: "error"; "drop" to leave rows with gaps out; or "impute" to fill gaps in features.
        command: What repeats the fit, as typed in a shell.
    """

    features: tuple[Column, ...]
    targets: tuple[str, ...]
    missing: str = "error"
    command: str = ""

    @property
    def inputs(self) -> list[str]:
        """Names of the encoded features, in the order in which the network reads them."""
        return [name for column in self.features for name in column.inputs]

    @property
    def n_features(self) -> int:
        """How many encoded features there are."""
        return len(self.inputs)

    @property
    def places(self) -> dict[str, list[int]]:
        """The encoded features of each column, by their numbers."""
        ends = itertools.accumulate(len(column.inputs) for column in self.features)
        return {
            column.name: list(range(end - len(column.inputs), end))
            for column, end in zip(self.features, ends, strict=True)
        }

    def to_header(self) -> dict[str, Any]:
        """Return what JSON can say."""
        columns = [
            {"name": name, "kind": kind, "categories": list(categories)}
            for name, kind, categories in self.features
        ]
        return {**self._asdict(), "features": columns, "targets": list(self.targets)}

    @classmethod
    def from_header(cls, found: Any) -> "Schema":
        """Return what `to_header` wrote.

        Raises:
            ValueError: If it is anything else.
        """
        _need(_has_keys(found, set(cls._fields)), f"the entries {cls._fields}", found)
        _need(isinstance(found["command"], str), "a command", found["command"])
        check_choice("a table's rule for missing values", found["missing"], MISSING)
        _need(_is_names(found["targets"]), "distinct names of targets", found["targets"])
        listed = isinstance(found["features"], list) and len(found["features"]) > 0
        _need(listed, "a list of features", found["features"])
        features = tuple(map(_read_column, found["features"]))
        names = [column.name for column in features] + found["targets"]
        _need(len(set(names)) == len(names), "distinct names of columns", names)
        return cls(features, tuple(found["targets"]), found["missing"], found["command"])


def _read_column(found: Any) -> Column:
    _need(_has_keys(found, {"name", "kind", "categories"}), "columns of three entries", found)
    _need(isinstance(found["name"], str), "names of columns", found["name"])
    check_choice("a column's kind", found["kind"], KINDS)
    categories = found["categories"]
    right = _is_names(categories) if found["kind"] == "category" else categories == []
    _need(right, f"categories that fit a {found['kind']}", categories)
    return Column(found["name"], found["kind"], tuple(categories))


def _has_keys(found: Any, keys: set[str]) -> bool:
    return isinstance(found, dict) and set(found) == keys


def _is_names(found: Any) -> bool:
    listed = isinstance(found, list) and len(found) > 0
    return listed and all(isinstance(name, str) for name in found) and len(set(found)) == len(found)


def _need(condition: bool, expected: str, got: Any) -> None:
    if not condition:
        raise ValueError(f"a table's description must hold {expected}, got {str(got)[:100]}")
