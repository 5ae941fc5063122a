"""The registry: every named optimizer has the properties that it declares."""

import functools as ft

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats

from ngem import optimizers, training
from ngem.nn import mixture_mlp
from ngem.optimizers import OPTIMIZERS, LayerStatistics, get_optimizer, make_optimizer

from ..cases import slow_but

pytestmark = pytest.mark.trains

RATE = 1e-2
CURVATURE = (LayerStatistics(jnp.ones((2, 3)), jnp.ones((2, 4))),)


def layer():
    return eqx.nn.Linear(3, 4, key=jax.random.key(0))


@ft.cache
def program(name):
    """Return a compiled function from a stack of gradients to the updates, as matrices."""
    spec, params = get_optimizer(name), layer()
    optimizer = spec.make(RATE, jax.tree.map(lambda p: p.ndim == 2, params))
    extra = {"curvature": CURVATURE} if spec.needs_curvature else {}

    def step(state, grad):
        updates, state = optimizer.update(grad, state, params, **extra)
        return state, ravel_pytree(updates)[0]

    return jax.jit(lambda grads: jax.lax.scan(step, optimizer.init(params), grads)[1])


def steps(name, grads):
    return np.asarray(program(name)(grads))


def gradients(size=1.0):
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda p: jnp.asarray(size * rng.normal(size=(3, *p.shape))), layer())


def test_only_elementwise_optimizers_leave_other_parameters_alone():
    """A change of one gradient moves that parameter only, whatever array it is in."""
    grads = gradients()
    changed = eqx.tree_at(lambda g: g.weight, grads, grads.weight.at[:, 1, 2].multiply(-2))
    for name, spec in OPTIMIZERS.items():
        moved = ~np.isclose(steps(name, grads), steps(name, changed)).all(axis=0)
        assert moved.any(), name
        assert (moved.sum() == 1) == spec.is_elementwise, name


def test_bounded_steps_do_not_grow_with_the_gradient():
    """No step of a huge gradient is longer than a few learning rates, element by element."""
    for name, spec in OPTIMIZERS.items():
        if spec.has_bounded_steps:
            assert np.abs(steps(name, gradients(1e100))).max() < 5 * RATE, name
    assert np.abs(steps("sgd", gradients(1e100))).max() > 1e90


def test_adam_is_the_recursion_of_kingma_and_ba():
    first = second = 0.0
    grads = gradients()
    flat = np.stack([ravel_pytree(jax.tree.map(lambda g, t=t: g[t], grads))[0] for t in range(3)])
    for t, (grad, update) in enumerate(zip(flat, steps("adam", grads), strict=True), start=1):
        first = 0.9 * first + 0.1 * grad
        second = 0.999 * second + 0.001 * grad**2
        root = np.sqrt(second / (1 - 0.999**t))
        np.testing.assert_allclose(update, -RATE * first / (1 - 0.9**t) / (root + 1e-8), 1e-9)


def test_the_state_of_adam_has_the_arrays_of_checkpoints_of_version_0_1():
    """A checkpoint lists the arrays of the state: the step, then both moments."""
    state = make_optimizer("adam", jnp.asarray(RATE), None).init(jnp.ones(5, jnp.float32))
    arrays = [(leaf.shape, leaf.dtype.name) for leaf in jax.tree.leaves(state)]
    assert arrays == [((), "int32"), ((5,), "float32"), ((5,), "float32")]


def test_only_kfac_asks_for_curvature():
    assert [name for name, spec in OPTIMIZERS.items() if spec.needs_curvature] == ["kfac"]
    optimizer = make_optimizer("kfac", RATE, None)
    with pytest.raises(TypeError, match="curvature"):
        optimizer.update(layer(), optimizer.init(layer()))


def test_defaults_are_those_of_the_specifications():
    assert {n: s.learning_rate for n, s in OPTIMIZERS.items()} == optimizers.DEFAULT_LEARNING_RATES
    assert {"adamw": OPTIMIZERS["adamw"].weight_decay} == optimizers.DEFAULT_WEIGHT_DECAY


def test_a_transformation_keeps_its_own_rate():
    mine = optax.sgd(0.5)
    spec = get_optimizer(mine)
    assert spec.make(1e9, None) is mine
    assert (spec.learning_rate, spec.weight_decay) == (1.0, 0.0)
    assert not any((spec.is_elementwise, spec.has_bounded_steps, spec.needs_curvature))


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match=r"optimizer must be one of 'sgd'.*got 'adm'; check the"):
        get_optimizer("adm")


def branches(n_rows, seed):
    """Rows of two branches, and the mean negative log-likelihood of their true density."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n_rows, 1))
    center, noise = 1 + x / 2, 0.3
    y = np.where(rng.random((n_rows, 1)) < 0.3, center, -center)
    y += noise * rng.standard_normal((n_rows, 1))
    density = 0.3 * stats.norm.pdf(y, center, noise) + 0.7 * stats.norm.pdf(y, -center, noise)
    data = training.Data(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))
    return data, -np.mean(np.log(density))


@pytest.mark.parametrize("name", slow_but(OPTIMIZERS, "kfac"))
def test_every_optimizer_reaches_the_true_density(name):
    """With default settings, new rows are at most 0.02 nat less likely than under the truth."""
    (data, _), (new_rows, optimum) = branches(1024, seed=0), branches(4096, seed=1)
    network = mixture_mlp(1, 1, n_components=2, hidden_sizes=(8,), key=jax.random.key(0))
    network = jax.tree.map(
        lambda leaf: leaf.astype(jnp.float32) if eqx.is_inexact_array(leaf) else leaf, network
    )
    plan = training.Plan(optimizer=name, batch_size=32)
    result = training.fit(network, data, plan, key=jax.random.key(0), max_epochs=80)
    assert result.skipped == 0
    assert np.isfinite(result.history.train).all()
    assert result.history.train[0] > optimum + 0.3
    assert -0.01 < training.mean_nll(result.network, new_rows) - optimum < 0.02
