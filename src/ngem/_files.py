"""Files of arrays with a JSON header, written whole or not at all and never executed when read.

The format is safetensors. Its metadata holds one JSON text with the kind of file, a version, the
header and a checksum over all of it, so that a damaged file is refused rather than half believed.
"""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

_KEY = "ngem"


class FileError(ValueError):
    """A file that is not what it should be."""


def write(
    path: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    header: Mapping[str, Any],
    *,
    kind: str,
    version: int,
) -> None:
    """Write a file atomically: whoever reads it sees the old one or the new one, whole.

    Args:
        path: Where to write.
        arrays: What to keep, by name.
        header: Anything that JSON can say.
        kind: What the file is, checked on reading.
        version: Of the header's meaning; a reader refuses newer ones.
    """
    from safetensors.numpy import save

    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    body = {"kind": kind, "version": version, "header": header}
    body["sha256"] = _checksum(arrays, body)
    replace(path, save(arrays, metadata={_KEY: json.dumps(body)}))


def read(
    path: str | os.PathLike, *, kind: str, version: int
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return arrays and header of a file that `write` made.

    Raises:
        FileError: If the file is damaged, of another kind, or of a newer version.
        OSError: If it cannot be read at all.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = Path(path).read_bytes()
    try:
        metadata = _metadata(content)
        arrays = load(content)
        body = json.loads(metadata[_KEY])
        # Some damage leaves the meaning as it was, such as 1e-5 turned to 1E-5; refuse it as well.
        same_text = json.dumps(body) == metadata[_KEY]
        claimed, written = body["kind"], body["version"]
        header, checksum = body["header"], body.pop("sha256")
    except (
        SafetensorError,
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        RecursionError,  # of JSON that is nested without end
    ) as error:
        raise FileError(
            f"{path} must be a file of kind {kind!r} written by ngem, got something else or a "
            f"damaged one ({type(error).__name__}: {error}); restore it from a copy."
        ) from error
    if claimed != kind:
        raise FileError(f"{path} must hold a {kind}, got a {claimed!r}; check the file's name.")
    if not isinstance(written, int) or written > version:
        raise FileError(
            f"{path} must be of version {version} or older, got version {written!r}; upgrade ngem."
        )
    if not same_text or checksum != _checksum(arrays, body):
        raise FileError(
            f"{path} must match its checksum, got other contents: the file was damaged or edited; "
            "restore it from a copy or train again."
        )
    return arrays, header


def replace(path: str | os.PathLike, content: bytes) -> None:
    """Put content in a file's place in one step, surviving a crash at any moment."""
    with replacing(path) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a file that takes another's place when the block ends well, and vanishes otherwise."""
    path = Path(path)
    # Not from `tempfile`, whose files no one else may read: a model is made to be shared.
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


def _metadata(content: bytes) -> dict[str, str]:
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size])["__metadata__"]


def _checksum(arrays: Mapping[str, np.ndarray], body: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
