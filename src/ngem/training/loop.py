"""The one fit loop: compiled epochs, early stopping, schedules, skipped steps."""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .. import _defaults, _errors
from ..mixture import Mixture, checks
from ..nn import MixtureNetwork, hidden_matrices, output_gradient, tapped
from ..objectives import ANNEALED, NGEM, NLL, AbstractObjective
from ..optimizers import (
    DEFAULT_LEARNING_RATES,
    DEFAULT_WEIGHT_DECAY,
    make_optimizer,
    tapped_statistics,
)

#: Epochs that one call of the compiled program runs at most; the host sees metrics in between.
_CHUNK = 64

#: Seconds that a chunk should take, so that progress is visible and a stop is prompt.
_CHUNK_SECONDS = 0.25

#: Parameters up to which one vector of all is cheaper than an array for each layer.
_SMALL_NETWORK = 100_000

#: Rounds in which rows are put in a random order, of two moves each.
_ROUNDS = 4

#: Row numbers put in random order at a time.
_ORDER_BLOCK = 8192

#: Rows from which on, and targets up to which, rows are the last axis of all arrays of a step.
_MANY_ROWS, _FEW_TARGETS = 32, 32

#: Streams of randomness within a run: the order of rows, and all that is drawn in a step.
_ORDER, _NOISE = 0, 1


@dataclass(frozen=True)
class Plan:
    """How to train. Fits whose plans are equal and whose shapes agree share one compiled program.

    Attributes:
        objective: What to minimise.
        optimizer: "sgd", "adam", "adamw", "muon", "soap", "kfac", or an optax transformation,
            which then carries its own learning rate.
        batch_size: Rows per step; the last batch of an epoch may be smaller.
        learning_rate_schedule: "constant", or "cosine" to zero at the end of `max_epochs`.
        warmup: Share of training during which the learning rate rises linearly from zero.
        power: (start, end, share): the objective's strength goes linearly from start to end over
            the first share of training. None leaves it to the objective, constant. "auto" is the
            library's schedule for its default objective, `ANNEALED`, and None for any other.
        clip_norm: Largest Euclidean norm of a gradient, or None.
        ema: Decay of a moving average of the parameters that is used in their stead for
            validation and prediction, or None. The first steps are averaged over fewer.
        patience: Epochs without improvement on validation data before stopping, or None.
        max_skipped: Steps in a row that may be skipped as not finite before the fit is given up.
    """

    objective: AbstractObjective = field(default_factory=NGEM)
    optimizer: str | optax.GradientTransformation = "adam"
    batch_size: int = 128
    learning_rate_schedule: str = "cosine"
    warmup: float = 0.0
    power: tuple[float, float, float] | str | None = "auto"
    clip_norm: float | None = None
    ema: float | None = None
    patience: int | None = None
    max_skipped: int = 50

    def __post_init__(self):
        _errors.check_choice(
            "learning_rate_schedule", self.learning_rate_schedule, ("constant", "cosine")
        )
        if isinstance(self.optimizer, str):
            _errors.check_choice("optimizer", self.optimizer, DEFAULT_LEARNING_RATES)
        _errors.check_fraction("warmup", self.warmup)
        if isinstance(self.power, str):
            _errors.check_choice("power", self.power, ("auto",))

    @property
    def power_schedule(self) -> tuple[float, float, float] | None:
        """Start, end and share of the schedule of the strength, or None where there is none."""
        if isinstance(self.power, str):
            return _defaults.POWER_SCHEDULE if self._is_default else None
        return self.power

    @property
    def scheduled_objective(self) -> AbstractObjective:
        """The objective as the schedule wants it: under the library's own, `ANNEALED`."""
        return ANNEALED if self._is_default else self.objective

    @property
    def _is_default(self) -> bool:
        return self.power == "auto" and self.objective == NGEM()


class Data(NamedTuple):
    """Rows to learn from: features, targets and, where they differ, weights.

    Where few conditions repeat over many rows, `x` may hold each once and `condition` say which of
    them belongs to which target. The network then runs on the distinct ones only, forward and
    backward, for exactly the same gradient. `condense` makes this form of data that allow it.
    """

    x: Float[Array, "conditions features"]
    y: Float[Array, "batch dim"]
    weights: Float[Array, " batch"] | None = None
    condition: Int[Array, " batch"] | None = None

    @property
    def rows(self) -> Float[Array, "batch features"]:
        """Features of every row."""
        return self.x if self.condition is None else self.x[self.condition]


class Hyper(NamedTuple):
    """Numbers that may differ between runs of one compiled program."""

    learning_rate: Float[Array, ""]
    weight_decay: Float[Array, ""]
    max_epochs: Int[Array, ""]
    power: Float[Array, "3"] | None


class State(NamedTuple):
    """All that a run is: what is needed to go on as if nothing had happened."""

    params: Any
    optimizer: Any
    average: Any
    best: Any
    best_loss: Float[Array, ""]
    best_epoch: Int[Array, ""]
    key: PRNGKeyArray
    epoch: Int[Array, ""]
    step: Int[Array, ""]
    skipped: Int[Array, ""]
    skipped_in_a_row: Int[Array, ""]
    done: Bool[Array, ""]


class History(NamedTuple):
    """Mean negative log-likelihood of each epoch: while training, and on validation data."""

    train: np.ndarray
    validation: np.ndarray


class Progress(NamedTuple):
    """What a callback is told after an epoch."""

    epoch: int
    max_epochs: int
    train_nll: float
    validation_nll: float
    best_nll: float
    skipped: int
    seconds: float


class FitResult(NamedTuple):
    """What a fit ends with."""

    network: MixtureNetwork
    history: History
    best_epoch: int
    skipped: int
    state: State


class FitError(RuntimeError):
    """A fit that could not go on; `result` holds the last good parameters."""

    def __init__(self, message: str, result: FitResult):
        super().__init__(message)
        self.result = result

    def __reduce__(self):
        # Without this an error of a worker process could not be told to the one that waits for it.
        return type(self), (str(self), self.result)


Callback = Callable[[Progress], Any]
Saver = Callable[[State, History], Any]


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
) -> FitResult:
    """Return the trained network.

    Args:
        network: Where to start from.
        data: Rows to learn from, scaled as the network expects.
        plan: How to train.
        key: Randomness of batches and dropout.
        max_epochs: Passes over the data; schedules are laid out over this many.
        learning_rate: Peak learning rate; the optimizer's own default if None.
        weight_decay: Decoupled decay of weight matrices; the optimizer's own default if None.
        validation: Rows for early stopping. With them, the parameters with the best true
            negative log-likelihood on these rows are the ones returned.
        callbacks: Called with a `Progress` after each epoch.
        resume: State and history of an earlier run to go on from.
        save: Called with state and history now and then, and at the end.

    Raises:
        FitError: If steps were not finite too many times in a row.
    """
    _check_data("training", data)
    data = _arranged(network, data, plan.batch_size)
    if validation is not None:
        _check_data("validation", validation)
        validation = _arranged(network, validation, len(validation.y))
    params, static = eqx.partition(network, eqx.is_inexact_array)
    hyper = _hyper(plan, learning_rate, weight_decay, max_epochs, params)
    plan = _without_numbers(plan)
    if resume is None:
        state = initial_state(network, plan, key)
        history = History(np.zeros(0), np.zeros(0))
    else:
        state, history = resume
    started, chunk = time.perf_counter(), 1
    while not bool(state.done) and int(state.epoch) < max_epochs:
        before = time.perf_counter()
        limit = np.asarray(min(chunk, max_epochs - int(state.epoch)), np.int32)
        state, logs = _run_epochs((static, plan, data, validation, hyper, limit), state)
        try:
            told, history = len(history.train), _extend(history, state, logs)
        except KeyboardInterrupt:
            # JAX stops waiting at once, but an interpreter that ends under its program crashes.
            jax.block_until_ready(logs)
            raise
        _tell(callbacks, history, state, max_epochs, told, started)
        if save is not None:
            save(state, history)
        pace = (time.perf_counter() - before) / max(1, int(limit))
        chunk = int(np.clip(_CHUNK_SECONDS / pace, 1, _CHUNK))
    result = _result(static, plan, state, history, has_validation=validation is not None)
    # A short run can end before it has skipped that many steps, but with nothing learned.
    stuck = len(history.train) > 0 and bool(np.isnan(history.train[-1]))
    if stuck or int(state.skipped_in_a_row) >= plan.max_skipped:
        raise FitError(_diagnose(result, data, hyper), result)
    return result


def compiled(network: MixtureNetwork, data: Data, plan: Plan) -> Any:
    """Return the program that `fit` would run, compiled: XLA's plan of operations and memory.

    Example: `compiled(network, data, plan).cost_analysis()["flops"]`, of one step.
    """
    data = _arranged(network, data, plan.batch_size)
    params, static = eqx.partition(network, eqx.is_inexact_array)
    hyper = _hyper(plan, None, None, 1, params)
    plan = _without_numbers(plan)
    state = initial_state(network, plan, jax.random.key(0))
    fixed = (static, plan, data, None, hyper, jnp.ones((), jnp.int32))
    program: Any = _run_epochs
    return program.lower(fixed, state).compile().compiled


def fit_many(
    networks: Sequence[MixtureNetwork],
    data: Data | Sequence[Data],
    plan: Plan,
    *,
    keys: Sequence[PRNGKeyArray],
    learning_rates: Sequence[float] | None = None,
    validation: Data | Sequence[Data] | None = None,
    threads: int = 2,
    **settings: Any,
) -> list[FitResult]:
    """Return one result per network, trained side by side.

    All runs share one compiled program, and each core works on a run of its own: XLA uses one core
    for matrices as small as these, so that mapping over seeds alone would leave the others idle.

    Args:
        networks: Where each run starts from; of one architecture.
        data: Rows to learn from, shared or one per run.
        plan: How to train, shared.
        keys: Randomness of each run.
        learning_rates: One per run, or None for the optimizer's default.
        validation: Rows for early stopping, shared or one per run.
        threads: Runs at a time.
        settings: Passed on to `fit`.
    """
    runs = len(networks)
    shared = lambda value: [value] * runs if value is None or isinstance(value, Data) else value  # noqa: E731
    rates = [None] * runs if learning_rates is None else learning_rates

    def one(args):
        network, rows, held_out, key, rate = args
        return fit(
            network, rows, plan, key=key, validation=held_out, learning_rate=rate, **settings
        )

    work = list(zip(networks, shared(data), shared(validation), keys, rates, strict=True))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, work))


@eqx.filter_jit
def initial_state(network: MixtureNetwork, plan: Plan, key: PRNGKeyArray) -> State:
    """Return the state before the first epoch.

    One program: a first fit would wait longer for the many that its arrays would take one by one.
    """
    params = eqx.filter(network, eqx.is_inexact_array)
    optimizer = _optimizer(plan, jnp.zeros(()), network)
    zero = jnp.zeros((), jnp.int32)
    state = State(
        params=params,
        optimizer=optimizer.init(_joined(plan, params)[0]),
        average=None if plan.ema is None else params,
        best=params,
        best_loss=jnp.array(jnp.inf, _dtype(params)),
        best_epoch=zero,
        key=key,
        epoch=zero,
        step=zero,
        skipped=zero,
        skipped_in_a_row=zero,
        done=jnp.zeros((), bool),
    )
    # Copies, since every buffer will be given away once.
    return jax.tree.map(jnp.copy, state)


# The state is donated: its buffers are reused for the next one.
@eqx.filter_jit(donate="all-except-first")
def _run_epochs(fixed, state: State) -> tuple[State, tuple[Array, Array]]:
    """Run up to `limit` epochs and return their train and validation likelihoods."""
    static, plan, data, validation, hyper, limit = fixed
    dtype = data.y.dtype
    logs = (jnp.full((_CHUNK,), jnp.nan, dtype), jnp.full((_CHUNK,), jnp.nan, dtype))

    def going(carry):
        state, _, index = carry
        return (index < limit) & ~state.done

    def body(carry):
        state, (train_log, validation_log), index = carry
        state, train, held_out = _epoch(static, plan, data, validation, hyper, state)
        logs = (train_log.at[index].set(train), validation_log.at[index].set(held_out))
        return state, logs, index + 1

    state, logs, _ = jax.lax.while_loop(going, body, (state, logs, jnp.zeros((), jnp.int32)))
    return state, logs


def _epoch(static, plan, data, validation, hyper, state):
    """Visit every row once, then look at the validation rows."""
    size = min(plan.batch_size, len(data.y))
    steps = -(-len(data.y) // size)
    # The last batch is filled up with rows of the first, which then do not count.
    order = shuffled(_key(state, _ORDER, state.epoch), len(data.y), steps * size)
    step = partial(_step, static, plan, data, hyper, order, size, steps)
    before = state
    state, (totals, masses) = jax.lax.scan(step, state, jnp.arange(steps, dtype=jnp.int32))
    train = jnp.sum(totals) / jnp.sum(masses)  # NaN if every step was skipped
    # An update can overflow although its gradient did not: then the epoch is taken back. Adam's
    # steps are hardly longer than its rate, so that copies of everything would wait for nothing;
    # should it happen nevertheless, the best parameters so far must do.
    sound = _all(_are_finite, _joined(plan, state.params)[0])
    if plan.optimizer in ("adam", "adamw"):
        average = None if plan.ema is None else state.best
        before = state._replace(params=state.best, average=average)
    params, optimizer, average = _either(
        sound,
        (state.params, state.optimizer, state.average),
        (before.params, before.optimizer, before.average),
    )
    state = state._replace(
        params=params,
        optimizer=optimizer,
        average=average,
        skipped_in_a_row=jnp.where(sound, state.skipped_in_a_row, plan.max_skipped),
    )
    evaluated = state.params if plan.ema is None else state.average
    held_out = jnp.full_like(train, jnp.nan)
    if validation is not None:
        held_out = mean_nll(eqx.combine(evaluated, static), validation)
        better = held_out < state.best_loss
        state = state._replace(
            best=_either(better, evaluated, state.best),
            best_loss=jnp.where(better, held_out, state.best_loss),
            best_epoch=jnp.where(better, state.epoch, state.best_epoch),
        )
    epoch = state.epoch + 1
    done = (epoch >= hyper.max_epochs) | (state.skipped_in_a_row >= plan.max_skipped)
    if plan.patience is not None and validation is not None:
        done |= epoch - 1 - state.best_epoch >= plan.patience
    return state._replace(epoch=epoch, done=done), train, held_out


def shuffled(key: PRNGKeyArray, count: int, places: int) -> Int[Array, " more"]:
    """Return the numbers below `count` in random order, some thirty times as fast as by sorting.

    After `count` places the order begins anew; there are at least `places` of them in all.

    The numbers fill a table, whose columns and rows are moved round in turn, each by a random
    distance of its own. That is a Feistel network with random functions: four rounds of it are hard
    to tell from a random permutation, and these are eight. The table may have a few places more
    than numbers; a number that lands there moves on until it finds one that counts.
    """
    rows = math.isqrt(count - 1) + 1
    columns = -(-count // rows)
    shape = (_ROUNDS, 2, max(rows, columns))
    # Along one axis, for which the code of random bits is several times as fast to compile.
    uniform = jax.random.uniform(key, (math.prod(shape),)).reshape(shape)
    distances = (uniform * jnp.array([[[rows], [columns]]])).astype(jnp.int32)

    def move(at):
        def around(number, place):
            row, column = place
            row = _wrap(row + distances[number, 0][column], rows)
            return row, _wrap(column + distances[number, 1][row], columns)

        row, column = jax.lax.fori_loop(0, _ROUNDS, around, (at // columns, at % columns))
        return row * columns + column

    # Numbers do not see each other: block by block, with no more memory than for the result.
    blocks = -(-places // _ORDER_BLOCK)
    size = -(-places // blocks)

    settled = lambda at: (at, at < count)  # noqa: E731

    def block(number):
        # None has a place yet: so they all move once, and the code of a move is compiled once.
        begin = (number * size + jnp.arange(size, dtype=jnp.int32)) % count
        at, _ = jax.lax.while_loop(
            lambda carry: ~jnp.all(carry[1]),
            lambda carry: settled(jnp.where(carry[1], carry[0], move(carry[0]))),
            (begin, jnp.zeros((size,), bool)),
        )
        return at

    return jax.lax.map(block, jnp.arange(blocks, dtype=jnp.int32)).reshape(-1)


def _wrap(place: Int[Array, "..."], size: int) -> Int[Array, "..."]:
    """Return a place modulo a size, of which it is at most twice; far cheaper than dividing."""
    return jnp.where(place >= size, place - size, place)


def _step(static, plan, data, hyper, order, size, steps, state, number):
    index = jax.lax.dynamic_slice(order, (number * size,), (size,))
    y = data.y[index]
    if data.condition is None:
        x, condition = data.x[index], None
    else:
        x, condition = data.x, data.condition[index]
    weights = None if data.weights is None else data.weights[index]
    if steps * size > len(data.y):
        present = number * size + jnp.arange(size) < len(data.y)
        weights = present.astype(y.dtype) * (1.0 if weights is None else weights)
    batch = Data(x, y, weights, condition)
    total = (hyper.max_epochs * steps).astype(y.dtype)
    progress = state.step.astype(y.dtype) / total
    rate = hyper.learning_rate * _rate_shape(plan, progress)
    key = _key(state, _NOISE, state.step)

    def loss(params):
        network, power = eqx.combine(params, static), _power(hyper, progress)
        losses = _losses(network, plan.objective, batch, power, key)
        if weights is None:
            return jnp.mean(losses)
        return jnp.sum(weights * losses) / jnp.maximum(jnp.sum(weights), jnp.finfo(y.dtype).tiny)

    value, grads = jax.value_and_grad(loss)(state.params)
    grads, parted = _joined(plan, grads)
    sound = jnp.isfinite(value) & _all(_can_be_squared, grads)
    if plan.clip_norm is not None:
        norm = optax.tree.norm(grads)
        sound &= jnp.isfinite(norm)
        shrink = jnp.minimum(1.0, plan.clip_norm / jnp.maximum(norm, 1e-30))
        grads = jax.tree.map(lambda leaf: leaf * shrink, grads)

    def advance(moving):
        params, optimizer_state, average = moving
        network = eqx.combine(params, static)
        optimizer = _optimizer(plan, rate, network)
        extra = {}
        if plan.optimizer == "kfac":
            extra["curvature"] = _curvature(network, batch.rows, key)
        updates, optimizer_state = optimizer.update(grads, optimizer_state, params, **extra)
        params = jax.tree.map(
            lambda p, u: p + u - (rate * hyper.weight_decay * p if p.ndim > 1 else 0.0),
            params,
            parted(updates),
        )
        if plan.ema is not None:
            # Early on the average is short, so that it does not drag the start along.
            count = state.step.astype(y.dtype)
            decay = jnp.minimum(plan.ema, (1 + count) / (10 + count))
            average = jax.tree.map(lambda a, p: decay * a + (1 - decay) * p, average, params)
        return params, optimizer_state, average

    moving = (state.params, state.optimizer, state.average)
    # A branch: choosing number by number would keep a copy of all that moves.
    moved = jax.lax.cond(sound, advance, lambda moving: moving, moving)
    params, optimizer_state, average = moved
    state = state._replace(
        params=params,
        optimizer=optimizer_state,
        average=average,
        step=state.step + 1,
        skipped=state.skipped + ~sound,
        skipped_in_a_row=jnp.where(sound, 0, state.skipped_in_a_row + 1),
    )
    mass = jnp.asarray(len(y), y.dtype) if weights is None else jnp.sum(weights)
    return state, (jnp.where(sound, value * mass, 0.0), jnp.where(sound, mass, 0.0))


def apply(
    network: MixtureNetwork, x: Float[Array, "batch features"], key: PRNGKeyArray | None = None
) -> Mixture:
    """Return the mixtures of a batch of rows; a key switches dropout on."""
    if key is None or not network.is_random:
        return jax.vmap(network)(x)
    return jax.vmap(lambda row, key: network(row, key=key))(x, jax.random.split(key, len(x)))


def _losses(
    network: MixtureNetwork,
    objective: AbstractObjective,
    data: Data,
    power: Float[Array, ""] | None = None,
    key: PRNGKeyArray | None = None,
) -> Float[Array, " batch"]:
    """Return the loss of each row.

    Many rows with few targets go through network and objective as the last axis of every array,
    the order in which products and all that is done number by number are fastest.
    """
    many = len(data.y) >= _MANY_ROWS and network.dim <= _FEW_TARGETS and data.condition is None
    if many and network.takes_rows and objective.takes_rows:
        logits, components = network.side_by_side(data.x.T, key)
        return objective.loss(network.family, logits, components, data.y.T, power)
    return objective.losses(apply(network, data.x, key), data.y, power, data.condition)


def condense(data: Data, at_most: int) -> Data:
    """Return the data with each distinct condition once, if there are at most so many of them."""
    x = np.asarray(data.rows)
    # A look at the first rows spares nearly all data the sorting of all rows.
    if len(np.unique(x[: 2 * at_most + 1], axis=0)) > at_most:
        return data._replace(x=data.rows, condition=None)
    distinct, condition = np.unique(x, axis=0, return_inverse=True)
    if len(distinct) > at_most:
        return data._replace(x=data.rows, condition=None)
    return data._replace(x=jnp.asarray(distinct), condition=jnp.asarray(condition.ravel()))


def _arranged(network: MixtureNetwork, data: Data, batch_size: int) -> Data:
    """Return the data in the form that trains fastest.

    Conditions pay if a batch repeats them, and only if the network treats equal rows equally, which
    dropout does not.
    """
    if network.is_random:
        return data._replace(x=data.rows, condition=None)
    return condense(data, min(batch_size, len(data.y)) // 2)


def mean_nll(network: MixtureNetwork, data: Data) -> Float[Array, ""]:
    """Return the mean negative log-likelihood of the rows, weighted if they have weights."""
    losses = _losses(network, NLL(), data)
    return jnp.mean(losses) if data.weights is None else jnp.average(losses, weights=data.weights)


def _rate_shape(plan: Plan, progress: Float[Array, ""]) -> Float[Array, ""]:
    shape = jnp.ones_like(progress)
    if plan.learning_rate_schedule == "cosine":
        shape = 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(progress, 1.0)))
    if plan.warmup > 0:
        shape *= jnp.minimum(1.0, progress / plan.warmup)
    return shape


def _power(hyper: Hyper, progress: Float[Array, ""]) -> Float[Array, ""] | None:
    if hyper.power is None:
        return None
    start, end, share = hyper.power
    return start + (end - start) * jnp.minimum(1.0, progress / share)


def _optimizer(plan: Plan, rate, network: MixtureNetwork) -> optax.GradientTransformation:
    if isinstance(plan.optimizer, str):
        return make_optimizer(plan.optimizer, rate, hidden_matrices(network))
    return plan.optimizer


def _curvature(network: MixtureNetwork, x: Float[Array, "batch features"], key: PRNGKeyArray):
    """Return what K-FAC needs: gradients of a complete-data log-likelihood sampled from the model.

    Their second moment is the complete-data Fisher information of Proposition 4.
    """
    raw = jax.vmap(network.body)(x)
    keys = jax.random.split(jax.random.fold_in(key, 1), len(x))
    cotangent = jax.vmap(partial(output_gradient, network))(raw, keys)
    return tapped_statistics(tapped, network, x, cotangent)


def _hyper(plan, learning_rate, weight_decay, max_epochs, params) -> Hyper:
    if learning_rate is None:
        learning_rate = DEFAULT_LEARNING_RATES.get(str(plan.optimizer), 1.0)
    if weight_decay is None:
        weight_decay = DEFAULT_WEIGHT_DECAY.get(str(plan.optimizer), 0.0)
    dtype = _dtype(params)
    # By way of NumPy: jnp.asarray compiles a program for each kind, and a first fit waits for it.
    put = lambda value, dtype: jax.device_put(np.asarray(value, dtype))  # noqa: E731
    return Hyper(
        put(learning_rate, dtype),
        put(weight_decay, dtype),
        put(max_epochs, np.int32),
        None if plan.power_schedule is None else put(plan.power_schedule, dtype),
    )


def _without_numbers(plan: Plan) -> Plan:
    """Return the plan with its schedule left to `Hyper`, for one program for all."""
    return replace(plan, objective=plan.scheduled_objective, power=None)


def _dtype(params: Any) -> Any:
    """Return the precision of a run; a network without parameters counts as single."""
    leaves = jax.tree.leaves(params)
    return leaves[0].dtype if leaves else jnp.float32


def _extend(history: History, state: State, logs) -> History:
    new = int(state.epoch) - len(history.train)
    parts = zip(history, logs, strict=True)
    return History(*(np.append(old, np.asarray(log)[:new]) for old, log in parts))


def _tell(callbacks, history, state, max_epochs, told, started) -> None:
    """Report each new epoch."""
    best = float(state.best_loss)
    for epoch in range(told, len(history.train)):
        progress = Progress(
            epoch + 1,
            max_epochs,
            float(history.train[epoch]),
            float(history.validation[epoch]),
            best,
            int(state.skipped),
            time.perf_counter() - started,
        )
        for callback in callbacks:
            callback(progress)


def _result(static, plan, state: State, history: History, *, has_validation: bool) -> FitResult:
    final = state.params if plan.ema is None else state.average
    if has_validation and np.isfinite(state.best_loss):
        return FitResult(
            eqx.combine(state.best, static),
            history,
            int(state.best_epoch),
            int(state.skipped),
            state,
        )
    last = max(0, int(state.epoch) - 1)
    return FitResult(eqx.combine(final, static), history, last, int(state.skipped), state)


def _diagnose(result: FitResult, data: Data, hyper: Hyper) -> str:
    """Return an error message that names the likely cause."""
    mixture = eqx.filter_jit(apply)(result.network, data.x[: 10 * _CHUNK])
    scale = mixture.components.scale
    diagonal = scale if scale.ndim == 3 else jnp.diagonal(scale, axis1=-2, axis2=-1)
    floor = mixture.family.scale_floor
    rate = float(hyper.learning_rate)
    if float(jnp.min(diagonal)) < 2 * floor:
        cause = (
            f"a scale has shrunk to the floor of {floor:g}: because targets repeat exactly, where "
            "densities are unbounded, and then a higher floor helps, for example 1e-3; or because "
            f"the learning rate of {rate:g} is too high, and then try {rate / 10:g}"
        )
    else:
        cause = f"the learning rate of {rate:g} is too high; try {rate / 10:g}"
    return (
        f"training expected finite losses and gradients, got {result.skipped} steps that were not, "
        f"the last ones in a row up to epoch {int(result.state.epoch)}; likely {cause}. "
        "The last good parameters are in the error's `result`."
    )


def _check_data(name: str, data: Data) -> None:
    """Refuse data that no step could use."""
    rows = len(data.x if data.condition is None else data.condition)
    if rows != len(data.y) or rows == 0:
        raise ValueError(
            f"{name} data must have as many rows of x as of y and at least one, got "
            f"{rows} and {len(data.y)}; check how they were split."
        )
    if data.condition is not None and not 0 <= int(data.condition.min()) <= int(
        data.condition.max()
    ) < len(data.x):
        raise ValueError(
            f"condition must number the {len(data.x)} rows of x from 0, got "
            f"{int(data.condition.min())} to {int(data.condition.max())}; check which row each "
            "target belongs to."
        )
    for label, array in (("x", data.x), ("y", data.y)):
        _errors.check_finite(f"{name} {label}", array)
    if data.weights is not None:
        checks.check_weights((rows,), data.weights)


def _key(state: State, stream: int, count: Int[Array, ""]) -> PRNGKeyArray:
    return jax.random.fold_in(state.key, 2 * count + stream)


def _either(condition: Bool[Array, ""], new: Any, old: Any) -> Any:
    """Return one of two by a branch: there is code to compile for a choice number by number."""
    return jax.lax.cond(condition, lambda: new, lambda: old)


def _joined(plan: Plan, tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return what is as large as the parameters as one vector, and the way back.

    Small networks have many small arrays, and each costs a step's time and much more to compile.
    Large ones are left as they are, and so are those whose optimizer looks at matrices.
    """
    number_by_number = plan.optimizer in ("sgd", "adam", "adamw")
    size = sum(leaf.size for leaf in jax.tree.leaves(tree))
    if number_by_number and 0 < size <= _SMALL_NETWORK:
        return ravel_pytree(tree)
    return tree, lambda same: same


def _all(test: Callable[[Array], Bool[Array, ""]], tree: Any) -> Bool[Array, ""]:
    leaves = [test(leaf) for leaf in jax.tree.leaves(tree)]
    return jnp.all(jnp.stack(leaves)) if leaves else jnp.ones((), bool)


def _are_finite(leaf: Float[Array, "..."]) -> Bool[Array, ""]:
    return jnp.all(jnp.isfinite(leaf))


def _can_be_squared(leaf: Float[Array, "..."]) -> Bool[Array, ""]:
    """Tell whether numbers and their squares, which Adam keeps, are finite: one product does."""
    return jnp.isfinite(jnp.vdot(leaf, leaf))
