"""Values and gradients in PyTorch are those of JAX, over the cases that the core is tested by.

JAX compiles a program for each shape and set of objectives, which is most of the time here. So the
large shapes run with those objectives alone whose gradients depend on the shape in another way.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ngem
from ngem import _defaults
from ngem.families import DiagonalGaussian, FullGaussian, LocationScale, get_family
from ngem.mixture import Mixture
from ngem.nn import mixture_mlp
from ngem.objectives import NGEM, OBJECTIVES, BetaNLL

from ..cases import EXTREMES, SHAPES, extreme_inputs, random_mixture, slow_but, standard_normal
from .common import ours, torch

KEY = jax.random.key(11)
GAUSSIANS = {"diag": DiagonalGaussian(), "full": FullGaussian()}

#: Families with a location and a scale, by the name that both sides take.
OTHERS = ("laplace", "logistic", "student", "student(2.5)", "student(df=40)")

# JAX solves a full covariance in 30 dimensions by LAPACK and unrolls smaller ones. The extremes
# have three components in two dimensions.
FULL_SHAPES = [(1, 1), (4, 3), (2, 30)]

# The settings of the default schedule, at a constant strength.
ANNEALED = NGEM(coordinates=_defaults.SCHEDULED_COORDINATES, flattening=_defaults.FLATTENING)

JAX_OBJECTIVES = {**OBJECTIVES, "annealed": ANNEALED}

ALL = tuple(JAX_OBJECTIVES)
WITH_POWER = ("ngem", "ngem-listing", "ngem-derived", "annealed")
OF_EVERY_SHAPE = ("ngem", "ngem-derived", "beta-nll", "annealed", "mse")

# Numbers with and without a formula of their own, and a tensor as a schedule gives it.
POWERS = [0.0, 0.3, 0.5, 1.0, torch.tensor(0.37, dtype=torch.float64)]


def start(family, batch=8, comp=3, dim=2):
    """Return parameters of a mixture and targets near it, as arrays in double precision."""
    mixture = random_mixture(family, KEY, batch=(batch,), comp=comp, dim=dim)
    mean, scale = mixture.components
    y = mean[:, 0] + standard_normal(KEY, (batch, dim))
    return [np.asarray(leaf) for leaf in (mixture.logits, mean, scale, y)]


def with_factors(logits, mean, scale, y):
    """Return the same mixture with correlated coordinates."""
    dim = scale.shape[-1]
    below = np.tril(np.full((dim, dim), 1 / dim), -1)
    return [logits, mean, scale[..., None] * (np.eye(dim) + below), y]


@eqx.filter_jit
def jax_side(names, inputs, power, family):
    """Return value and gradients of objectives, as one program per shape."""

    def loss(logits, mean, scale, y, objective):
        if family == "gaussian":
            mixture = ngem.gaussian_mixture(logits, mean, scale)
        else:
            mixture = Mixture(logits, LocationScale(mean, scale), get_family(family))
        return objective(mixture, y, power=power)

    step = jax.value_and_grad(loss, argnums=(0, 1, 2, 3))
    return {name: step(*inputs, JAX_OBJECTIVES[name]) for name in names}


def torch_side(name, inputs, **settings):
    """Return value and gradients of one objective."""
    if name == "annealed":
        settings |= {"flattening": ANNEALED.flattening, "coordinates": ANNEALED.coordinates}
        name = "ngem"
    leaves = [torch.tensor(leaf, requires_grad=True) for leaf in inputs]
    value = ours.mixture_loss(*leaves, objective=name, **settings)
    value.backward()
    return value.detach().numpy(), [
        np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy() for leaf in leaves
    ]


def assert_parity(names, inputs, power=None, family="gaussian"):
    """Compare both sides; JAX is given the power as an array, so one program serves them all."""
    inputs = [np.ascontiguousarray(leaf) for leaf in inputs]
    traced = None if power is None else jnp.asarray(float(power))
    expected = jax_side(names, [jnp.asarray(leaf) for leaf in inputs], traced, family)
    for name, (value, grads) in expected.items():
        ours_value, ours_grads = torch_side(name, inputs, power=power, family=family)
        np.testing.assert_allclose(ours_value, value, rtol=1e-10, err_msg=name)
        parts = ("logits", "mean", "scale", "y")
        for part, left, right in zip(parts, ours_grads, grads, strict=True):
            right = np.asarray(right)
            # Where a weight vanishes the paper's forms diverge, to infinity or to NaN.
            known = np.isfinite(right)
            np.testing.assert_array_equal(np.isfinite(left), known)
            left, right = left[known], right[known]
            # A difference such as weight - responsibility is exact to the rounding of its parts.
            size = np.abs(right).max(initial=1.0 if part == "logits" else 0.0)
            np.testing.assert_allclose(
                left, right, rtol=1e-10, atol=1e-14 * size, err_msg=f"{name}: {part}"
            )


def test_objectives_have_the_same_names_and_settings():
    assert list(ours.OBJECTIVES) == list(OBJECTIVES)
    n_compared = 0
    for name, objective in OBJECTIVES.items():
        if isinstance(objective, NGEM | BetaNLL):
            preconditioner = ours.OBJECTIVES[name]
            names = [field.name for field in dataclasses.fields(preconditioner) if field.init]
            assert {key: getattr(objective, key) for key in names} == {
                key: getattr(preconditioner, key) for key in names
            }
            n_compared += 1
    assert n_compared == 4


@pytest.mark.parametrize("power", POWERS, ids=str)
@pytest.mark.parametrize("covariance", GAUSSIANS)
def test_every_power(covariance, power):
    assert_parity(WITH_POWER, start(GAUSSIANS[covariance]), power)


@pytest.mark.parametrize("extreme", [None, *EXTREMES])
@pytest.mark.parametrize("covariance", GAUSSIANS)
def test_every_extreme(covariance, extreme):
    inputs = start(DiagonalGaussian())
    if extreme is not None:
        inputs = extreme_inputs(extreme, inputs)
    if covariance == "full":
        inputs = with_factors(*inputs)
    assert_parity(ALL, inputs)


# Of the objectives, those whose gradients depend on the family in another way.
@pytest.mark.parametrize("family", slow_but(OTHERS, "student(2.5)"))
def test_every_family(family):
    """At extremes, for constant and scheduled strengths."""
    ordinary = start(DiagonalGaussian())
    for extreme in (None, *EXTREMES):
        inputs = ordinary if extreme is None else extreme_inputs(extreme, ordinary)
        assert_parity(("annealed", "beta-nll"), inputs, 0.3, family)
    for power in POWERS:
        assert_parity(("annealed", "beta-nll"), ordinary, power, family)


@pytest.mark.parametrize("family", OTHERS)
@pytest.mark.slow
def test_every_objective_of_every_family(family):
    for dim in (1, 2):
        assert_parity(ALL, start(DiagonalGaussian(), dim=dim), family=family)


@pytest.mark.parametrize(
    ("covariance", "comp", "dim"),
    slow_but(
        [("diag", *shape) for shape in SHAPES] + [("full", *shape) for shape in FULL_SHAPES],
        ("diag", 1, 1),
        ("full", 2, 30),
    ),
)
def test_every_shape(covariance, comp, dim):
    inputs = start(DiagonalGaussian(), batch=4, comp=comp, dim=dim)
    if covariance == "full":
        inputs = with_factors(*inputs)
    assert_parity(OF_EVERY_SHAPE, inputs)


@pytest.mark.parametrize("covariance", GAUSSIANS)
def test_one_mixture_for_all_targets(covariance):
    logits, mean, scale, y = start(GAUSSIANS[covariance])
    assert_parity(("ngem", "mse"), [logits[0], mean[0], scale[0], y])


@pytest.mark.parametrize("name", ["ngem", "mse"])
def test_weights(name):
    inputs = start(DiagonalGaussian())
    weights = np.linspace(0, 2, 8)

    def loss(logits, mean, scale):
        mixture = ngem.gaussian_mixture(logits, mean, scale)
        return OBJECTIVES[name](mixture, inputs[3], weights=weights)

    step = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))
    value, grads = step(*map(jnp.asarray, inputs[:3]))
    ours_value, ours_grads = torch_side(name, inputs, weights=torch.tensor(weights))
    np.testing.assert_allclose(ours_value, value, rtol=1e-10)
    for left, right in zip(ours_grads[:3], grads, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-15)


@pytest.mark.trains
@pytest.mark.parametrize("covariance", slow_but(GAUSSIANS, "diag"))
def test_training_stays_together(covariance):
    """Adam from the same weights on the same batches, with a schedule, to its end and beyond."""
    n_steps, n_rows, dim, comp = 80, 32, 2, 3
    rng = np.random.default_rng(3)
    x, noise = (rng.standard_normal((n_steps, n_rows, size)) for size in (3, dim))
    y = 0.3 * noise + np.sign(rng.standard_normal((n_steps, n_rows, 1))) * 2 * np.sin(x[..., :1])
    network = mixture_mlp(
        3, dim, key=KEY, n_components=comp, hidden_sizes=(16,), family=GAUSSIANS[covariance]
    )
    network = jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_array(leaf) else leaf, network)
    layers = [
        {"weight": np.asarray(layer.weight), "bias": np.asarray(layer.bias)}
        for layer in network.body.layers
    ]
    body = ours.dense_network(layers, "gelu", 0.0).double()
    mixture = ours.RawToMixture(comp, dim, covariance)

    optimizer = optax.adam(1e-2)
    params, static = eqx.partition(network, eqx.is_inexact_array)

    def step(carry, batch):
        params, state, count = carry
        x, y = batch

        def loss(params):
            power = 0.5 - 0.5 * jnp.minimum(1.0, count / (0.8 * n_steps))
            return ANNEALED(jax.vmap(eqx.combine(params, static))(x), y, power=power)

        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state)
        return (eqx.apply_updates(params, updates), state, count + 1), value

    carry = (params, optimizer.init(params), jnp.asarray(0.0))
    (params, _, _), curve = jax.lax.scan(step, carry, (jnp.asarray(x), jnp.asarray(y)))

    theirs = torch.optim.Adam(body.parameters(), 1e-2)
    schedule = ours.PowerSchedule(n_steps, 0.5, 0.0, 0.8).double()
    for number in range(n_steps):
        parts = mixture(body(torch.tensor(x[number])))
        value = ours.ngem_loss(*parts, torch.tensor(y[number]), power=schedule)
        theirs.zero_grad()
        value.backward()
        theirs.step()
        schedule.step()
        assert value.item() == pytest.approx(float(curve[number]), rel=1e-6)
    assert curve[-1] < curve[0] - 0.5
    for left, right in zip(body.parameters(), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(left.detach().numpy(), right, rtol=1e-6, atol=1e-6)
