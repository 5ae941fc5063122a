"""What tests of tables share: files, passes over them, a disk that is full."""

import errno
import io

import polars as pl
import pytest

TEXT = """size,place,wet,price
1,north,true,10
2.5,south,FALSE,20
 3 ,north,true,30
 NA ,west,false,40

"""


@pytest.fixture(name="mixed")
def _mixed(tmp_path):
    """A file with a column of each kind, a gap, and an empty row at its end."""
    path = tmp_path / "mixed.csv"
    path.write_text(TEXT)
    return path


@pytest.fixture
def passes(monkeypatch):
    """The queries that polars has run on a file; each of them is one pass over it."""
    queries = []

    def counted(run):
        def run_and_count(frame, *arguments, **settings):
            plan = frame.explain()
            if "SCAN" in plan:  # a frame in memory has another plan
                queries.append(plan)
            return run(frame, *arguments, **settings)

        return run_and_count

    for name in ("collect", "collect_batches"):
        monkeypatch.setattr(pl.LazyFrame, name, counted(getattr(pl.LazyFrame, name)))
    return queries


class FullDisk(io.FileIO):
    """A file on a disk that has room for a few bytes."""

    def write(self, content):
        if self.tell() + len(content) > 50:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(content)


@pytest.fixture
def full_disk(monkeypatch, tmp_path):
    """Replace files that are written through `pathlib` by files on a full disk."""
    plain = type(tmp_path).open

    def open_full(self, mode="r", *arguments, **settings):
        writes = "w" in mode or "x" in mode
        return FullDisk(self, mode) if writes else plain(self, mode, *arguments, **settings)

    monkeypatch.setattr(type(tmp_path), "open", open_full)
