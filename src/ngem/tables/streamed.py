"""`ngem fit --stream`: rows that need not fit into memory."""

import re
from typing import Any

import numpy as np
import polars as pl

from .._errors import check_choice
from ..estimator.preprocessing import rounding_step
from ..estimator.regressor import MDNRegressor
from ..estimator.schema import Schema
from ..families import propose_family
from ..streams import Stream, open_source
from .encode import Rows
from .formats import split_names
from .kinds import Estimator
from .notes import rare_notes, target_notes
from .opening import TableError
from .source import Source

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def read_memory(text: str) -> int:
    """Return the bytes of "500MB" or "1GB"."""
    found = re.fullmatch(r"([0-9.]+) *([KMG]?I?B|)", text.strip().upper())
    if found is None or found[2] not in _UNITS:
        raise TableError(f"--memory must be a size such as 500MB or 2GB, got {text!r}.")
    return int(float(found[1]) * _UNITS[found[2]])


def open_stream(source: Source) -> Stream:
    """Return the stream that options name."""
    check_choice("--model of --stream", source.model, ("network",))
    check_choice("--missing of --stream", source.rule, ("impute", "error"))
    if source.max_rows is not None:
        raise TableError("--max-rows must not come with --stream, which reads all rows, got both.")
    rows = open_source(str(source.path))
    features = split_names(source.features, rows.names)
    return Stream(
        rows,
        split_names(source.target, rows.names),
        features=features or None,
        exclude=split_names(source.exclude, rows.names),
        categorical=split_names(source.categorical, rows.names),
        memory=source.memory or 0,
    )


def train_on(
    estimator: Estimator, source: Source, stream: Stream
) -> tuple[Schema, Rows, dict[str, Any]]:
    """Fit an estimator to a stream; return its columns, the rows that judge it, and facts.

    The rows are all rows if they fit into memory, else a uniform sample of them.
    """
    assert isinstance(estimator, MDNRegressor), "the options were checked"
    estimator.set_params(missing="impute" if source.rule == "impute" else "error")
    if len(stream.targets) == 1:
        stream.target_ndim = 1
    estimator.fit(stream)
    schema, table, info = estimator.table_, estimator.stream_rows_, estimator.stream_info_
    assert schema is not None, "files have names of columns"
    assert table is not None, "a stream keeps rows"
    assert info is not None, "a stream tells of itself"
    estimator.table_ = schema = schema._replace(command=source.command(estimator))
    numbers = np.arange(1, len(table.y) + 1)
    rows = Rows(table.x, table.y, numbers, np.ones(len(table.y), bool), pl.DataFrame())
    facts = {
        "rows": info["rows"],
        "used_rows": info["rows"],
        "dropped_rows": 0,
        "rows_without_target": 0,
        "features": {column.name: column.kind for column in schema.features},
        "inputs": len(schema.inputs),
        "targets": list(schema.targets),
        "steps": [rounding_step(column) for column in table.y.T],
        "proposals": [propose_family(column) for column in table.y.T],
        "target_notes": target_notes(schema, table.y),
        "file_notes": [] if info["in_memory"] else [_sampled(info, len(table.y))],
        "column_notes": rare_notes(schema, table.x),
        "gaps": {},
        "seed": source.seed,
        "kind": source.model,
        "stream": info,
    }
    return schema, rows, facts


def _sampled(info: dict[str, Any], rows: int) -> str:
    return (
        f"a stream in windows of {info['window_rows']:,} rows; row numbers below are those of a "
        f"sample of {rows:,} rows"
    )
