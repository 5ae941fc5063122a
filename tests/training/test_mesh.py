"""Training on several devices and processes gives what one device gives."""

import os
import socket
import subprocess
import sys
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
