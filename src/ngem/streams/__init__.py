"""Rows that need not fit into memory: files, queries and batches, read in pieces and shuffled."""

from .hashing import hash_rows
from .source import AbstractSource, Piece, StreamError
from .statistics import Counts, Moments, Smallest, joined
from .stream import MEMORY, Stream, as_stream, open_source
from .windows import Prefetched, blocks

__all__ = [
    "MEMORY",
    "AbstractSource",
    "Counts",
    "Moments",
    "Piece",
    "Prefetched",
    "Smallest",
    "Stream",
    "StreamError",
    "as_stream",
    "blocks",
    "hash_rows",
    "joined",
    "open_source",
]
