"""Checkpoints: the complete state of a run in one file, from which it continues."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _files
from .state import History, State

_KIND, _VERSION = "ngem.checkpoint", 1


class Checkpoint:
    """A checkpoint file of one run.

    Args:
        path: The file.
        settings: What the run was asked to do. A file made with other settings is refused, because
            continuing from it would give neither run's result.
        every: Seconds between two writes; the last state is always written.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        settings: Mapping[str, Any],
        *,
        every: float = 10.0,
    ):
        self._path = Path(path)
        self._settings = dict(settings)
        self._every = every
        self._written = -float("inf")

    def save(self, state: State, history: History) -> None:
        """Write the state if it is time to, or if the run is over."""
        now = time.monotonic()
        if now - self._written < self._every and not bool(state.done):
            return
        leaves = jax.tree.leaves(state._replace(key=jax.random.key_data(state.key)))
        arrays = {f"state/{index:05d}": np.asarray(leaf) for index, leaf in enumerate(leaves)}
        arrays |= {f"history/{name}": getattr(history, name) for name in History._fields}
        header = {"settings": self._settings}
        _files.write(self._path, arrays, header, kind=_KIND, version=_VERSION)
        self._written = now

    def load(self, like: State) -> tuple[State, History] | None:
        """Return state and history from the file, or None if there is no file yet.

        Args:
            like: A state of the same run, for the structure.
        """
        if not self._path.exists():
            return None
        arrays, header = _files.read(self._path, kind=_KIND, version=_VERSION)
        saved = header.get("settings", {})
        if saved != self._settings:
            changed = sorted(
                name
                for name in {*self._settings, *saved}
                if saved.get(name) != self._settings.get(name)
            )
            raise _files.FileError(
                f"{self._path} must come from a run with the same settings and data, got other "
                f"values of {', '.join(changed)}; delete the file to start anew."
            )
        return self._restore(arrays, like)

    def _restore(self, arrays: dict[str, np.ndarray], like: State) -> tuple[State, History]:
        plain = like._replace(key=jax.random.key_data(like.key))
        leaves, structure = jax.tree.flatten(plain)
        names = [f"state/{index:05d}" for index in range(len(leaves))]
        fits = all(
            name in arrays and arrays[name].shape == leaf.shape and arrays[name].dtype == leaf.dtype
            for name, leaf in zip(names, leaves, strict=True)
        )
        if not fits:
            raise _files.FileError(
                f"{self._path} must hold the state of this network and optimizer, got another; "
                "delete the file to start anew."
            )
        state = jax.tree.unflatten(structure, [jnp.asarray(arrays[name]) for name in names])
        state = state._replace(key=jax.random.wrap_key_data(state.key))
        return state, History(*(arrays[f"history/{name}"] for name in History._fields))
