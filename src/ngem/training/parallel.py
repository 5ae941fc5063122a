"""Runs side by side, each on a core of its own."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

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
