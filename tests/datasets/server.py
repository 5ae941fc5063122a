"""A server on this machine that can be told to misbehave, and the two files that it serves."""

import contextlib
import http.server

FILE = "uci/toy/data.txt"
SECOND = "uci/toy/index_test_0.txt"
CONTENT = {FILE: b"0.25 1.5\n" * 40_000, SECOND: b"1\n2\n"}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers each request for a file by the next behavior planned for it, then by `good`."""

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


def kept(tmp_path):
    """Return the files of the cache."""
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
