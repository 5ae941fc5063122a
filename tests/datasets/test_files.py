"""Data files: where they are looked for, and downloads from a server that misbehaves."""

import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path

import pytest

from ngem.datasets import DataError, files, load_uci, local_path

from .server import CONTENT, FILE, SECOND, kept


def test_a_good_file_comes_once(server, tmp_path):
    path = local_path(FILE)
    assert path.read_bytes() == CONTENT[FILE]
    assert local_path(FILE) == path
    assert server.requests == [FILE]
    assert kept(tmp_path) == [path]


def test_progress_reaches_the_end(server):
    seen = []
    local_path(FILE, report=seen.append)
    assert len(seen) > 3
    assert seen == sorted(seen)
    assert seen[-1] == len(CONTENT[FILE])


@pytest.mark.parametrize("fault", ["cut", "short", "wrong", "endless", "gone"])
def test_a_fault_is_mended_by_another_attempt(server, tmp_path, fault):
    server.plan += [fault, fault]
    seen = []
    assert local_path(FILE, report=seen.append).read_bytes() == CONTENT[FILE]
    assert len(server.requests) == 3
    assert len(kept(tmp_path)) == 1
    assert max(seen) == seen[-1] == len(CONTENT[FILE])


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("cut", "must come whole from http.*IncompleteRead.*NGEM_DATA_DIR"),
        ("short", "must have sha256 .*, got other contents from http.*NGEM_DATA_DIR"),
        ("wrong", "must have sha256 .*, got other contents from http.*NGEM_DATA_DIR"),
        ("endless", "must have sha256 .*, got other contents from http.*NGEM_DATA_DIR"),
        ("gone", "must come whole from http.*HTTPError.*404"),
    ],
)
def test_a_lasting_fault_is_an_error_and_leaves_nothing(server, tmp_path, fault, text):
    server.plan += [fault] * 10
    with pytest.raises(DataError, match=text):
        local_path(FILE)
    assert len(server.requests) == 1 + files.RETRIES
    assert kept(tmp_path) == []


def test_a_server_that_falls_silent_is_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "TIMEOUT", 0.2)
    server.plan += ["stall"]
    assert local_path(FILE).read_bytes() == CONTENT[FILE]
    assert len(server.requests) == 2


def test_threads_share_a_download(server):
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(local_path, [FILE] * 8))
    assert [path.read_bytes() for path in paths] == [CONTENT[FILE]]
    assert server.requests == [FILE]


def test_a_damaged_file_in_the_cache_is_fetched_again(server):
    path = local_path(FILE)
    path.write_bytes(CONTENT[FILE][:-1])
    assert local_path(FILE).read_bytes() == CONTENT[FILE]
    assert len(server.requests) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's full device")
def test_a_full_disk_is_an_error_and_leaves_nothing(server, tmp_path, monkeypatch):
    """The kernel itself refuses the write: /dev/full has no space left, ever."""
    monkeypatch.setattr(files, "open", lambda _, mode: FileIO("/dev/full", mode), raising=False)
    with pytest.raises(DataError, match=r"needs 360000 bytes in .*No space left.*NGEM_DATA_DIR"):
        local_path(FILE)
    assert len(server.requests) == 1  # another attempt would find no more room
    assert kept(tmp_path) == []


def test_a_cache_that_cannot_be_made_is_an_error(server, tmp_path):
    (tmp_path / "cache").write_text("a file where the directory should be")
    with pytest.raises(DataError, match=r"needs 360000 bytes in .*make room or give permission"):
        local_path(FILE)


def test_no_network_is_an_error_that_names_a_way_out(tmp_path, registry):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    registry(port)
    with pytest.raises(DataError, match=r"ConnectionError.*set NGEM_DATA_DIR to a directory"):
        local_path(FILE)
    assert kept(tmp_path) == []


def test_without_pooch_the_error_names_the_extra(server, monkeypatch):
    monkeypatch.setattr(files, "_has_pooch", lambda: False)
    with pytest.raises(DataError, match=r'pip install "ngem\[data\]", or set NGEM_DATA_DIR'):
        local_path(FILE)
    assert files.find(FILE) is None


def test_the_users_directory_comes_first(server, tmp_path, monkeypatch):
    own = tmp_path / "own" / FILE
    own.parent.mkdir(parents=True)
    own.write_bytes(CONTENT[FILE])
    monkeypatch.setenv("NGEM_DATA_DIR", str(tmp_path / "own"))
    assert local_path(FILE) == own
    assert server.requests == []
    assert local_path(SECOND).is_relative_to(tmp_path / "cache")  # what it lacks is fetched


def test_a_damaged_file_of_the_users_is_refused_and_kept(data_dir, tmp_path, monkeypatch):
    copy = tmp_path / "uci" / "yacht" / "data.txt"
    copy.parent.mkdir(parents=True)
    shutil.copy(data_dir / "uci/yacht/data.txt", copy)
    monkeypatch.setenv("NGEM_DATA_DIR", str(tmp_path))
    assert load_uci("yacht").x.shape == (308, 6)

    content = copy.read_bytes().replace(b"0.568", b"0.569", 1)
    copy.write_bytes(content)
    with pytest.raises(DataError, match=r"data\.txt must have 11487 bytes with sha256 00df.*got"):
        load_uci("yacht")
    assert copy.read_bytes() == content


def test_a_data_directory_that_is_none_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("NGEM_DATA_DIR", str(tmp_path / "no"))
    with pytest.raises(DataError, match="NGEM_DATA_DIR must name a directory"):
        load_uci("yacht")


def test_unknown_files_are_refused():
    with pytest.raises(ValueError, match=r"in the registry.*got 'uci/boston\.txt'"):
        local_path("uci/boston.txt")
