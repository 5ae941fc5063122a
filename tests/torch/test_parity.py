"""PyTorch's values and gradients are JAX's, over the tables of cases that the core is tested by."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ngem._types import LocationScale
from ngem.estimator.to_torch import _body
from ngem.families import DiagonalGaussian, FullGaussian
from ngem.mixture import Mixture
from ngem.nn import mixture_mlp
from ngem.objectives import ANNEALED, NGEM, OBJECTIVES, BetaNLL

from ..cases import EXTREMES, SHAPES, extreme_inputs, random_mixture

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'ngem[torch]'")
import ngem.torch as ours  # noqa: E402

KEY = jax.random.key(11)
GAUSSIANS = {"diag": DiagonalGaussian(), "full": FullGaussian()}

# A full covariance in 30 dimensions is solved by LAPACK in JAX, smaller ones are unrolled.
FULL_SHAPES = [(1, 1), (3, 2), (4, 5), (2, 30)]

PARTS = ("logits", "mean", "scale", "y")

# The objective's own strength; numbers with and without a formula of their own; a schedule's.
POWERS = [None, 0.0, 0.3, 0.5, 1.0, "traced"]


def start(family, batch=8, comp=3, dim=2):
    """Parameters of a mixture and targets near it, as numpy arrays in double precision."""
    mixture = random_mixture(family, KEY, batch=(batch,), comp=comp, dim=dim)
    y = mixture.sample(jax.random.fold_in(KEY, 1))
    return [np.asarray(leaf) for leaf in (mixture.logits, *mixture.components, y)]


def with_factors(logits, mean, scale, y):
    """The same mixture with correlated coordinates."""
    dim = scale.shape[-1]
    below = np.tril(np.full((dim, dim), 1 / dim), -1)
    return [logits, mean, scale[..., None] * (np.eye(dim) + below), y]


@eqx.filter_jit
def jax_side(family, inputs, power):
    """Value and gradients of every objective, as one program per family and shape."""

    def loss(logits, mean, scale, y, objective):
        return objective(Mixture(logits, LocationScale(mean, scale), family), y, power=power)

    step = jax.value_and_grad(loss, argnums=(0, 1, 2, 3))
    objectives = {**OBJECTIVES, "annealed": ANNEALED}
    return {name: step(*inputs, objective) for name, objective in objectives.items()}


def torch_side(name, inputs, **settings):
    if name == "annealed":
        settings |= {"flattening": ANNEALED.flattening, "coordinates": ANNEALED.coordinates}
        name = "ngem"
    leaves = [torch.tensor(leaf, requires_grad=True) for leaf in inputs]
    value = ours.mixture_loss(*leaves, objective=name, **settings)
    value.backward()
    return value.detach().numpy(), [
        np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy() for leaf in leaves
    ]


def assert_parity(family, inputs, power=None):
    inputs = [np.ascontiguousarray(leaf) for leaf in inputs]
    traced, scheduled = power, power
    if power == "traced":
        traced, scheduled = jnp.asarray(0.37), torch.tensor(0.37, dtype=torch.float64)
    expected = jax_side(family, [jnp.asarray(leaf) for leaf in inputs], traced)
    for name, (value, grads) in expected.items():
        ours_value, ours_grads = torch_side(name, inputs, power=scheduled)
        np.testing.assert_allclose(ours_value, value, rtol=1e-10, err_msg=name)
        for part, left, right in zip(
            ("logits", "mean", "scale", "y"), ours_grads, grads, strict=True
        ):
            right = np.asarray(right)
            # Where a weight vanishes the paper's forms diverge: to infinity or to NaN.
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
    for name, objective in OBJECTIVES.items():
        known = ours.OBJECTIVES[name]
        if isinstance(objective, NGEM):
            settings = known._asdict()
            assert settings.pop("beta") is None
            assert settings == dataclasses.asdict(objective)
        if isinstance(objective, BetaNLL):
            assert known.beta == objective.beta


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("covariance", GAUSSIANS)
def test_every_power(covariance, power):
    family = GAUSSIANS[covariance]
    assert_parity(family, start(family), power)


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("covariance", GAUSSIANS)
def test_every_extreme(covariance, extreme):
    inputs = extreme_inputs(extreme, start(DiagonalGaussian()))
    if covariance == "full":
        inputs = with_factors(*inputs)
    assert_parity(GAUSSIANS[covariance], inputs)


@pytest.mark.parametrize(
    ("covariance", "comp", "dim"),
    [("diag", *shape) for shape in SHAPES] + [("full", *shape) for shape in FULL_SHAPES],
)
def test_every_shape(covariance, comp, dim):
    inputs = start(DiagonalGaussian(), batch=4, comp=comp, dim=dim)
    if covariance == "full":
        inputs = with_factors(*inputs)
    assert_parity(GAUSSIANS[covariance], inputs)


@pytest.mark.parametrize("covariance", GAUSSIANS)
def test_one_mixture_for_all_targets(covariance):
    family = GAUSSIANS[covariance]
    logits, mean, scale, y = start(family)
    assert_parity(family, [logits[0], mean[0], scale[0], y])


@pytest.mark.parametrize("name", ["ngem", "mse"])
def test_weights(name):
    inputs = start(DiagonalGaussian())
    weights = np.linspace(0, 2, 8)

    def loss(logits, mean, scale):
        mixture = Mixture(logits, LocationScale(mean, scale), DiagonalGaussian())
        return OBJECTIVES[name](mixture, inputs[3], weights=weights)

    value, grads = jax.value_and_grad(loss, argnums=(0, 1, 2))(*map(jnp.asarray, inputs[:3]))
    ours_value, ours_grads = torch_side(name, inputs, weights=torch.tensor(weights))
    np.testing.assert_allclose(ours_value, value, rtol=1e-10)
    for left, right in zip(ours_grads[:3], grads, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-15)


@pytest.mark.trains
@pytest.mark.parametrize("covariance", GAUSSIANS)
def test_training_stays_together(covariance):
    """200 steps of Adam from the same weights on the same batches, with a schedule."""
    n_steps, n_rows, dim, comp = 200, 32, 2, 3
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((n_steps, n_rows, 3)), rng.standard_normal((n_steps, n_rows, dim))
    y += np.sign(rng.standard_normal((n_steps, n_rows, 1))) * 2 * np.sin(x[..., :1])
    network = mixture_mlp(
        3, dim, key=KEY, n_components=comp, hidden_sizes=(16,), family=GAUSSIANS[covariance]
    )
    network = jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_array(leaf) else leaf, network)
    body = _body(network.body).double()
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
