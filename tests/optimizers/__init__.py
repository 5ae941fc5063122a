"""Tests of the optimizers, and a time limit for computations that may hang."""

import multiprocessing
import os
from collections.abc import Callable
from unittest import mock


def run_within(seconds: float, target: Callable[[], None]) -> None:
    """Run `target` in its own process; fail if it raises or exceeds the time limit.

    A hanging XLA thread does not react to signals, so pytest-timeout could only end the whole run.
    OpenBLAS gets one thread: with more, small eigenproblems on a busy machine were up to a hundred
    times slower, which would look like a hang.
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
