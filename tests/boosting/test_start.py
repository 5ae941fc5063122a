"""Where boosting starts when targets are censored, against scipy's maximum likelihood."""

import numpy as np
from scipy import optimize, stats

from ngem.boosting import Curvature, Outputs, to_intervals
from ngem.families import DiagonalGaussian


def test_a_start_from_intervals_is_the_maximum_of_their_likelihood():
    """Half of the targets are only known to exceed zero, so their moments are far off."""
    y = np.random.default_rng(0).normal(0.2, 1.0, 500)
    lower, upper = np.minimum(y, 0.0), np.where(y < 0, y, 1e4)

    def nll(at):
        law = stats.norm(at[0], np.exp(at[1]))
        return -np.where(y < 0, law.logpdf(lower), law.logsf(0.0)).sum()

    best = optimize.minimize(nll, [0.0, 0.0]).x
    outputs = Outputs(1, 1, DiagonalGaussian())
    start = np.array([0.0, lower.mean(), np.log(lower.std())])
    ends, weights = np.stack([lower, upper]).astype("f4"), np.ones(500, "f4")
    found = to_intervals(outputs, Curvature(), start, ends, weights)
    np.testing.assert_allclose(found[1:], best, atol=0.01)
    assert np.abs(start[1:] - best).min() > 0.3


def test_a_start_does_not_depend_on_the_unit_of_weights():
    """Sums of small weights are small, and no reason to stay where the moments are."""
    y = np.random.default_rng(1).normal(0.2, 1.0, 60)
    ends = np.stack([np.minimum(y, 0.0), np.where(y < 0, y, 1e4)]).astype("f4")
    outputs, start = Outputs(1, 1, DiagonalGaussian()), np.array([0.0, -0.5, -0.5])
    light, heavy = (
        to_intervals(outputs, Curvature(), start, ends, np.full(60, weight, "f4"))
        for weight in (2.0**-10, 1.0)
    )
    np.testing.assert_allclose(light, heavy, rtol=1e-4, atol=1e-5)
    assert np.abs(heavy - start).max() > 0.1
