"""The fit loop: it learns, stops, resumes, refuses and repeats itself."""

import copy
import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats

from ngem import _files, training
from ngem._files import FileError
from ngem.nn import MixtureNetwork, apply, mixture_mlp
from ngem.objectives import (
    ANNEALED,
    DEFAULT,
    MSE,
    NGEM,
    NLL,
    OBJECTIVES,
    AbstractLoss,
    Schedule,
)
from ngem.optimizers import DEFAULT_LEARNING_RATES
from ngem.training import Data, FitError, Plan, fit, fit_many, shuffled
from ngem.training.callbacks import CSVLogger, ProgressBar, TensorBoardLogger
from ngem.training.checkpoints import Checkpoint, optimizer_identity
from ngem.training.plan import make_hyper
from ngem.training.step import stopping_loss

from ..cases import slow_but

pytestmark = pytest.mark.trains
slow = pytest.mark.slow

SMALL = {"n_components": 2, "hidden_sizes": (16,)}


def sine(n_rows=200, seed=0):
    """Two branches: y = +-x with a little noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n_rows, 1))
    y = rng.choice([-1, 1], (n_rows, 1)) * x + 0.05 * rng.standard_normal((n_rows, 1))
    return Data(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))


def network(seed=0, **settings):
    made = mixture_mlp(1, 1, key=jax.random.key(seed), **{**SMALL, **settings})
    return jax.tree.map(lambda a: a.astype(jnp.float32) if eqx.is_inexact_array(a) else a, made)


def run(plan=None, *, seed=0, data=None, net=None, **settings):
    settings = {"max_epochs": 30, "learning_rate": 1e-2, **settings}
    return fit(
        network(seed) if net is None else net,
        sine() if data is None else data,
        Plan(batch_size=32) if plan is None else plan,
        key=jax.random.key(seed),
        **settings,
    )


jitted_loss = eqx.filter_jit(partial(stopping_loss, tail=0.01))


@eqx.filter_jit
def row_log_prob(net, data):
    return apply(net, data.x).log_prob(data.y)


def leaves(result):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(result.network, eqx.is_array))]


def assert_identical(left, right):
    for a, b in zip(leaves(left), leaves(right), strict=True):
        assert np.array_equal(a, b)
    assert np.array_equal(left.history.train, right.history.train)
    assert np.array_equal(left.history.validation, right.history.validation, equal_nan=True)


def test_an_optax_transformation_is_an_optimizer():
    plan = Plan(optimizer=optax.chain(optax.clip(1.0), optax.adam(1e-2)), batch_size=32)
    result = run(plan, learning_rate=None)
    assert result.history.train[-1] < result.history.train[0] - 0.3


@pytest.mark.parametrize(
    "change",
    [
        {"objective": MSE(), "learning_rate_schedule": "constant", "clip_norm": 1.0, "ema": 0.9},
        pytest.param({"objective": MSE(), "learning_rate_schedule": "constant"}, marks=slow),
        pytest.param({"objective": NLL(), "clip_norm": 1.0, "ema": 0.9}, marks=slow),
        pytest.param({"power": (1.0, 0.0, 0.5), "warmup": 0.1}, marks=slow),
    ],
    ids=str,
)
def test_settings_learn(change):
    result = run(Plan(batch_size=32, **change), validation=sine(50, seed=1), weight_decay=1e-3)
    assert np.all(np.isfinite(result.history.validation))
    assert result.history.train[-1] < result.history.train[0]


ALL_AT_ONCE = {"separate": True, "dropout": 0.2, "layer_norm": True}


@pytest.mark.parametrize(
    "settings", slow_but([ALL_AT_ONCE, *({k: v} for k, v in ALL_AT_ONCE.items())], ALL_AT_ONCE)
)
@pytest.mark.slow
def test_networks_learn(settings):
    result = run(net=network(**settings))
    assert result.history.train[-1] < result.history.train[0] - 0.1


def test_a_users_module_and_a_plain_function_work():
    class Body(eqx.Module):
        weight: jax.Array

        def __call__(self, x):
            return self.weight @ jnp.concatenate([x, x**2, jnp.ones_like(x)])

    body = Body(0.1 * jax.random.normal(jax.random.key(0), (6, 3), jnp.float32))
    result = run(net=MixtureNetwork(body, 2, 1))
    assert result.history.train[-1] < result.history.train[0]

    constant = MixtureNetwork(lambda x: jnp.zeros(6, jnp.float32) + 0 * x, 2, 1)
    result = run(net=constant, max_epochs=2)
    assert np.all(np.isfinite(result.history.train))
    with pytest.raises(ValueError, match="K-FAC needs one of our own networks"):
        run(Plan(optimizer="kfac"), net=MixtureNetwork(body, 2, 1))


def test_the_same_seed_repeats_to_the_bit():
    assert_identical(run(validation=sine(50, 1)), run(validation=sine(50, 1)))
    other = run(seed=1, validation=sine(50, 1))
    assert not np.array_equal(leaves(other)[0], leaves(run(validation=sine(50, 1)))[0])


def test_many_runs_are_the_runs_one_by_one():
    nets, keys = [network(s) for s in range(3)], [jax.random.key(s) for s in range(3)]
    plan = Plan(batch_size=32)
    rates = [1e-2, 3e-3, 1e-3]
    together = fit_many(nets, sine(), plan, keys=keys, learning_rates=rates, max_epochs=5)
    for net, key, rate, result in zip(nets, keys, rates, together, strict=True):
        alone = fit(net, sine(), plan, key=key, learning_rate=rate, max_epochs=5)
        assert_identical(alone, result)


def test_one_program_for_epochs_seeds_rates_and_lengths():
    programs = training.loop._run_epochs._programs
    run(max_epochs=3)
    before = len(programs)
    run(max_epochs=7, learning_rate=1e-3, seed=4)
    run(max_epochs=100)
    assert len(programs) == before


def test_every_row_counts_once_an_epoch():
    """Also those of the last, short batch: a full pass of plain SGD is the same in any batching
    when the gradient does not move the parameters."""
    data = sine(70)
    still = {"learning_rate": 0.0, "max_epochs": 1}
    losses = [run(Plan(batch_size=size), data=data, **still).history.train[0] for size in (32, 1)]
    expected = -np.mean(row_log_prob(network(), data))
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_sample_weights_weigh():
    """Weight zero is absence: the same likelihood as without those rows, at no step."""
    data = sine(60)
    keep = np.arange(60) % 3 != 0
    weighted = Data(data.x, data.y, jnp.asarray(keep, jnp.float32))
    still = {"learning_rate": 0.0, "max_epochs": 1}
    left = run(Plan(batch_size=16), data=weighted, **still).history.train[0]
    right = run(Plan(batch_size=16), data=Data(data.x[keep], data.y[keep]), **still).history.train[
        0
    ]
    assert left == pytest.approx(right, rel=1e-5)


def test_early_stopping_restores_the_best_weights():
    held_out = sine(50, seed=1)
    plan = Plan(batch_size=8, patience=5, learning_rate_schedule="constant")
    result = run(plan, data=sine(16), validation=held_out, max_epochs=2000, learning_rate=3e-2)
    n_epochs = len(result.history.validation)
    assert n_epochs == result.best_epoch + 6 < 2000
    assert result.best_epoch == np.argmin(result.history.validation)
    kept = result.history.validation[result.best_epoch]
    assert kept == pytest.approx(float(jitted_loss(result.network, held_out)), rel=1e-5)


def test_cosine_ends_with_no_step_and_warmup_begins_with_none():
    plan = Plan(warmup=0.5)
    shape = [float(plan.rate_factor(jnp.asarray(t))) for t in (0.0, 0.25, 0.5, 1.0)]
    expected = [0.0, 0.5 * 0.5 * (1 + np.cos(np.pi / 4)), 0.5, 0.0]
    np.testing.assert_allclose(shape, expected, atol=1e-7)
    constant = Plan(learning_rate_schedule="constant")
    assert float(constant.rate_factor(jnp.asarray(0.7))) == 1.0


def test_power_follows_its_schedule():
    hyper = make_hyper(Plan(power=(1.0, 0.2, 0.5)), None, None, 1, np.float32)
    going, ended = jnp.zeros((), bool), jnp.ones((), bool)
    power = [float(hyper.power_at(jnp.asarray(t), going)) for t in (0.0, 0.25, 0.5, 1.0)]
    np.testing.assert_allclose(power, [1.0, 0.6, 0.2, 0.2], rtol=1e-6)
    assert float(hyper.power_at(jnp.asarray(0.1), ended)) == pytest.approx(0.2)
    constant = make_hyper(Plan(power=None), None, None, 1, np.float32)
    assert constant.power_at(jnp.asarray(0.3), going) is None


@pytest.mark.parametrize(
    ("relative", "fraction"), [(None, 0.1), (1.0, 0.1), (4.0, 0.025), (0.5, 0.2), (0.01, 0.5)]
)
def test_the_schedule_takes_longer_at_low_rates(relative, fraction):
    rate = None if relative is None else relative * DEFAULT_LEARNING_RATES["adam"]
    hyper = make_hyper(Plan(), rate, None, 1, np.float32)
    np.testing.assert_allclose(hyper.power, [0.5, 0.0, fraction], rtol=1e-6)
    # Numbers of the user's own are taken as they are.
    hyper = make_hyper(Plan(power=(0.5, 0.0, 0.3)), rate, None, 1, np.float32)
    np.testing.assert_allclose(hyper.power, [0.5, 0.0, 0.3], rtol=1e-6)


def strengths(monkeypatch, **settings):
    """Return the result of a run, and whether the schedule had ended before each epoch."""
    ended, epoch = [], training.loop._epoch

    def watched(run, state):
        jax.debug.callback(lambda flag: ended.append(bool(flag)), state.annealed, ordered=True)
        return epoch(run, state)

    monkeypatch.setattr(training.loop, "_epoch", watched)
    result = run(**settings)
    jax.effects_barrier()
    return result, ended


@pytest.mark.parametrize("patience", slow_but([4, 40, None], 4))
def test_the_kept_parameters_were_trained_at_the_last_strength(monkeypatch, patience):
    """Whether the schedule ends by the clock or because held-out rows stop improving."""
    plan = Plan(batch_size=8, patience=patience, power=(0.5, 0.0, 0.5), max_skipped=49)
    held_out = sine(50, seed=1)
    result, ended = strengths(
        monkeypatch,
        plan=plan,
        data=sine(16),
        validation=held_out,
        max_epochs=60,
        learning_rate=3e-2,
    )
    first = ended.index(True)
    assert not any(ended[:first])
    assert all(ended[first:])
    assert first == 30 if patience is None else first <= 30
    assert result.best_epoch >= first
    later = result.history.validation[first:]
    assert result.best_epoch == first + np.argmin(later)
    kept = float(jitted_loss(result.network, held_out))
    assert kept == pytest.approx(later.min(), rel=1e-5)


@pytest.mark.parametrize(
    ("epoch", "ends", "goes_back"), [(9, False, False), (10, True, True), (50, True, False)]
)
def test_the_schedule_ends_by_a_stall_or_by_the_clock(epoch, ends, goes_back):
    """A quarter of the patience after the best epoch, 8, or after half of 100 epochs."""
    plan, net = Plan(patience=8, power=(0.5, 0.0, 0.5)), network()
    fixed = training.loop.make_run(net, sine(), plan, sine(50), None, None, 100)
    state = training.initial_state(net, fixed.plan, jax.random.key(0))
    state = state._replace(
        best=jax.tree.map(jnp.zeros_like, state.params),
        best_loss=jnp.asarray(1.5, jnp.float32),
        best_epoch=jnp.asarray(epoch - 3 if epoch == 10 else epoch - 1),
        epoch=jnp.asarray(epoch),
    )
    anneal = eqx.filter_jit(lambda state: training.loop._anneal(fixed, state))
    after = anneal(state)
    expected = state.best if goes_back else state.params
    assert eqx.tree_equal(after.params, expected)
    assert bool(after.annealed) == ends
    assert float(after.best_loss) == (np.inf if ends else 1.5)
    assert eqx.tree_equal(anneal(after).params, after.params)


@pytest.mark.parametrize(("stalled", "ends"), [(4, False), (5, True)])
def test_a_stall_is_a_quarter_of_the_patience(stalled, ends):
    plan, net = Plan(patience=20, power=(0.5, 0.0, 0.5)), network()
    fixed = training.loop.make_run(net, sine(), plan, sine(50), None, None, 100)
    state = training.initial_state(net, fixed.plan, jax.random.key(0))
    state = state._replace(best_epoch=jnp.asarray(9 - stalled), epoch=jnp.asarray(10))
    after = eqx.filter_jit(lambda state: training.loop._anneal(fixed, state))(state)
    assert bool(after.annealed) == ends


def test_one_outlier_among_the_held_out_rows_says_little():
    held_out = sine(50, seed=1)
    rest = np.arange(50) != 7
    without = Data(*(jnp.asarray(np.asarray(part)[rest]) for part in held_out[:2]))
    nets = [run(max_epochs=epochs).network for epochs in (1, 20)]
    expected = [float(jitted_loss(net, without)) for net in nets]
    for size in (10.0, 1e3, 1e6):
        outlier = held_out._replace(y=held_out.y.at[7].set(size))
        change = [float(jitted_loss(net, outlier)) for net in nets]
        assert change[1] - change[0] == pytest.approx(
            49 / 50 * (expected[1] - expected[0]), abs=0.01
        )


def test_the_stopping_loss_is_that_of_the_density_with_a_tail():
    rows, net = sine(50, seed=1), run(max_epochs=20).network
    density = np.exp(np.asarray(row_log_prob(net, rows), np.float64))
    tail = scipy.stats.cauchy.pdf(np.asarray(rows.y[:, 0], np.float64))
    expected = -np.mean(np.log(0.99 * density + 0.01 * tail))
    assert float(jitted_loss(net, rows)) == pytest.approx(expected, rel=1e-5)


def test_without_a_tail_the_likelihood_itself_stops_training():
    rows = sine(50, seed=1)
    result = run(Plan(tail=0.0, batch_size=32), validation=rows, max_epochs=5)
    assert result.history.validation[result.best_epoch] == pytest.approx(
        -float(row_log_prob(result.network, rows).mean()), rel=1e-5
    )
    with pytest.raises(ValueError, match="tail must lie between 0 and 1"):
        Plan(tail=-0.1)


def test_the_default_objective_brings_its_schedule():
    assert Plan().resolved_objective.schedule == Schedule()
    assert Plan().without_numbers().objective == ANNEALED
    # Numbers of the user's own change nothing else of the schedule, but do not follow the rate.
    given = Plan(power=(0.5, 0.0, 0.1)).resolved_objective
    assert given == dataclasses.replace(DEFAULT, schedule=Schedule(follows_rate=False))
    # A constant strength is taken as it is, even where it equals the default's first one.
    for constant in (NGEM(), NGEM(power=0.5), NGEM(power=1.0), NLL()):
        assert Plan(objective=constant).without_numbers().objective == constant
        assert Plan(objective=constant).resolved_objective.schedule is None
    assert Plan(power=0.5).without_numbers().objective == NGEM()
    assert Plan(power=None).without_numbers().objective == NGEM()
    # Flattening is biased at a strength that does not end at zero, so none is added there.
    assert Plan(power=(0.5, 0.5, 1.0)).without_numbers().objective == NGEM()
    assert Plan(objective=NLL(), power=(0.5, 0.0, 1.0)).resolved_objective == NLL()
    with pytest.raises(ValueError, match="power must be one of"):
        Plan(power="always")


def test_weight_decay_shrinks_matrices_only():
    start = network()
    plan = Plan(optimizer="sgd", batch_size=200, learning_rate_schedule="constant")
    settings = {"net": start, "max_epochs": 1, "learning_rate": 1e-3}
    plain = leaves(run(plan, weight_decay=0.0, **settings))
    decayed = leaves(run(plan, weight_decay=0.5, **settings))
    first = jax.tree.leaves(eqx.filter(start, eqx.is_array))
    for before, a, b in zip(first, plain, decayed, strict=True):
        expected = a - (5e-4 * np.asarray(before) if before.ndim > 1 else 0)
        np.testing.assert_allclose(b, expected, atol=1e-7)


class Exploding(eqx.Module):
    """A body that turns NaN once its parameter has moved far enough."""

    weight: jax.Array

    def __call__(self, x):
        return jnp.log(self.weight) + 0 * x


# A program each, so every change runs the ends, one more than a square and a large one.
@pytest.mark.parametrize("count", slow_but([1, 2, 3, 5, 8, 64, 65, 1000, 20_000], 1, 2, 65, 1000))
def test_an_order_has_every_row_once_then_begins_anew(count):
    keys = jax.random.split(jax.random.key(count), 20)
    draw = jax.jit(jax.vmap(lambda key: shuffled(key, count, count + count // 2)))
    orders = np.asarray(draw(keys))
    orders, again = orders[:, :count], orders[:, count : count + count // 2]
    np.testing.assert_array_equal(again, orders[:, : count // 2])
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(count), (20, 1)))
    assert count < 8 or len(np.unique(orders, axis=0)) == 20


def test_orders_are_as_random_as_permutations():
    """Where a row lands, and where two do, those of one row or column of the table above all."""
    count, draws = 64, 50_000
    keys = jax.random.split(jax.random.key(0), draws)
    orders = np.asarray(jax.jit(jax.vmap(lambda key: shuffled(key, count, count)))(keys))
    places = np.stack([np.bincount(orders[:, row], minlength=count) for row in range(count)])
    freedom = (count - 1) ** 2
    found = np.sum((places - draws / count) ** 2) / (draws / count)
    assert scipy.stats.chi2.sf(found, freedom) > 1e-4
    for one, other in ((0, 1), (0, 8), (8, 9), (9, 17), (0, 63), (20, 41)):
        pairs = np.bincount(count * orders[:, one] + orders[:, other], minlength=count**2)
        pairs = pairs.reshape(count, count)[~np.eye(count, dtype=bool)]
        assert scipy.stats.chisquare(pairs).pvalue > 1e-4


def test_a_step_that_is_not_finite_is_skipped_and_counted():
    """One row's loss is infinite: its batches are skipped, the others train.

    A batch is skipped in each epoch, so at most two in a row: a step between them starts the count
    anew, and the fit goes on.
    """
    data = sine(64)
    y = data.y.at[0].set(3e38)
    plan = Plan(batch_size=8, max_skipped=3)
    result = run(plan, data=Data(data.x, y), max_epochs=10)
    assert result.skipped == 10
    assert np.all(np.isfinite(np.concatenate([leaf.ravel() for leaf in leaves(result)])))
    assert np.all(np.isfinite(result.history.train))


def test_a_gradient_whose_square_is_not_finite_is_skipped():
    """Adam would keep the square for ever, and its parameter would never move again."""

    class Steep(AbstractLoss):
        def loss(self, family, logits, components, y, power=None):
            return jnp.where(y[0] > 2, 1e25, 1.0) * jnp.tanh(logits[0] / 10)

    data = sine(64)
    result = run(Plan(objective=Steep(), batch_size=8), data=Data(data.x, data.y.at[0].set(3.0)))
    assert result.skipped == 30


@pytest.mark.parametrize("batch_size", [8, 64])
def test_a_loss_of_its_own_is_used_in_batches_of_any_size(batch_size):
    class Constant(AbstractLoss):
        def loss(self, family, logits, components, y, power=None):
            return 7.0 + 0.0 * logits[0]

    result = run(Plan(objective=Constant(), batch_size=batch_size), data=sine(64), max_epochs=1)
    assert result.history.train == pytest.approx([7.0])


def test_an_objective_with_losses_of_many_rows_is_refused():
    with pytest.raises(TypeError, match=r"must define `loss` of one row.*AbstractLoss"):
        type("Old", (NLL,), {"losses": lambda self, mixture, y, power=None, condition=None: y})


def test_persistent_trouble_stops_the_fit_and_keeps_what_was_good():
    y = jnp.full((64, 1), 3e38, jnp.float32)
    with pytest.raises(FitError, match=r"learning rate of 0\.01 is too high; try 0\.001") as error:
        run(Plan(batch_size=8, max_skipped=20), data=Data(sine(64).x, y))
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves(error.value.result))


@pytest.mark.parametrize(
    ("optimizer", "rate", "decay"),
    slow_but([("sgd", 1e30, 0.0), ("sgd", 3e38, 0.0), ("adam", 1e30, 1e30)], ("adam", 1e30, 1e30)),
)
def test_a_learning_rate_far_too_high_is_named(optimizer, rate, decay):
    """Parameters may overflow in a single step; neither they nor their average leave the fit."""
    plan = Plan(optimizer=optimizer, batch_size=32, ema=0.9)
    with pytest.raises(FitError, match="too high") as error:
        run(plan, learning_rate=rate, weight_decay=decay)
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves(error.value.result))
    copy = pickle.loads(pickle.dumps(error.value))
    assert str(copy) == str(error.value)
    assert copy.result.skipped == error.value.result.skipped


def test_a_scale_at_its_floor_is_named():
    """Targets that repeat exactly let the density grow until it overflows."""
    net = network()
    body = eqx.tree_at(
        lambda m: m.layers[-1].bias, net.body, jnp.asarray([0, 0, 0, -99, 0, -99.0], jnp.float32)
    )
    family = dataclasses.replace(net.family, scale_floor=1e-30)
    with pytest.raises(FitError, match="scale has shrunk to the floor of 1e-30"):
        run(Plan(batch_size=8), net=MixtureNetwork(body, 2, 1, family), learning_rate=1e-9)


@pytest.mark.parametrize("name", ["x", "y"])
def test_nan_in_the_data_is_named_with_row_and_column(name):
    data = sine(20)
    data = data._replace(**{name: getattr(data, name).at[7, 0].set(jnp.nan)})
    with pytest.raises(ValueError, match=f"training {name} must hold finite.*row 7, column 0"):
        run(data=data)


def test_data_that_do_not_fit_are_refused():
    data = sine(20)
    with pytest.raises(ValueError, match="as many rows of x as of y"):
        run(data=Data(data.x, data.y[:5]))
    with pytest.raises(ValueError, match="optimizer must be one of 'sgd'"):
        Plan(optimizer="lion")
    with pytest.raises(ValueError, match="must return 6 numbers for 2 components"):
        run(net=MixtureNetwork(lambda x: x, 2, 1))


def test_callbacks_hear_every_epoch(tmp_path):
    heard = []
    log = tmp_path / "log.csv"
    board = TensorBoardLogger(tmp_path / "board")
    copied = copy.deepcopy(board)  # as scikit-learn does before a search
    settings = {"max_epochs": 3, "validation": sine(50, 1)}
    result = run(callbacks=[heard.append, CSVLogger(log), copied], **settings)
    copied.close()
    assert [p.epoch for p in heard] == list(range(1, 4))
    np.testing.assert_array_equal([p.train_nll for p in heard], result.history.train)
    lines = log.read_text().splitlines()
    assert lines[0].startswith("epoch,max_epochs,train_nll")
    assert len(lines) == 4
    assert list((tmp_path / "board").glob("events*"))


def test_progress_bar_is_silent_unless_someone_looks(capsys):
    for force in (False, True):
        bar = ProgressBar(force=force)
        run(callbacks=[bar], max_epochs=3, validation=sine(50, 1))
        bar.close()
        err = capsys.readouterr().err
        assert ("3/3" in err and "nat" in err) == force


SETTINGS = {"epochs": 30}
PLAN = Plan(batch_size=32, ema=0.9, patience=25)


def checkpointed(path, **settings):
    checkpoint = Checkpoint(path, SETTINGS, every=0.0)
    like = training.initial_state(network(), PLAN, jax.random.key(0))
    return run(
        PLAN,
        validation=sine(50, 1),
        resume=checkpoint.load(like),
        save=checkpoint.save,
        **settings,
    )


def test_a_stopped_run_goes_on_to_the_same_end(tmp_path):
    whole = checkpointed(tmp_path / "whole")

    class Stop(Exception):
        pass

    def stop(progress):
        if progress.epoch == 11:
            raise Stop

    with pytest.raises(Stop):
        checkpointed(tmp_path / "part", callbacks=[stop])
    assert_identical(checkpointed(tmp_path / "part"), whole)
    assert_identical(checkpointed(tmp_path / "part"), whole)  # a finished run is left as it is


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "file"
    checkpointed(path)
    like = training.initial_state(network(), Plan(ema=0.9), jax.random.key(0))
    with pytest.raises(FileError, match="other values of epochs; delete the file"):
        Checkpoint(path, {"epochs": 31}).load(like)
    other = training.initial_state(network(hidden_sizes=(8,)), Plan(ema=0.9), jax.random.key(0))
    with pytest.raises(FileError, match="state of this network"):
        Checkpoint(path, SETTINGS).load(other)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(FileError, match="damaged"):
        Checkpoint(path, SETTINGS).load(like)


def _drop_settings(arrays, header):
    return arrays, {}


def _text_as_settings(arrays, header):
    return arrays, {"settings": "all"}


def _drop_a_curve(arrays, header):
    return {name: array for name, array in arrays.items() if name != "history/train"}, header


def _lengthen_a_curve(arrays, header):
    return {**arrays, "history/train": np.zeros(31)}, header


def _curve_of_whole_numbers(arrays, header):
    return {**arrays, "history/validation": np.zeros(30, int)}, header


def _table_as_curve(arrays, header):
    return {**arrays, "history/train": np.zeros((30, 1))}, header


def _another_epoch(arrays, header):
    counts = [name for name, array in arrays.items() if np.array_equal(array, np.int32(30))]
    return {**arrays, **{name: np.array(7, np.int32) for name in counts}}, header


ODD = [
    _drop_settings,
    _text_as_settings,
    _drop_a_curve,
    _lengthen_a_curve,
    _curve_of_whole_numbers,
    _table_as_curve,
    _another_epoch,
]


@pytest.fixture(scope="module")
def whole_checkpoint(tmp_path_factory, promotes):
    path = tmp_path_factory.mktemp("checkpoint") / "file"
    with promotes():
        checkpointed(path)
    return path


@pytest.mark.parametrize("change", ODD)
def test_an_odd_checkpoint_with_a_valid_checksum_is_refused(change, whole_checkpoint, tmp_path):
    kind = {"kind": "ngem.checkpoint", "version": 1}
    odd, like = tmp_path / "odd", training.initial_state(network(), PLAN, jax.random.key(0))
    _files.write(odd, *change(*_files.read(whole_checkpoint, **kind)), **kind)
    with pytest.raises(FileError, match=r"must hold .*, got .*; delete the file to start anew"):
        Checkpoint(odd, SETTINGS).load(like)
    assert Checkpoint(whole_checkpoint, SETTINGS).load(like) is not None


OPTIMIZERS = {
    "adam": optax.adam,
    "schedule": lambda rate: optax.adam(optax.linear_schedule(rate, 0.0, 100)),
    "numbers in its state": lambda rate: optax.inject_hyperparams(optax.adam)(learning_rate=rate),
    "array in its code": lambda rate: optax.chain(optax.scale_by_adam(), _scale(rate)),
}


def _scale(rate):
    table = jnp.full((1000,), -rate, jnp.float32)
    return optax.stateless(lambda updates, _: jax.tree.map(lambda u: u * table[0], updates))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_without_a_name_are_told_apart(name):
    """By what they compute: the same if made anew, others if a number differs anywhere."""
    make = OPTIMIZERS[name]
    first, again, other = (
        optimizer_identity(Plan(optimizer=make(rate)), network()) for rate in (0.1, 0.1, 0.1001)
    )
    assert first == again
    assert first != other
    assert optimizer_identity(Plan(optimizer="adam"), network()) == "adam"


KILLED = """
    import sys, jax, jax.numpy as jnp, numpy as np, equinox as eqx
    from ngem import training
    from ngem.training.checkpoints import Checkpoint
    from ngem.nn import mixture_mlp
    from ngem.training import Data, Plan, fit

    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(rng.standard_normal((400, 1)), jnp.float32) for _ in range(2))
    net = mixture_mlp(1, 1, key=jax.random.key(0), n_components=2, hidden_sizes=(16,))
    plan = Plan(batch_size=4)
    checkpoint = Checkpoint(sys.argv[1], {}, every=0.0)
    like = training.initial_state(net, plan, jax.random.key(1))
    settings = {"key": jax.random.key(1), "validation": Data(x[300:], y[300:])}
    data = Data(x[:300], y[:300])

    def run(path, **options):
        result = fit(net, data, plan, max_epochs=200, **options, **settings)
        np.savez(path, result.history.train, result.history.validation,
                 *jax.tree.leaves(eqx.filter(result.network, eqx.is_array)))

    run(sys.argv[2], resume=checkpoint.load(like), save=checkpoint.save)
    run(sys.argv[3])
"""


def start(script, *paths):
    # A cache of compiled programs of their own, since a kill can tear an entry.
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(script.parent / "cache")}
    return subprocess.Popen([sys.executable, str(script), *map(str, paths)], env=environment)


def killed(process, checkpoint, result, delay):
    """Kill a process some time after its first checkpoint, and return whether it still trained."""
    last = checkpoint.exists() and checkpoint.stat().st_mtime_ns
    while process.poll() is None and not (
        checkpoint.exists() and checkpoint.stat().st_mtime_ns != last
    ):
        time.sleep(0.01)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL and not result.exists()


@pytest.mark.parametrize("most", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_killed_run_resumes_to_the_same_bits(most, tmp_path):
    """SIGKILL at random moments, also several in a row, against one run left in peace."""
    script, names = tmp_path / "run.py", ("torn.ckpt", "torn.npz", "calm.npz")
    script.write_text(textwrap.dedent(KILLED))
    paths = checkpoint, torn, calm = [tmp_path / name for name in names]
    rng, kills, longest = np.random.default_rng(int.from_bytes(os.urandom(4), "little")), 0, 0.5
    while kills < most:
        if killed(start(script, *paths), checkpoint, torn, rng.uniform(0, longest)):
            kills += 1
        elif kills:
            break  # it ended, and was torn before
        else:  # too late: sooner next time
            longest /= 2
            for path in paths:
                path.unlink(missing_ok=True)
    assert start(script, *paths).wait(timeout=200) == 0
    left, right = np.load(calm), np.load(torn)
    for name in left.files:
        assert np.array_equal(left[name], right[name], equal_nan=True), name


def test_ngem_is_the_default_objective():
    assert Plan().objective == OBJECTIVES["ngem"] == DEFAULT
