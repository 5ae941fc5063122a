"""Hashes of rows: which of them are held out is the same on every machine and in every run."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from .source import Piece

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def hash_rows(piece: Piece, start: int, count: int, keys: Any = None) -> np.ndarray:
    """Return a 64-bit hash of each row.

    By default it is that of the file's name within the source and of the row's number in the file.
    With keys it is that of the row's key alone: equal keys have equal hashes in all files.

    Args:
        piece: Where the rows are.
        start: Number of the first row within the piece.
        count: Number of rows.
        keys: Values of the key columns, one sequence each, or None.
    """
    if keys is None:
        numbers = np.arange(piece.start + start, piece.start + start + count, dtype=np.uint64)
        return _mix(numbers + _hash_text(piece.name))
    total = np.zeros(count, np.uint64)
    for values in keys:
        total = _mix(total + _hash_values(values))
    return total


def _mix(numbers: np.ndarray) -> np.ndarray:
    """Return the finalizer of splitmix64, a bijection of 64-bit numbers that looks random."""
    with np.errstate(over="ignore"):
        numbers = numbers + _GOLDEN
        numbers = (numbers ^ (numbers >> np.uint64(30))) * _FIRST
        numbers = (numbers ^ (numbers >> np.uint64(27))) * _SECOND
        return numbers ^ (numbers >> np.uint64(31))


def _hash_text(text: str) -> np.uint64:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def _hash_values(values: Sequence[Any]) -> np.ndarray:
    """Return hashes of values by their text, each distinct one once; 1.0 is the same as 1."""
    listed = list(values)
    known = {value: _hash_text(_text(value)) for value in set(listed)}
    return np.array([known[value] for value in listed], np.uint64)


def _text(value: Any) -> str:
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)
