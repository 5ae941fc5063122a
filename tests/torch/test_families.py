"""Diagonal and full Gaussians, against PyTorch's distributions and autodiff."""

import numpy as np
import pytest
from scipy import stats

from ngem._defaults import COORDINATE_CHOICES

from .common import BOTH_COVARIANCES, assert_same, component_fisher, families, flat, inputs, torch

#: Responsibilities of three components, times the gradient of the loss.
RESP = torch.tensor([0.1, 0.7, 0.2], dtype=torch.float64)


def start(full, dim=3):
    """Return a family with the parameters of one row of components, and a target."""
    _, mean, scale, y = (leaf.detach()[0] for leaf in inputs(full=full, dim=dim))
    return families.COVARIANCES["full" if full else "diag"], mean, scale, y


def test_the_shape_of_the_scale_decides():
    for full, family in ((False, families.DiagonalGaussian), (True, families.FullGaussian)):
        _, mean, scale, _ = inputs(full=full)
        assert isinstance(families.family_of(mean, scale), family)


@BOTH_COVARIANCES
@pytest.mark.parametrize("dim", [1, 3])
def test_the_density_is_scipys(full, dim):
    family, mean, scale, y = start(full, dim)
    z = family.residual(mean, scale, y)
    log_prob = -(family.log_diagonal(scale) + 0.5 * z**2 + 0.5 * np.log(2 * np.pi)).sum(-1)
    for known, center, factor in zip(log_prob, mean, scale, strict=True):
        covariance = factor @ factor.T if full else torch.diag(factor**2)
        expected = stats.multivariate_normal(center, covariance).logpdf(y)
        np.testing.assert_allclose(known, expected, rtol=1e-12)
    np.testing.assert_allclose(family.distribution(mean, scale).log_prob(y), log_prob, rtol=1e-12)


@BOTH_COVARIANCES
@pytest.mark.parametrize("coordinates", COORDINATE_CHOICES)
def test_fisher_times_the_natural_gradient_is_the_gradient(full, coordinates):
    """Power 1 in coordinates with derivative J of the scale: J F J (natural J) = gradient J.

    In coordinates of the variance a full covariance's step is symmetric in raw outputs instead,
    and this holds where the covariance is diagonal.
    """
    family, mean, scale, y = start(full)
    if full and coordinates == "variance":
        scale = torch.diag_embed(scale.diagonal(dim1=-2, dim2=-1))
    z, resp = family.residual(mean, scale, y), RESP
    plain = family.natural_gradients(z, scale, resp, 0.0, coordinates)
    natural = family.natural_gradients(z, scale, resp, 1.0, coordinates)
    for k in range(3):
        own = scale[k].diagonal() if full else scale[k]
        change = {
            "scale": torch.ones_like(own),
            "log_scale": own,
            "variance": torch.where(own < 1, 1 / own, own),
        }[coordinates]
        jacobian = torch.ones_like(scale[k]).diagonal_scatter(change) if full else change
        back = component_fisher(mean[k], scale[k]) @ flat(
            natural[0][k], jacobian**2 * natural[1][k]
        )
        assert_same([back], [flat(plain[0][k], plain[1][k])], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("coordinates", COORDINATE_CHOICES)
@pytest.mark.parametrize("power", [0.3, 0.5, torch.tensor(0.3, dtype=torch.float64)])
def test_a_power_is_that_of_the_full_step(power, coordinates):
    """Where the metric is diagonal, the factor at a power is the factor at 1 to that power."""
    family, mean, scale, y = start(False)
    z, resp = family.residual(mean, scale, y), RESP
    steps = [
        family.natural_gradients(z, scale, resp, strength, coordinates)
        for strength in (0.0, 1.0, power)
    ]
    for plain, whole, part in zip(*steps, strict=True):
        assert_same([part / plain], [(whole / plain) ** power])


@pytest.mark.parametrize("coordinates", COORDINATE_CHOICES)
@pytest.mark.parametrize("power", [0.0, 0.3, 0.5, 1.0, torch.tensor(0.3, dtype=torch.float64)])
def test_a_diagonal_factor_is_the_diagonal_family(power, coordinates):
    diag, mean, scale, y = start(False)
    full, factor, resp = families.COVARIANCES["full"], torch.diag_embed(scale), RESP
    z = diag.residual(mean, scale, y)
    assert_same([full.residual(mean, factor, y)], [z])
    expected = diag.natural_gradients(z, scale, resp, power, coordinates)
    grads = full.natural_gradients(z, factor, resp, power, coordinates)
    assert_same([grads[0], grads[1].diagonal(dim1=-2, dim2=-1)], expected)


@BOTH_COVARIANCES
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.7, 1.0])
def test_weighted_gradients_are_multiplied_by_a_power_of_the_variance(full, beta):
    family, mean, scale, y = start(full)
    z, resp = family.residual(mean, scale, y), RESP
    plain = family.natural_gradients(z, scale, resp, 0.0, "scale")
    weight = family.distribution(mean, scale).variance ** beta
    expected = [weight * plain[0], (weight.unsqueeze(-1) if full else weight) * plain[1]]
    assert_same(family.weighted_gradients(z, scale, resp, beta), expected)


@BOTH_COVARIANCES
def test_rescaled_components_are_those_of_rescaled_targets(full):
    family, mean, scale, y = start(full)
    factor = torch.tensor([0.5, 3.0, 1e-3], dtype=torch.float64)
    before = family.distribution(mean, scale).log_prob(y)
    after = family.distribution(factor * mean, family.rescale(scale, factor)).log_prob(factor * y)
    assert_same([after], [before - factor.log().sum()])


@BOTH_COVARIANCES
def test_a_bounded_scale_has_the_bounded_standard_deviations(full):
    """And the same correlations."""
    family, mean, scale, _ = start(full)
    before = family.distribution(mean, scale)
    largest = before.stddev.median(0).values
    after = family.distribution(mean, family.bound_scale(scale, largest))
    assert_same([after.stddev], [torch.minimum(before.stddev, largest)])
    assert torch.equal(family.bound_scale(scale, torch.full((3,), 1e3).double()), scale)
    if full:
        correlations = [
            each.covariance_matrix / (each.stddev.unsqueeze(-1) * each.stddev.unsqueeze(-2))
            for each in (before, after)
        ]
        assert_same(correlations[:1], correlations[1:])


@BOTH_COVARIANCES
def test_draws_have_the_covariance_of_the_family(full):
    """A draw is mean + A noise; the unit vectors show the columns of A."""
    family, mean, scale, _ = start(full)
    units = torch.eye(3, dtype=torch.float64).unsqueeze(1).expand(3, *mean.shape)
    columns = torch.stack([family.transform(unit, mean, scale) - mean for unit in units], -1)
    expected = scale @ scale.mT if full else torch.diag_embed(scale**2)
    assert_same([columns @ columns.mT], [expected], atol=1e-13)


@BOTH_COVARIANCES
def test_the_scale_of_one_column_is_its_standard_deviation(full):
    family, mean, scale, _ = start(full, dim=1)
    known = family.distribution(mean, scale).stddev.squeeze(-1)
    assert_same([family.univariate_scale(scale)], [known])


@pytest.mark.parametrize("exponent", [-1.5, -1.0, -0.5, 0.0, 0.3, 0.5, 1.0, 2.0])
def test_powers(exponent):
    x = torch.linspace(0.1, 9, 7, dtype=torch.float64)
    expected = torch.from_numpy(np.power(x.numpy(), exponent))
    for strength in (exponent, torch.tensor(exponent, dtype=torch.float64)):
        assert_same([families.power_of(x, strength)], [expected])
