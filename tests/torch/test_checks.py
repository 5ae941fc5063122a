"""Errors: each says what was expected, what came and what to try."""

import math

import numpy as np
import pytest

from .common import as_users_call, ours, torch

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
    "three axes": (
        {"mean": torch.zeros(4, 3, 1), "scale": torch.ones(4, 3, 1), "y": torch.zeros(4, 1, 1)},
        ValueError,
        r"y must have shape \(4, 1\), got \(4, 1, 1\).*one target per row",
    ),
    "one row": ({"y": torch.zeros(1, 2)}, ValueError, "one target per row"),
    "one target": ({"y": torch.zeros(2)}, ValueError, "one target per row"),
    "whole weights": ({"weights": torch.ones(4).long()}, TypeError, "weights must hold real"),
    "weights": ({"weights": torch.ones(4, 1)}, ValueError, r"one entry per row, shape \(4,\)"),
    "reduction": ({"reduction": "average"}, ValueError, "'mean', 'sum', 'none', got 'average'"),
}


#: What type checkers would notice.
OF_OTHER_TYPES = {
    "array y": ({"y": np.zeros((4, 2))}, TypeError, r"y must be a tensor, got ndarray; try y = to"),
    "list of logits": ({"logits": [[0.0] * 3] * 4}, TypeError, "logits must be a tensor, got list"),
    "no scale": ({"scale": None}, TypeError, "scale must be a tensor, got NoneType"),
    "list of weights": ({"weights": [1.0] * 4}, TypeError, "weights must be a tensor, got list"),
    "list of reductions": ({"reduction": ["mean"]}, ValueError, r"got \['mean'\]; check"),
}


@pytest.mark.parametrize("name", OF_OTHER_TYPES)
def test_other_types_are_refused(name):
    change, error, message = OF_OTHER_TYPES[name]
    with pytest.raises(error, match=message):
        as_users_call(ours.mixture_loss)(**{**GOOD, **change})


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("loss", [ours.nll_loss, ours.ngem_loss])
def test_bad_input_is_refused(loss, name):
    change, error, message = BAD[name]
    with pytest.raises(error, match=f"(?s){message}"):
        loss(**{**GOOD, **change})


def test_the_error_for_a_single_column_says_how():
    args = [torch.zeros(4, 3), torch.zeros(4, 3, 1), torch.ones(4, 3, 1), torch.zeros(5, 4)]
    with pytest.raises(ValueError, match=r"y must have shape \(4, 1\).*y\.unsqueeze\(-1\)"):
        ours.ngem_loss(*args)


@pytest.mark.parametrize("power", [-0.1, 1.5, math.nan])
def test_power_outside_its_range_is_refused(power):
    with pytest.raises(ValueError, match="power must lie between 0 and 1, got"):
        ours.ngem_loss(**GOOD, power=power)


@pytest.mark.parametrize("power", ["half", [0.5], np.ones(3), object()])
def test_a_power_that_is_no_number_is_refused(power):
    with pytest.raises(TypeError, match="power must be a number between 0 and 1, got"):
        as_users_call(ours.mixture_loss)(**GOOD, power=power)


@pytest.mark.parametrize("ask", [ours.cdf, ours.crps])
def test_functions_of_targets_have_the_same_rule_of_axes(ask):
    parameters = torch.zeros(4, 3), torch.arange(12.0).reshape(4, 3, 1), torch.ones(4, 3, 1)
    y = torch.arange(4.0)
    torch.testing.assert_close(ask(*parameters, y), ask(*parameters, y[:, None]))
    for shape in ((5,), (1,), (1, 1), (4, 1, 1), (4, 2)):
        with pytest.raises(ValueError, match=r"y must have shape \(4, 1\)"):
            ask(*parameters, torch.zeros(shape))
    with pytest.raises(TypeError, match="y must be a tensor, got list"):
        as_users_call(ask)(*parameters, y.tolist())


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
