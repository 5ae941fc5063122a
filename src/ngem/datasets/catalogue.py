"""The sets that come as files, by name: descriptions, downloads and checks."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from . import files
from .mnist import part_files
from .uci import SOURCES, split_files, table_file

# Called with the bytes that are present and the bytes in all.
Report = Callable[[int, int], None]

_CC_BY = "CC BY 4.0 (UCI)"
_LICENSES = {
    "kin8nm": "none stated (DELVE)",
    "housing": "none stated (StatLib)",
    "mnist": "CC BY-SA 3.0",
}


class DataSet(NamedTuple):
    """One set: its shape in words, its license as far as known, and its files."""

    name: str
    shape: str
    license: str
    files: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Total size of its files."""
        return sum(files.registry()[file].bytes for file in self.files)


class Check(NamedTuple):
    """The files of a set by state; those on disk with their paths."""

    good: list[Path]
    damaged: list[Path]
    missing: list[str]


def _uci(name: str) -> DataSet:
    source = SOURCES[name]
    shape = f"{source.rows} rows, {source.features} features, {source.standard} target"
    return DataSet(
        name,
        shape + ("s" if source.standard > 1 else ""),
        _LICENSES.get(name, _CC_BY),
        (table_file(name), *split_files(name)),
    )


def _mnist() -> DataSet:
    parts = (*part_files("train"), *part_files("test"))
    return DataSet("mnist", "60000 + 10000 images of 28 x 28", _LICENSES["mnist"], parts)


DATA_SETS = {data.name: data for data in [*(_uci(name) for name in SOURCES), _mnist()]}
DATA_NAMES = tuple(DATA_SETS)


def choose(names: Iterable[str]) -> list[DataSet]:
    """Return the sets with these names, all sets for "all"."""
    names = list(dict.fromkeys(names))
    if "all" in names:
        return list(DATA_SETS.values())
    unknown = [name for name in names if name not in DATA_SETS]
    if unknown:
        raise ValueError(
            f"names must be among {', '.join(DATA_NAMES)}, or all, got {', '.join(unknown)}; "
            "`ngem data list` describes them."
        )
    return [DATA_SETS[name] for name in names]


def fetch(names: Iterable[str], *, report: Report | None = None) -> None:
    """Download and check every file of some sets that is not present.

    Finished files stay: after an error, another call continues.

    Args:
        names: Names of sets, or "all".
        report: Called with the bytes that are present and the bytes in all.

    Raises:
        DataError: At the first file that is damaged or cannot be downloaded.
    """
    # Two sets may share files: the splits of energy.
    wanted = dict.fromkeys(file for data in choose(names) for file in data.files)
    sizes = {file: files.registry()[file].bytes for file in wanted}
    total, done = sum(sizes.values()), 0
    for file, size in sizes.items():
        if report is None:
            files.local_path(file)
            continue
        files.local_path(file, report=_shifted(report, done, total))
        done += size
        report(done, total)


def check(data: DataSet) -> Check:
    """Return which files of a set are good, damaged or missing, without downloading."""
    result = Check([], [], [])
    for file in data.files:
        path = files.find(file)
        if path is None:
            result.missing.append(file)
        else:
            (result.good if files.is_good(path, file) else result.damaged).append(path)
    return result


def _shifted(report: Report, done: int, total: int) -> files.Report:
    """Return a report for one file that adds the bytes of earlier files."""
    return lambda seen: report(done + seen, total)
