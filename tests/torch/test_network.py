"""A whole predictor, against numpy and against laws of units."""

import itertools

import numpy as np
import pytest
from scipy import stats

from ngem.torch._onnx import Predictions

from .common import assert_same, ours, torch

ACTIVATIONS = {
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


def layers(*sizes, norm=False, seed=0):
    """Return arrays for a multi-layer perceptron with the given sizes."""
    rng = np.random.default_rng(seed)
    arrays = [
        {"weight": rng.standard_normal((n_out, n_in)), "bias": rng.standard_normal(n_out)}
        for n_in, n_out in itertools.pairwise(sizes)
    ]
    for layer in arrays[:-1] if norm else ():
        size = len(layer["bias"])
        layer |= {"norm_weight": rng.uniform(1, 2, size), "norm_bias": rng.standard_normal(size)}
    return arrays


def side_by_side(members):
    """Return the arrays of several networks with a first axis of members."""
    return [
        {name: np.stack([layer[name] for layer in each]) for name in each[0]}
        for each in zip(*members, strict=True)
    ]


def predictor(covariance="diag", location=(10.0, -3.0), scale=(2.0, 100.0), n_members=2):
    """Return networks of three features, the second with an indicator of missing values."""
    mixture = ours.RawToMixture(3, 2, covariance)
    features = ours.Features(
        np.array([0.0, 5.0, 0.0]), np.array([1]), np.array([1.0, 2.0, 3.0]), np.array([1.0, 4, 9])
    )
    members = [layers(4, 5, mixture.num_raw, seed=seed) for seed in range(n_members)]
    body = ours.dense_network(side_by_side(members), "tanh", 0.0).double()
    return ours.MixtureDensityNetwork(features, body, mixture, np.array(location), np.array(scale))


def test_features_are_imputed_flagged_and_standardized():
    x = torch.tensor([[1.0, torch.nan, 12.0], [0.0, 10.0, torch.nan], [torch.inf, 2.0, -1e30]])
    expected = [[0, 0.75, 1, 1], [-1, 2, -1 / 3, 0], [1e12, 0, -1e12, 0]]
    inputs = predictor().features(x)
    np.testing.assert_allclose(inputs, expected, rtol=1e-12)
    assert inputs.dtype == torch.float64


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "norm"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_dense_network_is_matrix_products(activation, norm):
    arrays = layers(3, 5, 4, 2, norm=norm)
    x = np.random.default_rng(1).standard_normal((6, 3))
    network = ours.dense_network(arrays, activation, 0.0).double()
    result = network(torch.from_numpy(x)).detach()
    for layer in arrays:
        x = x @ layer["weight"].T + layer["bias"]
        if layer is arrays[-1]:
            break
        if norm:
            x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
            x = x * layer["norm_weight"] + layer["norm_bias"]
        x = ACTIVATIONS[activation](x)
    np.testing.assert_allclose(result, x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "norm"])
def test_networks_side_by_side_are_networks_one_by_one(norm):
    members = [layers(3, 5, 2, norm=norm, seed=seed) for seed in range(4)]
    x = torch.randn(6, 3, dtype=torch.float64)
    together = ours.dense_network(side_by_side(members), "gelu", 0.0).double()(x)
    apart = [ours.dense_network(member, "gelu", 0.0).double()(x) for member in members]
    assert_same(together, apart)


def test_dropout_is_for_training_only():
    network = ours.dense_network(layers(3, 64, 2), "relu", 0.5)
    x = torch.randn(4, 3)
    assert not torch.equal(network(x), network(x))
    network.eval()
    assert torch.equal(network(x), network(x))


def test_parallel_networks_are_concatenated():
    first, second = torch.nn.Linear(3, 2), torch.nn.Linear(3, 4)
    x = torch.randn(5, 3)
    joined = ours.Parallel([first, second])(x)
    assert torch.equal(joined[:, :2], first(x))
    assert torch.equal(joined[:, 2:], second(x))


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_densities_are_in_the_users_units(covariance):
    """A density of (y - location) / scale, divided by the product of the scales."""
    module, x = predictor(covariance), torch.randn(5, 3, dtype=torch.float64)
    z = torch.randn(5, 2, dtype=torch.float64)
    y = module.target_location + module.target_scale * z
    density = ours.distribution(*module(x)).log_prob(y)
    standardized = ours.distribution(*module.standardized(x)).log_prob(z)
    assert_same([density], [standardized - module.target_scale.log().sum()])
    assert_same([module.predict(x)], [ours.distribution(*module(x)).mean])


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_the_density_is_the_mean_of_the_members(covariance):
    module = predictor(covariance, location=(0.0, 0.0), scale=(1.0, 1.0), n_members=3)
    x, y = (torch.randn(5, size, dtype=torch.float64) for size in (3, 2))
    raw = module.body(module.features(x))
    densities = [ours.distribution(*module.mixture(one)).log_prob(y).exp() for one in raw]
    density = ours.distribution(*module(x)).log_prob(y).exp()
    assert_same([density], [torch.stack(densities).mean(0)])
    assert_same([module(x).logits.exp().sum(-1)], [torch.ones(5, dtype=torch.float64)])


def test_the_result_has_the_dtype_of_the_features():
    for dtype in (torch.float32, torch.float64):
        parameters = predictor()(torch.zeros(2, 3, dtype=dtype))
        assert {part.dtype for part in parameters} == {dtype}


def test_the_state_contains_the_units():
    module, other = predictor(), predictor(location=(0.0, 0.0), scale=(1.0, 1.0))
    other.load_state_dict(module.state_dict())
    x = torch.randn(4, 3)
    assert_same(other(x), module(x), rtol=0, atol=0)


def test_features_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"x must have shape \(rows, 3\), got \(3,\).*unsqueeze"):
        predictor()(torch.zeros(3))


@pytest.mark.parametrize("members", [(), (2,)])
def test_bins_are_those_of_numpy(members):
    """Features as they are, then a ramp from 0 to 1 across each bin; for networks at once too."""
    rng = np.random.default_rng(0)
    start, width = rng.normal(size=(*members, 6)), rng.uniform(0.5, 2.0, (*members, 6))
    x = rng.normal(size=(5, 2))
    found = ours.Bins(start, 1 / width)(torch.tensor(x, dtype=torch.get_default_dtype()))
    repeated = np.repeat(x, 3, axis=1)
    ramps = np.clip((repeated - start[..., None, :]) / width[..., None, :], 0, 1)
    expected = np.concatenate([np.broadcast_to(x, (*ramps.shape[:-1], 2)), ramps], axis=-1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_what_is_exported_is_the_mean_and_the_distribution_function_of_each_target():
    """From the weights, means and scales that it returns, by numpy and scipy."""
    x = torch.randn(4, 3, dtype=torch.float64)
    y = torch.tensor([[9.0, -50.0], [10.0, 0.0], [11.0, 40.0], [14.0, 200.0]], dtype=torch.float64)
    mean, *parts, below = (part.detach().numpy() for part in Predictions(predictor(), [])(x, y))
    weights, means, scales = parts
    expected = stats.norm.cdf(y.numpy()[:, None], means, scales)
    np.testing.assert_allclose(below, (weights[..., None] * expected).sum(1), atol=1e-6)
    np.testing.assert_allclose(mean, (weights[..., None] * means).sum(1), rtol=1e-9)
