"""Runs side by side: their order, and how an error or Ctrl-C ends all of them."""

import os
import signal
import threading
import time

import pytest

from ngem.training import Progress, side_by_side

PROGRESS = Progress(1, 9, 0.0, 0.0, 0.0, 0, 0.0)


def endless(watch):
    """Run until the callback ends it, or for long enough to fail the test."""
    for _ in range(2000):
        time.sleep(0.01)
        watch(PROGRESS)


def failing(watch):
    raise ValueError("the third run failed")


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_are_in_the_order_of_runs(threads):
    assert side_by_side([lambda _, n=n: n for n in range(5)], threads) == list(range(5))


def test_an_error_of_any_run_ends_all():
    started = time.perf_counter()
    with pytest.raises(ValueError, match="the third run failed"):
        side_by_side([endless, endless, failing], 3)
    assert time.perf_counter() - started < 5


def test_an_interrupt_ends_all_even_where_waiting_is_not_interrupted():
    """The handler of polars resumes system calls, as `siginterrupt` asks for here."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.siginterrupt(signal.SIGINT, False)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    started = time.perf_counter()
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            side_by_side([endless, endless], 2)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, handler)
    assert time.perf_counter() - started < 5
