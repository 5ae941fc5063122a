"""Worker processes for measurements: threads and libraries are fixed when a process starts.

A worker builds and takes turns on request; requests and answers are lines of JSON. `Local` does the
same within this process, for smoke runs.
"""

import abc
import contextlib
import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._machine import available_cores
from .timing import Turn

#: The process of all sides that do not name one.
SHARED = "ngem"


@dataclass(frozen=True)
class Side:
    """One side of a comparison, as data.

    Attributes:
        label: Its name in the table.
        builder: "module:function" within this package; called with `settings`, it returns a turn.
        settings: Numbers and names only.
        threads: Threads that XLA, BLAS and PyTorch may use, None for all cores.
        process: Sides with the same name and number of threads use the same process. The default
            one lives on; any other ends with its row.
        needs: Packages that it needs.
    """

    label: str
    builder: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = 1
    process: str = SHARED
    needs: tuple[str, ...] = ()


class AbstractPool(abc.ABC):
    """Builds turns, in this process or in others."""

    @abc.abstractmethod
    def build(self, side: Side, small: Mapping[str, Any]) -> Turn:
        """Return the side's turn, compiled; `small` overrides its settings."""

    @abc.abstractmethod
    def clear(self) -> None:
        """Release all turns."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release everything."""


class Local(AbstractPool):
    """Builds turns in this process, with the threads it has."""

    def build(self, side: Side, small: Mapping[str, Any]) -> Turn:
        """Return the side's turn."""
        return build(side.builder, {**side.settings, **small})

    def clear(self) -> None:
        """Do nothing: the caller holds the turns."""

    def close(self) -> None:
        """Do nothing: there is no process to end."""


class Processes(AbstractPool):
    """Builds turns in workers, which are used again for later rows."""

    def __init__(self):
        self._workers: dict[tuple[str, int | None], Worker] = {}

    def build(self, side: Side, small: Mapping[str, Any]) -> Turn:
        """Return the side's turn, which sends a request to the worker."""
        place = (side.process, side.threads)
        if place not in self._workers:
            self._workers[place] = Worker(side.threads)
        worker = self._workers[place]
        number = worker.ask(build=side.builder, settings={**side.settings, **small})
        return lambda **request: worker.ask(turn=number, request=request)

    def clear(self) -> None:
        """Release the turns of our own workers, and end all others."""
        for place, worker in list(self._workers.items()):
            if place[0] == SHARED and worker.is_alive:
                worker.ask(clear=True)
            else:
                self._workers.pop(place).close()

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()


class Worker:
    """A process that builds and takes turns on request."""

    def __init__(self, threads: int | None):
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **thread_variables(threads)},
        )

    def ask(self, **request: Any) -> Any:
        """Return the answer to one request.

        Raises:
            RuntimeError: With the error of the worker.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended with code {self._process.wait()} during {request}.")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["answer"]

    @property
    def is_alive(self) -> bool:
        """Whether it still runs: the system may have ended it for lack of memory."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


def thread_variables(threads: int | None) -> dict[str, str]:
    """Return the environment that limits XLA (NPROC), BLAS and PyTorch (OMP) to some threads."""
    names = ("NPROC", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    count = str(threads or available_cores())
    return dict.fromkeys(names, count)


def build(builder: str, settings: Mapping[str, Any]) -> Turn:
    """Return the turn that a builder of this package makes."""
    module, function = builder.split(":")
    return getattr(importlib.import_module(f".{module}", __package__), function)(**settings)


def serve() -> None:
    """Answer requests on standard input until it ends."""
    # Libraries may print to standard output, so answers use a copy of it.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    turns: list[Turn] = []
    for line in sys.stdin:
        try:
            answer = {"answer": _answer(json.loads(line), turns)}
        except Exception as error:  # any error goes to the caller
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def _answer(request: dict[str, Any], turns: list[Turn]) -> Any:
    if "turn" in request:
        return turns[request["turn"]](**request["request"])
    if "clear" in request:
        turns.clear()
        return None
    turns.append(build(request["build"], request["settings"]))
    return len(turns) - 1


if __name__ == "__main__":
    serve()
