"""Tests of the optimizers, and a hard limit on the time of what may hang."""

import multiprocessing
import os
from collections.abc import Callable
from unittest import mock


def run_within(seconds: float, target: Callable[[], None]) -> None:
    """Run `target` in a process of its own; fail if it raises or outlives the limit.

    A thread of XLA that waits for ever answers to no signal, so that pytest-timeout could only
    end the whole run. OpenBLAS gets one thread: with more, small eigenproblems on a busy machine
    were up to a hundred times slower, which is no hang of ours.
    """
    with mock.patch.dict(os.environ, OPENBLAS_NUM_THREADS="1"):
        process = multiprocessing.get_context("spawn").Process(target=target)
        process.start()
        process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        raise AssertionError(f"{target.__name__} was still running after {seconds} s")
    assert process.exitcode == 0
