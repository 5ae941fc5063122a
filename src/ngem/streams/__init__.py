"""Rows that need not fit into memory: files, queries and batches, read in pieces and shuffled."""

from .hashing import hash_rows
from .reading import Prefetched
from .source import AbstractSource, Piece, StreamError
from .spool import Spool, Windows
from .statistics import Counts, Moments, Smallest, joined
from .stream import MEMORY, Stream, as_stream, open_source

__all__ = [
    "MEMORY",
    "AbstractSource",
    "Counts",
    "Moments",
    "Piece",
    "Prefetched",
    "Smallest",
    "Spool",
    "Stream",
    "StreamError",
    "Windows",
    "as_stream",
    "hash_rows",
    "joined",
    "open_source",
]
