"""Files of arrays with a JSON header: written atomically, and read without running any code.

The format is safetensors. Its metadata holds one JSON text with the kind of file, a version, the
header and a checksum of everything, so a damaged file is refused.
"""

import contextlib
import glob
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

_KEY = "ngem"

#: Bytes of a header at most, as in safetensors.
_LARGEST_HEADER = 100_000_000

#: Lists and tables within each other in a header, at most. Ours have six.
_DEEPEST = 32


class FileError(ValueError):
    """A file that is damaged or not of the expected kind."""


def write(
    path: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    header: Mapping[str, Any],
    *,
    kind: str,
    version: int,
) -> None:
    """Write a file atomically: a reader sees the complete old file or the complete new one.

    Args:
        path: The file.
        arrays: Arrays by name.
        header: Anything that JSON can represent.
        kind: Kind of file, checked by `read`.
        version: Version of the header; `read` refuses newer ones.
    """
    from safetensors.numpy import save

    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    body = {"kind": kind, "version": version, "header": header}
    body["sha256"] = _checksum(arrays, body)
    replace(path, save(arrays, metadata={_KEY: json.dumps(body)}))


def read(
    path: str | os.PathLike, *, kind: str, version: int
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the header of a file that `write` wrote.

    Raises:
        FileError: If the file is damaged, of another kind, or of a newer version.
        OSError: If the file cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = as_path(path).read_bytes()
    try:
        metadata = _metadata(content)
        arrays = load(content)
        body = json.loads(metadata[_KEY])
        _check_depth(body)
        # Damage such as 1e-5 changed to 1E-5 leaves the values equal; refuse it as well.
        same_text = json.dumps(body) == metadata[_KEY]
        claimed, written = body["kind"], body["version"]
        header, checksum = body["header"], body.pop("sha256")
        if not isinstance(header, dict):
            raise TypeError(f"a header that is no table, {type(header).__name__}")
    except (
        SafetensorError,
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        RecursionError,  # from deeply nested JSON
    ) as error:
        raise FileError(
            f"{path} must be a file of kind {kind!r} written by ngem, got another or a damaged "
            f"file ({type(error).__name__}: {error}); restore it from a copy."
        ) from error
    if claimed != kind:
        raise FileError(f"{path} must hold a {kind}, got a {claimed!r}; check the file's name.")
    if not isinstance(written, int) or written > version:
        raise FileError(
            f"{path} must be of version {version} or older, got version {written!r}; upgrade ngem."
        )
    if not same_text or checksum != _checksum(arrays, body):
        raise FileError(
            f"{path} must match its checksum, got different contents: the file was damaged or "
            "edited; restore it from a copy or train again."
        )
    return arrays, header


def as_path(path: Any) -> Path:
    """Return the path of a file, refusing what names none."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise TypeError(f"path must be the path of a file, got {path!r:.80}; try 'model.ngem'.")
    return Path(path)


def read_kind(path: str | os.PathLike) -> str | None:
    """Return the kind that a file claims to be, or None if it claims nothing that can be read."""
    with as_path(path).open("rb") as file:
        size = file.read(8)
        content = size + file.read(min(int.from_bytes(size, "little"), _LARGEST_HEADER))
    try:
        kind = json.loads(_metadata(content)[_KEY])["kind"]
    except (LookupError, TypeError, ValueError, RecursionError):
        return None
    return kind if isinstance(kind, str) else None


def replace(path: str | os.PathLike, content: bytes) -> None:
    """Replace a file's content in one step; a crash leaves the old or the new content."""
    with replacing(path) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` if the block succeeds, and is deleted if not."""
    path = as_path(path)
    # Not from `tempfile`: only the owner may read its files, but others may need the model.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def clear_leftovers(path: str | os.PathLike) -> None:
    """Delete what a process that was killed while it wrote a file has left beside it.

    No other process may be writing the file.
    """
    path = Path(path)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}"):
        leftover.unlink(missing_ok=True)


def _metadata(content: bytes) -> dict[str, str]:
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size])["__metadata__"]


def _check_depth(tree: Any) -> None:
    """Refuse JSON that is nested too deeply for functions that call themselves."""
    level = [tree]
    for _ in range(_DEEPEST):
        inner = [part.values() if isinstance(part, dict) else part for part in level]
        level = [x for part in inner for x in part if isinstance(x, dict | list)]
        if not level:
            return
    raise ValueError(f"nested more than {_DEEPEST} times")


def _checksum(arrays: Mapping[str, np.ndarray], body: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
