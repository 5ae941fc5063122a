"""The fit loop for rows that do not fit into memory: an epoch is a sequence of windows of rows.

Rows, optimizer and early stopping are those of `loop`. Only the order differs: a window's rows are
shuffled among themselves by who reads them.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._machine import claim_process
from .._programs import kept
from ..distributed.mesh import check_agreement, from_local, local, replicated
from ..nn import MixtureNetwork
from .checkpoints import arrays_identity
from .data import Data, check_data
from .loop import Callback, finish, finish_epoch, make_run, report, spread, undo_overflow
from .plan import Plan
from .state import FitResult, History, Place, State, initial_state
from .step import Run, take_step

#: Rows of the last window that are kept.
_KEPT = 640


@runtime_checkable
class Feed(Protocol):
    """What yields the rows of each epoch, already as the network reads them.

    Attributes:
        n_rows: Rows of an epoch.
        batch_size: Rows of a step.
        window_rows: Rows of a window, a multiple of the batch size; the last one may be shorter.
        lanes: First place of each device within a batch, and the end of the last one.
    """

    @property
    def n_rows(self) -> int: ...

    @property
    def batch_size(self) -> int: ...

    @property
    def window_rows(self) -> int: ...

    @property
    def lanes(self) -> tuple[int, ...]: ...

    def windows(self, epoch: int, skip: int, stop: int) -> AbstractContextManager[Iterable[Data]]:
        """Return the windows of all epochs from one on, the same in every run.

        Each holds the rows of the devices of this process, one device after the other, as many of
        each batch as the device with the widest part has. Rows that only fill up do not count.

        Args:
            epoch: The first epoch.
            skip: Windows of that epoch to leave out.
            stop: The epoch before which to end.
        """
        ...


Saver = Callable[[State, History, Place], Any]


class WindowBatches(NamedTuple):
    """The batches of a window, in the order of its rows; see `Batches`.

    Attributes:
        rows: Rows of the window that count.
        n_batches: Batches of the whole epoch, which schedules count by.
        lanes: First place of each device within a batch, and the end of the last one.
    """

    rows: Int[Array, ""]
    n_batches: Int[Array, ""]
    lanes: tuple[int, ...]

    @property
    def is_divided(self) -> bool:
        """Whether each device has its own rows only."""
        return True

    @property
    def size(self) -> int:
        """Rows per batch."""
        return self.lanes[-1]

    @property
    def width(self) -> int:
        """Rows per batch on each device, those that only fill up included."""
        return max(end - start for start, end in itertools.pairwise(self.lanes))

    def mass(self, batch: Data | None, number: Int[Array, ""]) -> Int[Array, ""]:
        """Return how many rows of a batch count."""
        del batch
        return jnp.clip(self.rows - number * self.size, 0, self.size)

    def take(self, data: Data, number: Int[Array, ""]) -> Data:
        """Return a batch; rows that only fill up the window have weight zero."""
        return self.take_part(data, number, jnp.zeros_like(number), 1)

    def take_part(
        self, data: Data, number: Int[Array, ""], part: Int[Array, ""], parts: int
    ) -> Data:
        """Return a device's part of a batch, of which it has the rows."""
        del parts
        x, y = (
            jax.lax.dynamic_slice_in_dim(rows, number * self.width, self.width) for rows in data[:2]
        )
        lanes = jnp.asarray(self.lanes, number.dtype)
        lane = lanes[part] + jnp.arange(self.width, dtype=number.dtype)
        present = (lane < lanes[part + 1]) & (number * self.size + lane < self.rows)
        return Data(x, y, present.astype(y.dtype))


def fit_stream(
    network: MixtureNetwork,
    feed: Feed,
    plan: Plan,
    *,
    key: PRNGKeyArray,
    max_epochs: int,
    learning_rate: float | None = None,
    weight_decay: float | None = None,
    validation: Data | None = None,
    callbacks: Sequence[Callback] = (),
    resume: tuple[State, History, Place] | None = None,
    save: Saver | None = None,
    mesh: Mesh | None = None,
) -> FitResult:
    """Return the network trained on a stream; see `fit`.

    Args:
        network: Where to start from.
        feed: Rows to learn from, window by window.
        plan: How to train.
        key: Randomness of dropout; the feed has that of the order.
        max_epochs: Passes over the data.
        learning_rate: Peak learning rate; the optimizer's own default if None.
        weight_decay: Decoupled decay of weight matrices; the optimizer's own default if None.
        validation: Rows for early stopping.
        callbacks: Called with a `Progress` after each epoch.
        resume: State, history and place of an earlier run to continue.
        save: Called with state, history and place after each window; in the first process only.
        mesh: Devices over which each batch is spread, each of which has its own rows only.
    """
    claim_process()
    if validation is not None:
        check_data("validation", validation)
    # The windows take the place of these rows, which only make the run complete.
    nothing = Data(*(jnp.zeros((1, 1), jnp.float32) for _ in range(2)))
    run = make_run(network, nothing, plan, validation, learning_rate, weight_decay, max_epochs)
    if resume is None:
        start = initial_state(network, run.plan, key)
        resume = start, History(np.zeros(0), np.zeros(0)), Place()
    placed, own = run, resume[0]
    if mesh is not None:
        _check_mesh(mesh, run, resume)
        placed, own = spread(run, mesh), replicated(mesh, resume[0])
    state, history, place = own, *resume[1:]
    started = time.perf_counter()
    with feed.windows(int(state.epoch), place.window, max_epochs) as windows:
        rest = iter(windows)
        while not bool(state.done) and int(state.epoch) < max_epochs:
            # JAX may copy a window; this keeps no name for it, so that it is freed, but for some
            # rows that an error may be explained by.
            data = next(rest)
            x, y = (jax.device_put(np.array(part[:_KEPT])) for part in data[:2])
            run = run._replace(data=Data(x, y))
            data = _to_devices(mesh, data)
            state, place = _train_on(placed._replace(data=data), feed, state, place)
            del data
            if place.window * feed.window_rows >= feed.n_rows:
                state, history = _end_epoch(placed, state, history, place)
                place = Place()
                report(callbacks, history, state, max_epochs, len(history.train) - 1, started)
            if save is not None and jax.process_index() == 0:
                save(state if mesh is None else local(state), history, place)
    state = state if mesh is None else local(state)
    return finish(run, state, history)


def _check_mesh(mesh: Mesh, run: Run, resume: tuple[State, History, Place]) -> None:
    """Refuse what a mesh cannot do, or would do differently on each process."""
    if run.plan.optimizer_spec.needs_curvature:
        raise ValueError(
            f"optimizer must be one that needs gradients only for a stream on several devices, got "
            f"{run.plan.optimizer!r}, which needs all rows of a batch on each; try 'adam'."
        )
    check_agreement(mesh, arrays_identity((run.validation, run.hyper, resume)))


def _to_devices(mesh: Mesh | None, data: Data) -> Data:
    rows = data[:2]
    return Data(*(jax.device_put(rows) if mesh is None else from_local(mesh, rows)))


def _train_on(run: Run, feed: Feed, state: State, place: Place) -> tuple[State, Place]:
    """Return the state and the place after a window."""
    rows = min(feed.window_rows, feed.n_rows - place.window * feed.window_rows)
    n_batches = -(-feed.n_rows // feed.batch_size)
    counts: Any = (np.asarray(rows, np.int32), np.asarray(n_batches, np.int32))
    batches = WindowBatches(counts[0], counts[1], feed.lanes)
    fixed = (run._replace(validation=None), batches)
    state, total, mass = _run_window(fixed, state)
    try:
        place = Place(place.window + 1, place.total + float(total), place.mass + float(mass))
    except KeyboardInterrupt:
        jax.block_until_ready(state.step)  # an interpreter that ends under its program crashes
        raise
    return state, place


# The state is donated: its buffers are reused for the next one.
@kept(donate_rest=True)
def _run_window(
    fixed: tuple[Run, WindowBatches], state: State
) -> tuple[State, Float[Array, ""], Float[Array, ""]]:
    """Take the steps of one window; return the sums of losses and of weights too."""
    run, batches = fixed
    parts = 1 if run.mesh is None else run.mesh.size
    logs = jnp.zeros((2, len(run.data.y) // (parts * batches.width)), run.data.y.dtype)

    def step(number: Int[Array, ""], carry: tuple[State, Array]) -> tuple[State, Array]:
        state, logs = carry
        state, sums = take_step(run, batches, state, number)
        return state, logs.at[:, number].set(jnp.stack(sums))

    count = -(-batches.rows // batches.size)
    after, logs = jax.lax.fori_loop(jnp.zeros_like(count), count, step, (state, logs))
    return undo_overflow(run.plan, state, after), *jnp.sum(logs, axis=1)


def _end_epoch(run: Run, state: State, history: History, place: Place) -> tuple[State, History]:
    train = np.float64(place.total) / place.mass if place.mass else np.float64(np.nan)
    like = np.asarray(train, run.data.y.dtype)
    state, held_out = _finish_epoch((run, like), state)
    return state, History(
        np.append(history.train, train), np.append(history.validation, float(held_out))
    )


@kept(donate_rest=True)
def _finish_epoch(fixed: tuple[Run, Any], state: State) -> tuple[State, Float[Array, ""]]:
    run, train = fixed
    return finish_epoch(run, state, train)
