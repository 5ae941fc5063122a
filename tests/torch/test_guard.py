"""The guard, against its definition in numpy and scipy."""

import numpy as np
import pytest
from scipy import stats

from ngem._defaults import CLIP_MARGIN, HALF_TRUST

from .common import BOTH_COVARIANCES, assert_same, inputs, ours, torch

ARRAYS = {
    "log_weights": np.log([0.6, 0.2, 0.15, 0.05]),
    "slope": np.array([[1.0, -2.0, 0.5], [0.3, 0.0, 4.0]]),
    "intercept": np.array([0.5, -1.0]),
    "center": np.array([0.2, -0.1]),
    "scale": np.array([[0.3, 0.6], [1.0, 1.2], [4.0, 4.8]]),
    "low": np.array([-1.0, 0.0, -2.0]),
    "high": np.array([1.0, 3.0, -2.0]),  # the last one is constant
    "floor": np.array([-1.5, -1.0]),
    "ceiling": np.array([1.0, 0.5]),
}

INSIDE = [[0.0, 1.0, -2.0], [-1.0, 3.0, -2.0]]
OUTSIDE = [[2.5, 1.0, -2.0], [0.0, -7.0, 5.0], [1e12, -1e12, 0.0]]


def guard(*, full=False):
    """Return the guard of these arrays in double precision."""
    scale = np.stack([np.diag(row) for row in ARRAYS["scale"]]) if full else ARRAYS["scale"]
    return ours.Guard(ARRAYS | {"scale": scale}).double()


def test_inside_the_range_features_are_unchanged():
    x = torch.tensor(INSIDE, dtype=torch.float64)
    assert torch.equal(guard().clip(x), x)


def test_outside_features_move_by_at_most_the_margin():
    x = np.array(OUTSIDE)
    nearest = np.clip(x, ARRAYS["low"], ARRAYS["high"])
    expected = nearest + CLIP_MARGIN * np.tanh((x - nearest) / CLIP_MARGIN)
    np.testing.assert_allclose(guard().clip(torch.tensor(x)), expected, rtol=1e-12)


@BOTH_COVARIANCES
@pytest.mark.parametrize("rows", [INSIDE, OUTSIDE], ids=["inside", "outside"])
def test_the_density_is_a_weighted_sum_of_densities(full, rows):
    """Means and scales of the networks are bounded; weights follow the distance."""
    simple, x = guard(full=full), torch.tensor(rows, dtype=torch.float64)
    networks, y = inputs(full=full, batch=len(x), comp=3)[:3], np.array([0.4, 0.1])
    networks[0] = networks[0].log_softmax(-1)
    networks[2] = networks[2] * 3  # some beyond the bound
    found = simple(ours.MixtureParameters(*networks), x)
    density = ours.distribution(*found).log_prob(torch.tensor(y)).exp().detach()
    expected = [by_hand(*(part[row].detach().numpy() for part in networks), rows[row], y)
                for row in range(len(x))]
    np.testing.assert_allclose(density, expected, rtol=1e-6)
    weights = found.logits.exp().sum(-1)
    assert_same([weights], [torch.ones_like(weights)], rtol=1e-6)


def by_hand(logits, mean, scale, x, y):
    """Return the density of one row from the definition, with scipy."""
    low, high, floor, ceiling = (ARRAYS[name] for name in ("low", "high", "floor", "ceiling"))
    nearest = np.clip(x, low, high)
    trust = 1 / (1 + (np.abs(x - nearest).max() / HALF_TRUST) ** 2)
    networks, linear, wide, wider = np.exp(ARRAYS["log_weights"])
    weights = [trust * linear, wide + (1 - trust) * (networks + linear), wider]
    clipped = nearest + CLIP_MARGIN * np.tanh((x - nearest) / CLIP_MARGIN)
    line = np.clip(ARRAYS["slope"] @ clipped + ARRAYS["intercept"], floor, ceiling)
    means = [line, ARRAYS["center"], ARRAYS["center"]]
    total = sum(
        weight * stats.norm(center, std).pdf(y).prod()
        for weight, center, std in zip(weights, means, ARRAYS["scale"], strict=True)
    )
    for weight, center, factor in zip(np.exp(logits), mean, scale, strict=True):
        covariance = factor @ factor.T if factor.ndim == 2 else np.diag(factor**2)
        shrink = np.diag(np.minimum(1, (ceiling - floor) / np.sqrt(np.diag(covariance))))
        bounded = stats.multivariate_normal(
            np.clip(center, floor, ceiling), shrink @ covariance @ shrink
        )
        total += trust * networks * weight * bounded.pdf(y)
    return total


def test_training_does_not_change_the_guard():
    simple = guard()
    assert not list(simple.parameters())
    assert set(simple.state_dict()) == set(ARRAYS)
