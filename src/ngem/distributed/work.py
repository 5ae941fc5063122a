"""Work that processes share through a directory: each piece is done once, also after a crash."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

#: Seconds between two looks at a piece that another process does.
_GLANCE = 0.2


class Work(NamedTuple):
    """Pieces of work in a directory.

    Attributes:
        directory: Where the results are.
        is_claimed: Whether one process does a piece while the others do something else. If not, all
            do all pieces together, as on a mesh, and the directory only keeps results.
        turn: The number of this process: each begins with another piece.
    """

    directory: Path
    is_claimed: bool = True
    turn: int = 0

    def path(self, name: str) -> Path:
        """Return the file of a piece's result."""
        return self.directory / f"{name}.ngem"

    @contextlib.contextmanager
    def claim(self, name: str, *, wait: bool) -> Iterator[bool]:
        """Keep other processes from a piece while the block runs; yield whether it is ours.

        The claim of a process that dies ends with it.

        Args:
            name: The piece.
            wait: Whether to wait while another process has it.
        """
        if not self.is_claimed:
            yield True
            return
        from filelock import FileLock, Timeout

        lock = FileLock(self.directory / f"{name}.lock", poll_interval=_GLANCE)
        try:
            lock.acquire(blocking=wait)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()


_active: ContextVar[Work | None] = ContextVar("ngem_work", default=None)


@contextlib.contextmanager
def shared_work(directory: str | Path, *, turn: int = 0, is_claimed: bool = True) -> Iterator[Work]:
    """Share the networks and trees of fits in this block with other processes.

    Start the same program in several processes, on one machine or on several that see the
    directory. Each trains members that no other has begun, and all end with the same estimator. A
    member that has finished is a file in the directory and is not trained again, also after a
    crash; one that has begun goes on from its checkpoint. No process waits for a gradient of
    another, so this scales better than `data_parallel` where there are several members.

    Args:
        directory: Where the processes meet, on a file system with locks; for one fit at a time. All
            processes need the same rows and an integer `random_state`.
        turn: The number of this process, so that each begins elsewhere.
        is_claimed: False keeps results without dividing the work.
    """
    work = Work(Path(directory), is_claimed, turn)
    work.directory.mkdir(parents=True, exist_ok=True)
    token = _active.set(work)
    try:
        yield work
    finally:
        _active.reset(token)


def active_work() -> Work | None:
    """Return the work of the enclosing `shared_work`, or None outside."""
    return _active.get()
