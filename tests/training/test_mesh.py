"""Training on several devices and processes gives what one device gives."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ..cases import slow_but

SCRIPT = Path(__file__).with_name("on_mesh.py")


def start(*arguments, devices=1):
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, SCRIPT, *map(str, arguments)],
        env=os.environ | {"XLA_FLAGS": flags},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read(process):
    out, error = process.communicate(timeout=240)
    assert process.returncode == 0, error
    return [float(word) for word in out.splitlines()[-1].split()]


def free_address():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{place.getsockname()[1]}"


def check(found, devices):
    size, steps, distance, curves, messages, moved = found
    assert size == devices
    assert steps >= 200
    assert distance < 1e-6
    assert curves < 1e-6
    # One for the gradient of a step; the sums of held-out losses and weights after an epoch.
    assert messages <= 3
    assert moved == 0


CASES = [("uneven", 3), ("even", 2), ("even", 8), ("weights", 3), ("conditions", 2)]


@pytest.mark.parametrize(("case", "devices"), slow_but(CASES, CASES[0]))
def test_devices_train_as_one(case, devices):
    check(read(start(case, devices=devices)), devices)


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "devices"), [(2, 1), (4, 1), (2, 2)])
def test_processes_train_as_one(processes, devices):
    address = free_address()
    workers = [
        start("uneven", processes, number, address, devices=devices) for number in range(processes)
    ]
    found = [read(worker) for worker in workers]
    for one in found:
        check(one, processes * devices)
        assert one == found[0]


@pytest.mark.slow
def test_processes_with_other_rows_are_refused_and_named():
    address = free_address()
    workers = [start("differ", 2, number, address) for number in range(2)]
    for worker in workers:
        _, error = worker.communicate(timeout=240)
        assert worker.returncode != 0
        assert "got others than those of process 0 in process 1; give every process" in error


class Proxy:
    """Passes bytes between a port of its own and an address, until it is told to stall."""

    def __init__(self, address):
        self.is_stalled = threading.Event()
        self._target = address.split(":")
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            near, _ = self._server.accept()
            for _ in range(600):  # the other end may not be there yet
                try:
                    far = socket.create_connection((self._target[0], int(self._target[1])))
                    break
                except ConnectionRefusedError:
                    time.sleep(0.1)
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source, target):
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                while self.is_stalled.is_set():
                    time.sleep(0.1)
                target.sendall(chunk)


@pytest.mark.slow
def test_a_network_that_stalls_ends_all_processes_within_seconds():
    """Nobody waits forever, and the first process names the one that it no longer hears."""
    address = free_address()
    proxy = Proxy(address)
    workers = [start("endless", 2, 0, address), start("endless", 2, 1, proxy.address)]
    assert "began\n" in workers[0].stdout, workers[0].communicate()[1]  # reads up to there
    proxy.is_stalled.set()
    stalled = time.monotonic()
    errors = [worker.communicate(timeout=200)[1] for worker in workers]
    assert time.monotonic() - stalled < 60
    assert all(worker.returncode for worker in workers)
    assert re.search(r"stopped sending heartbeats\):\s+1\b", errors[0])
