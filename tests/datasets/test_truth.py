"""The densities that generated tasks claim to come from, against scipy and against their draws."""

import numpy as np
import pytest
from scipy import stats

from ngem import datasets


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
