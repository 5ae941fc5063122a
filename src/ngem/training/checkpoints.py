"""Checkpoints: the complete state of a run in one file, from which it continues."""

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import _files
from ..nn import MixtureNetwork
from .plan import Plan
from .state import History, Place, State, as_vector, initial_state

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

    def save(self, state: State, history: History, place: Place | None = None) -> None:
        """Write the state if it is time to, or if the run is over.

        Args:
            state: All that the run is.
            history: Likelihoods of the epochs so far.
            place: Where a run on a stream is within an epoch.
        """
        now = time.monotonic()
        if now - self._written < self._every and not bool(state.done):
            return
        leaves = jax.tree.leaves(state._replace(key=jax.random.key_data(state.key)))
        arrays = {f"state/{index:05d}": np.asarray(leaf) for index, leaf in enumerate(leaves)}
        arrays |= {f"history/{name}": getattr(history, name) for name in History._fields}
        header = {"settings": self._settings}
        if place is not None:
            arrays["place"] = np.array(place, np.float64)
        _files.write(self._path, arrays, header, kind=_KIND, version=_VERSION)
        self._written = now

    def load(self, like: State) -> tuple[State, History] | None:
        """Return state and history from the file, or None if there is no file yet.

        Args:
            like: A state of the same run, for the structure.
        """
        loaded = self.load_place(like)
        return None if loaded is None else loaded[:2]

    def load_place(self, like: State) -> tuple[State, History, Place] | None:
        """Return state, history and the place in a stream, or None if there is no file yet."""
        _files.clear_leftovers(self._path)
        if not self._path.exists():
            return None
        arrays, header = _files.read(self._path, kind=_KIND, version=_VERSION)
        saved = header.get("settings")
        if not isinstance(saved, dict):
            self._refuse("the settings of its run", "none")
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
        state = self._restore(arrays, like)
        place = arrays.get("place", np.array(Place(), np.float64))
        is_place = place.shape == (3,) and np.all(np.isfinite(place)) and place[0] >= 0
        if not is_place or place[0] % 1:
            self._refuse("a place in the stream", place)
        where = Place(int(place[0]), float(place[1]), float(place[2]))
        return state, self._restore_history(arrays, int(state.epoch)), where

    def _restore_history(self, arrays: dict[str, np.ndarray], n_epochs: int) -> History:
        curves = [arrays.get(f"history/{name}") for name in History._fields]
        for curve in curves:
            if curve is None or curve.dtype != np.float64 or curve.shape != (n_epochs,):
                got = "none" if curve is None else f"{curve.dtype} of shape {curve.shape}"
                self._refuse(f"a history of {n_epochs} epochs", got)
        return History(*(curve for curve in curves if curve is not None))

    def _refuse(self, expected: str, got: Any) -> NoReturn:
        raise _files.FileError(
            f"{self._path} must hold {expected}, got {got}; delete the file to start anew."
        )

    def _restore(self, arrays: dict[str, np.ndarray], like: State) -> State:
        plain = like._replace(key=jax.random.key_data(like.key))
        leaves, structure = jax.tree.flatten(plain)
        names = [f"state/{index:05d}" for index in range(len(leaves))]
        fits = all(
            name in arrays and arrays[name].shape == leaf.shape and arrays[name].dtype == leaf.dtype
            for name, leaf in zip(names, leaves, strict=True)
        )
        if not fits:
            self._refuse("the state of this network and optimizer", "another")
        state = jax.tree.unflatten(structure, [jnp.asarray(arrays[name]) for name in names])
        return state._replace(key=jax.random.wrap_key_data(state.key))


def optimizer_identity(plan: Plan, network: MixtureNetwork) -> str:
    """Return what tells a plan's optimizer from others: its name, or a hash of what it computes.

    Two optax transformations can have equal arrays and different numbers in their code, such as
    the learning rate. The program that JAX makes of an update contains those.
    """
    if isinstance(plan.optimizer, str):
        return plan.optimizer
    state = initial_state(network, plan, jax.random.key(0))
    params, _ = as_vector(plan, state.params)
    program = program_identity(plan.optimizer.update, params, state.optimizer, params)
    return f"{program} {arrays_identity(state.optimizer)}"


def program_identity(function: Callable, *arguments: Any) -> str:
    """Return a hash of the program that JAX makes of a function, its constants included."""
    traced = jax.jit(function).trace(*arguments)
    text = traced.lower().as_text()
    return f"{hashlib.sha256(text.encode()).hexdigest()} {arrays_identity(traced.jaxpr.consts)}"


def arrays_identity(tree: Any) -> str:
    """Return a hash of the arrays of a pytree."""
    digest = hashlib.sha256()
    for leaf in filter(eqx.is_array, jax.tree.leaves(tree)):
        array = np.asarray(_plain(leaf))
        digest.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _plain(leaf: Any) -> Any:
    """Return an array of numbers; a key is made of some."""
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if is_key else leaf
