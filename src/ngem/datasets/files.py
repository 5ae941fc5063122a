"""Data files: their places, their downloads and the check that they are the published ones.

`registry.tsv` names every file with its length, its sha256 and a public address pinned to a commit.
A file with another sha256 is never used, wherever it comes from.
"""

import contextlib
import hashlib
import importlib.util
import logging
import os
import threading
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from .._errors import DataError

DATA_DIR = "NGEM_DATA_DIR"
RETRIES = 3
TIMEOUT = 30.0  # seconds without a byte

# Threads that need the same file download it once.
_ONE_AT_A_TIME = threading.Lock()

# Called with the bytes of the file that have arrived.
Report = Callable[[int], None]


class Entry(NamedTuple):
    """One line of the registry."""

    file: str
    bytes: int
    sha256: str
    url: str


@cache
def registry() -> dict[str, Entry]:
    """Return every known file by its name, such as `uci/yacht/data.txt`."""
    text = Path(__file__).with_name("registry.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    return {file: Entry(file, int(size), sha256, url) for file, size, sha256, url in rows}


def local_path(file: str, *, report: Report | None = None) -> Path:
    """Return the path of a checked file; download it if necessary.

    The directory NGEM_DATA_DIR comes first, then the cache of earlier downloads, then the network.

    Args:
        file: A name from the registry.
        report: Called during a download with the number of bytes so far.

    Raises:
        DataError: If the file is damaged or cannot be downloaded.
    """
    entry = _entry(file)
    own = data_directory()
    if own is not None and (own / file).is_file():
        return _checked(own / file, entry)
    return _download(entry, report)


def find(file: str) -> Path | None:
    """Return the path of a file on disk, good or damaged, None if there is none."""
    places = [data_directory(), _cache_directory() if _has_pooch() else None]
    for place in places:
        if place is not None and (place / file).is_file():
            return place / file
    return None


def is_good(path: Path, file: str) -> bool:
    """Return whether a file on disk has the published bytes."""
    return _sha256(path) == _entry(file).sha256


def data_directory() -> Path | None:
    """Return the directory that NGEM_DATA_DIR names, None if it is not set."""
    value = os.environ.get(DATA_DIR)
    if not value:
        return None
    # Without this check a typing error would silently start a download.
    if not Path(value).is_dir():
        raise DataError(
            f"{DATA_DIR} must name a directory with data files, got {value!r}, which is none; "
            "correct it, or unset it to download instead."
        )
    return Path(value)


def _entry(file: str) -> Entry:
    if file not in registry():
        raise ValueError(
            f"file must be one of the {len(registry())} in the registry, such as "
            f"'uci/yacht/data.txt', got {file!r}; `ngem data list` shows the data sets."
        )
    return registry()[file]


def _checked(path: Path, entry: Entry) -> Path:
    actual = _sha256(path)
    if actual == entry.sha256:
        return path
    raise DataError(
        f"{path} must have {entry.bytes} bytes with sha256 {entry.sha256}, got "
        f"{path.stat().st_size} bytes with {actual}: the file is damaged or another version; "
        f"replace it, or delete it to download it from {entry.url}."
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _has_pooch() -> bool:
    return importlib.util.find_spec("pooch") is not None


def _cache_directory() -> Path:
    import pooch

    return Path(pooch.os_cache("ngem"))


def _download(entry: Entry, report: Report | None) -> Path:
    """Return the path in the cache; pooch keeps no damaged or partial file there."""
    if not _has_pooch():
        raise DataError(
            f"{entry.file} must be downloaded, which needs the package pooch, got none; "
            f'pip install "ngem[data]", or set {DATA_DIR} to a directory that holds the file.'
        )
    import pooch
    import requests

    place = _cache_directory()
    store = pooch.create(
        path=place,
        base_url="",
        registry={entry.file: f"sha256:{entry.sha256}"},
        urls={entry.file: entry.url},
        retry_if_failed=RETRIES,
    )
    downloader: Any = partial(_stream, limit=entry.bytes, report=report)
    try:
        with _ONE_AT_A_TIME, _quiet(pooch.get_logger()):
            # Pooch fails if another process makes the directory at the same moment.
            (place / entry.file).parent.mkdir(parents=True, exist_ok=True)
            return Path(store.fetch(entry.file, downloader=downloader))
    # The order matters: errors of requests are OSErrors, and some are ValueErrors as well.
    except requests.RequestException as error:
        raise DataError(
            f"{entry.file} must come whole from {entry.url}, got {type(error).__name__} in each "
            f"of {RETRIES + 1} attempts ({error}); try again later, or fetch the data where there "
            f"is a network and set {DATA_DIR} to a directory that holds it."
        ) from error
    except ValueError as error:
        raise DataError(
            f"{entry.file} must have sha256 {entry.sha256}, got other contents from {entry.url} "
            f"in each of {RETRIES + 1} attempts, and kept none; something on the way may alter "
            f"downloads: try another network, or set {DATA_DIR} to a directory with a good copy."
        ) from error
    except OSError as error:
        raise DataError(
            f"{entry.file} needs {entry.bytes} bytes in {place}, got: {error}; make room or "
            f"give permission there, or set {DATA_DIR} to a directory that holds the file."
        ) from error


def _stream(url: str, path: str, _pooch: object, *, limit: int, report: Report | None) -> None:
    """Download an address to a file.

    Pooch's own downloader leaves the connection open after an error, and never stops reading from a
    server that never stops sending.
    """
    import requests

    count = 0
    with requests.get(url, stream=True, timeout=TIMEOUT) as response, open(path, "wb") as file:
        response.raise_for_status()
        for chunk in response.iter_content(1 << 16):
            count += len(chunk)
            if count > limit:
                raise ValueError(f"{url} must give {limit} bytes, got more.")
            file.write(chunk)
            if report is not None:
                report(count)


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Suppress pooch's line per file: our progress and errors replace it."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
