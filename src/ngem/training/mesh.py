"""Data-parallel training: the rows of each batch spread over the devices of a mesh.

Every device has all rows of the table and all parameters, and computes the losses of its part of
each batch. XLA adds up their gradients. The order of rows and the size of a batch do not depend on
the number of devices, so neither do the parameters, but for rounding.
"""

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

from .checkpoints import arrays_identity
from .data import Data

#: The axis of the mesh over which rows are spread.
AXIS = "data"

_active: ContextVar[Mesh | None] = ContextVar("ngem_mesh", default=None)


@contextlib.contextmanager
def data_parallel(devices: Sequence[Any] | None = None) -> Iterator[Mesh]:
    """Train networks on several devices while the block runs, each batch spread over them.

    Gradients are added up exactly: what is learned is the same as on one device, but for rounding.
    Members train one after the other. In a program of several processes, every process must run the
    same fit on the same rows; see `ngem.distributed`.

    Args:
        devices: Devices to use; None is all devices of all processes.
    """
    chosen = jax.devices() if devices is None else list(devices)
    mesh = jax.make_mesh((len(chosen),), (AXIS,), (AxisType.Auto,), devices=chosen)
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


def spread_rows(mesh: Mesh, data: Data) -> Data:
    """Return rows of which each device holds a part; all conditions are on every device."""
    data, rows = _filled(data, mesh.size), PartitionSpec(AXIS)
    x = _place(mesh, rows if data.condition is None else PartitionSpec(), data.x)
    rest = jax.tree.map(lambda leaf: _place(mesh, rows, leaf), data._replace(x=None))
    return rest._replace(x=x)


def added_up(mesh: Mesh, function: Callable[[Array, Any], Any], given: Any) -> Any:
    """Return the sum over devices of what a function returns, with one message between them.

    Args:
        mesh: The devices.
        function: Takes the number of the device, and what is given.
        given: A pytree that is whole on every device.
    """
    arrays, static = eqx.partition(given, eqx.is_array)

    def on_device(arrays: Any) -> Any:
        result = function(jax.lax.axis_index(AXIS), eqx.combine(arrays, static))
        return jax.lax.psum(result, AXIS)

    whole = PartitionSpec()
    # Autodiff within the function is that of one device, so nothing is added up but its result.
    program = jax.shard_map(
        on_device, mesh=mesh, in_specs=whole, out_specs=whole, check_vma=False
    )
    return program(arrays)


def local(tree: Any) -> Any:
    """Return a pytree of replicated arrays as arrays of this process alone."""
    return jax.tree.map(_local, tree)


def check_agreement(mesh: Mesh, tree: Any) -> None:
    """Refuse a run whose processes would not compute the same: all collective steps would be off."""
    if not mesh.is_multi_process:
        return
    own = np.frombuffer(bytes.fromhex(arrays_identity(tree)), np.uint8)
    every = np.asarray(multihost_utils.process_allgather(own))
    others = np.flatnonzero(np.any(every != every[0], axis=1))
    if len(others):
        names = ", ".join(map(str, others))
        raise ValueError(
            "all processes must train on the same rows from the same start, got others than those "
            f"of process 0 in process {names}; give every process the same table, an integer "
            "random_state, and a checkpoint in a directory that all of them see."
        )


def agree(mesh: Mesh | None, number: int) -> int:
    """Return the first process's number in all processes."""
    if mesh is None or not mesh.is_multi_process:
        return number
    return int(multihost_utils.broadcast_one_to_all(np.asarray(number, np.int32)))


def _filled(data: Data, devices: int) -> Data:
    """Return data whose number of rows the devices divide; rows that fill up have weight zero."""
    count = len(data.y)
    lacking = -count % devices
    if not lacking:
        return data
    index = jnp.minimum(jnp.arange(count + lacking), count - 1)
    present = (jnp.arange(count + lacking) < count).astype(data.y.dtype)
    filled = data.take(index)
    weights = present if filled.weights is None else filled.weights * present
    return filled._replace(weights=weights)


def _place(mesh: Mesh, spec: PartitionSpec, leaf: Array) -> Array:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_place(mesh, spec, jax.random.key_data(leaf)))
    whole = np.asarray(leaf)
    # Each process has all rows, and gives each of its devices the part that is asked for.
    sharding = NamedSharding(mesh, spec)
    return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])


def _local(leaf: Array) -> Array:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_local(jax.random.key_data(leaf)))
    return jnp.asarray(np.asarray(leaf))
