"""A stream whose rows are divided among processes is learned as by one process."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ..cases import slow_but

pytestmark = [pytest.mark.trains, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).with_name("stream_on_mesh.py")

SETTINGS = {
    "n_components": 2,
    "n_members": 1,
    "guard": False,
    "hidden_sizes": (8,),
    "batch_size": 30,
    "max_epochs": 8,
    "learning_rate": 1e-2,
    "random_state": 0,
}

#: 900 rows in windows of 240; or in one.
SMALL, LARGE = {"window": 256 * 16}, {}


def write(folder, groups=(300, 400, 200)):
    rng, start = np.random.default_rng(0), 0
    total = sum(groups)
    x = rng.uniform(0.5, 2, (total, 2))
    y = np.sort(rng.choice([-1, 1], total) * x[:, 0]) + 0.1 * rng.standard_normal(total)
    kinds = rng.choice(["north", "south", "west"], total)
    table = pa.table({"a": x[:, 0], "b": x[:, 1], "kind": kinds, "y": y})
    folder.mkdir()
    for number, count in enumerate(groups):
        part = table[start : start + count]
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=100)
        start += count
    return folder


def start(source, out, stream, *place, devices=1, **more):
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    settings = json.dumps({**SETTINGS, **more, "stream": stream})
    return subprocess.Popen(
        [sys.executable, SCRIPT, *map(str, (source, out, settings, *place))],
        env=os.environ | {"XLA_FLAGS": flags},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(*workers):
    errors = [worker.communicate(timeout=300)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * len(workers), errors


def start_all(sources, out, stream, count, **more):
    sources = sources if isinstance(sources, list) else [sources] * count
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{place.getsockname()[1]}"
    return [
        start(source, out.with_name(f"{out.name}{number}"), stream, number, count, address, **more)
        for number, source in enumerate(sources)
    ]


def results(out, count):
    return [np.load(out.with_name(f"{out.name}{number}.npz")) for number in range(count)]


def distance(one, other):
    names = [name for name in one.files if name not in ("read", "train")]
    assert names == [name for name in other.files if name not in ("read", "train")]
    return max(float(np.max(np.abs(one[name] - other[name]), initial=0.0)) for name in names)


CASES = [(2, 1, SMALL), (3, 1, SMALL), (2, 2, SMALL), (2, 1, LARGE), (1, 3, SMALL)]


@pytest.mark.parametrize(("processes", "devices", "stream"), slow_but(CASES, CASES[0]))
def test_processes_that_read_parts_learn_what_one_does(tmp_path, processes, devices, stream):
    """The law: the same parameters to 1e-6 in single precision, after more than 200 steps."""
    source = write(tmp_path / "rows")
    workers = start_all(source, tmp_path / "part", stream, processes, devices=devices)
    finish(start(source, tmp_path / "alone", stream), *workers)
    alone, parts = np.load(tmp_path / "alone.npz"), results(tmp_path / "part", processes)
    assert SETTINGS["max_epochs"] * 810 // SETTINGS["batch_size"] > 200
    for part in parts:
        assert distance(part, alone) < 1e-6
        assert distance(part, parts[0]) == 0
        np.testing.assert_allclose(part["train"], alone["train"], atol=1e-6)
    read = [{tuple(piece) for piece in json.loads(str(part["read"]))} for part in parts]
    assert len(set().union(*read)) == sum(map(len, read)) == 9
    assert max(map(len, read)) <= -(-9 // processes)


@pytest.mark.slow
def test_the_guard_beside_the_network_is_the_same_on_all_processes(tmp_path):
    source = write(tmp_path / "rows")
    workers = start_all(source, tmp_path / "part", SMALL, 2, guard=True)
    finish(start(source, tmp_path / "alone", SMALL, guard=True), *workers)
    for part in results(tmp_path / "part", 2):
        assert distance(part, np.load(tmp_path / "alone.npz")) < 1e-6


def fail(workers, words):
    for worker in workers:
        error = worker.communicate(timeout=300)[1]
        assert worker.returncode != 0
        assert words in error


@pytest.mark.slow
def test_a_damaged_row_group_in_the_part_of_one_process_ends_all_and_is_named(tmp_path):
    source = write(tmp_path / "rows")
    path = source / "1.parquet"
    place = pq.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[place : place + 40] = b"?" * 40
    path.write_bytes(content)
    workers = start_all(source, tmp_path / "part", SMALL, 2)
    fail(workers, f"row group 2 of {path} must be readable")
    assert sorted(os.listdir(tmp_path)) == ["rows"]


@pytest.mark.slow
def test_a_full_disk_of_one_process_ends_all(tmp_path):
    workers = start_all(write(tmp_path / "rows"), tmp_path / "part", SMALL, 2, full=1)
    fail(workers, "free for a shuffled copy of the rows, got a full disk")


@pytest.mark.slow
def test_processes_that_see_other_files_are_refused(tmp_path):
    both = [write(tmp_path / "rows"), write(tmp_path / "others", (300, 400))]
    workers = start_all(both, tmp_path / "part", SMALL, 2)
    fail(workers, "got others than those of process 0 in process 1; give every process the same")
