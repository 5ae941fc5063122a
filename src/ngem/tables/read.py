"""Rows of a file: all of them a batch at a time, or those that fit into memory."""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from ..estimator.schema import Schema
from .encode import Batch, read_types
from .formats import check_names, column_types, count_rows, frames
from .opening import TableError, TableFile


def read(
    table: TableFile,
    schema: Schema,
    *,
    rows: int | None = None,
    max_rows: int | None = None,
    seed: int = 0,
) -> tuple[Batch, int]:
    """Return the complete rows of a file, or of a random sample, and how many have no target.

    Args:
        table: The file.
        schema: What its columns hold.
        rows: How many rows it has, if known; otherwise `max_rows` needs a pass to count them.
        max_rows: Rows to take at most; the file itself may be larger than memory.
        seed: Seed of the sample.

    Raises:
        TableError: If a value is not what it should be, or no row is complete.
    """
    chosen = None
    if max_rows is not None:
        rows = count_rows(table) if rows is None else rows
        if max_rows < rows:
            chosen = np.random.default_rng(seed).choice(rows, max_rows, replace=False)
    parts, count, without_target = [], 0, 0
    for batch in batches(table, schema, with_targets=True, chosen=chosen):
        parts.append(_complete_rows(batch))
        count += len(batch.y)
        without_target += int(np.sum(~batch.has_target))
    if not parts:
        raise TableError(
            f"{table} must hold rows below its header, got none; is it the right file?"
        )
    joined = _joined(parts)
    if len(joined.y) == 0:
        _raise_no_rows(table, schema, count, without_target)
    return joined, without_target


def _complete_rows(batch: Batch) -> Batch:
    keep = batch.complete
    return Batch(
        batch.features.filter(pl.Series(keep)),
        batch.y[keep],
        batch.numbers[keep],
        batch.complete[keep],
        pl.DataFrame(),
    )


def _joined(parts: Sequence[Batch]) -> Batch:
    features, *arrays, _ = zip(*parts, strict=True)
    y, numbers, complete = map(np.concatenate, arrays)
    return Batch(pl.concat(features), y, numbers, complete, pl.DataFrame())


def _raise_no_rows(table: TableFile, schema: Schema, count: int, without_target: int) -> None:
    advice = "fill in the targets"
    if without_target < count:
        advice = (
            "leave --missing out to use rows with gaps, or leave out columns that are mostly empty "
            "with --exclude"
        )
    raise TableError(
        f"{table} must hold rows without gaps, got none: all {count} were left out, "
        f"{without_target} of them without a target; {advice}."
    )


def batches(
    table: TableFile,
    schema: Schema,
    *,
    with_targets: bool,
    keep: Sequence[str] = (),
    chosen: np.ndarray | None = None,
    size: int | None = None,
) -> Iterator[Batch]:
    """Yield the rows of a file in order and a batch at a time, with the types of their columns.

    Args:
        table: The file.
        schema: What its columns should hold.
        with_targets: Read targets too.
        keep: Columns to copy to the output.
        chosen: Indices of the rows to read; None means all.
        size: Rows in a batch; None means `formats.BATCH`.
    """
    names = [*schema.names, *(schema.targets if with_targets else ())]
    names = list(dict.fromkeys((*names, *keep)))
    check_names(table, names, column_types(table))
    end, chosen = 0, None if chosen is None else np.sort(chosen)
    for frame in frames(table, names, size):
        start, end = end, end + len(frame)
        if chosen is not None:
            low, high = np.searchsorted(chosen, [start, end])
            frame = frame[chosen[low:high] - start]
        if len(frame):
            yield read_types(table, frame, schema, with_targets=with_targets, keep=keep)
