"""What docs/boosting.md states about curvatures, checked by autodiff of the plain definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

K = 3


def complete(raw, y):
    """Negative log of weight times density for each component, the label known."""
    logits, mean, log_scale = jnp.split(raw, 3)
    return -jax.nn.log_softmax(logits) - norm.logpdf(y, mean, jnp.exp(log_scale))


def nll(raw, y):
    return -jax.nn.logsumexp(-complete(raw, y))


def responsibilities(raw, y):
    return jax.nn.softmax(-complete(raw, y))


def bound(raw, y, resp):
    """The EM bound: expected complete-data loss minus the entropy of the responsibilities."""
    return jnp.sum(resp * complete(raw, y)) - jnp.sum(jax.scipy.special.entr(resp))


@pytest.fixture(scope="module")
def rows():
    """Raw outputs of many rows, and a target drawn from the mixture of each."""
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((400, 3 * K)) * np.repeat([1.0, 1.5, 0.5], K)
    weights = np.asarray(jax.nn.softmax(jnp.asarray(raw[:, :K]), axis=1))
    label = [rng.choice(K, p=w / w.sum()) for w in weights]
    row = np.arange(len(raw))
    mean, scale = raw[row, K + np.array(label)], np.exp(raw[row, 2 * K + np.array(label)])
    return jnp.asarray(raw), jnp.asarray(mean + scale * rng.standard_normal(len(raw)))


def mapped(function, axes=0):
    """Map over rows as one program, where eager calls would be dozens."""
    return jax.jit(jax.vmap(function, axes))


def diagonal(function):
    return mapped(lambda *args: jnp.diag(jax.hessian(function)(*args)))


def test_second_derivatives_of_a_mixture_are_often_negative(rows):
    raw, y = rows
    negative = np.asarray(diagonal(nll)(raw, y) < 0).reshape(-1, 3, K).mean(axis=(0, 2))
    # Logits, means and log scales, as the page quotes them.
    np.testing.assert_allclose(negative, [0.25, 0.44, 0.45], atol=0.01)


def test_the_hessian_is_the_bounds_less_the_variance_of_the_labels_score(rows):
    """Louis' identity: what the hidden label hides makes the curvature negative."""

    def identity(raw, y):
        resp = responsibilities(raw, y)
        scores = jax.jacobian(complete)(raw, y)
        centered = scores - (resp @ scores)[None]
        hidden = centered.T @ (resp[:, None] * centered)
        return jax.hessian(nll)(raw, y) + hidden - jax.hessian(bound)(raw, y, resp)

    assert jnp.max(jnp.abs(mapped(identity)(*rows))) < 1e-8


def test_the_bound_touches_the_likelihood_and_lies_above_it(rows):
    raw, y = rows
    resp = mapped(responsibilities)(raw, y)
    for function in (lambda f: f, jax.grad):
        ours = mapped(function(bound))(raw, y, resp)
        np.testing.assert_allclose(ours, mapped(function(nll))(raw, y), atol=1e-10)
    elsewhere = raw + 0.5 * np.random.default_rng(1).standard_normal(raw.shape)
    gaps = mapped(bound)(elsewhere, y, resp) - mapped(nll)(elsewhere, y)
    assert jnp.min(gaps) > -1e-12
    assert jnp.max(gaps) > 0.1


def test_em_is_the_curvature_of_the_bound_and_its_mean_over_targets_for_scales(rows):
    raw, y = rows
    resp = mapped(responsibilities)(raw, y)
    logits, means, scales = jnp.split(diagonal(bound)(raw, y, resp), 3, axis=1)
    weights = jax.nn.softmax(raw[:, :K], axis=1)
    np.testing.assert_allclose(logits, weights * (1 - weights), atol=1e-12)
    np.testing.assert_allclose(means, resp * jnp.exp(-2 * raw[:, 2 * K :]), atol=1e-9)
    z = (y[:, None] - raw[:, K : 2 * K]) * jnp.exp(-raw[:, 2 * K :])
    np.testing.assert_allclose(scales, 2 * resp * z**2, atol=1e-9)


def test_responsibilities_are_weights_on_average_over_targets():
    """So "fisher" is the expectation of "em" if the model is right."""
    raw = jnp.asarray([0.3, -0.5, 0.1, -1.0, 0.2, 2.0, 0.1, -0.4, 0.3])
    grid = jnp.linspace(-12, 14, 20_001)
    density = jnp.exp(-mapped(nll, (None, 0))(raw, grid))
    resp = mapped(responsibilities, (None, 0))(raw, grid)
    mean = (density @ resp) * (grid[1] - grid[0])
    np.testing.assert_allclose(mean, jax.nn.softmax(raw[:K]), atol=1e-6)


def test_a_leaf_of_means_with_em_is_an_m_step_and_lowers_the_loss():
    """One leaf, all rows start at the same outputs; rate 1, no damping."""
    rng = np.random.default_rng(2)
    y = jnp.asarray(np.concatenate([rng.normal(-1, 0.5, 60), rng.normal(2, 1, 40)]))
    raw = jnp.asarray([0.0, 0.1, -0.2, -2.0, 0.0, 1.0, 0.2, 0.0, -0.1])
    resp = mapped(responsibilities, (None, 0))(raw, y)
    grad = mapped(jax.grad(nll), (None, 0))(raw, y)[:, K : 2 * K].sum(axis=0)
    curvature = resp.sum(axis=0) * jnp.exp(-2 * raw[2 * K :])
    means = raw[K : 2 * K] - grad / curvature
    np.testing.assert_allclose(means, (resp.T @ y) / resp.sum(axis=0), atol=1e-10)
    after = jnp.concatenate([raw[:K], means, raw[2 * K :]])
    losses = [mapped(nll, (None, 0))(one, y).mean() for one in (raw, after)]
    assert losses[1] < losses[0]


def test_a_leaf_of_rows_that_differ_never_raises_their_loss_either(rows):
    raw, y = rows
    resp = mapped(responsibilities)(raw, y)
    grad = mapped(jax.grad(nll))(raw, y)[:, K : 2 * K].sum(axis=0)
    step = -grad / (resp * jnp.exp(-2 * raw[:, 2 * K :])).sum(axis=0)
    moved = raw.at[:, K : 2 * K].add(step[None])
    losses = [mapped(nll)(one, y).sum() for one in (raw, moved)]
    assert losses[1] < losses[0]


def test_twice_the_diagonal_bounds_the_curvature_of_the_logits():
    """diag(w) - w w' <= 2 diag(w (1 - w)): steps of all logits at once descend below rate one."""
    rng = np.random.default_rng(3)
    for weights in rng.dirichlet(np.full(5, 0.5), 200):
        full = np.diag(weights) - np.outer(weights, weights)
        gap = 2 * np.diag(weights * (1 - weights)) - full
        assert np.linalg.eigvalsh(gap).min() > -1e-12
