"""A stream of rows as the user names it: where rows come from, and which columns are what."""

import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from .hashing import hash_rows
from .reading import Block, Run, in_order, make_runs
from .source import (
    AbstractSource,
    ParquetSource,
    StreamError,
    from_batches,
    from_lazy,
    from_scan,
    target_name,
)

#: Memory that a fit may take by default, beyond what importing takes.
MEMORY = 2**30

#: The part of the memory that a window takes. There are up to three of them: one is read, one is
#: used, and JAX may copy that. The rest is for XLA's compiler, open files and a sample.
_WINDOW_PART = 1 / 8


class Stream:
    """Rows to learn from that need not fit into memory.

    Args:
        source: A Parquet file, a directory or a glob of them ("sales/*/*.parquet"; directories
            such as year=2024 are columns), several in a list, a `pyarrow.dataset.Dataset`, a polars
            `LazyFrame`, or batches (x, y): a function that returns them anew for each pass, or
            something that can be iterated over again and again.
        target: Name of the column to predict, or names of several. None for batches (x, y).
        features: Columns to predict from; None for all others.
        exclude: Columns that are not features.
        categorical: Columns of numbers to treat as categories.
        key: Columns whose values decide which rows are held out: rows with equal keys stay
            together. None holds out rows by file and number.
        memory: Bytes that a fit may take, beyond what importing takes.
        window: Bytes of the rows that are shuffled together; None is an eighth of `memory`. If all
            rows fit into it, they are read into memory.
    """

    def __init__(
        self,
        source: Any,
        target: str | Sequence[str] | None = None,
        *,
        features: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        categorical: Sequence[str] = (),
        key: str | Sequence[str] | None = None,
        memory: int = MEMORY,
        window: int | None = None,
    ):
        if importlib.util.find_spec("pyarrow") is None:
            raise StreamError(
                "a stream must have pyarrow to read it, got none; install ngem[tables]"
            )
        if not isinstance(memory, int) or memory < 2**24:
            raise ValueError(
                f"memory must be a number of bytes of at least {2**24}, got {memory!r}; the "
                f"default is {MEMORY}."
            )
        self.memory = memory
        self.window_bytes = int(memory * _WINDOW_PART) if window is None else int(window)
        self.source = open_source(source)
        self.target_ndim = 2 if target is not None and not isinstance(target, str) else 1
        if target is None:
            target = [name for name in self.source.names if name.startswith("(target ")]
            self.target_ndim = 1 if target == [target_name(0)] else 2
        self.targets = [target] if isinstance(target, str) else list(target)
        self.keys = None if key is None else [key] if isinstance(key, str) else list(key)
        out = {*self.targets, *exclude, *(() if features else self.keys or ())}
        self.features = list(features) if features else _others(self.source.names, out)
        self.categorical = list(categorical)
        for what, names in (
            ("target", self.targets),
            ("features", self.features),
            ("key", self.keys or []),
            ("categorical", self.categorical),
        ):
            self._check_names(what, names)
        self.kinds = self.source.kinds([*self.features, *self.targets])
        self._check_kinds()

    def _check_names(self, what: str, names: Sequence[str]) -> None:
        missing = [name for name in names if name not in self.source.names]
        if missing or (what in ("target", "features") and not names):
            raise StreamError(
                f"{what} must name columns of the stream, got {', '.join(missing) or 'none'}; its "
                f"columns are {', '.join(self.source.names[:20])}."
            )

    def _check_kinds(self) -> None:
        for name in self.features:
            if not self.kinds[name]:
                raise StreamError(
                    f"column {name!r} must hold numbers, texts, dates, true or false, got a type "
                    "that is none of these; convert it, or leave the column out."
                )
        for name in self.targets:
            if self.kinds[name] not in ("number", "boolean"):
                got = f"{self.kinds[name]}s" if self.kinds[name] else "another type"
                raise StreamError(
                    f"target {name!r} must hold numbers, got {got}; convert it first."
                )

    @property
    def columns(self) -> list[str]:
        """Names of all columns to read."""
        return list(dict.fromkeys([*self.features, *self.targets, *(self.keys or [])]))

    @property
    def runs(self) -> list[Run]:
        """All rows, in parts that can be read by different processes."""
        return make_runs(self.source.pieces)

    def in_order(self, run: Run) -> Iterator[Block]:
        """Yield the rows of a run in the order of the files."""
        return in_order(self.source, self.columns, run)

    def hashes(self, block: Block) -> np.ndarray:
        """Return the hash of each row of a block."""
        count, keys = block.table.num_rows, None
        if self.keys is not None:
            keys = [block.table[name].to_pylist() for name in self.keys]
        return hash_rows(block.piece, block.start, count, keys)


def as_stream(X: Any, y: Any) -> Stream | None:
    """Return what a user passes to `fit` as a stream; None if it is a table in memory.

    Args:
        X: A `Stream`, or anything that `Stream` takes.
        y: Names of the target columns; None for batches (x, y).
    """
    if isinstance(X, Stream):
        return X
    if isinstance(X, str | os.PathLike) or _is_dataset(X) or _is_lazy(X):
        return Stream(X, _read_target(y))
    is_listed = isinstance(X, list | tuple) and len(X) > 0
    if is_listed and all(isinstance(part, str | os.PathLike) for part in X):
        return Stream(X, _read_target(y))
    is_pairs = is_listed and all(isinstance(part, tuple) and len(part) == 2 for part in X)
    return Stream(X) if y is None and (is_pairs or callable(X) or _yields(X)) else None


def _yields(value: Any) -> bool:
    """Return whether something yields batches, and is no table itself."""
    is_table = any(hasattr(value, name) for name in ("shape", "columns", "__array__"))
    return (
        hasattr(value, "__iter__") and not is_table and not isinstance(value, list | tuple | dict)
    )


def _read_target(y: Any) -> Any:
    names = [y] if isinstance(y, str) else y
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"y must name the target columns of a stream, got {type(y).__name__}; for example "
            "y='price', or y=['a', 'b']."
        )
    return y


def _is_dataset(value: Any) -> bool:
    return type(value).__module__.startswith("pyarrow.") and hasattr(value, "get_fragments")


def _is_lazy(value: Any) -> bool:
    return type(value).__module__.startswith("polars.") and hasattr(value, "collect_batches")


def open_source(source: Any) -> AbstractSource:
    """Return the source of anything that `Stream` takes."""
    if isinstance(source, AbstractSource):
        return source
    if _is_lazy(source):
        return from_lazy(source)
    if _is_dataset(source):
        return _from_dataset(source)
    if isinstance(source, str | os.PathLike):
        return _from_files([os.fspath(source)])
    if isinstance(source, list | tuple) and all(isinstance(p, str | os.PathLike) for p in source):
        return _from_files([os.fspath(path) for path in source])
    return from_batches(_restartable(source))


def _restartable(source: Any) -> Callable[[], Iterable[Any]]:
    if callable(source):
        return lambda: cast(Iterable[Any], source())
    if not hasattr(source, "__iter__") or iter(source) is source:
        raise StreamError(
            "a stream must be readable again for each pass, got an iterator that ends after one; "
            "pass the function that makes it: Stream(lambda: batches())."
        )
    return lambda: source


def _from_files(paths: Sequence[str]) -> AbstractSource:
    """Return the source of files, directories and patterns."""
    from pyarrow import dataset as arrow

    found: list[str] = []
    for path in paths:
        found += _expand(path)
    try:
        made = arrow.dataset(
            found[0] if len(found) == 1 else found,
            format="parquet",
            partitioning=arrow.partitioning(flavor="hive"),
            partition_base_dir=_base(paths[0]) if len(found) > 1 else None,
        )
    except (OSError, ValueError) as error:
        raise StreamError(
            f"{', '.join(paths)} must be Parquet files, got {str(error).splitlines()[0]}; other "
            "files fit into memory, or convert them first."
        ) from error
    return ParquetSource(made)


def _expand(path: str) -> list[str]:
    if any(mark in path for mark in "*?["):
        base = _base(path)
        matches = sorted(Path(base).glob(os.path.relpath(path, base)))
        files = [sorted(one.rglob("*.parquet")) if one.is_dir() else [one] for one in matches]
        found = [str(file) for some in files for file in some]
    else:
        found = [path] if os.path.exists(path) else []
    if not found:
        raise StreamError(f"{path!r} must be a file, a directory or a pattern, got nothing there.")
    return found


def _base(path: str) -> str:
    """Return the directory before the first part of a path that is a pattern."""
    parts = Path(path).parts
    patterns = [index for index, part in enumerate(parts) if any(mark in part for mark in "*?[")]
    return str(Path(*parts[: patterns[0]])) if patterns else str(Path(path).parent)


def _from_dataset(dataset: Any) -> AbstractSource:
    from pyarrow import dataset as arrow

    is_files = isinstance(dataset, arrow.FileSystemDataset)
    is_plain = is_files and isinstance(dataset.format, arrow.ParquetFileFormat)
    is_whole = not getattr(dataset, "_scan_options", None)
    return ParquetSource(dataset) if is_plain and is_whole else from_scan(dataset)


def _others(names: Sequence[str], out: set[str]) -> list[str]:
    return [name for name in names if name not in out]
