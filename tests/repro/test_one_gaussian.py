"""Fig. 1's densities against scipy."""

import numpy as np
import pytest
from scipy import stats

from ngem.repro import one_gaussian


def test_both_densities_and_their_entropies_are_scipys():
    settings = one_gaussian.Settings([0.3, 0.7], [-2.0, 1.0], [0.5, 0.8], 2001)
    (unit,) = one_gaussian.units(settings)
    run = one_gaussian.run(settings, unit)
    grid = np.array(run["grid"])
    mixture = 0.3 * stats.norm.pdf(grid, -2, 0.5) + 0.7 * stats.norm.pdf(grid, 1, 0.8)
    mean = 0.3 * -2 + 0.7
    std = np.sqrt(0.3 * (4 + 0.25) + 0.7 * (1 + 0.64) - mean**2)
    gaussian = stats.norm(mean, std)
    assert (run["mean"], run["std"]) == pytest.approx((mean, std), rel=1e-4)
    np.testing.assert_allclose(run["mixture"], mixture, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(run["gaussian"], gaussian.pdf(grid), rtol=1e-3, atol=1e-5)
    assert run["nll_gaussian"] == pytest.approx(gaussian.entropy(), rel=1e-4)
    cross = -np.trapezoid(mixture * np.log(mixture), grid)
    assert run["nll_mixture"] == pytest.approx(cross, rel=1e-4)
    assert run["nll_mixture"] < run["nll_gaussian"]
