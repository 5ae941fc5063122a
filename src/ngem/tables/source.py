"""The table that a model is fitted to, as the options of `ngem fit` and `ngem tune` name it."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import check_choice
from ..estimator.preprocessing import rounding_step
from ..estimator.schema import Column, Schema
from ..families import propose_family
from .columns import describe
from .encode import Rows
from .formats import TableError, column_types, split_names
from .kinds import Estimator, Kind, get_kind
from .read import read


@dataclass(frozen=True)
class Source:
    """Which rows and columns to learn from.

    Attributes:
        path: The file.
        target: Columns to predict, "a,b".
        features: Columns to predict from; None means all others.
        exclude: Columns that are not features.
        categorical: Numeric columns to treat as categories.
        missing: What to do with rows that have gaps; None for the rule of the kind of model.
        max_rows: Rows to take at most, sampled at random.
        validation_fraction: Fraction of the rows that a single member holds out.
        seed: Seed of the sample of rows, of the split and of training.
        model: Kind of the model, which decides how columns become features.
    """

    path: Path
    target: str
    features: str | None = None
    exclude: str | None = None
    categorical: str | None = None
    missing: str | None = None
    max_rows: int | None = None
    validation_fraction: float = 0.1
    seed: int = 0
    model: str = "network"

    @property
    def kind(self) -> Kind:
        """The kind of the model."""
        return get_kind(self.model)

    @property
    def rule(self) -> str:
        """The rule for rows with gaps."""
        if self.missing is None:
            return self.kind.rules[0]
        return check_choice(f"--missing of --model {self.model}", self.missing, self.kind.rules)

    def load(self) -> tuple[Schema, Rows, dict[str, Any]]:
        """Return what the columns hold, the complete rows, and facts about both.

        Raises:
            TableError: If nothing can be learned from the file as it is.
        """
        columns = list(column_types(self.path))
        schema, count = describe(
            self.path,
            split_names(self.target, columns),
            features=split_names(self.features, columns),
            exclude=split_names(self.exclude, columns),
            categorical=split_names(self.categorical, columns),
            missing=self.rule,
            coding=self.kind.coding,
        )
        rows = read(self.path, schema, rows=count, max_rows=self.max_rows, seed=self.seed)
        if len(rows.x) < 2:
            raise TableError(f"{self.path} must hold at least two rows to learn from, got one.")
        schema, rows = _with_known_categories(schema, rows)
        taken = count if self.max_rows is None else min(count, self.max_rows)
        facts = {
            "rows": count,
            "used_rows": len(rows.x),
            "dropped_rows": taken - len(rows.x),
            "features": {column.name: column.kind for column in schema.features},
            "inputs": schema.n_features,
            "targets": list(schema.targets),
            "steps": [rounding_step(column) for column in rows.y.T],
            "proposals": [propose_family(column) for column in rows.y.T],
            "seed": self.seed,
            "kind": self.model,
        }
        return schema, rows, facts

    def command(self, estimator: Estimator) -> str:
        """Return the command that fits the same model to the same file."""
        chosen = {option: getattr(estimator, name) for option, name in self.kind.options.items()}
        options = {
            "model": self.model,
            "target": self.target,
            "features": self.features,
            "exclude": self.exclude,
            "categorical": self.categorical,
            "missing": self.rule,
            "max-rows": self.max_rows,
            "validation-fraction": self.validation_fraction,
            **chosen,
            "seed": self.seed,
        }
        words = ["ngem", "fit", str(self.path)]
        for name, value in options.items():
            text = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
            words += [] if value is None else [f"--{name}", text]
        return shlex.join(words)


def _with_known_categories(schema: Schema, rows: Rows) -> tuple[Schema, Rows]:
    """Return codes of the categories that these rows have, as an estimator numbers them.

    A file may have more, in rows that were dropped or not sampled. They are unknown to the model.
    """
    if schema.coding != "codes":
        return schema, rows
    columns, x = list(schema.features), rows.x.copy()
    for number, column in enumerate(columns):
        if column.kind == "category":
            columns[number], x[:, number] = _renumber(column, x[:, number])
    return schema._replace(features=tuple(columns)), rows._replace(x=x)


def _renumber(column: Column, codes: np.ndarray) -> tuple[Column, np.ndarray]:
    known = ~np.isnan(codes)
    used, codes[known] = np.unique(codes[known], return_inverse=True)
    if not len(used):  # a schema lists at least one category of a column
        return column, codes
    names = tuple(column.categories[code] for code in used.astype(int))
    return column._replace(categories=names), codes
