"""Generated sets have the properties of the densities that they come from."""

import numpy as np
import pytest
from scipy import optimize, stats

from ngem.datasets import inverse_sine, two_gaussians, two_sinusoids

GENERATORS = {"gaussians": two_gaussians, "sinusoids": two_sinusoids, "inverse": inverse_sine}


@pytest.mark.parametrize("generate", GENERATORS.values(), ids=GENERATORS)
def test_a_seed_fixes_the_draw(generate):
    first, again, other = generate(50, seed=1), generate(50, seed=1), generate(50, seed=2)
    np.testing.assert_array_equal(first[0], again[0])
    assert not np.array_equal(first[0], other[0])
    assert len(first[0]) == 50
    assert first[0].dtype == np.float64


def test_two_gaussians_are_gaussian():
    data = two_gaussians(20_000, weights=(0.3, 0.7), seed=3)
    first = data.points[:, 0] < 0
    assert first.sum() == 6_000
    standard = (data.points - data.means[np.where(first, 0, 1)]) / data.scale
    assert stats.kstest(standard.ravel(), "norm").pvalue > 1e-3


def test_two_sinusoids_lie_on_their_waves():
    data = two_sinusoids(20_000, weights=(0.25, 0.75), noise=0.05, seed=3)
    assert stats.kstest(data.x[:, 0], stats.uniform(0, 4 * np.pi).cdf).pvalue > 1e-3
    up, down = data.y[:5_000], data.y[5_000:]
    residuals = [up - np.pi * np.sin(data.x[:5_000]), down - np.pi * np.sin(data.x[5_000:] + np.pi)]
    assert stats.kstest(np.concatenate(residuals).ravel(), stats.norm(0, 0.05).cdf).pvalue > 1e-3


def test_inverse_sine_is_uniform_about_the_curve():
    data = inverse_sine(20_000, seed=3)
    assert data.x.shape == data.y.shape == (20_000, 1)
    assert stats.kstest(data.y[:, 0], "uniform").pvalue > 1e-3
    residual = (data.x - data.y - 0.3 * np.sin(2 * np.pi * data.y)).ravel()
    assert stats.kstest(residual, stats.uniform(-0.1, 0.2).cdf).pvalue > 1e-3


def test_inverse_sine_has_several_answers():
    """At x = 1/2 the curve passes three times, and points lie at each."""
    data = inverse_sine(5_000, noise=1e-3, seed=3)
    near = data.y[np.abs(data.x - 0.5) < 0.01]
    brackets = [(0, 0.25), (0.25, 0.75), (0.75, 1)]
    roots = [optimize.brentq(lambda y: y + 0.3 * np.sin(2 * np.pi * y) - 0.5, *b) for b in brackets]
    distances = np.abs(near[:, None] - np.array(roots))
    assert distances.min(axis=1).max() < 0.02
    assert set(distances.argmin(axis=1)) == {0, 1, 2}
