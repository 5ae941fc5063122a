"""The UCI regression sets with the splits that publications use."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .files import find, local_path


class Table(NamedTuple):
    """Features and targets, row by row, in the units of the source."""

    x: Float[np.ndarray, "batch column"]
    y: Float[np.ndarray, "batch dim"]
    name: str


class Split(NamedTuple):
    """Row numbers for training and test."""

    train: Int[np.ndarray, " train"]
    test: Int[np.ndarray, " test"]


class Source(NamedTuple):
    """The files and columns of a set: features first, then targets.

    Attributes:
        folder: Its directory below `uci/`.
        rows: Number of rows.
        features: Number of feature columns.
        targets: Names of the target columns.
        standard: Number of targets in the usual task, the first ones.
        splits: Number of published splits.
        file: Name of its table.
        train_files: Whether files list the training rows of a split, beside the test rows.
    """

    folder: str
    rows: int
    features: int
    targets: tuple[str, ...]
    standard: int = 1
    splits: int = 20
    file: str = "data.txt"
    train_files: bool = True


SOURCES = {
    "kin8nm": Source("kin8nm", 8192, 8, ("distance",)),
    "energy": Source("energy", 768, 8, ("heating", "cooling"), standard=2, file="ENB2012_data.csv"),
    "energy-heating": Source("energy", 768, 8, ("heating",)),
    "housing": Source("bostonHousing", 506, 13, ("value",)),
    "concrete": Source("concrete", 1030, 8, ("strength",)),
    "power-plant": Source("power-plant", 9568, 4, ("power",)),
    "wine-quality-red": Source("wine-quality-red", 1599, 11, ("quality",)),
    "yacht": Source("yacht", 308, 6, ("resistance",)),
    "naval": Source(
        "naval-propulsion-plant", 11934, 16, ("compressor", "turbine"), train_files=False
    ),
    "protein": Source(
        "protein-tertiary-structure", 45730, 9, ("rmsd",), splits=5, train_files=False
    ),
}


def load_uci(name: str, *, targets: Sequence[str] | None = None) -> Table:
    """Return a UCI regression set, in double precision and unscaled.

    Args:
        name: One of `SOURCES`.
        targets: Names of target columns, such as ["cooling"]; None for the usual task.

    Raises:
        DataError: If its file is damaged or cannot be downloaded.
    """
    source = _source(name)
    chosen = source.targets[: source.standard] if targets is None else targets
    columns = [source.features + _position(target, name) for target in chosen]
    delimiter = "," if source.file.endswith(".csv") else None
    values = np.loadtxt(local_path(table_file(name)), delimiter=delimiter, dtype=np.float64)
    return Table(values[:, : source.features], values[:, columns], name)


def is_here(name: str) -> bool:
    """Return whether a set can be loaded without downloading."""
    return find(table_file(name)) is not None


def uci_splits(name: str) -> list[Split]:
    """Return the published splits: 20 of them, 5 for protein, with nine tenths for training.

    They are those of Gal and Ghahramani (2016), which many later papers use.
    """
    source = _source(name)
    return [_split(source, index) for index in range(source.splits)]


def table_file(name: str) -> str:
    """Return the registry's name for a set's table."""
    source = _source(name)
    return f"uci/{source.folder}/{source.file}"


def split_files(name: str) -> list[str]:
    """Return the registry's names for a set's splits."""
    source = _source(name)
    parts = ("test", "train") if source.train_files else ("test",)
    return [_split_file(source, part, i) for i in range(source.splits) for part in parts]


def _split(source: Source, index: int) -> Split:
    test = _read_rows(source, "test", index)
    if source.train_files:
        return Split(_read_rows(source, "train", index), test)
    # The test rows imply the training rows, so there are no files for these long lists.
    return Split(np.setdiff1d(np.arange(source.rows), test), test)


def _read_rows(source: Source, part: str, index: int) -> np.ndarray:
    return np.loadtxt(local_path(_split_file(source, part, index)), dtype=np.int64, ndmin=1)


def _split_file(source: Source, part: str, index: int) -> str:
    return f"uci/{source.folder}/index_{part}_{index}.txt"


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise ValueError(f"name must be one of {', '.join(SOURCES)}, got {name!r}.")
    return SOURCES[name]


def _position(target: str, name: str) -> int:
    known = SOURCES[name].targets
    if target not in known:
        raise ValueError(f"targets of {name} must be among {', '.join(known)}, got {target!r}.")
    return known.index(target)
