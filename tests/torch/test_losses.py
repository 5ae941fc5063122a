"""The losses: values, reductions, weights, axes, defaults."""

import inspect
import math
from functools import partial

import pytest

from .common import BOTH_COVARIANCES, LIKELIHOODS, assert_same, gradients, inputs, ours, torch


@BOTH_COVARIANCES
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_value_is_that_of_pytorchs_own_mixture(name, full):
    logits, mean, scale, y = inputs(full=full)
    expected = -ours.distribution(logits, mean, scale).log_prob(y).mean()
    torch.testing.assert_close(
        ours.mixture_loss(logits, mean, scale, y, objective=name), expected, rtol=1e-12, atol=0
    )


@pytest.mark.parametrize("name", ours.OBJECTIVES)
def test_reductions(name):
    leaves = inputs()
    rows = ours.mixture_loss(*leaves, objective=name, reduction="none")
    assert rows.shape == (6,)
    for reduction, expected in (("mean", rows.mean()), ("sum", rows.sum())):
        loss = ours.NGEMLoss(objective=name, reduction=reduction)(*leaves)
        torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    whole = gradients(leaves, objective=name, reduction="sum")
    by_rows = gradients(leaves, objective=name, reduction="none")
    assert_same(whole, by_rows)
    assert_same([6 * leaf for leaf in gradients(leaves, objective=name)], whole)


def test_weights_count_rows():
    """Integer weights are repetitions, and zero drops a row, in value and gradient."""
    logits, mean, scale, y = inputs()
    weights = torch.tensor([2.0, 0.0, 1.0, 3.0, 1.0, 0.0], dtype=torch.float64)
    index = torch.repeat_interleave(torch.arange(6), weights.long())
    leaves = logits, mean, scale
    for reduction in ("mean", "sum"):
        weighted = ours.ngem_loss(*leaves, y, weights=weights, reduction=reduction)
        repeated = ours.ngem_loss(*(leaf[index] for leaf in (*leaves, y)), reduction=reduction)
        torch.testing.assert_close(weighted, repeated, rtol=1e-12, atol=0)
        assert_same(*(torch.autograd.grad(loss, leaves) for loss in (weighted, repeated)))


def test_rows_have_the_axes_of_the_rule():
    """One mixture for all rows, several axes of rows, several targets per row, one column."""
    logits, mean, scale, y = inputs()
    one = [leaf[0] for leaf in (logits, mean, scale)]
    many = [leaf.expand(6, *leaf.shape) for leaf in one]
    torch.testing.assert_close(ours.ngem_loss(*one, y), ours.ngem_loss(*many, y))
    stack = [leaf.unflatten(0, (2, 3)) for leaf in (logits, mean, scale, y)]
    torch.testing.assert_close(ours.ngem_loss(*stack), ours.ngem_loss(logits, mean, scale, y))
    draws = torch.stack([y, 2 * y, 3 * y])
    each = [ours.ngem_loss(logits, mean, scale, draw) for draw in draws]
    torch.testing.assert_close(ours.ngem_loss(logits, mean, scale, draws), torch.stack(each).mean())
    column = [logits, mean[..., :1], scale[..., :1]]
    torch.testing.assert_close(ours.ngem_loss(*column, y[:, 0]), ours.ngem_loss(*column, y[:, :1]))


def test_targets_of_another_precision_are_promoted():
    leaves = inputs()
    assert ours.nll_loss(*leaves[:3], leaves[3].float()).dtype == torch.float64


BAD_VALUES = {
    "a mean at infinity": {"mean": math.inf},
    "a mean at minus infinity": {"mean": -math.inf},
    "a mean that is NaN": {"mean": math.nan},
    "a scale at infinity": {"scale": math.inf},
    "a negative weight": {"weights": -1.0},
    "an infinite weight": {"weights": math.inf},
    "a weight that is NaN": {"weights": math.nan},
}


@BOTH_COVARIANCES
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("name", BAD_VALUES)
def test_one_bad_value_is_never_a_plausible_number(name, dim, full):
    """The loss is NaN, whatever its reduction: a gradient of NaN never comes with a finite loss."""
    logits, mean, scale, y = inputs(dim=dim, full=full)
    parts = {"mean": mean.detach(), "scale": scale.detach(), "weights": torch.ones(6).double()}
    for part, value in BAD_VALUES[name].items():
        parts[part] = parts[part].clone()
        parts[part].view(-1)[0] = value
    for objective in LIKELIHOODS:
        ask = partial(ours.mixture_loss, logits, y=y, objective=objective, **parts)
        assert ask().isnan(), objective
        assert ask(reduction="sum").isnan(), objective
        losses = ask(reduction="none")
        assert losses[0].isnan(), objective
        assert losses[1:].isfinite().all(), objective


@pytest.mark.parametrize("power", [5.0, -1.0, math.nan, math.inf])
def test_a_strength_outside_its_range_is_never_a_plausible_number(power):
    leaves = inputs()
    loss = ours.ngem_loss(*leaves, power=torch.tensor(power))
    assert loss.isnan()
    assert all(grad.isnan().any() for grad in torch.autograd.grad(loss, leaves[1:3]))
    for inside in (0.0, 0.3, 1.0):
        tensor = ours.ngem_loss(*leaves, power=torch.tensor(inside, dtype=torch.float64))
        torch.testing.assert_close(tensor, ours.ngem_loss(*leaves, power=inside))


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_a_bad_scale_is_never_a_plausible_number(scale):
    logits, mean, _, y = inputs()
    loss = ours.ngem_loss(logits, mean, torch.full_like(mean, scale), y)
    assert not loss.isfinite()


def test_ngem_is_constant_half_strength():
    """The signature says so, and None means the same; a schedule brings its own settings."""
    assert inspect.signature(ours.ngem_loss).parameters["power"].default == 0.5
    leaves = inputs()
    half = gradients(leaves, power=0.5)
    losses = ours.ngem_loss(*leaves), ours.ngem_loss(*leaves, power=None), ours.NGEMLoss()(*leaves)
    for loss in losses:
        assert_same(torch.autograd.grad(loss, leaves[:3]), half, rtol=0, atol=0)
    schedule = ours.PowerSchedule(10)
    annealed = gradients(leaves, power=0.5, coordinates="variance", flattening=1.0)
    scheduled = torch.autograd.grad(ours.ngem_loss(*leaves, power=schedule), leaves[:3])
    assert_same(scheduled, annealed)
    own = gradients(leaves, power=0.5, coordinates="scale", flattening=0.0)
    assert_same(gradients(leaves, power=schedule, coordinates="scale", flattening=0.0), own)


@pytest.mark.parametrize("name", ["ngem-listing", "ngem-derived"])
def test_the_papers_forms_take_only_the_strength_of_a_schedule(name):
    leaves = inputs()
    scheduled = gradients(leaves, objective=name, power=ours.PowerSchedule(10))
    assert_same(scheduled, gradients(leaves, objective=name, power=0.5))


def test_the_module_reads_its_power_in_every_call():
    """A loop may set it from epoch to epoch."""
    criterion, leaves = ours.NGEMLoss(power=1.0), inputs()
    criterion.power = 0.2
    grads = torch.autograd.grad(criterion(*leaves), leaves[:3])
    assert_same(grads, gradients(leaves, power=0.2), rtol=0, atol=0)
