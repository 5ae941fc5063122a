"""Files of arrays with a header: written atomically, checked when read."""

import inspect
import json
import os
import sys

import numpy as np
import pytest
from safetensors.numpy import save

from ngem import _files
from ngem._files import FileError

KIND = "ngem.test"
ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([1, 2], np.int32), "c": np.zeros(0)}
HEADER = {"text": "ü", "numbers": [1, 1e-5, None], "nested": {"flag": True}}


def write(path, arrays=ARRAYS, header=HEADER, kind=KIND, version=3):
    _files.write(path, arrays, header, kind=kind, version=version)
    return path


def test_what_is_written_is_read_back(tmp_path):
    path = write(tmp_path / "file", {**ARRAYS, "turned": ARRAYS["a"].T})
    arrays, header = _files.read(path, kind=KIND, version=3)
    assert header == HEADER
    assert set(arrays) == {*ARRAYS, "turned"}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
    np.testing.assert_array_equal(arrays["turned"], ARRAYS["a"].T)  # in another memory order


@pytest.mark.parametrize("path", [None, 3, b"model.ngem", "", ["model.ngem"]])
def test_what_names_no_file_is_refused(path):
    for read in (_files.read_kind, lambda path: _files.read(path, kind=KIND, version=3), write):
        with pytest.raises(TypeError, match="path must be the path of a file, got"):
            read(path)


def test_other_kinds_and_newer_versions_are_refused(tmp_path):
    path = write(tmp_path / "file")
    with pytest.raises(FileError, match=r"must hold a ngem\.other, got a 'ngem\.test'"):
        _files.read(path, kind="ngem.other", version=3)
    with pytest.raises(FileError, match="version 2 or older, got version 3; upgrade ngem"):
        _files.read(path, kind=KIND, version=2)
    assert _files.read(path, kind=KIND, version=4)[1] == HEADER
    with pytest.raises(FileNotFoundError):
        _files.read(tmp_path / "none", kind=KIND, version=3)


def test_any_damaged_byte_is_noticed(tmp_path):
    path = write(tmp_path / "file")
    content = path.read_bytes()
    assert _files.read(path, kind=KIND, version=3)[1] == HEADER
    for index in range(len(content)):
        damaged = bytearray(content)
        damaged[index] ^= 0x20  # changes the case of a letter
        path.write_bytes(damaged)
        with pytest.raises(FileError):
            _files.read(path, kind=KIND, version=3)
    for end in (0, 7, 8, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:end])
        with pytest.raises(FileError, match=r"must be a file of kind .* written by ngem"):
            _files.read(path, kind=KIND, version=3)


@pytest.mark.parametrize(
    "metadata", [None, {}, {"ngem": "{}"}, {"ngem": "[1]"}, {"ngem": "no"}, {"other": "{}"}]
)
def test_files_of_others_are_refused(metadata, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(save(ARRAYS, metadata=metadata))
    with pytest.raises(FileError, match="written by ngem"):
        _files.read(path, kind=KIND, version=3)


@pytest.mark.parametrize("header", [[HEADER], "text", None, 3])
def test_a_header_that_is_no_table_is_refused(header, tmp_path):
    path = tmp_path / "file"
    # Unwrapped, since only tests check annotations.
    inspect.unwrap(_files.write)(path, ARRAYS, header, kind=KIND, version=3)
    with pytest.raises(FileError, match="written by ngem"):
        _files.read(path, kind=KIND, version=3)


def test_a_nested_header_is_read_or_refused_at_every_depth(tmp_path):
    """Up to the limit of recursion and beyond, wherever that lies: never another error."""
    path, refused = tmp_path / "file", 0
    for depth in (
        3,
        40,
        *range(sys.getrecursionlimit() - 300, sys.getrecursionlimit() + 10),
        5_000,
    ):
        nested = "[" * depth + "]" * depth
        body = f'{{"kind": "{KIND}", "version": 3, "header": {{"a": {nested}}}}}'
        digest = _files._checksum(ARRAYS, json.loads(body)) if depth == 3 else "0" * 64
        signed = body[:-1] + f', "sha256": "{digest}"}}'
        path.write_bytes(save(ARRAYS, metadata={"ngem": signed}))
        try:
            _files.read(path, kind=KIND, version=3)
        except FileError:
            refused += 1
            assert depth > 3
    assert refused > 100


def test_an_edited_header_is_refused(tmp_path):
    path = tmp_path / "file"
    body = {"kind": KIND, "version": 3, "header": HEADER, "sha256": "0" * 64}
    path.write_bytes(save(ARRAYS, metadata={"ngem": json.dumps(body)}))
    with pytest.raises(FileError, match="must match its checksum, got different contents"):
        _files.read(path, kind=KIND, version=3)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = write(tmp_path / "file")
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write(path, header={"not json": object()})

    def write_a_part():
        with _files.replacing(path) as file:
            file.write(b"some bytes")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_a_part()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_leaves_is_deleted_and_nothing_else(tmp_path):
    names = ["run[1]", "run1", ".run[1].notes", f".run1.{'0' * 16}", f".run[1].{'0a' * 9}"]
    for name in [*names, f".run[1].{'0a' * 8}"]:
        (tmp_path / name).write_bytes(b"")
    _files.clear_leftovers(tmp_path / "run[1]")
    assert sorted(os.listdir(tmp_path)) == sorted(names)


def test_a_file_is_replaced_in_one_step(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with _files.replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    _files.replace(str(path), b"newer")
    assert path.read_bytes() == b"newer"
    assert list(tmp_path.iterdir()) == [path]
