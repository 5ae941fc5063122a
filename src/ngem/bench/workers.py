"""Processes that hold what is measured: a process fixes its threads and its libraries once.

A worker builds turns on request and takes them on request, one line of JSON each way. `Local` does
the same within this process, for a look at whether everything works.
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

#: The process that sides share where they do not ask for another.
SHARED = "ngem"


@dataclass(frozen=True)
class Side:
    """One party of a measurement, as data.

    Attributes:
        label: What a reader calls it.
        builder: "module:function" within this package; called with `settings`, it returns a turn.
        settings: Numbers and names only.
        threads: Threads that XLA, BLAS and PyTorch may use, or None for as many as they like.
        process: Sides of one name and number of threads share a process. The default stays for rows
            to come; any other ends with its row.
        needs: Packages without which it cannot be measured.
    """

    label: str
    builder: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = 1
    process: str = SHARED
    needs: tuple[str, ...] = ()


class AbstractPool(abc.ABC):
    """Builds turns somewhere."""

    @abc.abstractmethod
    def build(self, side: Side, small: Mapping[str, Any]) -> Turn:
        """Return the side's turn, ready: compiled and warm; `small` overrides its settings."""

    @abc.abstractmethod
    def clear(self) -> None:
        """Let go of all turns."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of everything."""


class Local(AbstractPool):
    """Builds turns in this process, whatever threads it has."""

    def build(self, side: Side, small: Mapping[str, Any]) -> Turn:
        """Return the side's turn."""
        return build(side.builder, {**side.settings, **small})

    def clear(self) -> None:
        """Do nothing: whoever holds a turn keeps it."""

    def close(self) -> None:
        """Do nothing: there is nothing to end."""


class Processes(AbstractPool):
    """Builds turns in workers, which stay for the sides to come."""

    def __init__(self):
        self._workers: dict[tuple[str, int | None], Worker] = {}

    def build(self, side: Side, small: Mapping[str, Any]) -> Turn:
        """Return the side's turn, which asks the worker."""
        place = (side.process, side.threads)
        if place not in self._workers:
            self._workers[place] = Worker(side.threads)
        worker = self._workers[place]
        number = worker.ask(build=side.builder, settings={**side.settings, **small})
        return lambda **request: worker.ask(turn=number, request=request)

    def clear(self) -> None:
        """Let our own workers drop their turns and the arrays in them, and all others end."""
        for place, worker in list(self._workers.items()):
            if place[0] == SHARED and worker.is_alive:
                worker.ask(clear=True)
            else:
                self._workers.pop(place).close()

    def close(self) -> None:
        """Let all workers end."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()


class Worker:
    """A process that builds turns and takes them when asked."""

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
            RuntimeError: With the last line of what went wrong there.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended with code {self._process.wait()} during {request}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["answer"]

    @property
    def is_alive(self) -> bool:
        """Whether it can still be asked: it may have been ended for want of memory."""
        return self._process.poll() is None

    def close(self) -> None:
        """Let the process end."""
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
    # Libraries print as they like; answers go out by a door of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    turns: list[Turn] = []
    for line in sys.stdin:
        try:
            answer = {"answer": _answer(json.loads(line), turns)}
        except Exception as error:  # told to the one who asked, who decides
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
