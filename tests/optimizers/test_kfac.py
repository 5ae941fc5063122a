"""K-FAC against dense Fisher matrices from numpy and autodiff, its clipping and its robustness."""

import functools as ft
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ngem.optimizers import LayerStatistics, kfac, tapped_statistics

from . import run_within

INF = float("inf")
EAGER = kfac(0.1, inverse_frequency=2)
EAGER_UPDATE = jax.jit(EAGER.update)  # made once, so that it compiles once


def network(sizes, use_bias=True):
    """Layers drawn by numpy: eager draws of JAX compile a program for each shape."""
    rng, key = np.random.default_rng(0), jax.random.key(0)
    make = ft.partial(eqx.filter_eval_shape, eqx.nn.Linear, use_bias=use_bias, key=key)
    shapes = [make(fan_in, fan_out) for fan_in, fan_out in pairwise(sizes)]
    return jax.tree.map(lambda p: jnp.asarray(rng.uniform(-0.5, 0.5, p.shape)), shapes)


def apply_with_taps(layers, x, taps):
    inputs = []
    for i, layer in enumerate(layers):
        inputs.append(x)
        x = jax.vmap(layer)(x) + taps[i]
        x = jnp.tanh(x) if i + 1 < len(layers) else x
    return x, tuple(inputs)


@jax.jit
def statistics(layers, x, cotangent):
    return tapped_statistics(apply_with_taps, layers, x, cotangent)


def apply(layers, x):
    return apply_with_taps(layers, x, [jnp.zeros((len(x), len(m.weight))) for m in layers])[0]


def block(layer):
    """[W, b] as a numpy matrix."""
    bias = [] if layer.bias is None else [np.asarray(layer.bias)[:, None]]
    return np.concatenate([np.asarray(layer.weight), *bias], axis=1)


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def damped(a, g, damping):
    """Factored Tikhonov damping (Martens & Grosse 2015)."""
    pi = np.sqrt((np.trace(a) / len(a)) / (np.trace(g) / len(g)))
    return a + pi * np.sqrt(damping) * np.eye(len(a)), g + np.sqrt(damping) / pi * np.eye(len(g))


def per_sample_gradients(layers, x, cotangent):
    """For each sample the gradient of <cotangent, outputs>, one (batch, out, in + 1) per layer."""
    one = lambda x, v: jax.grad(lambda p: jnp.vdot(v, apply(p, x[None])[0]))(layers)  # noqa: E731
    stacked = jax.jit(jax.vmap(one))(x, cotangent)
    each = [jax.tree.map(lambda leaf, i=i: leaf[i], stacked) for i in range(len(x))]
    return [np.stack(blocks) for blocks in zip(*(map(block, g) for g in each), strict=True)]


@pytest.mark.parametrize(
    ("sizes", "use_bias"), [((3, 2), True), ((3, 5, 4, 2), True), ((3, 4, 2), False)]
)
def test_taps_give_every_samples_gradient(sizes, use_bias):
    layers = network(sizes, use_bias=use_bias)
    x, cotangent = normal(0, 6, 3), normal(1, 6, 2)
    seen = statistics(layers, x, cotangent)
    expected = per_sample_gradients(layers, x, cotangent)
    for (a, g), truth in zip(seen, expected, strict=True):
        a = np.concatenate([a, np.ones((6, 1))], axis=1) if use_bias else a
        np.testing.assert_allclose(np.einsum("bo,bi->boi", g, a), truth, atol=1e-12)


@pytest.mark.parametrize("use_bias", [True, False])
def test_factors_are_debiased_averages_of_second_moments(use_bias):
    layers, decay, steps = network((3, 4, 2), use_bias=use_bias), 0.8, 5
    optimizer = kfac(0.1, decay=decay)
    state, update = optimizer.init(layers), jax.jit(optimizer.update)
    means = [[0.0, 0.0] for _ in layers]
    for t in range(steps):
        x, cotangent = normal(2 * t, 6, 3), normal(2 * t + 1, 6, 2)
        seen = statistics(layers, x, cotangent)
        _, state = update(layers, state, layers, curvature=seen)
        for mean, (a, g) in zip(means, seen, strict=True):
            a = np.concatenate([a, np.ones((6, 1))], axis=1) if use_bias else np.asarray(a)
            for side, rows in enumerate((a, np.asarray(g))):
                mean[side] = decay * mean[side] + (1 - decay) * sum(
                    np.outer(r, r) for r in rows
                ) / len(rows)
    for factors, mean in zip(state.factors, means, strict=True):
        np.testing.assert_allclose(factors.inputs, mean[0], atol=1e-12)
        np.testing.assert_allclose(factors.outputs, mean[1], atol=1e-12)


def direction(layers, grads, seen, **options):
    """Return the natural gradient at the first step, one [W, b] block per layer."""
    optimizer = kfac(1.0, kl_clip=INF, momentum=0.0, **options)
    updates, _ = jax.jit(optimizer.update)(grads, optimizer.init(layers), layers, curvature=seen)
    return [-block(u) for u in updates]


def test_one_linear_layer_solves_the_damped_dense_fisher():
    """Every input with every output gradient: then E[aa^T (x) gg^T] factors exactly."""
    (layer,), damping = network((3, 2)), 1e-2
    rows, sides = normal(0, 5, 3), normal(1, 4, 2)
    a, g = jnp.repeat(rows, 4, axis=0), jnp.tile(sides, (5, 1))
    grads = jax.tree.map(lambda p: jnp.asarray(normal(7, *p.shape)), layer)
    (v,) = direction([layer], [grads], (LayerStatistics(a, g),), damping=damping)

    homogeneous = np.concatenate([a, np.ones((20, 1))], axis=1)
    samples = np.einsum("bo,bi->boi", g, homogeneous).reshape(20, -1)
    fisher = samples.T @ samples / 20
    ad, gd = damped(homogeneous.T @ homogeneous / 20, np.asarray(g.T @ g) / 20, damping)
    np.testing.assert_allclose(np.linalg.solve(np.kron(gd, ad), block(grads).ravel()), v.ravel())

    # Without damping the factored inverse is that of the dense Fisher matrix itself.
    (v,) = direction([layer], [grads], (LayerStatistics(a, g),), damping=1e-24)
    exact = np.linalg.solve(fisher, block(grads).ravel())
    np.testing.assert_allclose(v.ravel(), exact, rtol=1e-8)


def test_one_sample_makes_the_blocks_of_the_fisher_exact():
    """For a batch of one, A (x) G is the layer's diagonal block of the dense Fisher matrix."""
    layers = network((3, 4, 2))
    x, cotangent = normal(0, 1, 3), normal(1, 1, 2)
    optimizer = kfac(0.1, decay=0.5)
    seen = statistics(layers, x, cotangent)
    _, state = jax.jit(optimizer.update)(layers, optimizer.init(layers), layers, curvature=seen)
    samples = per_sample_gradients(layers, x, cotangent)
    for factors, sample in zip(state.factors, samples, strict=True):
        fisher = np.outer(sample[0].ravel(), sample[0].ravel())
        # After one step the average is (1 - decay) of the first batch, and both factors have it.
        kron = np.kron(factors.outputs, factors.inputs) / 0.5**2
        np.testing.assert_allclose(kron, fisher, atol=1e-12)


def test_sampled_vectors_give_the_expected_factor():
    """For a unit Gaussian the Fisher matrix is I and G is the mean of J^T J, J by autodiff."""
    layers, x, repeats = network((3, 4, 2)), normal(0, 5, 3), 20_000
    outputs = lambda a: lambda taps: apply_with_taps(layers, a[None], taps)[0][0]  # noqa: E731
    zeros = (jnp.zeros((1, 4)), jnp.zeros((1, 2)))
    jacobians = jax.jit(jax.vmap(lambda a: jax.jacobian(outputs(a))(zeros)))(x)
    many, vectors = jnp.tile(x, (repeats, 1)), normal(1, 5 * repeats, 2)
    seen = statistics(layers, many, vectors)
    for (_, g), j in zip(seen, jacobians, strict=True):
        expected = np.einsum("nosk,nosl->kl", j, j) / 5
        np.testing.assert_allclose(np.asarray(g.T @ g) / len(g), expected, atol=0.02)


def test_arrays_outside_linear_layers_get_momentum():
    params = {"layer": network((2, 2))[0], "shift": normal(3, 4), "scale": jnp.asarray(2.0)}
    seen = (LayerStatistics(normal(0, 5, 2), normal(1, 5, 2)),)
    optimizer = kfac(0.1, momentum=0.5)
    state, update = optimizer.init(params), jax.jit(optimizer.update)
    grads = jax.tree.map(jnp.ones_like, params)
    for expected in (-0.1, -0.15, -0.175):
        updates, state = update(grads, state, params, curvature=seen)
        np.testing.assert_allclose(updates["shift"], np.full(4, expected))
        np.testing.assert_allclose(updates["scale"], expected)


def test_weight_decay_is_decoupled_and_schedules_are_followed():
    layers, seen = network((2, 2)), (LayerStatistics(normal(0, 5, 2), normal(1, 5, 2)),)
    grads = jax.tree.map(jnp.zeros_like, layers)
    optimizer = kfac(lambda step: 0.1 / (step + 1).astype(jnp.float64), weight_decay=0.3)
    state, update = optimizer.init(layers), jax.jit(optimizer.update)
    for rate in (0.1, 0.05):
        updates, state = update(grads, state, layers, curvature=seen)
        np.testing.assert_allclose(block(updates[0]), -rate * 0.3 * block(layers[0]))


@pytest.mark.parametrize("rate", [1e-3, 0.1, 10.0])
def test_the_step_stays_within_the_divergence(rate):
    """lr^2 v^T F v <= kl_clip in the dense Fisher of one layer, with equality up to damping."""
    (layer,), clip = network((3, 2)), 1e-3
    optimizer = kfac(rate, kl_clip=clip, momentum=0.0, damping=1e-9, inverse_frequency=3)
    state, update = optimizer.init([layer]), jax.jit(optimizer.update)
    mean, ratios = [0.0, 0.0], []
    for t in range(8):
        a, g = (1 + t) * normal(t, 9, 3), (1 + t) * normal(t + 50, 9, 2)
        grads = jax.tree.map(lambda p, t=t: normal(100 + t, *p.shape), [layer])
        updates, state = update(grads, state, curvature=(LayerStatistics(a, g),))
        a, g = np.concatenate([a, np.ones((9, 1))], axis=1), np.asarray(g)
        for side, rows in enumerate((a, g)):
            mean[side] = 0.95 * mean[side] + 0.05 * rows.T @ rows / 9
        fisher = np.kron(mean[1], mean[0]) / (1 - 0.95 ** (t + 1)) ** 2
        v = block(updates[0]).ravel()
        ratios.append(v @ fisher @ v / clip)
    assert max(ratios) <= 1 + 1e-9
    assert (rate < 1) or min(ratios) > 0.99


def regression(optimizer_of, rates, steps, curved):
    """Losses (rates, steps) on a badly scaled regression with a two-layer network."""
    raw = np.random.default_rng(0).normal(size=(64, 5))
    x = jnp.asarray(raw * np.geomspace(1, 0.03, 5))
    y = jnp.asarray(np.sin(3 * raw[:, 4:])) + x[:, :1]
    loss = lambda p: jnp.mean(jnp.sum((apply(p, x) - y) ** 2, axis=1)) / 2  # noqa: E731
    keys = jax.random.split(jax.random.key(1), steps)

    def losses(rate):
        optimizer = optimizer_of(rate)

        def body(carry, key):
            params, state = carry
            value, grads = jax.value_and_grad(loss)(params)
            vectors = jax.random.normal(key, y.shape)
            seen = tapped_statistics(apply_with_taps, params, x, vectors)
            extra = {"curvature": seen} if curved else {}
            updates, state = optimizer.update(grads, state, params, **extra)
            return (eqx.apply_updates(params, updates), state), value

        layers = network((5, 16, 1))
        return jax.lax.scan(body, (layers, optimizer.init(layers)), keys)[1]

    return np.asarray(jax.jit(lambda r: jax.lax.map(losses, r))(rates))


@pytest.mark.slow
def test_needs_far_fewer_steps_than_gradient_descent():
    (ours,) = regression(kfac, jnp.asarray([1.0]), 300, curved=True) < 0.05
    assert ours.any()
    with jax.numpy_dtype_promotion("standard"):
        heavy_ball = lambda rate: optax.sgd(rate, momentum=0.9)  # noqa: E731
        rates = jnp.asarray([0.01, 0.03, 0.1, 0.3])
        theirs = regression(heavy_ball, rates, 10 * int(ours.argmax()), curved=False)
    assert not (theirs < 0.05).any()
    assert np.all(theirs[:, -1] < theirs[:, 0])  # they do descend


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("case", ["zero", "duplicates", "dead", "huge", "tiny"])
def test_never_gives_nan(case, dtype):
    layers = jax.tree.map(lambda p: p.astype(dtype), network((3, 4, 2)))
    a = [normal(i, 6, n) for i, n in enumerate((3, 4))]
    g = [normal(i + 9, 6, n) for i, n in enumerate((4, 2))]
    grads = jax.tree.map(lambda p: normal(5, *p.shape).astype(dtype), layers)
    scale = {"huge": 1e8, "tiny": 1e-12, "zero": 0.0}.get(case, 1.0)
    if case == "duplicates":
        a, g = ([jnp.tile(v[:1], (6, 1)) for v in side] for side in (a, g))
    if case == "dead":  # all units of a layer are off: no input to the next layer, no gradient
        a, g = [a[0], 0 * a[1]], [0 * g[0], g[1]]
    grads = jax.tree.map(lambda p: (scale * p).astype(dtype), grads)
    seen = [
        LayerStatistics(u.astype(dtype) * scale**0.5, v.astype(dtype) * scale)
        for u, v in zip(a, g, strict=True)
    ]
    state = EAGER.init(layers)
    for _ in range(6):
        updates, state = EAGER_UPDATE(grads, state, layers, curvature=tuple(seen))
        for leaf in jax.tree.leaves(updates):
            assert leaf.dtype == dtype
            assert np.isfinite(leaf).all()
    assert case != "zero" or all(np.all(leaf == 0) for leaf in jax.tree.leaves(updates))


def test_errors_say_what_to_do():
    layers = network((3, 4, 2))
    optimizer = kfac(0.1, weight_decay=0.1)
    state = optimizer.init(layers)
    seen = statistics(layers, normal(0, 6, 3), normal(1, 6, 2))
    with pytest.raises(ValueError, match="one entry per Linear layer, 2 here, got 1; tapped"):
        optimizer.update(layers, state, layers, curvature=seen[:1])
    with pytest.raises(ValueError, match=r"curvature\[0\] must have .* pass the layers in the"):
        optimizer.update(layers, state, layers, curvature=seen[::-1])
    with pytest.raises(ValueError, match="needs the parameters, got params=None; call"):
        optimizer.update(layers, state, curvature=seen)


def train_seeds():
    """Train three layers and three seeds under vmap in scan; batched solves hang at this size."""
    optimizer = kfac(1e-2, inverse_frequency=2)
    x = jax.random.normal(jax.random.key(1), (64, 8))

    def start(key):
        keys = jax.random.split(key, 3)
        pairs = zip((8, 128, 128), (128, 128, 9), keys, strict=True)
        layers = [eqx.nn.Linear(i, o, key=k) for i, o, k in pairs]
        return layers, optimizer.init(layers), key

    def body(carry, _):
        layers, state, key = carry
        key, use = jax.random.split(key)
        grads = jax.grad(lambda p: jnp.mean((apply(p, x) - x[:, :1]) ** 2))(layers)
        vector = jax.random.normal(use, (64, 9))
        seen = tapped_statistics(apply_with_taps, layers, x, vector)
        updates, state = optimizer.update(grads, state, layers, curvature=seen)
        return (eqx.apply_updates(layers, updates), state, key), None

    run = lambda carry: jax.lax.scan(body, carry, None, length=20)[0]  # noqa: E731
    keys = jax.random.split(jax.random.key(0), 3)
    # The step counter is batched here, because it enters the vmap as an argument.
    together = jax.jit(jax.vmap(run))(jax.jit(jax.vmap(start))(keys))[0]
    alone = jax.jit(lambda key: run(start(key))[0])(keys[2])
    for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(a[2], b, atol=1e-3)


@pytest.mark.slow
def test_many_seeds_under_vmap_in_scan_do_not_hang():
    run_within(100, train_seeds)


def test_the_inverses_stay_conditional_with_a_batched_step():
    """Under vmap a cond on a batched predicate becomes a select that computes both branches."""
    optimizer = kfac(0.1)
    layers = jax.vmap(lambda k: eqx.nn.Linear(2, 2, key=k))(jax.random.split(jax.random.key(0), 5))
    state = jax.vmap(optimizer.init)(layers)
    seen = (LayerStatistics(normal(0, 5, 6, 2), normal(1, 5, 6, 2)),)
    update = jax.vmap(lambda g, s, c: optimizer.update(g, s, curvature=c))
    assert "cond[" in str(jax.make_jaxpr(update)(layers, state, seen))
