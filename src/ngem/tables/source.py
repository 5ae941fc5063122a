"""The table that a model is fitted to, as the options of `ngem fit` and `ngem tune` name it."""

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._errors import check_choice
from ..estimator import encoding
from ..estimator.preprocessing import rounding_step
from ..estimator.schema import OTHER, Schema
from ..families import propose_family
from .columns import describe
from .encode import Batch, Rows
from .formats import column_types, split_names
from .kinds import Estimator, Kind, get_kind
from .notes import gap_counts, rare_notes, target_notes
from .opening import How, TableError, TableFile
from .read import read

_RARE = f"left out, because none of its categories has {encoding.LEAST_ROWS} rows"


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
        how: How a text file is written.
        memory: Bytes that a fit to a stream may take; None reads all rows into memory.
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
    how: How = field(default_factory=How)
    memory: int | None = None

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

    def load(self, table: TableFile) -> tuple[Schema, Rows, dict[str, Any]]:
        """Return what the columns hold, the complete rows, and facts about both.

        Args:
            table: The file, opened.

        Raises:
            TableError: If nothing can be learned from the file as it is.
        """
        columns = list(column_types(table))
        found = describe(
            table,
            split_names(self.target, columns),
            features=split_names(self.features, columns),
            exclude=split_names(self.exclude, columns),
            categorical=split_names(self.categorical, columns),
        )
        schema = Schema(found.features, found.targets, self.rule, decimal=table.decimal or ".")
        batch, without_target = read(
            table, schema, rows=found.rows, max_rows=self.max_rows, seed=self.seed
        )
        if len(batch.y) < 2:
            raise TableError(f"{table} must hold at least two rows to learn from, got one.")
        schema, rare = self._with_values(schema, batch)
        rows = batch.encoded(schema)
        taken = found.rows if self.max_rows is None else min(found.rows, self.max_rows)
        facts = {
            "rows": found.rows,
            "used_rows": len(rows.x),
            "dropped_rows": taken - len(rows.x) - without_target,
            "rows_without_target": without_target,
            "features": {column.name: column.kind for column in schema.features},
            "inputs": len(schema.inputs),
            "targets": list(schema.targets),
            "steps": [rounding_step(column) for column in rows.y.T],
            "proposals": [
                propose_family(column, name)
                for column, name in zip(rows.y.T, schema.targets, strict=True)
            ],
            "target_notes": target_notes(schema, rows.y),
            "file_notes": list(table.notes),
            "column_notes": {**found.notes, **rare, **rare_notes(schema, rows.x)},
            "gaps": gap_counts(schema, rows.x),
            "seed": self.seed,
            "kind": self.model,
        }
        return schema, rows, facts

    def _with_values(self, schema: Schema, batch: Batch) -> tuple[Schema, dict[str, str]]:
        """Return a schema that knows the categories and the dates of the rows that are used.

        Columns in which all categories are rare are left out, with a note.
        """
        estimator = self.kind.estimator
        found = encoding.describe(
            batch.features,
            most=estimator._most_categories,
            common=estimator._common_categories,
        )
        columns = tuple(
            values._replace(kind=column.kind, format=column.format)
            for column, values in zip(schema.features, found, strict=True)
        )
        rare = {column.name: _RARE for column in columns if column.labels == (OTHER,)}
        kept = tuple(column for column in columns if column.name not in rare)
        if not kept:
            raise TableError(
                f"there must be a column to predict from, got {', '.join(rare)}: {_RARE}; group "
                "its values, or name other columns with --features."
            )
        return schema._replace(features=kept), rare

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
            "memory": self.memory,
            **self.how.options(),
        }
        words = ["ngem", "fit", str(self.path), *([] if self.memory is None else ["--stream"])]
        for name, value in options.items():
            text = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
            words += [] if value is None else [f"--{name}", text]
        return shlex.join(words)
