"""The registry: every named optimizer has the properties that it declares."""

import functools as ft

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from ngem import optimizers
from ngem.optimizers import OPTIMIZERS, LayerStatistics, get_optimizer, make_optimizer

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
