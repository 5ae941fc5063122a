"""Reading ahead."""

import threading
import time

import pytest

from ngem.streams import Prefetched


def test_reading_ahead_overlaps_with_what_uses_it():
    read = [threading.Event() for _ in range(3)]

    def items():
        for index, event in enumerate(read):
            event.set()
            yield index

    with Prefetched(items()) as ahead:
        for index in ahead:
            # The next item is read although this one is still in use.
            assert read[min(index + 1, 2)].wait(10)


def test_reading_ahead_measures_waiting_and_passes_errors_on():
    def fails():
        time.sleep(0.05)
        yield 1
        raise OSError("no disk")

    with Prefetched(fails()) as ahead:
        steps = iter(ahead)
        assert next(steps) == 1
        assert ahead.waited > 0.03
        with pytest.raises(OSError, match="no disk"):
            next(steps)


def test_reading_ahead_ends_with_its_user():
    closed = threading.Event()

    def endless():
        try:
            while True:
                yield 1
        finally:
            closed.set()

    with Prefetched(endless()) as ahead:
        next(iter(ahead))
    assert closed.wait(1)
