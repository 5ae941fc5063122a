"""Several processes of one command on this machine; the first that fails ends the others."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

from .._errors import DataError

#: Seconds between two looks at the processes, and seconds that they have to end when asked to. JAX
#: takes note of the request and goes on, so most are killed then; files are whole all the same.
_GLANCE, _PATIENCE = 0.05, 1.0

#: Seconds in which the first process may fail for the same reason as another one.
_SAME_ERROR = 2.0

#: Lines of a failed process's messages that are shown.
_LINES = 12


class ProcessError(DataError):
    """A process that ended before its work was done."""


class _Worker(NamedTuple):
    number: int
    process: subprocess.Popen
    messages: IO[str] | None


def is_worker() -> bool:
    """Return whether this process was told which one of several it is."""
    return "JAX_PROCESS_ID" in os.environ


def launch(command: Sequence[str], n_processes: int) -> int:
    """Run a command in several processes that find each other; return the first one's exit code.

    The first process prints as the command would, its errors too. Of the others only the messages
    of one that fails are shown. Each gets its own cores where there are enough.

    Raises:
        ProcessError: If another one fails, or if a signal ends one; it names the process. All
            processes have ended then.
    """
    workers: list[_Worker] = []
    started = time.monotonic()
    with _ended_by_terminate():
        try:
            shared = {**os.environ, "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{_free_port()}"}
            for number in range(n_processes):
                workers.append(_start(command, number, n_processes, shared))
            failed = _wait(workers)
            if failed is None:
                return 0
            code = failed.process.returncode
            if failed.number == 0 and code > 0:
                return code
            raise ProcessError(_explain(failed, n_processes, code, started))
        finally:
            _end(workers)


@contextlib.contextmanager
def _ended_by_terminate() -> Iterator[None]:
    """Turn SIGTERM into an exception while the block runs, so that no process is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _wait(workers: Sequence[_Worker]) -> _Worker | None:
    """Return the first process that fails, or None when all have finished."""
    while any(worker.process.poll() is None for worker in workers):
        failed = [worker for worker in workers if worker.process.poll()]
        if failed:
            # An error that all have, such as a bad option, is the first process's to tell.
            with contextlib.suppress(subprocess.TimeoutExpired):
                if failed[0].process.returncode > 0:
                    workers[0].process.wait(_SAME_ERROR)
            break
        time.sleep(_GLANCE)
    return next((worker for worker in workers if worker.process.poll()), None)


def _start(
    command: Sequence[str], number: int, n_processes: int, shared: Mapping[str, str]
) -> _Worker:
    own = {"JAX_PROCESS_ID": str(number), "JAX_NUM_PROCESSES": str(n_processes)}
    output: dict[str, Any] = {}
    messages = None
    if number:
        messages = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        output = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": messages}
    process = subprocess.Popen(command, env={**shared, **own}, **output)
    _give_cores(process.pid, number, n_processes)
    return _Worker(number, process, messages)


def _give_cores(pid: int, number: int, n_processes: int) -> None:
    """Divide the cores among the processes, so that each starts as many threads as it can use."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= n_processes:
        os.sched_setaffinity(pid, cores[number::n_processes])


def _free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def _explain(worker: _Worker, n_processes: int, code: int, started: float) -> str:
    how = f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
    text = (
        f"all {n_processes} processes must finish, but process {worker.number} (pid "
        f"{worker.process.pid}) ended with {how} after {time.monotonic() - started:.0f} s, so the "
        "others were ended; run the same command again to go on where they were."
    )
    if worker.messages is None:
        return text
    worker.messages.seek(0)
    last = worker.messages.read().strip().splitlines()[-_LINES:]
    return "\n".join([text, *(f"process {worker.number}: {line}" for line in last)])


def _end(workers: Sequence[_Worker]) -> None:
    """End all processes that are still there: politely, then not."""
    for worker in workers:
        if worker.process.poll() is None:
            worker.process.terminate()
    deadline = time.monotonic() + _PATIENCE
    for worker in workers:
        try:
            worker.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
        if worker.messages is not None:
            worker.messages.close()


def own_command() -> list[str]:
    """Return the command line of this process, for another one."""
    return [sys.executable, "-m", "ngem", *sys.argv[1:]]
