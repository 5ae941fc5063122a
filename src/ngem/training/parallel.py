"""Runs side by side, each on a core of its own, or shared with other processes."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import TypeVar

from ..distributed import active_work
from .state import Progress

#: Seconds after which to look for a Ctrl-C.
_GLANCE = 0.1

Result = TypeVar("Result")
Watch = Callable[[Progress], None]


class _Stopped(Exception):
    """A run that ends because another one failed or the user interrupted all."""


def side_by_side(runs: Sequence[Callable[[Watch], Result]], threads: int) -> list[Result]:
    """Return the result of each run, in order.

    XLA uses one core for matrices as small as these, so threads use all cores. Runs of one shape
    share one compiled program.

    Args:
        runs: Functions that take a callback and call it after each epoch. It raises if another run
            has failed or the user has interrupted, so that all end at once.
        threads: Runs at a time.
    """
    failed = threading.Event()

    def watch(progress: Progress) -> None:
        del progress
        if failed.is_set():
            raise _Stopped

    if threads == 1 or len(runs) == 1:
        return [run(watch) for run in runs]
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(run, watch) for run in runs]
        try:
            waiting = set(futures)
            while waiting:
                # Short waits: after a query of polars, Ctrl-C does not interrupt a long one.
                done, waiting = wait(waiting, _GLANCE, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            return [future.result() for future in futures]
        except BaseException:
            failed.set()
            for future in futures:
                future.cancel()
            raise


def run_shared(
    pieces: Mapping[str, Callable[[Path | None, Watch], Result]], threads: int
) -> list[Result]:
    """Return the result of each piece of work, of which other processes may do some.

    Args:
        pieces: Functions by the names of their pieces. Each takes a file where its result is or
            shall be, or None if none is kept, and the callback of `side_by_side`.
        threads: Pieces at a time.
    """
    work = active_work()
    if work is None:
        return side_by_side([partial(run, None) for run in pieces.values()], threads)

    def run_claimed(name: str, wait: bool, watch: Watch) -> list[Result]:
        with work.claim(name, wait=wait) as is_ours:
            return [pieces[name](work.path(name), watch)] if is_ours else []

    def run(names: Sequence[str], *, wait: bool) -> dict[str, Result]:
        runs = [partial(run_claimed, name, wait) for name in names]
        found = side_by_side(runs, threads)
        return {name: one[0] for name, one in zip(names, found, strict=True) if one}

    done = run(list(pieces), wait=False)
    # Others do the rest: wait for them, then read their results, or go on in place of a dead one.
    done |= run([name for name in pieces if name not in done], wait=True)
    return [done[name] for name in pieces]
