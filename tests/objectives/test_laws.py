"""Laws of the objectives: gradients against autodiff, fixed points, symmetries, extremes."""

import functools as ft
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import softmax
from sklearn.mixture import GaussianMixture

import ngem
from ngem.families import FullGaussian, LocationScale
from ngem.mixture import Mixture
from ngem.objectives import (
    ANNEALED,
    DERIVED,
    LISTING,
    MSE,
    NGEM,
    NLL,
    OBJECTIVES,
    SGEM,
    BetaNLL,
    layout,
)

from .. import oracles
from ..cases import (
    EXTREMES,
    FAMILIES,
    LOCATION_SCALE,
    SHAPES,
    extreme_inputs,
    families_but_slow,
    random_mixture,
    random_raw,
    slow_but,
    standard_normal,
)

KEY = jax.random.key(11)
#: The two others are `NGEM` with other settings.
CLASSES = slow_but(OBJECTIVES, "nll", "sgem", "ngem", "beta-nll", "mse")
LIKELIHOODS = {name: value for name, value in OBJECTIVES.items() if name != "mse"}


def arrays(key=KEY, batch=16, comp=3, dim=2, dtype=jnp.float64):
    """Parameters of a diagonal mixture and targets near it."""
    draw = lambda n, *shape: standard_normal(jax.random.fold_in(key, n), shape, dtype)  # noqa: E731
    mean, scale = draw(1, batch, comp, dim), jnp.exp(0.7 * draw(2, batch, comp, dim))
    return draw(0, batch, comp), mean, scale, mean[:, 0] + scale[:, 0] * draw(3, batch, dim)


def gradients(objective, *arrays, **settings):
    """Return `eager_gradients`, compiled: one program for an objective and a shape."""
    return compiled_gradients(objective, **settings)(*arrays)


@ft.cache
def compiled_gradients(objective, **settings):
    return jax.jit(ft.partial(eager_gradients, objective, **settings))


def eager_gradients(objective, logits, mean, scale, y, **settings):
    def loss(logits, mean, scale):
        return objective(ngem.gaussian_mixture(logits, mean, scale), y, **settings)

    return jax.grad(loss, argnums=(0, 1, 2))(logits, mean, scale)


def densities(mean, scale, y):
    return np.prod(stats.norm.pdf(y[:, None], mean, scale), axis=-1)


def assert_same(left, right, **tolerance):
    for a, b in zip(left, right, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_value_is_the_mean_negative_log_likelihood(name):
    logits, mean, scale, y = arrays()
    expected = oracles.plain_nll(logits, mean, scale, y)
    value = OBJECTIVES[name](ngem.gaussian_mixture(logits, mean, scale), y)
    assert value == pytest.approx(float(expected), rel=1e-12)


# What an objective does with rows does not depend on the family, and the other way round.
@pytest.mark.parametrize(
    ("name", "family"),
    slow_but(
        [*((name, "diag") for name in (*OBJECTIVES, "annealed"))]
        + [
            (name, other)
            for name in ("annealed", "mse")
            for other in LOCATION_SCALE
            if other != "diag"
        ],
        *((name, "diag") for name in ("nll", "beta-nll", "mse", "annealed")),
        ("annealed", "full"),
        ("mse", "laplace"),
    ),
)
def test_many_rows_are_as_many_times_one(name, family, monkeypatch):
    """Many rows are the last axis of all arrays, or are mapped one by one: to the same result."""
    case = FAMILIES[family]
    mixture = random_mixture(case.family, KEY, batch=(4, 10))
    y = standard_normal(KEY, (4, 10, 2))
    weights = jnp.linspace(0.5, 2.0, 40).reshape(4, 10)
    objective = {**OBJECTIVES, "annealed": ANNEALED}[name]
    shapes = {"n_components": mixture.n_components, "dim": mixture.dim}
    assert layout.rows_go_last(case.family, (4, 10), **shapes) == case.family.takes_rows

    def measure(mixture, y, weights):
        losses = objective.losses(mixture, y, jnp.asarray(0.3))
        return jnp.sum(weights * losses), losses

    together = jax.jit(jax.grad(measure, has_aux=True))(mixture, y, weights)
    one = jax.jit(jax.grad(measure, has_aux=True))
    for row in ((0, 0), (3, 7)):
        pick = lambda tree, row=row: jax.tree.map(lambda leaf: np.asarray(leaf)[row], tree)  # noqa: E731
        alone = one(*jax.tree.map(jnp.asarray, pick((mixture, y, weights))))
        for left, right in zip(*map(jax.tree.leaves, (pick(together), alone)), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-12)


def test_gradient_of_nll_is_autodiff_of_the_definition():
    logits, mean, scale, y = arrays()
    expected = jax.jit(jax.grad(oracles.plain_nll, argnums=(0, 1, 2)))(logits, mean, scale, y)
    assert_same(gradients(NLL(), logits, mean, scale, y), expected, rtol=1e-10, atol=1e-14)


@families_but_slow("full")
def test_sgem_has_the_gradient_of_nll(case):
    """Corollary 2, through a random network to its parameters."""
    comp, dim = 4, case.dim
    size = comp * (1 + case.family.num_raw(dim))
    network = eqx.nn.MLP(3, size, 16, 1, jax.nn.gelu, key=KEY)
    network = jax.tree.map(lambda x: x.astype(float) if eqx.is_array(x) else x, network)
    x = standard_normal(KEY, (20, 3))
    y = standard_normal(jax.random.fold_in(KEY, 1), (20, dim))

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(network, objective):
        raw = jax.vmap(network)(x)
        rows = raw[:, comp:].reshape(20, comp, -1)
        params = jax.vmap(jax.vmap(lambda row: case.family.constrain(row, dim)))(rows)
        return objective(Mixture(raw[:, :comp], params, case.family), y)

    left, right = (jax.tree.leaves(gradient(network, o)) for o in (NLL(), SGEM()))
    assert max(float(jnp.abs(leaf).max()) for leaf in left) > 1e-3
    assert_same(left, right, rtol=1e-10, atol=1e-12)


# Eager calls are compiled piece by piece: the pieces do not depend on the family.
@pytest.mark.parametrize(
    ("name", "eager"),
    slow_but(
        [*itertools.product(LOCATION_SCALE, (False, True))],
        ("full", False),
        ("diag", True),
    ),
)
def test_power_zero_is_nll_to_the_bit(name, eager):
    case = FAMILIES[name]
    mixture = random_mixture(case.family, KEY, batch=(9,), comp=4, dim=case.dim)
    y = standard_normal(KEY, (9, case.dim))
    for transform in (lambda f: f, jax.jit)[not eager :]:
        plain = jax.tree.leaves(transform(jax.grad(lambda m: NLL()(m, y)))(mixture))
        for power in (0, 0.0, jnp.array(0.0)):
            natural = transform(jax.grad(lambda m, power=power: NGEM()(m, y, power=power)))(mixture)
            for a, b in zip(plain, jax.tree.leaves(natural), strict=True):
                assert np.array_equal(a, b)


@families_but_slow("full", "laplace")
def test_dense_fisher_times_natural_gradient_is_the_plain_gradient(case):
    """Equation (20): weight_k F_k times what component k receives is its plain gradient.

    F_k is dense, in raw outputs, from autodiff and quadrature. The Jacobian of `constrain` carries
    the natural gradient, a tangent vector, from raw outputs to the parameters.
    """
    if case.has_own_metric:
        pytest.skip("its laws are in a file of its own")
    dim, comp, family = 2, 3, case.family
    raws = random_raw(family, dim, KEY, (comp,))
    constrain = jax.jit(jax.vmap(lambda raw: family.constrain(raw, dim)))
    mixture = Mixture(jnp.array([0.3, -1.0, 0.5]), constrain(raws), family)
    y = jnp.array([0.4, -0.2])
    objective = NGEM(power=1.0, damping=0.0, coordinates="scale")
    plain, natural = (
        jax.jit(jax.grad(lambda m, o=o: o(m, y)))(mixture).components for o in (NLL(), objective)
    )
    for k in range(comp):
        jacobian = case.jacobian(raws[k], dim)
        pick = lambda tree, k=k: np.concatenate([np.ravel(leaf[k]) for leaf in tree])  # noqa: E731
        fisher = float(mixture.weights[k]) * case.raw_fisher(raws[k], dim)
        step = np.linalg.lstsq(jacobian, pick(natural), rcond=None)[0]
        np.testing.assert_allclose(fisher @ step, jacobian.T @ pick(plain), rtol=1e-5, atol=1e-8)


def test_listing_is_what_the_listing_computes():
    logits, mean, scale, y = arrays()
    expected = jax.jit(oracles.listing_gradients)(logits, mean, scale, y)
    assert_same(gradients(LISTING, logits, mean, scale, y), expected, rtol=1e-10, atol=1e-14)


def test_derived_differs_from_the_listing_in_the_logits_only():
    logits, mean, scale, y = arrays()
    derived = gradients(DERIVED, logits, mean, scale, y)
    listing = gradients(LISTING, logits, mean, scale, y)
    assert_same(derived[1:], listing[1:], rtol=1e-12)
    mixture = ngem.gaussian_mixture(logits, mean, scale)
    ratio = mixture.responsibilities(y) / mixture.weights
    np.testing.assert_allclose(derived[0], (1 - ratio) / len(y), rtol=1e-9, atol=1e-14)
    assert not np.allclose(derived[0], listing[0])


@pytest.fixture(scope="module", name="converged")
def _converged():
    """A scikit-learn mixture at its optimum, with weights near 0.8, 0.15 and 0.05."""
    rng = np.random.default_rng(5)
    points = np.concatenate(
        [rng.normal(c, s, (n, 2)) for c, s, n in ((-4, 1, 1600), (0, 0.6, 300), (5, 1.5, 100))]
    )
    fitted = GaussianMixture(
        3,
        covariance_type="diag",
        means_init=[[-4, -4], [0, 0], [5, 5]],
        tol=1e-15,
        max_iter=20_000,
        reg_covar=0.0,
    ).fit(points)
    assert np.all(np.abs(np.sort(fitted.weights_) - [0.05, 0.15, 0.8]) < 0.02)
    mixture = ngem.gaussian_mixture(
        np.log(fitted.weights_), fitted.means_, np.sqrt(fitted.covariances_)
    )
    return points, mixture


@pytest.mark.parametrize("name", ["nll", "sgem", "ngem", "ngem-derived"])
def test_fixed_points_are_those_of_the_likelihood(name, converged):
    points, mixture = converged
    for leaf in jax.tree.leaves(jax.grad(lambda m: OBJECTIVES[name](m, points))(mixture)):
        np.testing.assert_allclose(leaf, 0, atol=1e-6)


def test_the_listing_settles_at_square_roots_of_the_weights(converged):
    """A finding about the paper: its listing does not stop at the truth."""
    points, mixture = converged

    def logits_gradient(logits):
        at = Mixture(jnp.asarray(logits), mixture.components)
        return np.asarray(jax.grad(lambda m: LISTING(m, points))(at).logits)

    assert np.abs(logits_gradient(mixture.logits)).max() > 0.05
    # Free of the shift that leaves softmax alone: the first logit is fixed.
    solved = optimize.root(
        lambda free: logits_gradient(np.append(0.0, free))[1:], np.zeros(2), tol=1e-12
    )
    assert solved.success
    learned = np.asarray(jax.nn.softmax(jnp.append(0.0, solved.x)))
    roots = mixture.weights**0.5
    np.testing.assert_allclose(learned, roots / roots.sum(), atol=0.01)


@pytest.mark.parametrize("traced", [False, True])
def test_flattening_is_the_likelihoods_gradient_with_other_responsibilities(traced):
    logits, mean, scale, y = arrays()
    flat = 0.6 * logits  # 1 - flattening * power
    objective = NGEM(power=0.5, damping=0.0, flattening=0.8)
    power = jnp.asarray(0.5) if traced else None
    loss = lambda *params: objective(ngem.gaussian_mixture(*params), y, power=power)  # noqa: E731
    value, received = jax.value_and_grad(loss, argnums=(0, 1, 2))(logits, mean, scale)
    np.testing.assert_allclose(value, NLL()(ngem.gaussian_mixture(logits, mean, scale), y))
    weights, joint = softmax(logits, axis=-1), softmax(flat, axis=-1) * densities(mean, scale, y)
    expected = weights - joint / joint.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(received[0], expected / len(y), rtol=1e-9, atol=1e-14)
    # Components: the likelihood of flattened weights, preconditioned by the model's own.
    plain = jax.jit(jax.grad(oracles.plain_nll, argnums=(1, 2)))(flat, mean, scale, y)
    root = weights[..., None] ** 0.5
    np.testing.assert_allclose(received[1], plain[0] * scale / root, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(received[2], plain[1] / (root * 2**0.5), rtol=1e-9, atol=1e-14)


def test_flattening_leaves_components_that_are_apart_where_they_are(converged):
    points, mixture = converged
    for leaf in jax.tree.leaves(jax.grad(lambda m: NGEM(flattening=1.0)(m, points))(mixture)):
        np.testing.assert_allclose(leaf, 0, atol=2e-3)


def test_flattening_evens_out_components_that_are_alike():
    mixture = ngem.gaussian_mixture(np.log([0.9, 0.1]), np.zeros((2, 1)), np.ones((2, 1)))
    received = jax.grad(lambda m: NGEM(power=0.5, flattening=1.0)(m, jnp.zeros(1)))(mixture)
    roots = np.sqrt([0.9, 0.1])
    np.testing.assert_allclose(received.logits, [0.9, 0.1] - roots / roots.sum(), rtol=1e-6)


def test_a_flattened_objective_ends_as_the_likelihood(converged):
    points, mixture = converged
    flattened = NGEM(flattening=1.0)
    value, received = jax.value_and_grad(lambda m: flattened(m, points, power=0.0))(mixture)
    expected_value, expected = jax.value_and_grad(lambda m: NLL()(m, points))(mixture)
    assert value == expected_value
    # Sums that are zero at a converged fit, up to rounding.
    assert_same(jax.tree.leaves(received), jax.tree.leaves(expected), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("power", "expected"), [(0.0, 1.0), (0.5, 0.0), (1.0, -1.0)])
def test_strength_sets_how_loud_components_are(power, expected):
    """docs/theory.md, section 5: what a mean receives has variance (weight F)^(1 - 2 power)."""
    weights, scale = np.array([0.9, 0.1]), np.array([[0.2], [3.0]])
    mixture = ngem.gaussian_mixture(np.log(weights), np.array([[-40.0], [40.0]]), scale)
    y = mixture.sample(jax.random.key(0), (20_000,))
    objective = NGEM(power=power, damping=0.0)
    each = jax.jit(jax.vmap(jax.grad(lambda m, row: objective(m, row)), in_axes=(None, 0)))
    received = each(mixture, y).components.mean[:, :, 0]
    fisher = weights / scale[:, 0] ** 2
    np.testing.assert_allclose(jnp.mean(received**2, axis=0), fisher**expected, rtol=0.1)


def test_beta_nll_is_seitzers_loss_for_one_component():
    _, mean, scale, y = arrays(comp=1)
    logits = jnp.zeros((len(y), 1))
    plain = jax.jit(jax.grad(oracles.seitzer_loss, argnums=(0, 1)))
    for beta in (0.0, 0.3, 0.5, 1.0):
        expected = plain(mean[:, 0], scale[:, 0], y, beta)
        ours = gradients(BetaNLL(beta), logits, mean, scale, y)[1:]
        assert_same([g[:, 0] for g in ours], expected, rtol=1e-9, atol=1e-14)


def test_one_component_ngem_is_beta_nll_with_beta_one():
    """Related Work: the same gradient for the mean, half for the scale (F(scale) = 2/scale^2)."""
    _, mean, scale, y = arrays(comp=1)
    logits = jnp.zeros((len(y), 1))
    objective = NGEM(power=1.0, damping=0.0, coordinates="scale")
    natural = gradients(objective, logits, mean, scale, y)
    weighted = gradients(BetaNLL(1.0), logits, mean, scale, y)
    np.testing.assert_allclose(natural[1], weighted[1], rtol=1e-12)
    np.testing.assert_allclose(2 * natural[2], weighted[2], rtol=1e-12, atol=1e-15)


def test_mse_is_the_squared_error_of_the_mixture_mean():
    logits, mean, scale, y = arrays()
    predicted = np.einsum("nk,nkd->nd", jax.nn.softmax(logits), mean)
    value = MSE()(ngem.gaussian_mixture(logits, mean, scale), y)
    assert value == pytest.approx(np.mean((predicted - np.asarray(y)) ** 2), rel=1e-12)


@pytest.mark.parametrize("name", CLASSES)
def test_permuting_components_permutes_gradients(name):
    logits, mean, scale, y = arrays(comp=4)
    order = np.array([2, 0, 3, 1])
    plain = gradients(OBJECTIVES[name], logits, mean, scale, y)
    shuffled = gradients(OBJECTIVES[name], logits[:, order], mean[:, order], scale[:, order], y)
    assert_same(shuffled, [leaf[:, order] for leaf in plain], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_rescaling_targets_rescales_gradients(power):
    """y -> a y + b with parameters to match: gradients of mean and scale times a^(2 power - 1).

    In coordinates of the log scale, whose unit does not change, the scale's is that of power 0.
    """
    logits, mean, scale, y = arrays()
    stretch, shift = 250.0, -3.0
    moved = (stretch * mean + shift, stretch * scale, stretch * y + shift)
    for coordinates, strength in (("scale", power), ("log_scale", 0.0)):
        objective = NGEM(coordinates=coordinates)
        before = gradients(objective, logits, mean, scale, y, power=power)
        after = gradients(objective, logits, *moved, power=power)
        np.testing.assert_allclose(after[0], before[0], rtol=1e-8, atol=1e-12)
        for leaf, other, exponent in zip(after[1:], before[1:], (power, strength), strict=True):
            factor = stretch ** (2 * exponent - 1)
            np.testing.assert_allclose(leaf, factor * other, rtol=1e-7, atol=1e-10 * factor)


@pytest.mark.parametrize("name", slow_but(OBJECTIVES, "ngem", "mse"))
def test_transformations_change_nothing_and_compile_once(name):
    logits, mean, scale, y = arrays()
    traces = []

    def step(logits, mean, scale, y):
        traces.append(1)
        return eager_gradients(OBJECTIVES[name], logits, mean, scale, y)

    eager = eager_gradients(OBJECTIVES[name], logits, mean, scale, y)
    compiled = jax.jit(step)
    assert_same(compiled(logits, mean, scale, y), eager, rtol=1e-10, atol=1e-14)
    compiled(logits + 1, mean * 2, scale, y)
    assert len(traces) == 1

    stack = [jnp.stack([leaf, leaf]) for leaf in (logits, mean, scale, y)]
    mapped = jax.vmap(step)(*stack)
    assert_same([leaf[1] for leaf in mapped], eager, rtol=1e-10, atol=1e-14)
    _, scanned = jax.lax.scan(lambda carry, args: (carry, step(*args)), None, tuple(stack))
    assert_same([leaf[0] for leaf in scanned], eager, rtol=1e-10, atol=1e-14)


def test_a_traced_power_equals_the_same_number():
    logits, mean, scale, y = arrays()
    loss = lambda mean, power: ngem.ngem_loss(logits, mean, scale, y, power=power)  # noqa: E731
    compiled = jax.jit(jax.grad(loss))
    for power in (0.0, 0.3, 0.5, 1.0):
        traced = compiled(mean, jnp.asarray(power))
        np.testing.assert_allclose(traced, jax.grad(loss)(mean, power), rtol=1e-12)


@pytest.mark.parametrize("name", slow_but(OBJECTIVES, "ngem", "beta-nll", "mse"))
def test_weights_count_rows(name):
    """Integer weights are repetitions, and zero drops a row, in value and gradient."""
    logits, mean, scale, y = arrays(batch=5)
    weights = np.array([2, 0, 1, 3, 1])
    index = np.repeat(np.arange(5), weights)

    def weighted(logits, mean, scale):
        mixture = Mixture(logits, LocationScale(mean, scale))
        return OBJECTIVES[name](mixture, y, weights=weights.astype(float))

    def repeated(logits, mean, scale):
        mixture = Mixture(logits[index], LocationScale(mean[index], scale[index]))
        return OBJECTIVES[name](mixture, y[index])

    left, right = (
        jax.jit(jax.value_and_grad(f, (0, 1, 2)))(logits, mean, scale) for f in (weighted, repeated)
    )
    assert left[0] == pytest.approx(float(right[0]), rel=1e-12)
    assert_same(left[1], right[1], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("power", [None, 0.0, 0.5, 1.0])
def test_extremes_are_finite_and_point_the_right_way(extreme, power):
    """In float32; the sign is that of float64 NLL, since all preconditioners are positive."""
    start = [np.asarray(leaf) for leaf in arrays(batch=8, comp=3, dim=2)]
    inputs = [leaf.astype(np.float32) for leaf in extreme_inputs(extreme, start)]
    single = [jnp.asarray(leaf) for leaf in inputs]
    double = [jnp.asarray(leaf, jnp.float64) for leaf in inputs]
    objective, settings = (NGEM(), {"power": power})
    assert np.isfinite(objective(ngem.gaussian_mixture(*single[:3]), single[3]))
    ours = gradients(objective, *single, **settings)
    reference = gradients(NLL(), *double)
    # Below these, the sign is a matter of float32's rounding of responsibilities.
    resolutions = (1e-3 / 8, 0.0, 0.0)
    for left, right, resolution in zip(ours, reference, resolutions, strict=True):
        assert left.dtype == jnp.float32
        assert np.all(np.isfinite(left))
        clear = np.abs(right) > max(1e-5 * np.abs(right).max(), resolution)
        agree = np.sign(left) == np.sign(right)
        assert np.all(agree[clear])


@pytest.mark.parametrize(("comp", "dim"), slow_but(SHAPES, (1, 1), (512, 1), (8, 512)))
@pytest.mark.parametrize("objective", slow_but([NLL(), NGEM(), NGEM(power=1.0)], NGEM()), ids=str)
def test_large_and_small_shapes_are_finite(comp, dim, objective):
    *inputs, y = arrays(batch=4, comp=comp, dim=dim, dtype=jnp.float32)
    loss = lambda *params: objective(ngem.gaussian_mixture(*params), y)  # noqa: E731
    value, grads = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))(*inputs)
    for leaf in (value, *grads):
        assert np.all(np.isfinite(leaf))


def test_half_precision_inputs_are_computed_in_single():
    inputs = [leaf.astype(jnp.bfloat16) for leaf in arrays(dtype=jnp.float32)]
    loss, grads = jax.jit(jax.value_and_grad(ngem.ngem_loss, argnums=(0, 1, 2)))(*inputs)
    assert loss.dtype == jnp.float32
    assert all(leaf.dtype == jnp.bfloat16 and jnp.all(jnp.isfinite(leaf)) for leaf in grads)


@pytest.mark.timeout(60)
@pytest.mark.slow
def test_full_covariances_train_under_vmap_within_scan():
    """The combination that deadlocks on the CPU with batched LAPACK solves."""
    mixture = random_mixture(FullGaussian(), KEY, batch=(3, 16), comp=3, dim=4)
    y = jax.vmap(lambda m: m.sample(KEY))(mixture)
    objective = NGEM(coordinates="scale")  # the factor itself is learned, not its logarithm

    def train(mixture, y):
        def step(mixture, _):
            grads = jax.grad(lambda m: objective(m, y))(mixture)
            return jax.tree.map(lambda p, g: p - 1e-3 * g, mixture, grads), objective(mixture, y)

        return jax.lax.scan(step, mixture, length=50)

    _, curves = jax.jit(jax.vmap(train))(mixture, y)
    assert np.all(curves[:, -1] < curves[:, 0])
