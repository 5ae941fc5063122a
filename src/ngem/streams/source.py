"""Where the rows of a stream come from: pieces that can be read in any order, or one after another.

All sources give Arrow tables. What they name in errors is the file and the row group.
"""

import abc
import contextlib
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

#: Rows that are read at a time.
BLOCK = 8192


class StreamError(ValueError):
    """A stream that cannot be read, or whose rows are not what they should be."""


class Piece(NamedTuple):
    """Some rows of a source that can be read by themselves: a row group of a file.

    Attributes:
        file: The file, as messages name it; empty for a source without files.
        name: Name of the file within the source: the same wherever the files are.
        group: Number of the row group in the file, from 0.
        start: Number of the first row in the file, from 0.
        rows: Number of rows; None if only reading tells.
        partition: Columns whose value the directory tells.
    """

    file: str = ""
    name: str = ""
    group: int = 0
    start: int = 0
    rows: int | None = None
    partition: Mapping[str, Any] = {}

    def __str__(self) -> str:
        return f"row group {self.group} of {self.file}" if self.file else "the stream"


class AbstractSource(abc.ABC):
    """Pieces of rows.

    Attributes:
        pieces: All pieces, in the order of files and row groups.
        names: Names of the columns.
        is_array: Whether rows came as arrays, whose columns have no names of their own.
    """

    pieces: Sequence[Piece]
    names: Sequence[str]
    is_array: bool = False

    @abc.abstractmethod
    def read(self, piece: Piece, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the rows of a piece as Arrow tables of at most `BLOCK` rows, in order."""

    @abc.abstractmethod
    def kinds(self, columns: Sequence[str]) -> dict[str, str]:
        """Return what columns hold: "number", "boolean", "date" or "text"."""


class ParquetSource(AbstractSource):
    """Row groups of Parquet files.

    Args:
        dataset: A `pyarrow.dataset.Dataset` of Parquet files; directories may name partitions.
    """

    def __init__(self, dataset: Any):
        from pyarrow import dataset as arrow

        self._filesystem = dataset.filesystem
        fragments = sorted(dataset.get_fragments(), key=lambda fragment: fragment.path)
        names = _relative([fragment.path for fragment in fragments])
        self._metadata: dict[str, Any] = {}
        self._kinds: dict[str, str] = {}
        self._differing: dict[str, str] = {}
        pieces: list[Piece] = []
        for fragment, name in zip(fragments, names, strict=True):
            partition = arrow.get_partition_keys(fragment.partition_expression)
            pieces += self._groups(fragment.path, name, partition)
        self.pieces = [piece for piece in pieces if piece.rows]
        self.names = list(self._kinds)
        if not self.pieces:
            raise StreamError(
                f"the stream must hold rows, got {len(fragments)} files without any; check the "
                "path."
            )

    def _groups(self, path: str, name: str, partition: Mapping[str, Any]) -> Iterator[Piece]:
        with self._opened(path, path) as file:
            metadata, schema = file.metadata, file.schema_arrow
            kinds = {field.name: kind_of_type(field.type) for field in schema}
        kinds |= {key: "number" if _is_number(one) else "text" for key, one in partition.items()}
        self._metadata[path] = metadata
        if metadata.num_rows:
            self._agree(path, kinds)
        start = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            yield Piece(path, name, number, start, group.num_rows, partition)
            start += group.num_rows

    def _agree(self, path: str, kinds: Mapping[str, str]) -> None:
        """Refuse a file whose columns are not those of the first file."""
        if not self._kinds:
            self._kinds, self._first = dict(kinds), path
        for name in {**self._kinds, **kinds}:
            expected, got = self._kinds.get(name), kinds.get(name)
            if expected != got:
                # Which columns are used is not known yet; `kinds` refuses those that differ.
                there = f"{_a(expected)} in {self._first}, got {_a(got)} in {path}"
                self._kinds.setdefault(name, got or "")
                self._differing.setdefault(name, there)

    def kinds(self, columns: Sequence[str]) -> dict[str, str]:
        for name in columns:
            if name in self._differing:
                raise StreamError(
                    f"column {name!r} must hold the same in all files: {self._differing[name]}; "
                    "convert one of the files, or leave the column out."
                )
        return {name: self._kinds[name] for name in columns}

    def read(self, piece: Piece, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        physical = [name for name in columns if name not in piece.partition]
        count = 0
        with self._opened(piece.file, str(piece)) as file:
            self._check_same(file, piece)
            for batch in file.iter_batches(
                BLOCK, row_groups=[piece.group], columns=physical, use_threads=False
            ):
                count += batch.num_rows
                table = pa.Table.from_batches([batch])
                for name, value in piece.partition.items():
                    table = table.append_column(name, pa.array([value] * batch.num_rows))
                yield table.select(list(columns))
        if count != piece.rows:
            raise StreamError(
                f"{piece} must have {piece.rows} rows, got {count}; the file is damaged or was "
                "changed: restore it."
            )

    def _check_same(self, file: Any, piece: Piece) -> None:
        """Refuse a file that was replaced after the first look at it."""
        if file.metadata.serialized_size != self._metadata[piece.file].serialized_size:
            raise StreamError(
                f"{piece.file} must stay as it is while a model is fitted, got another file of "
                "this name; start again."
            )

    @contextlib.contextmanager
    def _opened(self, path: str, what: str) -> Iterator[Any]:
        """Open a file; what goes wrong is an error that names the file and the row group."""
        import pyarrow
        from pyarrow import parquet

        try:
            with self._filesystem.open_input_file(path) as handle:
                # A small buffer: without one, whole columns of a row group are in memory.
                yield parquet.ParquetFile(
                    handle, buffer_size=2**16, pre_buffer=False, page_checksum_verification=True
                )
        except FileNotFoundError as error:
            raise StreamError(
                f"{path} must be there until the fit ends, got no such file; put it back and start "
                "again: a fit with a checkpoint goes on where it was."
            ) from error
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
            raise StreamError(
                f"{what} must be readable, got {type(error).__name__}: {_first_line(error)}; "
                "restore the file from a copy, or leave it out."
            ) from error


class SequentialSource(AbstractSource):
    """Batches that come in one order only: a query, or what the user yields.

    Args:
        start: Returns the batches from the first on, as Arrow tables; called once per pass.
        is_array: Whether they were arrays.
    """

    def __init__(self, start: Callable[[], Iterable[Any]], *, is_array: bool = False):
        self._start, self.is_array = start, is_array
        self.pieces = [Piece()]
        first = next(iter(start()), None)
        if first is None:
            raise StreamError(
                "the stream must yield batches in every pass, got none; pass a function that "
                "returns a new iterator each time it is called."
            )
        self._kinds = {field.name: kind_of_type(field.type) for field in first.schema}
        self.names = list(self._kinds)

    def kinds(self, columns: Sequence[str]) -> dict[str, str]:
        return {name: self._kinds[name] for name in columns}

    def read(self, piece: Piece, columns: Sequence[str]) -> Iterator[Any]:
        for number, table in enumerate(self._start()):
            kinds = {field.name: kind_of_type(field.type) for field in table.schema}
            for name in columns:
                if kinds.get(name) != self._kinds[name]:
                    raise StreamError(
                        f"column {name!r} must hold the same in all batches: "
                        f"{_a(self._kinds[name])} in the first, got {_a(kinds.get(name))} in batch "
                        f"{number} (from 0); convert it."
                    )
            table = table.select(list(columns))
            for offset in range(0, table.num_rows, BLOCK):
                yield table.slice(offset, BLOCK)


def from_batches(batches: Callable[[], Iterable[Any]]) -> SequentialSource:
    """Return the source of a user's batches (x, y): arrays, or data frames with names."""
    first = next(iter(batches()), None)
    if not isinstance(first, tuple | list) or len(first) != 2:
        raise StreamError(
            "a stream must yield batches (x, y), got "
            f"{'none' if first is None else type(first).__name__}; yield tuples of two."
        )
    is_array = not (hasattr(first[0], "columns") or hasattr(first[0], "column_names"))
    return SequentialSource(lambda: map(_to_arrow, batches()), is_array=is_array)


def _to_arrow(batch: Any) -> Any:
    """Return a batch (x, y) as one table; targets are named after features."""
    import pyarrow as pa

    x, y = batch
    if hasattr(x, "columns") or hasattr(x, "column_names"):
        table = _frame_to_arrow(x)
    else:
        x = np.asarray(x, np.float64)
        table = pa.table({f"x{index}": column for index, column in enumerate(x.T)})
    y = np.asarray(y, np.float64)
    for index, column in enumerate(y.reshape(len(y), -1).T):
        table = table.append_column(target_name(index), pa.array(column))
    return table


def target_name(index: int) -> str:
    """Return the name of a target column that came without one."""
    return f"(target {index})"


def _frame_to_arrow(frame: Any) -> Any:
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if hasattr(frame, "to_arrow"):  # polars
        return frame.to_arrow()
    return pa.Table.from_pandas(frame, preserve_index=False)


def from_lazy(frame: Any) -> SequentialSource:
    """Return the source of a polars query, which runs once per pass."""
    return SequentialSource(
        lambda: (part.to_arrow() for part in frame.collect_batches(chunk_size=BLOCK))
    )


def from_scan(dataset: Any) -> SequentialSource:
    """Return the source of a data set of Arrow's that is not of plain Parquet files."""
    import pyarrow as pa

    def start() -> Iterator[Any]:
        for batch in dataset.to_batches(batch_size=BLOCK, batch_readahead=2, fragment_readahead=1):
            yield pa.Table.from_batches([batch])

    return SequentialSource(start)


def kind_of_type(dtype: Any) -> str:
    """Return what a column of an Arrow type holds; empty for types that are no features."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(dtype):
        return kind_of_type(dtype.value_type)
    if types.is_boolean(dtype):
        return "boolean"
    if types.is_timestamp(dtype) or types.is_date(dtype):
        return "date"
    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_duration)
    if any(test(dtype) for test in tests):
        return "number"
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    return "text" if any(test(dtype) for test in texts) else ""


def _relative(paths: Sequence[str]) -> list[str]:
    """Return paths without the directory that all share; one file has no name."""
    if len(paths) < 2:
        return [""] * len(paths)
    common = posixpath.commonpath([posixpath.dirname(path) for path in paths])
    return [posixpath.relpath(path, common or ".") for path in paths]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _a(kind: str | None) -> str:
    return "nothing" if kind is None else f"{kind or 'other thing'}s"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
