"""Downloads over HTTP, from a server on this machine that can be told to misbehave."""

import contextlib
import hashlib
import http.server
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ngem.cli import app
from ngem.datasets import DataError, catalogue, files, local_path

FILE = "uci/toy/data.txt"
SECOND = "uci/toy/index_test_0.txt"
CONTENT = {FILE: b"0.25 1.5\n" * 40_000, SECOND: b"1\n2\n"}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers each request for a file by the next behaviour planned for it, then by `good`."""

    def do_GET(self):
        name = self.path.lstrip("/")
        self.server.requests.append(name)
        plan = self.server.plan
        getattr(self, plan.pop(0) if plan else "good")(CONTENT[name])

    def head(self, length=None):
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def good(self, content):
        self.head(len(content))
        self.wfile.write(content)

    def cut(self, content):
        self.head(len(content))
        self.wfile.write(content[: len(content) // 2])

    def short(self, content):
        self.head()  # without a length HTTP cannot tell that the rest is missing
        self.wfile.write(content[: len(content) // 2])

    def wrong(self, content):
        self.good(content.replace(b"1", b"7"))

    def endless(self, content):
        self.head()
        with contextlib.suppress(ConnectionError):
            while not self.server.done.is_set():
                self.wfile.write(content)

    def gone(self, content):
        self.send_error(404)

    def stall(self, content):
        self.head(len(content))
        self.wfile.write(content[:1000])
        self.wfile.flush()
        self.server.done.wait(30)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A server, with the registry naming its files and an empty cache."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.plan, server.requests, server.done = [], [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    use(monkeypatch, tmp_path, server.server_port)
    yield server
    server.done.set()
    server.shutdown()
    thread.join()
    server.server_close()


def use(monkeypatch, tmp_path, port):
    entries = {
        file: files.Entry(
            file, len(data), hashlib.sha256(data).hexdigest(), f"http://127.0.0.1:{port}/{file}"
        )
        for file, data in CONTENT.items()
    }
    toy = catalogue.DataSet("toy", "40000 rows", "ours", tuple(CONTENT))
    monkeypatch.setattr(files, "registry", lambda: entries)
    monkeypatch.setattr(catalogue, "DATA_SETS", {"toy": toy})
    monkeypatch.setattr(files, "_cache_directory", lambda: tmp_path / "cache")
    monkeypatch.setattr("pooch.core.time.sleep", lambda _: None)  # between attempts
    monkeypatch.delenv("NGEM_DATA_DIR", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def kept(tmp_path):
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


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


def test_no_network_is_an_error_that_names_a_way_out(tmp_path, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    use(monkeypatch, tmp_path, port)
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


def run(*arguments):
    return CliRunner().invoke(app, ["data", *arguments])


def test_the_command_lists_fetches_and_verifies(server):
    before = run("list")
    assert before.exit_code == 0
    assert "toy   40000 rows  360 kB  no    ours" in before.output

    fetched = run("fetch", "toy")
    assert fetched.exit_code == 0, fetched.output
    assert fetched.stdout == "toy: 2 files, 360 kB, all good\n"
    assert fetched.stderr == ""  # no bar where nobody watches

    assert "complete" in run("list").output
    assert run("verify").exit_code == run("verify", "toy").exit_code == 0
    run("fetch", "all")
    assert len(server.requests) == 2


def test_an_interrupted_fetch_goes_on(server):
    server.plan += ["good"] + ["gone"] * (1 + files.RETRIES)
    assert run("fetch", "toy").exit_code == 1
    assert "1 of 2" in run("list").output
    assert run("fetch", "toy").exit_code == 0
    assert server.requests.count(FILE) == 1


def test_fetch_reports_bytes_of_all_files(server):
    seen = []
    catalogue.fetch(["toy"], report=lambda done, total: seen.append((done, total)))
    size = sum(map(len, CONTENT.values()))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (size, size)


def test_errors_of_the_command_are_one_paragraph(server):
    server.plan += ["wrong"] * 10
    result = run("fetch", "toy")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: uci/toy/data.txt must have sha256")
    assert result.stderr.count("\n") == 1


def test_verify_names_what_is_damaged(server):
    run("fetch", "toy")
    path = local_path(FILE)
    path.write_bytes(b"short")
    result = run("verify")
    assert result.exit_code == 1
    assert str(path) in result.stderr
    assert "1 of 2 damaged" in run("list").output


def test_verify_fails_where_nothing_is(server):
    result = run("verify")
    assert result.exit_code == 1
    assert "run `ngem data fetch all`" in result.stderr
    assert "run `ngem data fetch toy`" in run("verify", "toy").stderr


def test_unknown_sets_are_refused(server):
    result = run("fetch", "tty")
    assert result.exit_code == 1
    assert "got tty" in result.stderr
