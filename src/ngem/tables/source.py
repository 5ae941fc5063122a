"""The table that a model is fitted to, as the options of `ngem fit` and `ngem tune` name it."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..estimator.regressor import MDNRegressor
from ..estimator.schema import Schema
from .columns import describe
from .encode import Rows
from .formats import TableError, column_types, split_names
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
        missing: "error", "drop" or "impute".
        max_rows: Rows to take at most, sampled at random.
        validation_fraction: Fraction of the rows that a single network holds out.
        seed: Seed of the sample of rows, of the split and of training.
    """

    path: Path
    target: str
    features: str | None = None
    exclude: str | None = None
    categorical: str | None = None
    missing: str = "error"
    max_rows: int | None = None
    validation_fraction: float = 0.1
    seed: int = 0

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
            missing=self.missing,
        )
        rows = read(self.path, schema, rows=count, max_rows=self.max_rows, seed=self.seed)
        if len(rows.x) < 2:
            raise TableError(f"{self.path} must hold at least two rows to learn from, got one.")
        taken = count if self.max_rows is None else min(count, self.max_rows)
        facts = {
            "rows": count,
            "used_rows": len(rows.x),
            "dropped_rows": taken - len(rows.x),
            "features": {column.name: column.kind for column in schema.features},
            "inputs": schema.n_features,
            "targets": list(schema.targets),
            "seed": self.seed,
        }
        return schema, rows, facts

    def command(self, estimator: MDNRegressor) -> str:
        """Return the command that fits the same model to the same file."""
        options = {
            "target": self.target,
            "features": self.features,
            "exclude": self.exclude,
            "categorical": self.categorical,
            "missing": self.missing,
            "max-rows": self.max_rows,
            "validation-fraction": self.validation_fraction,
            "members": estimator.n_members,
            "components": estimator.n_components,
            "hidden": ",".join(map(str, estimator.hidden_sizes)),
            "family": estimator.family,
            "covariance": estimator.covariance,
            "objective": estimator.objective,
            "learning-rate": estimator.learning_rate,
            "epochs": estimator.max_epochs,
            "seed": self.seed,
        }
        words = ["ngem", "fit", str(self.path)]
        for name, value in options.items():
            words += [] if value is None else [f"--{name}", str(value)]
        return shlex.join(words)
