"""Generated sets against scipy: their draws, and the densities that they claim to have."""

import numpy as np
import pytest
from scipy import optimize, stats

from ngem import datasets
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


def test_signed_sine_against_scipy():
    data = datasets.signed_sine(400, weight=0.8, noise=0.05, seed=3)
    wave = np.sin(2 * data.x)
    density = 0.8 * stats.norm(wave, 0.05).pdf(data.y) + 0.2 * stats.norm(-wave, 0.05).pdf(data.y)
    assert data.true_log_density == pytest.approx(np.log(density).mean(), abs=1e-9)


def test_changing_noise_is_its_own_entropy_on_average():
    data = datasets.changing_noise(200_000, seed=1)
    scale = 0.02 + 0.48 * (data.x + 3) / 6
    assert data.true_log_density == pytest.approx(-stats.norm(0, scale).entropy().mean(), abs=0.01)


def test_both_ways_of_the_arm_reach_the_same_point():
    data = datasets.two_link_arm(500, noise=0.0001, seed=2)
    shoulder, elbow = data.y.T
    reached = np.stack(
        [np.cos(shoulder) + np.cos(shoulder + elbow), np.sin(shoulder) + np.sin(shoulder + elbow)]
    )
    np.testing.assert_allclose(reached.T, data.x, atol=2e-3)
    assert 0.4 < np.mean(elbow > 0) < 0.6


def test_angles_of_a_jointed_arm_reach_its_hand():
    data = datasets.jointed_arm(500, n_joints=4, noise=0.0, seed=2)
    reached = np.zeros(500, complex)
    for joint in range(4):  # a rotation for each joint up to the link
        reached += 0.75 * np.exp(1j * data.y[:, : joint + 1].sum(axis=1))
    np.testing.assert_allclose(data.x, np.stack([reached.real, reached.imag], axis=1), atol=1e-12)
    assert stats.kstest(data.y.ravel(), stats.uniform(-np.pi / 2, np.pi).cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("make", "per_row"),
    [
        # Far-apart modes: entropy of the choice plus that of the noise.
        (datasets.two_link_arm, np.log(2) + 2 * stats.norm(0, 0.05).entropy()),
        (lambda n: datasets.signed_sine(n, weight=0.5, noise=1e-4), None),
    ],
)
def test_mean_log_density_is_minus_the_entropy(make, per_row):
    data = make(50_000)
    expected = np.log(2) + stats.norm(0, 1e-4).entropy() if per_row is None else per_row
    assert -data.true_log_density == pytest.approx(expected, abs=0.03)


def test_switching_maps_has_a_density_of_entropy_at_most_three_choices():
    data = datasets.switching_maps(20_000)
    noise = 20 * stats.norm(0, 0.1).entropy()
    assert noise < -data.true_log_density < noise + np.log(3)


def test_earlier_names_of_the_record_still_work():
    x, y = two_sinusoids(10)
    assert x.shape == y.shape == (10, 1)
    assert isinstance(two_sinusoids(10), datasets.TwoSinusoids)
    assert isinstance(inverse_sine(10), datasets.InverseSine)
