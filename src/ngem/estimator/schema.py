"""The schema of the table that a model was fitted to: columns, their kinds, the rule for gaps.

Plain Python, so a model file can be read without a library for tables.
"""

import itertools
from typing import Any, NamedTuple

from .._errors import check_choice

KINDS = ("number", "boolean", "category")
MISSING = ("error", "drop", "impute")


class Column(NamedTuple):
    """One feature of a table.

    Attributes:
        name: Name in the file's header.
        kind: "number"; "boolean", read as 0 and 1; or "category", one input per category.
        categories: Categories in the file that the model was fitted to, sorted.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()

    @property
    def inputs(self) -> list[str]:
        """Names of the network inputs that this column becomes."""
        if self.kind != "category":
            return [self.name]
        return [f"{self.name}={category}" for category in self.categories]


class Schema(NamedTuple):
    """How the columns of a file become features and targets.

    Attributes:
        features: Columns to predict from.
        targets: Names of the columns to predict, all numeric.
        missing: "error"; "drop" to leave rows with gaps out; or "impute" to fill gaps in features.
        command: The shell command that repeats the fit.
    """

    features: tuple[Column, ...]
    targets: tuple[str, ...]
    missing: str = "error"
    command: str = ""

    @property
    def inputs(self) -> list[str]:
        """Names of all network inputs, in the order in which the network reads them."""
        return [name for column in self.features for name in column.inputs]

    @property
    def n_features(self) -> int:
        """Number of network inputs."""
        return len(self.inputs)

    @property
    def places(self) -> dict[str, list[int]]:
        """Indices of the network inputs of each column."""
        ends = itertools.accumulate(len(column.inputs) for column in self.features)
        return {
            column.name: list(range(end - len(column.inputs), end))
            for column, end in zip(self.features, ends, strict=True)
        }

    def to_header(self) -> dict[str, Any]:
        """Return the schema as plain lists and dictionaries, for JSON."""
        columns = [
            {"name": name, "kind": kind, "categories": list(categories)}
            for name, kind, categories in self.features
        ]
        return {**self._asdict(), "features": columns, "targets": list(self.targets)}

    @classmethod
    def from_header(cls, header: Any) -> "Schema":
        """Return the schema that `to_header` wrote.

        Raises:
            ValueError: If the header is not one that `to_header` can write.
        """
        _need(_has_keys(header, set(cls._fields)), f"the entries {cls._fields}", header)
        _need(isinstance(header["command"], str), "a command", header["command"])
        check_choice("a table's rule for missing values", header["missing"], MISSING)
        _need(_is_names(header["targets"]), "distinct names of targets", header["targets"])
        listed = isinstance(header["features"], list) and len(header["features"]) > 0
        _need(listed, "a list of features", header["features"])
        features = tuple(map(_read_column, header["features"]))
        names = [column.name for column in features] + header["targets"]
        _need(len(set(names)) == len(names), "distinct names of columns", names)
        return cls(features, tuple(header["targets"]), header["missing"], header["command"])


def _read_column(entry: Any) -> Column:
    _need(
        _has_keys(entry, {"name", "kind", "categories"}), "columns with three entries each", entry
    )
    _need(isinstance(entry["name"], str), "names of columns", entry["name"])
    check_choice("a column's kind", entry["kind"], KINDS)
    categories = entry["categories"]
    is_valid = _is_names(categories) if entry["kind"] == "category" else categories == []
    _need(is_valid, f"categories that fit a {entry['kind']}", categories)
    return Column(entry["name"], entry["kind"], tuple(categories))


def _has_keys(value: Any, keys: set[str]) -> bool:
    return isinstance(value, dict) and set(value) == keys


def _is_names(value: Any) -> bool:
    listed = isinstance(value, list) and len(value) > 0
    return listed and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _need(condition: bool, expected: str, got: Any) -> None:
    if not condition:
        raise ValueError(f"a table's schema must hold {expected}, got {str(got)[:100]}")
