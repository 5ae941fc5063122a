"""Rows of a file, encoded: all of them a batch at a time, or those that fit into memory."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from ..estimator.schema import Schema
from .encode import Rows, encode, use_gaps
from .formats import TableError, check_names, column_types, count_rows, frames


def read(
    path: Path,
    schema: Schema,
    *,
    rows: int | None = None,
    max_rows: int | None = None,
    seed: int = 0,
) -> Rows:
    """Return the complete rows of a file, or a random sample of them.

    Args:
        path: The file.
        schema: What its columns hold.
        rows: How many rows it has, if known; otherwise `max_rows` needs a pass to count them.
        max_rows: Rows to take at most; the file itself may be larger than memory.
        seed: Seed of the sample.

    Raises:
        TableError: If a value is not what it should be, or no row is complete.
    """
    chosen = None
    if max_rows is not None:
        rows = count_rows(path) if rows is None else rows
        if max_rows < rows:
            chosen = np.random.default_rng(seed).choice(rows, max_rows, replace=False)
    parts, count = [], 0
    for batch in batches(path, schema, with_targets=True, chosen=chosen):
        parts.append([part[batch.complete] for part in (batch.x, batch.y, batch.numbers)])
        count += len(batch.x)
    if not parts:
        raise TableError(f"{path} must hold rows below its header, got none; is it the right file?")
    x, y, numbers = (np.concatenate(part) for part in zip(*parts, strict=True))
    if len(x) == 0:
        advice = f"{use_gaps(schema)}, or leave out columns that are mostly empty with --exclude"
        if schema.takes_gaps:
            advice = "fill in the targets"
        raise TableError(
            f"{path} must hold rows without gaps, got none: all {count} were dropped; {advice}."
        )
    return Rows(x, y, numbers, np.ones(len(x), bool), pl.DataFrame())


def batches(
    path: Path,
    schema: Schema,
    *,
    with_targets: bool,
    keep: Sequence[str] = (),
    chosen: np.ndarray | None = None,
    size: int | None = None,
) -> Iterator[Rows]:
    """Yield the rows of a file, encoded, in order and a batch at a time.

    Args:
        path: The file.
        schema: What its columns should hold.
        with_targets: Read targets too.
        keep: Columns to copy to the output.
        chosen: Indices of the rows to read; None means all.
        size: Rows in a batch; None means `formats.BATCH`.
    """
    names = [column.name for column in schema.features]
    names += schema.targets if with_targets else ()
    names = list(dict.fromkeys((*names, *keep)))
    check_names(path, names, column_types(path))
    end, chosen = 0, None if chosen is None else np.sort(chosen)
    for frame in frames(path, names, size):
        start, end = end, end + len(frame)
        if chosen is not None:
            low, high = np.searchsorted(chosen, [start, end])
            frame = frame[chosen[low:high] - start]
        if len(frame):
            yield encode(path, frame, schema, with_targets=with_targets, keep=keep)
