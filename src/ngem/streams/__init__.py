"""Rows that need not fit into memory: files, queries and batches, read in pieces and shuffled."""

from .division import Division, Portion, Split, Windows, in_portions, split_among
from .hashing import hash_rows
from .reading import Prefetched, Run
from .source import AbstractSource, Piece, StreamError
from .spool import Spool
from .statistics import Counts, Hashed, Moments, Smallest, Summary, joined
from .stream import MEMORY, Stream, as_stream, open_source

__all__ = [
    "MEMORY",
    "AbstractSource",
    "Counts",
    "Division",
    "Hashed",
    "Moments",
    "Piece",
    "Portion",
    "Prefetched",
    "Run",
    "Smallest",
    "Split",
    "Spool",
    "Stream",
    "StreamError",
    "Summary",
    "Windows",
    "as_stream",
    "hash_rows",
    "in_portions",
    "joined",
    "open_source",
    "split_among",
]
