"""The fit loop for rows that do not fit into memory: an epoch is a sequence of windows of rows.

Rows, optimizer and early stopping are those of `loop`. Only the order differs: a window's rows are
shuffled among themselves by who reads them.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._machine import claim_process
from .._programs import kept
from ..nn import MixtureNetwork
from .data import Data, check_data
from .loop import Callback, finish, finish_epoch, make_run, report, undo_overflow
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
        window_rows: Rows of a window, a multiple of the batch size; the last one may be shorter.
    """

    @property
    def n_rows(self) -> int: ...

    @property
    def window_rows(self) -> int: ...

    def windows(self, epoch: int, skip: int, stop: int) -> AbstractContextManager[Iterable[Data]]:
        """Return the windows of all epochs from one on, the same in every run.

        All have `window_rows` rows. The last one of an epoch is filled up with rows that do not
        count.

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
        size: Rows per batch.
        n_batches: Batches of the whole epoch, which schedules count by.
    """

    rows: Int[Array, ""]
    size: int
    n_batches: Int[Array, ""]

    def take(self, data: Data, number: Int[Array, ""]) -> Data:
        """Return a batch; rows that only fill up the window have weight zero."""
        start = number * self.size
        x, y = (jax.lax.dynamic_slice_in_dim(part, start, self.size) for part in data[:2])
        present = start + jnp.arange(self.size, dtype=start.dtype) < self.rows
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
        save: Called with state, history and place after each window.
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
    state, history, place = resume
    started, n_batches = time.perf_counter(), -(-feed.n_rows // plan.batch_size)
    with feed.windows(int(state.epoch), place.window, max_epochs) as windows:
        rest = iter(windows)
        while not bool(state.done) and int(state.epoch) < max_epochs:
            # JAX may copy a window; this keeps no name for it, so that it is freed.
            run = run._replace(data=Data(*jax.device_put(next(rest)[:2])))
            state, place = _train_on(run, feed, n_batches, state, place)
            # Free the copy too, but for some rows that an error may be explained by.
            run = run._replace(data=Data(run.data.x[:_KEPT], run.data.y[:_KEPT]))
            if place.window * feed.window_rows >= feed.n_rows:
                state, history = _end_epoch(run, state, history, place)
                place = Place()
                report(callbacks, history, state, max_epochs, len(history.train) - 1, started)
            if save is not None:
                save(state, history, place)
    return finish(run, state, history)


def _train_on(
    run: Run, feed: Feed, n_batches: int, state: State, place: Place
) -> tuple[State, Place]:
    """Return the state and the place after a window."""
    rows = min(feed.window_rows, feed.n_rows - place.window * feed.window_rows)
    counts: Any = (np.asarray(rows, np.int32), np.asarray(n_batches, np.int32))
    batches = WindowBatches(counts[0], run.plan.batch_size, counts[1])
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
    logs = jnp.zeros((2, len(run.data.y) // batches.size), run.data.y.dtype)

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
