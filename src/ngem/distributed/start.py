"""Which of several processes this one is, and how they find each other."""

import atexit
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

#: Where schedulers write the number of a process and how many there are. Ours come first.
_VARIABLES = (
    ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)

#: Seconds without a sign of life after which a process counts as dead, and all others end.
HEARTBEAT = 10

#: Seconds for which a process that has finished waits for those that have not.
_WAIT = 86_400

_failed = threading.Event()


class Place(NamedTuple):
    """Which of several processes this one is.

    Attributes:
        number: Its number, from 0; process 0 alone prints and writes files.
        n_processes: How many there are.
        address: Host and port of process 0, or None where JAX finds it (SLURM, Open MPI).
    """

    number: int
    n_processes: int
    address: str | None = None

    @property
    def is_first(self) -> bool:
        """Whether this process prints and writes files."""
        return self.number == 0


def find_place(environment: Mapping[str, str] | None = None) -> Place:
    """Return which process this is, by the variables of `ngem fit --processes` or a scheduler.

    JAX_PROCESS_ID, JAX_NUM_PROCESSES and JAX_COORDINATOR_ADDRESS come first, then the variables of
    Open MPI and SLURM.
    """
    known = os.environ if environment is None else environment
    for number, count in _VARIABLES:
        if number in known and count in known:
            place = int(known[number]), int(known[count])
            if not 0 <= place[0] < place[1]:
                raise ValueError(
                    f"{number} must be from 0 to {count} - 1, got {place[0]} of {place[1]}; set "
                    "both for each process."
                )
            return Place(*place, known.get("JAX_COORDINATOR_ADDRESS"))
    names = "; or ".join(" and ".join(pair) for pair in _VARIABLES)
    raise ValueError(
        f"a scheduler must tell each process its number and how many there are, in {names}; got "
        "none of them. Start processes with srun or mpirun, set the first two, or let ngem start "
        "processes on this machine with --processes 2."
    )


def initialize(place: Place | None = None, *, heartbeat: int = HEARTBEAT) -> Place:
    """Connect this process with the others, before anything is computed.

    A process that dies, or ends with an error, ends all others after `heartbeat` seconds, with
    JAX's message that names it.

    Args:
        place: Which process this is; None is what `find_place` finds.
        heartbeat: Seconds without a sign of life after which a process counts as dead.
    """
    import jax
    from jax.experimental import multihost_utils

    place = find_place() if place is None else place
    if place.n_processes > 1:
        jax.distributed.initialize(
            place.address,
            place.n_processes,
            place.number,
            heartbeat_timeout_seconds=heartbeat,
            shutdown_timeout_seconds=_WAIT,
        )
        _end_at_errors()
        # Gloo connects the processes at their first message, and gives up if one of them is half a
        # minute late. Here all are at the same place; later one may still read its rows.
        multihost_utils.sync_global_devices("ngem")
    return place


def mark_failed() -> None:
    """End this process without waiting for the others, who may be waiting for it."""
    _failed.set()


def _end_at_errors() -> None:
    """See that a process with an error ends: by default it would first wait for all others."""
    previous = sys.excepthook

    def hook(*error: Any) -> None:
        previous(*error)
        mark_failed()

    sys.excepthook = hook
    atexit.register(_end_at_once)  # runs before JAX's own function, which was registered earlier


def _end_at_once() -> None:
    if _failed.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
