"""SOAP against a dense numpy implementation, against Adam, and its invariances."""

import functools as ft

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ngem.optimizers import scale_by_soap, soap

from . import run_within

B1, B2, EPS = 0.9, 0.95, 1e-8
EAGER = soap(1.0, precondition_frequency=2)  # made once, so that it compiles once


def gradients(steps, shape, seed=0):
    """A stream of gradients with a covariance that is far from a multiple of the identity."""
    rng = np.random.default_rng(seed)
    left, right = (rng.normal(size=(n, n)) * np.geomspace(1, 0.1, n) for n in shape)
    return left @ rng.normal(size=(steps, *shape)) @ right.T


@ft.partial(jax.jit, static_argnums=0)
def stream(optimizer, grads, params=None, state=None):
    """Last state and updates for a stream of gradients (a pytree, its leading axis the steps)."""
    first = jax.tree.map(lambda g: jnp.zeros_like(g[0]), grads) if params is None else params
    body = lambda state, g: optimizer.update(g, state, first)[::-1]  # noqa: E731
    return jax.lax.scan(body, optimizer.init(first) if state is None else state, grads)


def reference(grads, frequency, rotate, bases=None):
    """SOAP (Vyas et al. 2024) with dense numpy matrices; `rotate` says which sides."""
    m, n = grads[0].shape
    left, right, mean, square = np.zeros((m, m)), np.zeros((n, n)), 0.0, np.zeros((m, n))
    ql, qr = np.eye(m), np.eye(n)
    updates = []
    for t, g in enumerate(grads):
        left = B2 * left + (1 - B2) * g @ g.T
        right = B2 * right + (1 - B2) * g.T @ g
        if t == 0:
            ql = np.linalg.eigh(left)[1][:, ::-1] if rotate[0] else ql
            qr = np.linalg.eigh(right)[1][:, ::-1] if rotate[1] else qr
            ql, qr = (ql, qr) if bases is None else bases
            updates.append(np.zeros_like(g))
            continue
        mean = B1 * mean + (1 - B1) * g
        square = B2 * square + (1 - B2) * (ql.T @ g @ qr) ** 2
        step = (ql.T @ mean @ qr) / (1 - B1**t) / (np.sqrt(square / (1 - B2**t)) + EPS)
        updates.append(ql @ step @ qr.T)
        if t % frequency == 0 and rotate[0]:
            order = np.argsort(-np.diag(ql.T @ left @ ql))
            ql, square = np.linalg.qr(left @ ql[:, order])[0], square[order]
        if t % frequency == 0 and rotate[1]:
            order = np.argsort(-np.diag(qr.T @ right @ qr))
            qr, square = np.linalg.qr(right @ qr[:, order])[0], square[:, order]
    return np.stack(updates)


@pytest.mark.parametrize(
    ("shape", "limit", "rotate", "frequency"),
    [
        ((4, 4), 4, (True, True), 1),
        ((4, 4), 4, (True, True), 7),
        ((3, 6), 5, (True, False), 1),
        ((6, 3), 5, (False, True), 7),
    ],
)
def test_agrees_with_dense_numpy(shape, limit, rotate, frequency):
    grads = gradients(60, shape)
    _, updates = stream(scale_by_soap(B1, B2, EPS, frequency, limit), jnp.asarray(grads))
    expected = reference(grads, frequency, rotate)
    np.testing.assert_allclose(updates, expected, rtol=1e-10, atol=1e-11)


def test_agrees_with_dense_numpy_where_the_first_basis_is_not_unique():
    """One wide gradient leaves a null space with no unique basis, so the reference takes ours."""
    grads = gradients(60, (3, 6))
    optimizer = scale_by_soap(B1, B2, EPS, 3, 6)
    state, _ = stream(optimizer, jnp.asarray(grads[:1]))
    bases = [np.asarray(q) for q in state.rotated[0].bases]
    for basis, product in zip(bases, (grads[0] @ grads[0].T, grads[0].T @ grads[0]), strict=True):
        diagonal = basis.T @ product @ basis
        np.testing.assert_allclose(basis.T @ basis, np.eye(len(basis)), atol=1e-12)
        np.testing.assert_allclose(diagonal, np.diag(np.diag(diagonal)), atol=1e-12)
        assert np.all(np.diff(np.diag(diagonal)) < 1e-12)
    _, updates = stream(optimizer, jnp.asarray(grads[1:]), state=state)
    expected = reference(grads, 3, (True, True), bases)[1:]
    np.testing.assert_allclose(updates, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize(("dtype", "weight_decay"), [(jnp.float32, 0.0), (jnp.float64, 0.1)])
def test_is_adam_where_nothing_rotates(dtype, weight_decay):
    """Vectors, scalars and 3-D arrays always; matrices with a limit of zero."""
    shapes = {"w": (3, 4), "b": (4,), "s": (), "t": (2, 3, 2)}
    rng = np.random.default_rng(0)
    grads = {k: jnp.asarray(rng.normal(size=(20, *v)), dtype) for k, v in shapes.items()}
    params = {k: jnp.asarray(rng.normal(size=v), dtype) for k, v in shapes.items()}
    rate = optax.linear_schedule(0.1, 0.01, 20)
    ours = soap(rate, B1, B2, EPS, weight_decay, max_precond_dim=0)
    with jax.numpy_dtype_promotion("standard"):
        adam = optax.adamw(rate, B1, B2, EPS, weight_decay=weight_decay)
        _, expected = stream(adam, grads, params)
        _, updates = stream(ours, grads, params)
    tolerance = 1e-6 if dtype == jnp.float32 else 1e-14
    for name in shapes:
        assert updates[name].dtype == dtype
        np.testing.assert_allclose(updates[name], expected[name], rtol=tolerance, atol=tolerance)


def test_vectors_beside_matrices_are_adams_and_start_at_once():
    rng = np.random.default_rng(1)
    grads = {"w": jnp.asarray(gradients(12, (3, 3))), "b": jnp.asarray(rng.normal(size=(12, 3)))}
    _, updates = stream(soap(0.1, B1, B2, EPS), grads)
    with jax.numpy_dtype_promotion("standard"):
        _, expected = stream(optax.adam(0.1, B1, B2, EPS), grads["b"])
    np.testing.assert_allclose(updates["b"], expected, rtol=1e-12)
    assert np.all(updates["w"][0] == 0)
    assert np.all(np.any(updates["w"][1:] != 0, axis=(1, 2)))


@pytest.mark.parametrize("frequency", [1, 4])
def test_rotating_the_gradients_rotates_the_updates(frequency):
    grads = gradients(30, (4, 4))
    rng = np.random.default_rng(2)
    left, right = (np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2))
    optimizer = scale_by_soap(precondition_frequency=frequency)
    _, plain = stream(optimizer, jnp.asarray(grads))
    _, rotated = stream(optimizer, jnp.asarray(left @ grads @ right.T))
    np.testing.assert_allclose(rotated, left @ np.asarray(plain) @ right.T, rtol=1e-9, atol=1e-10)


def steps_to_solve(optimizer_of, rates, target=1e-6, steps=800):
    """Steps to bring tr(W^T A W B) / 2 below `target` of its start; A and B oblique, cond 1000."""
    rng = np.random.default_rng(3)
    a, b = (
        (q * np.geomspace(1, 1e-3, 8)) @ q.T
        for q in (np.linalg.qr(rng.normal(size=(8, 8)))[0] for _ in range(2))
    )
    loss = lambda w: jnp.sum(w * (a @ w @ b)) / 2  # noqa: E731
    start = jnp.asarray(rng.normal(size=(8, 8)))

    def losses(rate):
        optimizer = optimizer_of(rate)

        def body(carry, _):
            w, state = carry
            value, grad = jax.value_and_grad(loss)(w)
            update, state = optimizer.update(grad, state, w)
            return (w + update, state), value

        return jax.lax.scan(body, (start, optimizer.init(start)), None, length=steps)[1]

    below = np.asarray(jax.jit(lambda r: jax.lax.map(losses, r))(rates)) < target * loss(start)
    return np.where(below.any(axis=1), below.argmax(axis=1), steps)


def test_solves_an_ill_conditioned_quadratic_in_fewer_steps_than_adam():
    """To six digits; the first two are easy for Adam too."""
    rates = jnp.asarray([1e-2, 3e-2, 1e-1])
    ours = steps_to_solve(soap, rates)
    with jax.numpy_dtype_promotion("standard"):
        theirs = steps_to_solve(optax.adam, rates)
        alike = steps_to_solve(ft.partial(optax.adam, b1=0.95, b2=0.95), rates)
    assert ours.min() < min(theirs.min(), alike.min()) / 2, (ours, theirs, alike)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-18, 1e-6, 1e6, 1e18, 1e30])
def test_stays_finite_for_zero_tiny_and_huge_gradients(size, dtype):
    grads = jnp.asarray(size * gradients(25, (4, 6)), dtype)
    grads = grads.at[5:8].set(0.0).at[:, :, 2].set(0.0)
    state, updates = stream(EAGER, grads)
    assert updates.dtype == dtype
    assert np.isfinite(updates).all()
    for leaf in jax.tree.leaves(state[0].rotated[0].bases):
        np.testing.assert_allclose(leaf.T @ leaf, np.eye(len(leaf)), atol=1e-5)


def test_single_precision_follows_double():
    grads = gradients(40, (5, 5))
    _, double = stream(scale_by_soap(B1, B2, EPS, 5), jnp.asarray(grads))
    _, single = stream(scale_by_soap(B1, B2, EPS, 5), jnp.asarray(grads, jnp.float32))
    np.testing.assert_allclose(single, double, atol=2e-3)


def train_seeds():
    """Twelve 96 x 96 matrices and five seeds under vmap in scan: batched QR hangs here."""
    optimizer = soap(1e-2, precondition_frequency=2)

    def start(key):
        params = list(jax.random.normal(key, (12, 96, 96)))
        return params, optimizer.init(params), key

    def body(carry, _):
        params, state, key = carry
        key, use = jax.random.split(key)
        grads = list(jnp.stack(params) + jax.random.normal(use, (12, 96, 96)))
        updates, state = optimizer.update(grads, state, params)
        return (optax.apply_updates(params, updates), state, key), None

    run = lambda carry: jax.lax.scan(body, carry, None, length=9)[0]  # noqa: E731
    keys = jax.random.split(jax.random.key(0), 5)
    # The step counter is batched here, because it enters the vmap as an argument.
    together = jax.jit(jax.vmap(run))(jax.jit(jax.vmap(start))(keys))[0]
    alone = jax.jit(lambda key: run(start(key))[0])(keys[3])
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_allclose(a[3], b, atol=1e-3)


@pytest.mark.slow
def test_many_seeds_under_vmap_in_scan_do_not_hang():
    run_within(100, train_seeds)


def test_the_refresh_stays_conditional_with_a_batched_step():
    """Under vmap a cond on a batched predicate becomes a select that computes both branches."""
    optimizer = scale_by_soap()
    params = jnp.zeros((5, 4, 4))
    state = jax.vmap(optimizer.init)(params)
    assert state.step.shape == (5,)
    assert "cond[" in str(jax.make_jaxpr(jax.vmap(optimizer.update))(params, state))
