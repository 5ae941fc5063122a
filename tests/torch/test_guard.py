"""The guard, against its definition in numpy and scipy."""

import numpy as np
import pytest

from .. import oracles
from .common import BOTH_COVARIANCES, assert_same, inputs, ours, torch

ARRAYS = {
    "log_weights": np.log([0.6, 0.2, 0.15, 0.05]),
    "slope": np.array([[1.0, -2.0, 0.5], [0.3, 0.0, 4.0]]),
    "intercept": np.array([0.5, -1.0]),
    "center": np.array([0.2, -0.1]),
    "scale": np.array([[0.3, 0.6], [1.0, 1.2], [4.0, 4.8]]),
    "low": np.array([-1.0, 0.0, -2.0]),
    "high": np.array([1.0, 3.0, -2.0]),  # the last one is constant
    "unit": np.array([0.5, 2.0, 1.0]),
    "floor": np.array([-1.5, -1.0]),
    "ceiling": np.array([1.0, 0.5]),
}

INSIDE = [[0.0, 1.0, -2.0], [-1.0, 3.0, -2.0]]
OUTSIDE = [[2.5, 1.0, -2.0], [0.0, -7.0, 5.0], [1e12, -1e12, 0.0]]


def guard(*, full=False, **changes):
    """Return the guard of these arrays in double precision."""
    scale = np.stack([np.diag(row) for row in ARRAYS["scale"]]) if full else ARRAYS["scale"]
    return ours.Guard(ARRAYS | {"scale": scale} | changes).double()


def test_inside_the_range_features_are_unchanged():
    x = torch.tensor(INSIDE, dtype=torch.float64)
    assert torch.equal(guard().clip(x), x)


def test_outside_features_move_by_at_most_the_margin():
    x = torch.tensor(OUTSIDE, dtype=torch.float64)
    expected = [oracles.clipped(ARRAYS, row) for row in OUTSIDE]
    np.testing.assert_allclose(guard().clip(x), expected, rtol=1e-12)


@BOTH_COVARIANCES
@pytest.mark.parametrize("rows", [INSIDE, OUTSIDE], ids=["inside", "outside"])
def test_the_density_is_a_weighted_sum_of_densities(full, rows):
    """Means and scales of the networks are bounded; weights follow the distance."""
    x, y = torch.tensor(rows, dtype=torch.float64), np.array([0.4, 0.1])
    networks = [part.detach() for part in inputs(full=full, batch=len(x), comp=3)[:3]]
    networks[0] = networks[0].log_softmax(-1)
    networks[2] = networks[2] * 3  # some beyond the bound
    found = guard(full=full)(ours.MixtureParameters(*networks), x)
    density = ours.distribution(*found).log_prob(torch.tensor(y)).exp()
    for row, value in enumerate(density):
        logits, means, scales = (part[row].numpy() for part in networks)
        covariances = [scale @ scale.T if full else np.diag(scale**2) for scale in scales]
        parts = zip(np.exp(logits), means, covariances, strict=True)
        arrays = ARRAYS | {"stds": ARRAYS["scale"]}
        expected = oracles.guarded_density(arrays, parts, rows[row], y)
        np.testing.assert_allclose(value, expected, rtol=1e-6)
    weights = found.logits.exp().sum(-1)
    assert_same([weights], [torch.ones_like(weights)], rtol=1e-6)


def test_networks_without_weight_leave_a_density():
    log_weights = np.log([1e-300, 0.5, 0.3, 0.2])  # zero in single precision
    x = torch.tensor(INSIDE + OUTSIDE, dtype=torch.float64)
    networks = ours.MixtureParameters(*inputs(batch=len(x))[:3])
    found = guard(log_weights=log_weights)(networks, x)
    assert ours.distribution(*found).log_prob(torch.zeros(2).double()).isfinite().all()


def test_training_does_not_change_the_guard():
    simple = guard()
    assert not list(simple.parameters())
    assert set(simple.state_dict()) == set(ARRAYS)
