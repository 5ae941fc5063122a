"""The one fit loop: compiled epochs, early stopping, and what the host does between them."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._machine import claim_process
from .._programs import kept
from ..distributed.mesh import agree, check_agreement, in_parts, local, replicated
from ..nn import MixtureNetwork, apply
from .checkpoints import arrays_identity
from .data import Data, arrange, check_data, filled_up, make_batches
from .parallel import Watch, side_by_side
from .plan import Plan, make_hyper
from .state import (
    ORDER,
    FitError,
    FitResult,
    History,
    Progress,
    State,
    as_vector,
    dtype_of,
    initial_state,
)
from .step import Run, all_leaves, stopping_loss, take_step

#: Epochs that one call of the compiled program runs at most; the host sees metrics in between.
_CHUNK = 64

#: Seconds that a chunk should take, so that progress is visible and a stop is prompt.
_CHUNK_SECONDS = 0.25

#: The schedule of the strength ends after this fraction of the patience without improvement, 1/4.
_STALL = 4

#: Rows from which the cause of a failed fit is guessed.
_DIAGNOSED_ROWS = 640

Callback = Callable[[Progress], Any]
Saver = Callable[[State, History], Any]
Logs = tuple[Float[Array, " epoch"], Float[Array, " epoch"]]
_Carry = tuple[State, Logs, Int[Array, ""]]


def fit(
    network: MixtureNetwork,
    data: Data,
    plan: Plan,
    *,
    key: PRNGKeyArray,
    max_epochs: int = 200,
    learning_rate: float | None = None,
    weight_decay: float | None = None,
    validation: Data | None = None,
    callbacks: Sequence[Callback] = (),
    resume: tuple[State, History] | None = None,
    save: Saver | None = None,
    mesh: Mesh | None = None,
) -> FitResult:
    """Return the trained network.

    Args:
        network: Where to start from.
        data: Rows to learn from, scaled as the network expects.
        plan: How to train.
        key: Randomness of batches and dropout.
        max_epochs: Passes over the data; schedules end with the last of them.
        learning_rate: Peak learning rate; the optimizer's own default if None.
        weight_decay: Decoupled decay of weight matrices; the optimizer's own default if None.
        validation: Rows for early stopping. With them, the parameters with the best likelihood of
            these rows, as `stopping_loss` measures it, are the ones returned.
        callbacks: Called with a `Progress` after each epoch.
        resume: State and history of an earlier run to continue.
        save: Called with state and history now and then, and at the end; in the first process only.
        mesh: Devices over which each batch is spread, see `data_parallel`; None for one device.

    Raises:
        FitError: If steps were not finite too many times in a row.
    """
    claim_process()
    check_data("training", data)
    if validation is not None:
        check_data("validation", validation)
    run = make_run(network, data, plan, validation, learning_rate, weight_decay, max_epochs)
    if resume is None:
        resume = initial_state(network, run.plan, key), History(np.zeros(0), np.zeros(0))
    placed = run
    if mesh is not None:
        check_agreement(mesh, arrays_identity((run, resume)))
        placed, resume = spread(run, mesh), (replicated(mesh, resume[0]), resume[1])
    state, history = _run_to_the_end(placed, *resume, max_epochs, callbacks, save)
    return finish(run, state if mesh is None else local(state), history)


def compiled(network: MixtureNetwork, data: Data, plan: Plan) -> Any:
    """Return the program that `fit` would run, compiled: XLA's plan of operations and memory.

    Example: `compiled(network, data, plan).cost_analysis()["flops"]`, of one step.
    """
    run = make_run(network, data, plan, None, None, None, 1)
    state = initial_state(network, run.plan, jax.random.key(0))
    return _run_epochs.lower((run, jnp.ones((), jnp.int32)), state).compile()


def fit_many(
    networks: Sequence[MixtureNetwork],
    data: Data | Sequence[Data],
    plan: Plan,
    *,
    keys: Sequence[PRNGKeyArray],
    learning_rates: Sequence[float] | None = None,
    validation: Data | Sequence[Data] | None = None,
    threads: int = 2,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> list[FitResult]:
    """Return one result per network, trained in parallel threads, see `side_by_side`.

    Args:
        networks: Where each run starts from; of one architecture.
        data: Rows to learn from, shared or one per run.
        plan: How to train, shared.
        keys: Randomness of each run.
        learning_rates: One per run, or None for the optimizer's default.
        validation: Rows for early stopping, shared or one per run.
        threads: Runs at a time.
        callbacks: Called with a `Progress` after each epoch of each run.
        settings: Passed on to `fit`.
    """
    runs = len(networks)

    def per_run(value: Any) -> Sequence[Any]:
        return [value] * runs if value is None or isinstance(value, Data) else value

    def one(args: tuple, watch: Watch) -> FitResult:
        network, rows, held_out, key, rate = args
        return fit(
            network,
            rows,
            plan,
            key=key,
            validation=held_out,
            learning_rate=rate,
            callbacks=[*callbacks, watch],
            **settings,
        )

    each = (networks, per_run(data), per_run(validation), keys, per_run(learning_rates))
    return side_by_side([partial(one, args) for args in zip(*each, strict=True)], threads)


def make_run(
    network: MixtureNetwork,
    data: Data,
    plan: Plan,
    validation: Data | None,
    learning_rate: float | None,
    weight_decay: float | None,
    max_epochs: int,
) -> Run:
    params, static = eqx.partition(network, eqx.is_inexact_array)
    if validation is not None:
        validation = arrange(network, validation, len(validation.y))
    return Run(
        static,
        plan.without_numbers(),
        arrange(network, data, plan.batch_size),
        validation,
        make_hyper(plan, learning_rate, weight_decay, max_epochs, dtype_of(params)),
    )


def spread(run: Run, mesh: Mesh) -> Run:
    """Return the run on a mesh: all training rows on every device, and a part of the others."""
    data, hyper = replicated(mesh, (run.data, run.hyper))
    validation = run.validation
    if validation is not None:
        filled = filled_up(validation, mesh.size)
        rows = in_parts(mesh, filled._replace(x=None))
        is_repeated = filled.condition is not None  # then each device needs all conditions
        place = replicated if is_repeated else in_parts
        validation = rows._replace(x=place(mesh, filled.x))
    return run._replace(data=data, hyper=hyper, validation=validation, mesh=mesh)


def _run_to_the_end(
    run: Run,
    state: State,
    history: History,
    max_epochs: int,
    callbacks: Sequence[Callback],
    save: Saver | None,
) -> tuple[State, History]:
    """Run chunks of epochs until the run is done, and report and save after each."""
    started, chunk = time.perf_counter(), 1
    while not bool(state.done) and int(state.epoch) < max_epochs:
        before, reported = time.perf_counter(), len(history.train)
        chunk = agree(run.mesh, chunk)
        limit = np.asarray(min(chunk, max_epochs - int(state.epoch)), np.int32)
        state, logs = _run_epochs((run, limit), state)
        try:
            history = _extend(history, state, logs)
        except KeyboardInterrupt:
            # JAX stops waiting at once, but an interpreter that ends under its program crashes.
            jax.block_until_ready(logs)
            raise
        report(callbacks, history, state, max_epochs, reported, started)
        if save is not None and jax.process_index() == 0:
            save(state if run.mesh is None else local(state), history)
        pace = (time.perf_counter() - before) / max(1, int(limit))
        chunk = int(np.clip(_CHUNK_SECONDS / pace, 1, _CHUNK))
    return state, history


# The state is donated: its buffers are reused for the next one.
@kept(donate_rest=True)
def _run_epochs(fixed: tuple[Run, Any], state: State) -> tuple[State, Logs]:
    """Run up to `limit` epochs and return their train and validation likelihoods."""
    run, limit = fixed
    empty = jnp.full((_CHUNK,), jnp.nan, run.data.y.dtype)

    def is_going(carry: _Carry) -> Bool[Array, ""]:
        state, _, index = carry
        return (index < limit) & ~state.done

    def body(carry: _Carry) -> _Carry:
        state, (train_log, validation_log), index = carry
        state, train, held_out = _epoch(run, state)
        logs = (train_log.at[index].set(train), validation_log.at[index].set(held_out))
        return state, logs, index + 1

    start = (state, (empty, empty), jnp.zeros((), jnp.int32))
    state, logs, _ = jax.lax.while_loop(is_going, body, start)
    return state, logs


def _epoch(run: Run, state: State) -> tuple[State, Float[Array, ""], Float[Array, ""]]:
    """Visit every row once, then evaluate the validation rows."""
    order_key = state.random_key(ORDER, state.epoch)
    batches = make_batches(order_key, run.data, run.plan.batch_size)
    before = state
    state, (totals, masses) = jax.lax.scan(
        partial(take_step, run, batches), state, jnp.arange(batches.n_batches, dtype=jnp.int32)
    )
    train = jnp.sum(totals) / jnp.sum(masses)  # NaN if every step was skipped
    state = undo_overflow(run.plan, before, state)
    state, held_out = finish_epoch(run, state, train)
    return state, train, held_out


def finish_epoch(run: Run, state: State, train: Float[Array, ""]) -> tuple[State, Float[Array, ""]]:
    """Return the state after an epoch's steps, and the likelihood of validation rows."""
    state, held_out = _validate(run, state, train)
    epoch = state.epoch + 1
    done = (epoch >= run.hyper.max_epochs) | (state.skipped_in_a_row >= run.plan.max_skipped)
    if run.plan.patience is not None and run.validation is not None:
        is_last_phase = True if run.hyper.power is None else state.annealed
        done |= (epoch - 1 - state.best_epoch >= run.plan.patience) & is_last_phase
    return _anneal(run, state._replace(epoch=epoch, done=done)), held_out


def _anneal(run: Run, state: State) -> State:
    """End the schedule of the strength when its time is over or held-out rows stop improving.

    From then on the strength is the schedule's last, zero by default, and the best parameters are
    looked for anew. So the parameters that are kept were always trained at that strength. After a
    stall, training goes on from the best parameters so far.
    """
    if run.hyper.power is None:
        return state
    is_over = state.epoch >= run.hyper.power[2] * run.hyper.max_epochs
    if run.validation is None:
        return state._replace(annealed=state.annealed | is_over)
    ends, average = ~state.annealed & is_over, state.average
    params = state.params
    if run.plan.patience is not None:
        stalls = state.epoch - 1 - state.best_epoch >= max(1, run.plan.patience // _STALL)
        goes_back = ~state.annealed & ~is_over & stalls
        ends |= goes_back
        params = _choose(goes_back, state.best, params)
        average = None if average is None else _choose(goes_back, state.best, average)
    return state._replace(
        params=params,
        average=average,
        annealed=state.annealed | ends,
        best_loss=jnp.where(ends, jnp.inf, state.best_loss),
        best_epoch=jnp.where(ends, state.epoch, state.best_epoch),
    )


def undo_overflow(plan: Plan, before: State, after: State) -> State:
    """Return the state of the epoch's start if its updates overflowed although gradients did not.

    Overflow is rare with bounded steps such as Adam's, so no copy is kept for them; they fall back
    to the best parameters so far.
    """
    params, _ = as_vector(plan, after.params)
    is_sound = all_leaves(lambda leaf: jnp.all(jnp.isfinite(leaf)), params)
    if plan.optimizer_spec.has_bounded_steps:
        average = None if plan.ema is None else after.best
        before = after._replace(params=after.best, average=average)
    params, optimizer, average = _choose(
        is_sound,
        (after.params, after.optimizer, after.average),
        (before.params, before.optimizer, before.average),
    )
    return after._replace(
        params=params,
        optimizer=optimizer,
        average=average,
        skipped_in_a_row=jnp.where(is_sound, after.skipped_in_a_row, plan.max_skipped),
    )


def _validate(run: Run, state: State, like: Float[Array, ""]) -> tuple[State, Float[Array, ""]]:
    """Return the state with the best parameters so far, and the likelihood of validation rows."""
    if run.validation is None:
        return state, jnp.full_like(like, jnp.nan)
    evaluated = state.params if run.plan.ema is None else state.average
    held_out = stopping_loss(run.network(evaluated), run.validation, run.plan.tail)
    is_better = held_out < state.best_loss
    state = state._replace(
        best=_choose(is_better, evaluated, state.best),
        best_loss=jnp.where(is_better, held_out, state.best_loss),
        best_epoch=jnp.where(is_better, state.epoch, state.best_epoch),
    )
    return state, held_out


def _choose(condition: Bool[Array, ""], new: Any, old: Any) -> Any:
    """Return one of two pytrees by a branch, which compiles faster than a choice per element."""
    return jax.lax.cond(condition, lambda: new, lambda: old)


def _extend(history: History, state: State, logs: Logs) -> History:
    new = int(state.epoch) - len(history.train)
    parts = zip(history, logs, strict=True)
    return History(*(np.append(old, np.asarray(log)[:new]) for old, log in parts))


def report(
    callbacks: Sequence[Callback],
    history: History,
    state: State,
    max_epochs: int,
    reported: int,
    started: float,
) -> None:
    """Call the callbacks for each new epoch."""
    for epoch in range(reported, len(history.train)):
        progress = Progress(
            epoch + 1,
            max_epochs,
            float(history.train[epoch]),
            float(history.validation[epoch]),
            float(state.best_loss),
            int(state.skipped),
            time.perf_counter() - started,
        )
        for callback in callbacks:
            callback(progress)


def finish(run: Run, state: State, history: History) -> FitResult:
    """Return what a run ends with, or raise if it could not learn."""
    result = _result(run, state, history)
    # A short run can end before it has skipped that many steps, but with nothing learned.
    is_stuck = len(history.train) > 0 and bool(np.isnan(history.train[-1]))
    if is_stuck or int(state.skipped_in_a_row) >= run.plan.max_skipped:
        raise FitError(_diagnose(result, run), result)
    return result


def _result(run: Run, state: State, history: History) -> FitResult:
    if run.validation is not None and np.isfinite(state.best_loss):
        params, epoch = state.best, int(state.best_epoch)
    else:
        params = state.params if run.plan.ema is None else state.average
        epoch = max(0, int(state.epoch) - 1)
    return FitResult(run.network(params), history, epoch, int(state.skipped), state)


def _diagnose(result: FitResult, run: Run) -> str:
    """Return an error message that names the likely cause."""
    family = result.network.family
    mixture = eqx.filter_jit(apply)(result.network, run.data.x[:_DIAGNOSED_ROWS])
    scales = jax.vmap(jax.vmap(family.scales))(mixture.components)
    rate = float(run.hyper.learning_rate)
    if float(jnp.min(scales)) < 2 * family.scale_floor:
        cause = (
            f"a scale has shrunk to the floor of {family.scale_floor:g}: because targets repeat "
            "exactly, where densities are unbounded, and then a higher floor helps, for example "
            f"1e-3; or because the learning rate of {rate:g} is too high, and then try "
            f"{rate / 10:g}"
        )
    else:
        cause = f"the learning rate of {rate:g} is too high; try {rate / 10:g}"
    return (
        f"training expected finite losses and gradients, got {result.skipped} steps that were not, "
        f"the last ones in a row up to epoch {int(result.state.epoch)}; likely {cause}. "
        "The last good parameters are in the error's `result`."
    )
