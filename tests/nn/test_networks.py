"""Networks: shapes, initialization from data, taps, and the sampled Fisher information."""

import itertools
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from sklearn.cluster import KMeans

from ngem.families import DiagonalGaussian
from ngem.nn import (
    MLP,
    MixtureNetwork,
    cluster_mixture,
    hidden_matrices,
    initialize_head,
    k_means,
    mixture_mlp,
    output_gradient,
    tapped,
)
from ngem.nn.networks import random_mask

from ..cases import FAMILIES, LOCATION_SCALE, slow_but, standard_normal

KEY = jax.random.key(5)
KINDS = pytest.mark.parametrize(
    ("name", "separate"),
    slow_but(
        [*itertools.product(("diag", "full"), (False, True))], ("full", False), ("diag", True)
    ),
)


def float64(tree):
    cast = lambda a: jnp.asarray(np.asarray(a, float)) if eqx.is_inexact_array(a) else a  # noqa: E731
    return jax.tree.map(cast, tree)


@KINDS
def test_a_row_of_features_gives_a_mixture(name, separate):
    family = FAMILIES[name].family
    network = mixture_mlp(4, 2, key=KEY, n_components=3, family=family, separate=separate)
    mixture = jax.jit(lambda x: jax.vmap(network)(x))(jnp.ones((5, 4)))
    assert (mixture.batch_shape, mixture.n_components, mixture.dim) == ((5,), 3, 2)
    raw = jnp.linspace(-1, 1, network.num_raw)
    there_and_back = jax.jit(lambda raw: network.to_raw(network.to_mixture(raw)))
    np.testing.assert_allclose(there_and_back(raw), raw, rtol=1e-9)


BOTH = {"layer_norm": True, "separate": True}


@pytest.mark.parametrize(
    "settings", slow_but([{"layer_norm": True}, {"separate": True}, BOTH], BOTH), ids=str
)
def test_rows_along_the_last_axis_are_rows_one_by_one(settings):
    network = float64(mixture_mlp(4, 2, key=KEY, n_components=3, hidden_sizes=(8, 7), **settings))
    params, static = eqx.partition(network, eqx.is_inexact_array)
    x = jax.random.normal(KEY, (6, 4))

    def one_by_one(params, x):
        mixture = jax.vmap(eqx.combine(params, static))(x)
        return mixture.logits, *mixture.components

    def rows_last(params, x):
        logits, components = eqx.combine(params, static).outputs(x.T)
        return tuple(jnp.moveaxis(leaf, -1, 0) for leaf in (logits, *components))

    @partial(jax.jit, static_argnums=0)
    def value_and_back(function, params, x):
        values, back = jax.vjp(function, params, x)
        return values, back(jax.tree.map(jnp.cos, values))

    results = (value_and_back(function, params, x) for function in (one_by_one, rows_last))
    for left, right in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-12)


def test_dropout_falls_on_each_row_by_itself():
    network = mixture_mlp(3, 1, key=KEY, hidden_sizes=(64,), dropout=0.5)
    logits, _ = jax.jit(lambda x: network.outputs(x, KEY))(jnp.ones((3, 1000)))
    one = jax.jit(jax.vmap(lambda key: network(jnp.ones(3), key=key).logits))
    apart = one(jax.random.split(KEY, 1000))
    assert len(np.unique(logits[0])) > 900
    for found, expected in ((logits.mean(1), apart.mean(0)), (logits.std(1), apart.std(0))):
        np.testing.assert_allclose(found, expected, atol=0.05 * float(apart.std()))


@pytest.mark.parametrize("activation", ["gelu", "relu", "silu", "tanh"])
def test_mlp_is_the_composition_of_its_layers(activation):
    network = float64(MLP(3, 2, (8, 7), key=KEY, activation=activation, layer_norm=True))
    x = jax.random.normal(KEY, (3,))
    hidden = np.asarray(x)
    for index, layer in enumerate(network.layers):
        hidden = np.asarray(layer.weight) @ hidden + np.asarray(layer.bias)
        if index < 2:
            hidden = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-5)
            hidden = np.asarray(getattr(jax.nn, activation)(jnp.asarray(hidden)))
    np.testing.assert_allclose(network(x), hidden, rtol=1e-10)


def test_a_random_mask_has_independent_entries():
    """Rates of units, rows and pairs, and the squares in which two words meet twice."""
    keys = jax.random.split(KEY, 400)
    masks = np.asarray(jax.vmap(lambda key: random_mask(key, 0.9, (32, 48)))(keys), float)
    assert masks.mean() == pytest.approx(0.9, abs=5 * 0.3 / np.sqrt(masks.size))
    signs = (masks - 0.9) / 0.3
    products = {
        "units": signs[:, 1:] * signs[:, :-1],
        "rows": signs[:, :, 1:] * signs[:, :, :-1],
        "steps": signs[1:] * signs[:-1],
    }
    products["squares"] = products["units"][:, :, 1:] * products["units"][:, :, :-1]
    for name, product in products.items():
        assert abs(product.mean()) < 5 / np.sqrt(product.size), name
    for axes in ((0, 1), (0, 2)):
        means = signs.mean(axes) * np.sqrt(signs.size / np.prod(signs.mean(axes).shape))
        assert stats.kstest(means, "norm").pvalue > 1e-3


def test_a_mask_of_one_row_has_the_shape_of_its_units():
    assert random_mask(KEY, 0.5, (7,)).shape == (7,)
    assert bool(jnp.all(random_mask(KEY, 1.0, (50, 50))))


def test_dropout_is_off_without_a_key_and_unbiased_with_one():
    network = float64(MLP(3, 2, (64,), key=KEY, dropout=0.5))
    x = jnp.ones(3)
    assert np.array_equal(network(x), network(x))
    outputs = jax.jit(jax.vmap(lambda key: network(x, key=key)))(jax.random.split(KEY, 4000))
    assert np.std(outputs, axis=0).min() > 0.01
    error = np.abs(outputs.mean(0) - network(x)) / (outputs.std(0) / np.sqrt(4000))
    assert error.max() < 5


@KINDS
def test_head_starts_as_a_mixture_of_the_targets(name, separate):
    family = FAMILIES[name].family
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(m, 0.1, (n, 2)) for m, n in ((-3, 300), (0, 100), (3, 100))])
    network = mixture_mlp(4, 2, key=KEY, n_components=3, family=family, separate=separate)
    started = float64(initialize_head(network, y, rng, shrink=1e-6))
    x = jnp.array([[0.1, -1.2, 0.4, 2.0], [1.0, 0.0, -0.3, 0.7]])

    @jax.jit
    def facts(x):
        mixture = jax.vmap(started)(x)
        return mixture.components.mean, mixture.weights, mixture.covariance(), mixture.logits

    mean, weights, covariance, logits = map(np.asarray, facts(x))
    order = np.argsort(mean[0, :, 0])
    np.testing.assert_allclose(mean[0, order, 0], [-3, 0, 3], atol=0.1)
    np.testing.assert_allclose(weights[0, order], [0.6, 0.2, 0.2], atol=0.01)
    np.testing.assert_allclose(covariance[0], np.cov(y.T), atol=0.1)
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-4)


def test_k_means_finds_separate_clusters():
    rng = np.random.default_rng(1)
    y = np.concatenate([rng.normal(c, 0.3, (50, 2)) for c in ((0, 0), (3, 0), (0, 3), (3, 3))])
    centers, label = k_means(y, 4, rng)
    inertia = ((y - centers[label]) ** 2).sum()
    assert inertia < 1.05 * KMeans(4, n_init=10, random_state=0).fit(y).inertia_


@pytest.mark.parametrize(
    ("name", "dim"),
    slow_but(
        [*itertools.product(LOCATION_SCALE, (1, 2))], ("logistic", 1), ("laplace", 2), ("full", 2)
    ),
)
def test_a_start_from_data_has_the_variance_of_the_data(name, dim):
    case = FAMILIES[name]
    y = np.random.default_rng(0).normal(2.0, 0.9, (2000, dim))
    mixture = cluster_mixture(y, 4, case.family, np.random.default_rng(0))
    np.testing.assert_allclose(mixture.mean(), y.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(mixture.variance(), y.var(axis=0), rtol=0.1)


@pytest.mark.parametrize("y", [np.zeros((5, 1)), np.ones((1, 2)), np.arange(3.0)[:, None]])
def test_degenerate_targets_give_a_finite_start(y):
    mixture = cluster_mixture(y, 5, DiagonalGaussian(), np.random.default_rng(0))
    assert np.all(np.isfinite(mixture.log_prob(jnp.asarray(y))))
    assert np.all(np.asarray(mixture.components.scale) > 0)


def test_a_users_body_cannot_be_initialized_from_data():
    network = MixtureNetwork(lambda x: jnp.zeros(6), 2, 1)
    with pytest.raises(ValueError, match=r"needs one of our own networks.*init='random'"):
        initialize_head(network, np.zeros((3, 1)), np.random.default_rng(0))


@pytest.mark.parametrize("separate", [False, True])
def test_hidden_matrices_leave_out_heads_and_biases(separate):
    network = mixture_mlp(4, 1, key=KEY, hidden_sizes=(8, 8), separate=separate)
    params = eqx.filter(network, eqx.is_inexact_array)
    marked = [
        leaf.shape
        for leaf, mark in zip(
            jax.tree.leaves(params), jax.tree.leaves(hidden_matrices(network)), strict=True
        )
        if mark
    ]
    assert marked == [(8, 4), (8, 8)] * (2 if separate else 1)


def linear_layers(tree):
    is_linear = lambda node: isinstance(node, eqx.nn.Linear)  # noqa: E731
    return [node for node in jax.tree.leaves(tree, is_leaf=is_linear) if is_linear(node)]


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.slow
def test_taps_see_inputs_and_output_gradients_in_the_order_of_the_tree(separate):
    settings = {"n_components": 2, "hidden_sizes": (4, 5), "separate": separate}
    network = float64(mixture_mlp(3, 1, key=KEY, **settings))
    x = jax.random.normal(KEY, (6, 3))
    layers = linear_layers(network)
    taps = tuple(jnp.zeros((6, layer.out_features)) for layer in layers)
    raw, inputs = eqx.filter_jit(tapped)(network, x, taps)
    np.testing.assert_allclose(raw, jax.vmap(network.body)(x), rtol=1e-12)
    assert [i.shape[1] for i in inputs] == [layer.in_features for layer in layers]
    # A bias is added where a tap is, so its gradient is the sum of the taps' gradients.
    loss = lambda network, taps: jnp.sum(jnp.sin(tapped(network, x, taps)[0]))  # noqa: E731
    grads = eqx.filter_jit(eqx.filter_grad(loss))(network, taps)
    by_tap = jax.jit(jax.grad(lambda taps: loss(network, taps)))(taps)
    for layer, tap in zip(linear_layers(grads), by_tap, strict=True):
        np.testing.assert_allclose(layer.bias, tap.sum(0), rtol=1e-10)


@pytest.mark.parametrize("name", ["diag", "full"])
@pytest.mark.slow
def test_output_gradients_have_the_complete_data_fisher_as_second_moment(name):
    """Proposition 4 at the raw outputs; the blocks are from autodiff and quadrature."""
    family = FAMILIES[name].family
    network = float64(mixture_mlp(1, 2, key=KEY, n_components=2, hidden_sizes=(3,), family=family))
    raw = 0.5 * standard_normal(KEY, (network.num_raw,))
    draw = jax.jit(jax.vmap(lambda key: output_gradient(network, raw, key)))
    draws = np.asarray(draw(jax.random.split(KEY, 200_000)))
    moment = draws.T @ draws / len(draws)

    weights = special.softmax(raw[:2])
    expected = np.zeros_like(moment)
    expected[:2, :2] = np.diag(weights) - np.outer(weights, weights)
    for k, row in enumerate(raw[2:].reshape(2, -1)):
        rows = slice(2 + k * len(row), 2 + (k + 1) * len(row))
        expected[rows, rows] = weights[k] * FAMILIES[name].raw_fisher(row, 2)
    deviation = np.sqrt(np.diag(expected))
    unit = np.outer(deviation, deviation)
    np.testing.assert_allclose(moment / unit, expected / unit, atol=0.03)
