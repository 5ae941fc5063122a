"""The MNIST digits."""

import gzip
from typing import Literal

import numpy as np
from jaxtyping import Int, UInt8

from .files import local_path

_PREFIX = {"train": "train", "test": "t10k"}


def load_mnist(
    part: Literal["train", "test"] = "train",
) -> tuple[UInt8[np.ndarray, "batch 784"], Int[np.ndarray, " batch"]]:
    """Return images, one row of 28 x 28 gray values from 0 to 255 each, and their digits."""
    if part not in _PREFIX:
        raise ValueError(f"part must be 'train' or 'test', got {part!r}.")
    images, labels = (_read(file) for file in part_files(part))
    return images.reshape(len(images), -1), labels.astype(np.int64)


def part_files(part: str) -> list[str]:
    """Return the registry's names for images and labels."""
    prefix = _PREFIX[part]
    return [f"mnist/{prefix}-images-idx3-ubyte.gz", f"mnist/{prefix}-labels-idx1-ubyte.gz"]


def _read(file: str) -> np.ndarray:
    """Return the bytes of an IDX file: 0, 0, type, rank, then each length in four bytes."""
    content = gzip.decompress(local_path(file).read_bytes())
    rank = content[3]
    shape = np.frombuffer(content, ">i4", count=rank, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape).copy()
