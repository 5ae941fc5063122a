"""A registry whose files come from a server on this machine."""

import hashlib
import http.server
import threading

import pytest

from ngem.datasets import catalogue, files

from .server import CONTENT, Handler


@pytest.fixture
def registry(monkeypatch, tmp_path):
    """A function that makes the registry name the server's files at a port, with an empty cache."""

    def use(port):
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

    return use


@pytest.fixture
def server(registry):
    """A server, with the registry naming its files and an empty cache."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.plan, server.requests, server.done = [], [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    registry(server.server_port)
    yield server
    server.done.set()
    server.shutdown()
    thread.join()
    server.server_close()
