"""Steps of training against the same steps written out, and the randomness that they use."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ngem import training
from ngem.nn import apply, mixture_mlp
from ngem.objectives import NGEM
from ngem.training import Data, FitError, Plan, State, fit
from ngem.training.step import all_leaves, stopping_loss, take_step

pytestmark = pytest.mark.trains

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(24, 1)), RNG.normal(size=(24, 1))
WEIGHTS = RNG.uniform(0.2, 3, 24)
ROWS = Data(*map(jnp.asarray, (X, Y, WEIGHTS)))


def network(**settings):
    return mixture_mlp(1, 1, key=jax.random.key(0), n_components=2, hidden_sizes=(4,), **settings)


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


@eqx.filter_jit
def gradient(net, power):
    def loss(params):
        losses = NGEM().losses(apply(eqx.combine(params, static), ROWS.x), ROWS.y, power)
        return jnp.average(losses, weights=ROWS.weights)

    params, static = eqx.partition(net, eqx.is_inexact_array)
    return jax.grad(loss)(params)


def steps_written_out(net, n_steps, rate, clip_norm, ema):
    """Plain gradient descent with a cosine, a strength that falls, clipping and an average."""
    params, static = eqx.partition(net, eqx.is_inexact_array)
    average, norms = params, []
    for step in range(n_steps):
        progress = step / n_steps
        grads = gradient(eqx.combine(params, static), jnp.asarray(0.8 - 0.6 * progress))
        norms.append(float(np.sqrt(sum(np.sum(leaf**2) for leaf in leaves(grads)))))
        factor = rate * (1 + np.cos(np.pi * progress)) / 2 * min(1, clip_norm / norms[-1])
        decay = min(ema, (1 + step) / (10 + step))
        params = jax.tree.map(lambda p, g, by=factor: p - by * g, params, grads)
        average = jax.tree.map(lambda a, p, d=decay: d * a + (1 - d) * p, average, params)
    return average, norms


@pytest.mark.parametrize("clip_norm", [0.9, 1e6])
def test_steps_are_those_written_out(clip_norm):
    """Where each step is in the schedules, the longest gradient, and the average at the end."""
    plan = Plan(NGEM(), "sgd", 24, power=(0.8, 0.2, 1.0), clip_norm=clip_norm, ema=0.15)
    result = fit(network(), ROWS, plan, key=jax.random.key(0), max_epochs=4, learning_rate=0.3)
    expected, norms = steps_written_out(network(), 4, 0.3, clip_norm, 0.15)
    for left, right in zip(leaves(result.network), leaves(expected), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-7, atol=1e-9)
    assert clip_norm > 1 or min(norms) < clip_norm < max(norms)  # some are clipped, some are not


def test_held_out_rows_count_by_their_weights():
    """With a step of no length, against numpy's average of each row's loss."""
    each = jax.jit(jax.vmap(lambda x, y: stopping_loss(network(), Data(x[None], y[None]), 0.01)))
    losses = np.asarray(each(ROWS.x, ROWS.y))
    still = {"key": jax.random.key(0), "max_epochs": 1, "learning_rate": 0.0}
    result = fit(network(), ROWS, Plan(batch_size=24), validation=ROWS, **still)
    assert result.history.validation == pytest.approx(np.average(losses, weights=WEIGHTS))
    assert abs(np.mean(losses) - np.average(losses, weights=WEIGHTS)) > 1e-3


def test_every_epoch_has_an_order_and_every_step_a_key_of_its_own(monkeypatch):
    orders, keys = [], []
    make_batches, random_key = training.loop.make_batches, State.random_key

    def watched_batches(*arguments):
        batches = make_batches(*arguments)
        jax.debug.callback(lambda order: orders.append(tuple(order.tolist())), batches.order)
        return batches

    def watched_key(state, stream, count):
        key = random_key(state, stream, count)
        bits = jax.random.key_data(key)
        jax.debug.callback(lambda bits: keys.append(tuple(bits.tolist())), bits)
        return key

    monkeypatch.setattr(training.loop, "make_batches", watched_batches)
    monkeypatch.setattr(State, "random_key", watched_key)
    plan = Plan(batch_size=8, max_skipped=48)  # a program of its own
    fit(network(dropout=0.1), ROWS, plan, key=jax.random.key(0), max_epochs=5)
    jax.effects_barrier()
    assert len(set(orders)) == len(orders) == 5
    assert all(sorted(order) == list(range(24)) for order in orders)
    assert len(set(keys)) == len(keys) == 5 + 5 * 3


def test_dropout_differs_from_step_to_step():
    """The same rows and parameters: only what is dropped changes the loss."""
    plan, net = Plan(batch_size=24), network(dropout=0.5)
    run = training.loop.make_run(net, ROWS, plan, None, 0.0, 0.0, 1)
    state = training.initial_state(net, run.plan, jax.random.key(0))
    batches = training.loop.make_batches(jax.random.key(1), run.data, 24)
    step = eqx.filter_jit(lambda state: take_step(run, batches, state, jnp.zeros((), jnp.int32)))
    totals = []
    for _ in range(4):
        state, (total, _) = step(state)
        totals.append(float(total))
    assert len(set(totals)) == 4


def test_streams_of_randomness_do_not_meet():
    state = training.initial_state(network(), Plan(), jax.random.key(3))
    keys = [
        tuple(jax.random.key_data(state.random_key(stream, jnp.asarray(count))).tolist())
        for stream in (training.state.ORDER, training.state.NOISE)
        for count in range(20)
    ]
    assert len(set(keys)) == 40


def test_all_leaves_must_pass():
    leaves_of = {"a": jnp.ones(2), "b": jnp.array([1.0, jnp.nan])}
    assert not all_leaves(lambda leaf: jnp.all(jnp.isfinite(leaf)), leaves_of)
    assert all_leaves(lambda leaf: jnp.all(jnp.isfinite(leaf)), {**leaves_of, "b": jnp.zeros(1)})


@pytest.mark.parametrize("most", [1, 3])
def test_a_run_ends_with_the_last_step_that_may_be_skipped(most):
    """One step an epoch, and none of them finite."""
    rows = ROWS._replace(y=jnp.full_like(ROWS.y, 1e200))
    plan = Plan(NGEM(), "adam", 24, max_skipped=most)
    with pytest.raises(FitError) as failed:
        fit(network(), rows, plan, key=jax.random.key(0), max_epochs=9)
    assert failed.value.result.skipped == most
    assert len(failed.value.result.history.train) == most
