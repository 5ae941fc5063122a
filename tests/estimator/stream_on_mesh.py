"""One process of a fit to a stream, alone or with others: writes what it learned and read.

Arguments: the source, where to write, and settings in JSON; then, for several processes, the number
of this one, how many there are, and the address where they meet.
"""

import contextlib
import errno
import json
import sys

import equinox as eqx
import jax
import numpy as np

from ngem import MDNRegressor
from ngem.distributed import Place, data_parallel, initialize
from ngem.streams import Stream, spool
from ngem.streams.source import ParquetSource

source, out, given, *place = sys.argv[1:]
settings = json.loads(given)
stream, full = settings.pop("stream"), settings.pop("full", None)
if place:
    number, count, address = place
    initialize(Place(int(number), int(count), address))
seen, read = set(), ParquetSource.read


def watch(self, piece, columns):
    seen.add((piece.name, piece.group))
    return read(self, piece, columns)


def no_room(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


ParquetSource.read = watch
if place and int(place[0]) == full:
    spool.os.pwrite = no_room
with data_parallel() if place else contextlib.nullcontext():
    model = MDNRegressor(**settings).fit(Stream(source, "y", **stream))
leaves = filter(eqx.is_array, jax.tree.leaves(model.model_))
np.savez(
    out,
    *(np.asarray(leaf) for leaf in leaves),
    history=model.history_["validation_nll"],
    train=model.history_["train_nll"],
    read=json.dumps(sorted(seen)),
    steps=int(model.n_iter_),
)
