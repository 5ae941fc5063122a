"""A mesh of devices: arrays that are whole or in parts on each, and sums over all of them."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

#: The axis of the mesh over which rows are spread.
_AXIS = "data"

_active: ContextVar[Mesh | None] = ContextVar("ngem_mesh", default=None)


@contextlib.contextmanager
def data_parallel(devices: Sequence[Any] | None = None) -> Iterator[Mesh]:
    """Train networks on several devices while the block runs, each batch spread over them.

    Gradients are added up exactly: what is learned is the same as on one device, but for rounding.
    With dropout each device drops other units, so the result is another one of the same quality.
    Members train one after the other. In a program of several processes, call `initialize` first,
    and run the same fit on the same rows in all of them.

    Args:
        devices: Devices to use; None is all devices of all processes.
    """
    chosen = jax.devices() if devices is None else list(devices)
    mesh = jax.make_mesh((len(chosen),), (_AXIS,), (AxisType.Auto,), devices=chosen)
    token = _active.set(mesh)
    try:
        yield mesh
    finally:
        _active.reset(token)


def active_mesh() -> Mesh | None:
    """Return the mesh of the enclosing `data_parallel`, or None outside."""
    return _active.get()


def replicated(mesh: Mesh, tree: Any) -> Any:
    """Return a pytree whose arrays are whole on every device."""
    return jax.tree.map(lambda leaf: _place(mesh, PartitionSpec(), leaf), tree)


def in_parts(mesh: Mesh, tree: Any) -> Any:
    """Return a pytree of whose arrays each device holds a part; it divides their first axis."""
    return jax.tree.map(lambda leaf: _place(mesh, PartitionSpec(_AXIS), leaf), tree)


def from_local(mesh: Mesh, tree: Any) -> Any:
    """Return a pytree in parts, of whose arrays each process has those of its own devices."""
    sharding = NamedSharding(mesh, PartitionSpec(_AXIS))

    def place(leaf: np.ndarray) -> Array:
        own = len(mesh.local_devices)
        shape = (len(leaf) // own * mesh.size, *leaf.shape[1:])
        return jax.make_array_from_process_local_data(sharding, leaf, shape)

    return jax.tree.map(place, tree)


def local(tree: Any) -> Any:
    """Return a pytree of replicated arrays as arrays of this process alone."""
    return jax.tree.map(_local, tree)


def added_up(
    mesh: Mesh, function: Callable[[Array, Any, Any], Any], given: Any, parts: Any = None
) -> Any:
    """Return the sum over devices of what a function returns, with one message between them.

    Args:
        mesh: The devices.
        function: Takes the number of the device, what is given, and the device's part.
        given: A pytree that is whole on every device.
        parts: A pytree of arrays, of which each device has a part.
    """
    arrays, static = eqx.partition(given, eqx.is_array)

    def on_device(arrays: Any, part: Any) -> Any:
        result = function(jax.lax.axis_index(_AXIS), eqx.combine(arrays, static), part)
        return jax.lax.psum(result, _AXIS)

    whole = PartitionSpec()
    # Without the check, autodiff within the function adds up nothing: only its result is.
    program = jax.shard_map(
        on_device,
        mesh=mesh,
        in_specs=(whole, PartitionSpec(_AXIS)),
        out_specs=whole,
        check_vma=False,
    )
    return program(arrays, parts)


def agree(mesh: Mesh | None, number: int) -> int:
    """Return the first process's number in all processes."""
    if mesh is None or not mesh.is_multi_process:
        return number
    return int(multihost_utils.broadcast_one_to_all(np.asarray(number, np.int32)))


def check_agreement(mesh: Mesh, identity: str) -> None:
    """Refuse a run whose processes would compute different things.

    Args:
        mesh: The devices.
        identity: SHA-256 of all that the run starts from, in hexadecimal digits.
    """
    if not mesh.is_multi_process:
        return
    own = np.frombuffer(bytes.fromhex(identity), np.uint8)
    every = np.asarray(multihost_utils.process_allgather(own))
    others = np.flatnonzero(np.any(every != every[0], axis=1))
    if len(others):
        names = ", ".join(map(str, others))
        raise ValueError(
            "all processes must train on the same rows from the same start, got others than those "
            f"of process 0 in process {names}; give every process the same table, an integer "
            "random_state, and a checkpoint in a directory that all of them see."
        )


def _place(mesh: Mesh, spec: PartitionSpec, leaf: Array) -> Array:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_place(mesh, spec, jax.random.key_data(leaf)))
    whole = np.asarray(leaf)
    # Each process has all of it, and gives each of its devices the part that is asked for.
    sharding = NamedSharding(mesh, spec)
    return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])


def _local(leaf: Array) -> Array:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_local(jax.random.key_data(leaf)))
    return jnp.asarray(np.asarray(leaf))
