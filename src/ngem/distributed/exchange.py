"""What processes tell each other outside compiled programs: bytes, errors, and rows of a stream."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._errors import DataError

_AXIS = "process"


class PeerError(DataError):
    """An error of one of several processes that ends all of them."""


class LostError(PeerError):
    """A connection to another process that broke."""


def process_place(mesh: Mesh | None) -> tuple[int, int]:
    """Return the number of this process and how many there are."""
    if mesh is None or not mesh.is_multi_process:
        return 0, 1
    return jax.process_index(), jax.process_count()


def device_range(mesh: Mesh | None) -> tuple[int, int, int]:
    """Return the number of devices, the first one of this process, and the one after its last."""
    if mesh is None:
        return 1, 0, 1
    own = [
        place
        for place, device in enumerate(mesh.devices.flat)
        if device.process_index == jax.process_index()
    ]
    return mesh.size, own[0], own[-1] + 1


def gathered(mesh: Mesh | None, read: Callable[[], bytes]) -> list[bytes]:
    """Return what a function returns in each process; an error in one of them ends all.

    Raises:
        PeerError: If another process has failed; the message is that of its error.
    """
    if process_place(mesh)[1] == 1:
        return [read()]
    failed = None
    try:
        given = read()
    except Exception as error:
        given, failed = str(error).encode(), error
    told = np.array([len(given), failed is not None], np.int32)
    lengths, failures = np.asarray(multihost_utils.process_allgather(told)).T
    texts = _all_bytes(given, lengths)
    if failed is not None:
        raise failed
    if failures.any():
        first = int(np.flatnonzero(failures)[0])
        raise PeerError(f"process {first}: {texts[first].decode()}")
    return texts


def _all_bytes(given: bytes, lengths: np.ndarray) -> list[bytes]:
    """Return the bytes of each process, whose numbers are known."""
    if not lengths.any():
        return [b""] * len(lengths)
    own = np.zeros(int(lengths.max()), np.uint8)
    own[: len(given)] = np.frombuffer(given, np.uint8)
    every = np.asarray(multihost_utils.process_allgather(own))
    return [row[:length].tobytes() for row, length in zip(every, lengths, strict=True)]


def exchanged(mesh: Mesh, parts: Sequence[np.ndarray], most: int) -> np.ndarray:
    """Send rows to each process; return those that each has sent to this one, filled up.

    Args:
        mesh: The devices.
        parts: Rows for each process.
        most: Rows to each process at most, the same number in all processes.

    Returns:
        An array of processes, rows and their numbers.
    """
    given = np.zeros((len(parts), most, parts[0].shape[1]), np.float32)
    for place, part in zip(given, parts, strict=True):
        place[: len(part)] = part
    sharding, program = _exchange(mesh)
    result = program(jax.make_array_from_process_local_data(sharding, given))
    return np.asarray(result.addressable_data(0))


@lru_cache
def _exchange(mesh: Mesh) -> tuple[NamedSharding, Any]:
    """Return where rows for each process are before they are sent, and the program that does it."""
    firsts = {device.process_index: device for device in reversed(list(mesh.devices.flat))}
    devices = np.array([firsts[number] for number in sorted(firsts)])
    spec, processes = PartitionSpec(_AXIS), Mesh(devices, (_AXIS,))
    program = jax.shard_map(
        lambda rows: jax.lax.all_to_all(rows, _AXIS, 0, 0),
        mesh=processes,
        in_specs=spec,
        out_specs=spec,
    )
    return NamedSharding(processes, spec), jax.jit(program)
