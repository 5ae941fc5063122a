"""The schema of the table that a model was fitted to: columns, their kinds, the rule for gaps.

Plain Python, so a model file can be read without a library for tables.
"""

import itertools
from typing import Any, NamedTuple

from .._errors import check_choice

KINDS = ("number", "boolean", "category")

#: How a column of categories becomes features, with the rules for gaps that go with it, the default
#: first: "one-hot" is one feature of 0 and 1 per category, "codes" is one feature with the number
#: of the category, NaN for a missing or unknown one.
RULES = {"one-hot": ("error", "drop", "impute"), "codes": ("keep", "error", "drop")}


class Column(NamedTuple):
    """One feature of a table.

    Attributes:
        name: Name in the file's header.
        kind: "number"; "boolean", read as 0 and 1; or "category".
        categories: Categories in the file that the model was fitted to, sorted.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()


class Schema(NamedTuple):
    """How the columns of a file become features and targets.

    Attributes:
        features: Columns to predict from.
        targets: Names of the columns to predict, all numeric.
        missing: "error"; "drop" to leave rows with gaps out; "impute" to fill gaps in features; or
            "keep" to hand them to a model that reads them as they are.
        command: The shell command that repeats the fit.
        coding: "one-hot" or "codes": how columns of categories become features; see `RULES`.
    """

    features: tuple[Column, ...]
    targets: tuple[str, ...]
    missing: str = "error"
    command: str = ""
    coding: str = "one-hot"

    @property
    def inputs(self) -> list[str]:
        """Names of all features of the model, in the order in which it reads them."""
        return [name for column in self.features for name in self.inputs_of(column)]

    def inputs_of(self, column: Column) -> list[str]:
        """Return the names of the features that a column becomes."""
        if column.kind != "category" or self.coding == "codes":
            return [column.name]
        return [f"{column.name}={category}" for category in column.categories]

    @property
    def n_features(self) -> int:
        """Number of features of the model."""
        return len(self.inputs)

    @property
    def places(self) -> dict[str, list[int]]:
        """Indices of the features of each column."""
        counts = [len(self.inputs_of(column)) for column in self.features]
        ends = itertools.accumulate(counts)
        return {
            column.name: list(range(end - count, end))
            for column, count, end in zip(self.features, counts, ends, strict=True)
        }

    @property
    def coded(self) -> list[int]:
        """Indices of the features that hold numbers of categories."""
        if self.coding != "codes":
            return []
        places = self.places
        return [places[column.name][0] for column in self.features if column.kind == "category"]

    @property
    def takes_gaps(self) -> bool:
        """Whether rows with gaps in features are used."""
        return self.missing in ("impute", "keep")

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
        if isinstance(header, dict):
            header = {"coding": "one-hot", **header}  # the only one that earlier versions had
        _need(_has_keys(header, set(cls._fields)), f"the entries {cls._fields}", header)
        _need(isinstance(header["command"], str), "a command", header["command"])
        check_choice("a table's coding of categories", header["coding"], RULES)
        rules = RULES[header["coding"]]
        check_choice("a table's rule for missing values", header["missing"], rules)
        _need(_is_names(header["targets"]), "distinct names of targets", header["targets"])
        listed = isinstance(header["features"], list) and len(header["features"]) > 0
        _need(listed, "a list of features", header["features"])
        features = tuple(map(_read_column, header["features"]))
        names = [column.name for column in features] + header["targets"]
        _need(len(set(names)) == len(names), "distinct names of columns", names)
        rest = (header[name] for name in ("missing", "command", "coding"))
        return cls(features, tuple(header["targets"]), *rest)


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
