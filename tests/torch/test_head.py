"""The last layer: raw outputs as in JAX, and a distribution as its result."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ngem.families import DiagonalGaussian, FullGaussian, SphericalGaussian, TiedGaussian
from ngem.nn import MixtureNetwork

from .common import ours, torch

FAMILIES = {
    "diag": DiagonalGaussian(),
    "full": FullGaussian(),
    "spherical": SphericalGaussian(),
    "tied": TiedGaussian(),
}

BOTH_COVARIANCES = pytest.mark.parametrize("covariance", FAMILIES)


@BOTH_COVARIANCES
@pytest.mark.parametrize("dim", [1, 4])
def test_raw_outputs_mean_what_they_mean_in_jax(covariance, dim):
    network = MixtureNetwork(lambda x: x, 3, dim, FAMILIES[covariance])
    raw = np.random.default_rng(0).standard_normal((5, network.num_raw)) * 3
    raw[0, -2 * dim :] = 100.0
    expected = jax.vmap(network)(jnp.asarray(raw))
    layer = ours.RawToMixture(3, dim, covariance)
    assert layer.num_raw == network.num_raw
    parameters = layer(torch.tensor(raw))
    for left, right in zip(parameters, (expected.logits, *expected.components), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-14)


@BOTH_COVARIANCES
def test_the_output_is_a_distribution_of_pytorchs(covariance):
    head = ours.MixtureDensityHead(6, n_components=3, dim=2, covariance=covariance)
    parameters = head(torch.randn(5, 6))
    mixture = ours.distribution(*parameters)
    assert isinstance(mixture, torch.distributions.MixtureSameFamily)
    assert mixture.batch_shape == (5,)
    assert mixture.event_shape == (2,)
    y = mixture.sample()
    loss = ours.nll_loss(*parameters, y)
    torch.testing.assert_close(-mixture.log_prob(y).mean(), loss)
    loss.backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in head.parameters())


@BOTH_COVARIANCES
def test_scales_have_a_floor_and_a_ceiling(covariance):
    layer = ours.RawToMixture(1, 2, covariance, scale_floor=0.01)
    for raw, expected in ((-1e4, 0.01), (1e4, torch.tensor(40.0).exp().item() + 0.01)):
        scale = layer(torch.full((1, layer.num_raw), raw)).scale
        diagonal = scale.diagonal(dim1=-2, dim2=-1) if scale.dim() > 3 else scale
        torch.testing.assert_close(diagonal, torch.full_like(diagonal, expected))
        assert scale.square().isfinite().all()


def test_the_state_of_a_head_is_that_of_its_linear_layer():
    """The index of a Cholesky factor's entries is no part of a checkpoint."""
    head = ours.MixtureDensityHead(2, 3, 2, covariance="full")
    assert list(head.state_dict()) == ["linear.weight", "linear.bias"]


def test_the_head_refuses_what_does_not_match():
    with pytest.raises(
        ValueError, match=r"covariance must be one of 'diag', 'full',.*got 'low-rank'"
    ):
        ours.MixtureDensityHead(2, 3, 1, covariance="low-rank")
    with pytest.raises(ValueError, match=r"shape \(\.\.\., 9\).*got \(4, 8\)"):
        ours.RawToMixture(3, 1)(torch.zeros(4, 8))
