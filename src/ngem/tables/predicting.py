"""Predictions for the rows of one table, read and written a batch at a time."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from ..estimator.schema import Schema
from .encode import unseen_rows
from .formats import column_types, split_names
from .kinds import Estimator
from .opening import How, TableError, opened, with_decimal
from .predictions import Wanted, prediction_columns
from .read import batches
from .write import is_text, quote_formulas, with_predictions, writing


class NoRowsError(TableError):
    """A table that has columns but no rows."""


class Prediction(NamedTuple):
    """What to predict.

    Attributes:
        estimator: The model.
        schema: Its columns.
        wanted: What to predict of each row.
        keep: Columns to copy, "a,b".
        formulas: Copy text that a spreadsheet would run as it is.
        how: How a text file is written.
    """

    estimator: Estimator
    schema: Schema
    wanted: Wanted
    keep: str | None
    formulas: bool
    how: How | None


class Counts(NamedTuple):
    """Rows that were predicted, those left empty or with unseen categories, and changed cells."""

    rows: int
    empty: int
    unseen: int
    quoted: int

    def facts(self) -> dict[str, Any]:
        """Return the counts by the names that `--json` has for them."""
        names = ("rows", "empty_rows", "rows_with_unseen_categories", "quoted_cells")
        return dict(zip(names, self, strict=True))


def predict_table(
    job: Prediction, path: Path, out: Path | None, seed: int, number: int | None = None
) -> Counts:
    """Write predictions for each row of a table; its file appears when all went well.

    Args:
        job: What to predict.
        path: The table.
        out: Where predictions go.
        seed: Seed of samples.
        number: Of the table among many, which have samples of their own.
    """
    schema, count, empty, unseen, quoted = job.schema, 0, 0, 0, 0
    with opened(path, job.how) as table, writing(out) as append:
        table = with_decimal(table, schema.decimal)
        kept = split_names(job.keep, column_types(table))
        for batch in batches(table, schema, with_targets=False, keep=kept):
            rows = batch.encoded(schema)
            x, batch_key = rows.x[rows.complete], _batch_key(job.wanted, seed, number, count)
            columns = prediction_columns(
                job.estimator.model_, schema.targets, x, job.wanted, batch_key
            )
            frame = with_predictions(rows, columns)
            if is_text(out) and not job.formulas:
                frame, changed = quote_formulas(frame)
                quoted += changed
            append(frame)
            count, empty = count + len(rows.x), empty + len(rows.x) - len(x)
            unseen += int(np.sum(unseen_rows(x, schema)))
        if count == 0:
            raise NoRowsError(f"{table} must hold rows below its header, got none.")
    return Counts(count, empty, unseen, quoted)


def _batch_key(wanted: Wanted, seed: int, number: int | None, count: int) -> PRNGKeyArray | None:
    """Return the key of a batch's samples; None without samples, since keys wait for a compiler."""
    if not wanted.samples:
        return None
    key = jax.random.key(seed)
    key = key if number is None else jax.random.fold_in(key, number)
    return jax.random.fold_in(key, count)
