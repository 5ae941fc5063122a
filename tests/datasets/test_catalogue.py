"""The catalogue of data sets: its registry, and downloads of whole sets."""

from ngem.datasets import DATA_NAMES, catalogue
from ngem.datasets.catalogue import DATA_SETS
from ngem.datasets.files import registry
from ngem.datasets.uci import SOURCES

from .server import CONTENT


def test_every_source_has_a_name():
    assert set(DATA_NAMES) == {*SOURCES, "mnist"}


def test_registry_and_sets_name_the_same_files():
    named = {file for data in DATA_SETS.values() for file in data.files}
    assert named == set(registry())


def test_registry_is_pinned():
    for entry in registry().values():
        assert entry.bytes > 0
        assert len(bytes.fromhex(entry.sha256)) == 32
        host, _, _, commit = entry.url.removeprefix("https://").split("/")[:4]
        assert host == "raw.githubusercontent.com"
        assert len(bytes.fromhex(commit)) == 20  # a commit, which cannot change, not a branch


def test_fetch_reports_bytes_of_all_files(server):
    seen = []
    catalogue.fetch(["toy"], report=lambda done, total: seen.append((done, total)))
    size = sum(map(len, CONTENT.values()))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (size, size)
