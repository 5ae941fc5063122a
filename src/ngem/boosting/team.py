"""Processes that grow the trees of a member together, each from its part of the rows.

LightGBM adds up the histograms of all processes over sockets of its own, so all of them grow the
same trees. What else depends on all rows are a few sums a round, which JAX's connection carries.
"""

import contextlib
import json
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float, Int

from ..distributed.exchange import LostError, PeerError, gathered, process_place

#: Minutes for which LightGBM waits for another process to answer.
_PATIENCE = 10

#: Words of LightGBM's errors: a connection broke, or another program listens at the port.
_BROKEN, _IN_USE = ("Socket", "Connecting"), "Binding port"


class Team(NamedTuple):
    """The processes of a mesh.

    Attributes:
        mesh: The devices of all processes, or None.
    """

    mesh: Mesh | None = None

    @property
    def n_processes(self) -> int:
        """How many processes there are."""
        return process_place(self.mesh)[1]

    def own(self, rows: Int[np.ndarray, " row"]) -> Int[np.ndarray, " part"]:
        """Return the rows of this process: every n-th one.

        Raises:
            ValueError: If there are fewer rows than processes.
        """
        number, count = process_place(self.mesh)
        if 0 < len(rows) < count:
            raise ValueError(
                f"trees must have at least one row for each process, got {len(rows)} rows and "
                f"{count} processes; use fewer processes."
            )
        return rows[number::count]

    def added(self, sums: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Return sums over all rows from those over the rows of each process."""
        sums = np.asarray(sums, np.float64)
        if self.n_processes == 1:
            return sums
        parts = gathered(self.mesh, sums.tobytes)
        every = np.stack([np.frombuffer(part, np.float64) for part in parts])
        return every.sum(axis=0).reshape(sums.shape)

    def joined(self, values: Float[np.ndarray, " part"]) -> Float[np.ndarray, " row"]:
        """Return a value of each row from those of the rows of each process."""
        parts = gathered(self.mesh, np.asarray(values, np.float64).tobytes)
        every = np.empty(sum(map(len, parts)) // 8)
        for number, part in enumerate(parts):
            every[number :: len(parts)] = np.frombuffer(part, np.float64)
        return every

    @contextlib.contextmanager
    def connecting(self) -> Iterator[dict[str, Any]]:
        """Yield LightGBM's parameters with which processes find each other when a booster starts.

        The port is free until then.
        """
        number, count = process_place(self.mesh)
        if count == 1:
            yield {}
            return
        names = [name.decode() for name in gathered(self.mesh, socket.gethostname().encode)]
        places = gathered(self.mesh, partial(_place, names))
        machines = [":".join(map(str, json.loads(place))) for place in places]
        with self.talking():
            yield {
                "tree_learner": "data",
                "machines": ",".join(machines),
                "num_machines": count,
                "local_listen_port": int(machines[number].split(":")[1]),
                "time_out": _PATIENCE,
            }

    @contextlib.contextmanager
    def talking(self) -> Iterator[None]:
        """Turn errors of LightGBM's connection into one that says what to do."""
        try:
            yield
        except Exception as error:
            number, count = process_place(self.mesh)
            text = (
                f"all {count} processes must be connected while trees grow, process {number} got: "
                f"{error}. Start again: ports are chosen anew."
            )
            if count > 1 and any(words in str(error) for words in _BROKEN):
                raise LostError(text) from error
            if count > 1 and _IN_USE in str(error):
                raise PeerError(text) from error
            raise


#: This process by itself.
ALONE = Team()


def _place(names: list[str]) -> bytes:
    """Return address and port of this process, as JSON.

    Args:
        names: Names of the hosts of all processes.
    """
    own = socket.gethostname()
    others = [name for name in names if name != own]
    address = _address_toward(others[0]) if others else "127.0.0.1"
    return json.dumps([address, _free_port(address)]).encode()


def _address_toward(host: str) -> str:
    """Return the address of this host that another one sees."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # sends nothing
        return probe.getsockname()[0]


def _free_port(address: str) -> int:
    """Return a port that nobody listens to."""
    with socket.socket() as place:
        place.bind((address, 0))
        return place.getsockname()[1]
