"""Errors: each says what was expected, what came and what to try."""

import math

import pytest

from .common import ours, torch

GOOD = {
    "logits": torch.zeros(4, 3),
    "mean": torch.zeros(4, 3, 2),
    "scale": torch.ones(4, 3, 2),
    "y": torch.zeros(4, 2),
}

BAD = {
    "flat y": ({"y": torch.zeros(4)}, ValueError, r"y must have shape \(4, 2\), got \(4,\)"),
    "wrong columns": ({"y": torch.zeros(4, 3)}, ValueError, "targets with 2 columns"),
    "wrong rows": ({"y": torch.zeros(5, 2)}, ValueError, "one target per row"),
    "flat mean": ({"mean": torch.zeros(4, 3)}, ValueError, r"mean\.unsqueeze\(-1\)"),
    "other components": ({"mean": torch.zeros(4, 2, 2)}, ValueError, "to fit logits"),
    "wrong scale": ({"scale": torch.ones(4, 3)}, ValueError, r"Cholesky.*scale\.expand_as\(mean\)"),
    "scalar logits": ({"logits": torch.zeros(())}, ValueError, "at least one component"),
    "no components": (
        {"logits": torch.zeros(4, 0), "mean": torch.zeros(4, 0, 2), "scale": torch.ones(4, 0, 2)},
        ValueError,
        "at least one component",
    ),
    "empty batch": (
        {key: value[:0] for key, value in GOOD.items()},
        ValueError,
        "at least one row.*skip empty batches",
    ),
    "integer y": ({"y": torch.zeros(4, 2).long()}, TypeError, r"got torch.int64; try y\.float\(\)"),
    "complex mean": ({"mean": torch.zeros(4, 3, 2) * 1j}, TypeError, "mean must hold real"),
    "weights": ({"weights": torch.ones(4, 1)}, ValueError, r"one entry per row, shape \(4,\)"),
    "reduction": ({"reduction": "average"}, ValueError, "'mean', 'sum', 'none', got 'average'"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("loss", [ours.nll_loss, ours.ngem_loss])
def test_bad_input_is_refused(loss, name):
    change, error, message = BAD[name]
    with pytest.raises(error, match=f"(?s){message}"):
        loss(**{**GOOD, **change})


def test_the_error_for_a_single_column_says_how():
    args = [torch.zeros(4, 3), torch.zeros(4, 3, 1), torch.ones(4, 3, 1), torch.zeros(4)]
    with pytest.raises(ValueError, match=r"y must have shape \(4, 1\).*y\.unsqueeze\(-1\)"):
        ours.ngem_loss(*args)


@pytest.mark.parametrize("power", [-0.1, 1.5, math.nan])
def test_power_outside_its_range_is_refused(power):
    with pytest.raises(ValueError, match="power must lie between 0 and 1, got"):
        ours.ngem_loss(**GOOD, power=power)


def test_other_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"power.*shape \(\), got \(3,\)"):
        ours.ngem_loss(**GOOD, power=torch.ones(3))
    with pytest.raises(ValueError, match=r"objective must be one of 'nll'.*got 'gem'"):
        ours.NGEMLoss(objective="gem")
    with pytest.raises(ValueError, match="reduction must be one of"):
        ours.NGEMLoss(reduction="max")
    with pytest.raises(ValueError, match=r"coordinates must be one of 'scale'.*got 'log'"):
        ours.mixture_loss(**GOOD, objective="beta-nll", coordinates="log")
    with pytest.raises(ValueError, match="flattening must lie between 0 and 1, got 3"):
        ours.ngem_loss(**GOOD, flattening=3.0)
