"""Piecewise-linear encoding: its definition, and what training leaves alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ngem.nn import EncodedNetwork, Squash, fit_bins, mixture_mlp, with_bins


def column(n_rows=200):
    return np.random.default_rng(0).gamma(2.0, size=n_rows)


def definition(value, edges):
    """The fraction of each bin that lies below the value."""
    widths = np.diff(edges)
    return np.clip((value - edges[:-1]) / widths, 0, 1)


def test_each_bin_is_the_fraction_of_it_below_the_value():
    x = column()
    bins = fit_bins(x[:, None], 5)
    edges = np.quantile(x, np.linspace(0, 1, 6), method="nearest")
    for value in (-1.0, edges[1], 1.3, edges[3] + 1e-3, 100.0):
        encoded = bins(jnp.array([value]))
        assert encoded[0] == value
        np.testing.assert_allclose(encoded[1:], definition(value, edges), atol=1e-12)


def test_bins_hold_as_many_rows_each():
    x = column(1000)
    bins = fit_bins(x[:, None], 4)
    counts = np.histogram(x, [*np.asarray(bins.start), np.inf])[0]
    np.testing.assert_allclose(counts, 250, atol=1)


def test_features_do_not_mix_and_rows_come_last():
    x = np.stack([column(), 7 - column()], axis=1)
    both = fit_bins(x, 3)
    encoded = both(jnp.asarray(x.T))
    assert encoded.shape == (2 + 6, 200)
    for feature in range(2):
        alone = fit_bins(x[:, [feature]], 3)(jnp.asarray(x[:, [feature]].T))
        np.testing.assert_array_equal(encoded[feature], alone[0])
        np.testing.assert_array_equal(encoded[2 + 3 * feature : 5 + 3 * feature], alone[1:])
    np.testing.assert_array_equal(both(jnp.asarray(x[5])), encoded[:, 5])


@pytest.mark.parametrize(("values", "used"), [((0.0, 1.0), 1), ((3.0,), 0), ((0.0, 1.0, 2.0), 2)])
def test_a_feature_of_few_values_has_fewer_bins(values, used):
    x = np.resize(np.array(values), (90, 1))
    bins = fit_bins(x, 8)
    assert np.count_nonzero(bins.slope) == used
    encoded = bins(jnp.asarray(x.T))
    np.testing.assert_array_equal(encoded[1 + used :], 0)
    assert np.isfinite(encoded).all()


@pytest.mark.parametrize("separate", [False, True])
def test_bins_have_no_gradient_and_the_network_has(separate):
    network = mixture_mlp(
        2, 1, key=jax.random.key(0), hidden_sizes=(4,), n_bins=3, separate=separate
    )
    assert isinstance(network.body, EncodedNetwork)
    body = EncodedNetwork(fit_bins(np.stack([column(), column()], 1), 3), network.body.network)
    grads = jax.grad(lambda body: jnp.sum(body(jnp.array([0.5, 1.0])) ** 2))(body)
    np.testing.assert_array_equal(grads.encoder.start, 0)
    np.testing.assert_array_equal(grads.encoder.slope, 0)
    heads = [np.abs(head.weight).max() for head in grads.heads]
    assert min(heads) > 0


def test_taps_see_the_encoded_inputs():
    network = mixture_mlp(1, 1, key=jax.random.key(0), hidden_sizes=(4,), n_bins=3).body
    network = EncodedNetwork(fit_bins(column()[:, None], 3), network.network)
    x = jnp.array([0.7])
    taps = [jnp.zeros(layer.bias.shape, layer.bias.dtype) for layer in network.network.layers]
    output, inputs = network.tapped(x, taps)
    np.testing.assert_array_equal(inputs[0], network.encoder(x))
    np.testing.assert_allclose(output, network(x), rtol=1e-6)


def test_only_features_beyond_the_limit_are_squashed():
    x = np.array([-60.0, -4.5, -4.0, 0.3, 4.0, 5.0, 1e12], np.float32)
    squashed = np.asarray(Squash(4.0)(jnp.asarray(x)))
    np.testing.assert_array_equal(squashed[2:5], x[2:5])
    expected = np.sign(x) * (4 + np.log(np.maximum(np.abs(x) - 3.0, 1)))
    np.testing.assert_allclose(squashed[[0, 1, 5, 6]], expected[[0, 1, 5, 6]], rtol=1e-6)
    assert (np.diff(squashed) > 0).all()
    slopes = jax.vmap(jax.grad(Squash(4.0)))(jnp.asarray(x))
    np.testing.assert_allclose(slopes, 1 / (1 + np.maximum(np.abs(x) - 4, 0)), rtol=1e-6)


def test_bins_behind_a_limit_lie_between_quantiles_of_squashed_rows():
    x = np.concatenate([column(), [50.0]]).astype(np.float32)[:, None]
    network = mixture_mlp(1, 1, key=jax.random.key(0), hidden_sizes=(4,), n_bins=3, input_limit=1.0)
    body = with_bins(network.body, x)
    alone = fit_bins(np.asarray(Squash(1.0)(jnp.asarray(x))), 3)
    np.testing.assert_array_equal(body.network.encoder.start, alone.start)
    np.testing.assert_array_equal(body.network.encoder.slope, alone.slope)
