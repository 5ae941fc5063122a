"""Trees of processes that each have a part of the rows are those of one process."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ..cases import slow_but

pytestmark = [pytest.mark.trains, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).with_name("trees_on_mesh.py")


def start(case, out, *place):
    return subprocess.Popen(
        [sys.executable, SCRIPT, case, *map(str, (out, *place))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_all(case, folder, count):
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{place.getsockname()[1]}"
    return [start(case, folder / f"{number}", number, count, address) for number in range(count)]


def finish(folder, *workers):
    for worker in workers:
        _, error = worker.communicate(timeout=300)
        assert worker.returncode == 0, error
    return [np.load(folder / f"{number}.npz") for number in range(len(workers) - 1)], np.load(
        folder / "alone.npz"
    )


@pytest.mark.parametrize("processes", slow_but([2, 3], 2))
def test_processes_grow_the_trees_of_one(tmp_path, processes):
    workers = start_all("same", tmp_path, processes)
    parts, alone = finish(tmp_path, *workers, start("same", tmp_path / "alone"))
    for part in parts:
        for name in ("log_prob", "curve", "oof"):
            np.testing.assert_array_equal(part[name], parts[0][name])
    # Gradients are those of one process but for rounding, which may turn a split that nearly ties.
    np.testing.assert_allclose(parts[0]["curve"], alone["curve"], atol=0.01)
    for name in ("log_prob", "oof"):
        assert np.mean(np.abs(parts[0][name] - alone[name])) < 0.01


@pytest.mark.slow
def test_two_processes_with_the_defaults_are_as_good_as_one(tmp_path):
    """Each round sees 70% of the rows of each process, and leaves have their own curvature."""
    parts, alone = finish(
        tmp_path, *start_all("default", tmp_path, 2), start("default", tmp_path / "alone")
    )
    difference = parts[0]["log_prob"] - alone["log_prob"]
    error = np.std(difference) / np.sqrt(len(difference))
    assert abs(np.mean(difference)) < max(0.02, 3 * error)


def fail(workers, *words):
    errors = [worker.communicate(timeout=300)[1] for worker in workers]
    assert all(worker.returncode for worker in workers)
    for error, expected in zip(errors, words, strict=True):
        assert expected in error
    return errors


@pytest.mark.slow
def test_a_process_that_dies_ends_the_others_within_seconds(tmp_path):
    workers = start_all("die", tmp_path, 2)
    while workers[1].poll() is None:
        time.sleep(0.1)
    died = time.monotonic()
    fail(workers, "", "")
    assert time.monotonic() - died < 30


@pytest.mark.slow
def test_a_port_in_use_is_named(tmp_path):
    workers = start_all("port", tmp_path, 2)
    text = "all 2 processes must be connected while trees grow, process 1 got: Binding port"
    fail(workers, "", text)


@pytest.mark.slow
def test_processes_with_other_rows_are_refused(tmp_path):
    words = "got others than those of process 0 in process 1"
    fail(start_all("differ", tmp_path, 2), words, words)
