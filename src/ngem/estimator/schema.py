"""The schema of the table that a model was fitted to: its columns, and how each becomes numbers.

Plain Python, so a model file can be read without a library for tables.
"""

import base64
import binascii
import itertools
from typing import Any, NamedTuple

from .._errors import check_choice

KINDS = ("number", "boolean", "category", "date")

#: What may be done with rows that have gaps in features: "impute" and "keep" use them.
RULES = ("impute", "keep", "error", "drop")

#: Numbers that a date becomes; a column has those that vary in its training rows.
PARTS = ("elapsed days", "day of the year", "weekday", "hour")

#: Marks that may separate the decimals of a number.
DECIMALS = (".", ",")

#: Name of the category that stands for all rare ones.
OTHER = "(other)"


class Column(NamedTuple):
    """One feature of a table.

    Attributes:
        name: Its name.
        kind: "number"; "boolean", read as 0 and 1; "category"; or "date".
        categories: Categories of the training rows, sorted; rare ones may be left out.
        has_other: Whether all categories that are left out share one more code.
        parts: The numbers that a date becomes, among `PARTS`.
        format: How a text file writes its dates; empty for other columns and files.
        common: How many of the categories, the first ones, are an input of networks each; all
            others share one. None if all are.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    has_other: bool = False
    parts: tuple[str, ...] = ()
    format: str = ""
    common: int | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the codes of a column of categories, from 0 on."""
        return (*self.categories, *([OTHER] if self.has_other else []))

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the codes for which networks have an input; the last may stand for more."""
        if self.common is None:
            return self.labels
        return (*self.categories[: self.common], OTHER)

    @property
    def numbers(self) -> list[str]:
        """Names of the numbers that the column becomes."""
        if self.kind == "date":
            return [f"{self.name}: {part}" for part in self.parts]
        return [self.name]


class Schema(NamedTuple):
    """How the columns of a table become numbers.

    A column of numbers is one number, a date is several. A category is one number, its code: its
    place among the categories of its column, NaN for a missing one. A category that the training
    rows did not have has the code after the last. Networks read an input of 0 or 1 for each code.

    Attributes:
        features: Columns to predict from.
        targets: Names of the columns to predict, all numeric.
        missing: "error"; "drop" to leave rows with gaps out; "impute" to fill gaps in features; or
            "keep" to hand them to a model that reads them as they are.
        command: The shell command that repeats the fit.
        decimal: The mark before the decimals in the text file that the model was fitted to.
        fingerprint: Hashes of some rows of the fit, as text; empty if they are not known.
    """

    features: tuple[Column, ...]
    targets: tuple[str, ...]
    missing: str = "error"
    command: str = ""
    decimal: str = "."
    fingerprint: str = ""

    @property
    def names(self) -> list[str]:
        """Names of the columns to predict from."""
        return [column.name for column in self.features]

    @property
    def numbers(self) -> list[str]:
        """Names of all numbers that the columns become, in order."""
        return [name for column in self.features for name in column.numbers]

    @property
    def sizes(self) -> list[int]:
        """How many codes each of these numbers has; 0 for those that are no codes."""
        return [
            len(column.labels) if column.kind == "category" else 0
            for column in self.features
            for _ in column.numbers
        ]

    @property
    def widths(self) -> list[int]:
        """How many inputs of networks the codes of each number become; 0 for those without."""
        return [
            len(column.inputs) if column.kind == "category" else 0
            for column in self.features
            for _ in column.numbers
        ]

    @property
    def inputs(self) -> list[str]:
        """Names of what a network reads: one input for each number and for each code."""
        return [name for column in self.features for name in self.inputs_of(column)]

    def inputs_of(self, column: Column) -> list[str]:
        """Return the names of what a network reads of a column."""
        if column.kind != "category":
            return column.numbers
        return [f"{column.name}={label}" for label in column.inputs]

    @property
    def places(self) -> dict[str, list[int]]:
        """Indices of the numbers of each column."""
        counts = [len(column.numbers) for column in self.features]
        ends = itertools.accumulate(counts)
        return {
            column.name: list(range(end - count, end))
            for column, count, end in zip(self.features, counts, ends, strict=True)
        }

    @property
    def coded(self) -> list[int]:
        """Indices of the numbers that are codes of categories."""
        places = self.places
        return [places[column.name][0] for column in self.features if column.kind == "category"]

    @property
    def takes_gaps(self) -> bool:
        """Whether rows with gaps in features are used."""
        return self.missing in ("impute", "keep")

    def to_header(self) -> dict[str, Any]:
        """Return the schema as plain lists and dictionaries, for JSON."""
        columns = [
            {**column._asdict(), "categories": list(column.categories), "parts": list(column.parts)}
            for column in self.features
        ]
        return {**self._asdict(), "features": columns, "targets": list(self.targets)}

    @classmethod
    def from_header(cls, header: Any) -> "Schema":
        """Return the schema that `to_header` wrote.

        Raises:
            ValueError: If the header is not one that `to_header` can write.
        """
        if isinstance(header, dict):
            header = {"decimal": ".", "fingerprint": "", **header}  # as earlier versions have it
            header.pop("coding", None)  # of the columns of categories, by the kind of model
        _need(_has_keys(header, set(cls._fields)), f"the entries {cls._fields}", header)
        _need(isinstance(header["command"], str), "a command", header["command"])
        check_choice("a table's rule for missing values", header["missing"], RULES)
        check_choice("a table's mark before decimals", header["decimal"], DECIMALS)
        _need(_is_hashes(header["fingerprint"]), "a fingerprint", header["fingerprint"])
        _need(_is_names(header["targets"]), "distinct names of targets", header["targets"])
        listed = isinstance(header["features"], list) and len(header["features"]) > 0
        _need(listed, "a list of features", header["features"])
        features = tuple(map(_read_column, header["features"]))
        names = [column.name for column in features] + header["targets"]
        _need(len(set(names)) == len(names), "distinct names of columns", names)
        rest = (header[name] for name in ("missing", "command", "decimal", "fingerprint"))
        return cls(features, tuple(header["targets"]), *rest)


def _read_column(entry: Any) -> Column:
    if isinstance(entry, dict):
        # New in version 0.2.
        entry = {"has_other": False, "parts": [], "format": "", "common": None, **entry}
    fields = set(Column._fields)
    _need(_has_keys(entry, fields), f"columns with the entries {sorted(fields)}", entry)
    _need(isinstance(entry["name"], str), "names of columns", entry["name"])
    check_choice("a column's kind", entry["kind"], KINDS)
    kind, categories, parts = entry["kind"], entry["categories"], entry["parts"]
    _need(type(entry["has_other"]) is bool, "whether a column has others", entry["has_other"])
    _need(isinstance(entry["format"], str), "the format of a date", entry["format"])
    named = _is_names(categories) or (categories == [] and entry["has_other"])
    _need(named if kind == "category" else categories == [], f"categories of a {kind}", categories)
    common = entry["common"]
    fits = type(common) is int and 0 <= common < len(categories)
    _need(common is None or fits, "how many categories are common", common)
    dated = _is_names(parts) and set(parts) <= set(PARTS)
    _need(dated if kind == "date" else parts == [], f"parts of a {kind}", parts)
    rest = (entry["has_other"], tuple(parts), entry["format"], common)
    return Column(entry["name"], kind, tuple(categories), *rest)


def _has_keys(value: Any, keys: set[str]) -> bool:
    return isinstance(value, dict) and set(value) == keys


def _is_names(value: Any) -> bool:
    listed = isinstance(value, list) and len(value) > 0
    return listed and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _is_hashes(value: Any) -> bool:
    """Return whether a value is text that stands for whole numbers of 64 bits."""
    try:
        return isinstance(value, str) and len(base64.b64decode(value, validate=True)) % 8 == 0
    except (binascii.Error, ValueError):  # other letters
        return False


def _need(condition: bool, expected: str, got: Any) -> None:
    if not condition:
        raise ValueError(f"a table's schema must hold {expected}, got {str(got)[:100]}")
