"""Preconditioners: the complete-data Fisher information, logits rules, damping, flattening."""

import dataclasses

import pytest

from .common import (
    BOTH_COVARIANCES,
    LIKELIHOODS,
    assert_same,
    component_fisher,
    flat,
    gradients,
    inputs,
    ours,
    preconditioners,
    torch,
)

WITH_POWER = ("ngem", "ngem-listing", "ngem-derived")


def responsibilities(leaves, exponent=1.0):
    """Return weights and responsibilities computed with weight^exponent, by PyTorch's densities."""
    logits, mean, scale, y = leaves
    log_prob = ours.distribution(logits, mean, scale).component_distribution.log_prob(
        y.unsqueeze(-2)
    )
    weights = torch.softmax(logits, -1)
    return weights, torch.softmax(exponent * weights.log() + log_prob, -1)


@BOTH_COVARIANCES
def test_the_complete_data_fisher_gives_back_the_gradient(full):
    """Proposition 4: its blocks are weight_k F_k and diag(weights) - weights weights^T."""
    leaves = inputs(full=full, batch=2)
    plain = gradients(leaves, objective="nll", reduction="sum")
    natural = gradients(leaves, objective="ngem-derived", reduction="sum")
    weights = torch.softmax(leaves[0], -1).detach()
    for row in range(2):
        fisher = torch.diag(weights[row]) - torch.outer(weights[row], weights[row])
        assert_same([fisher @ natural[0][row]], [plain[0][row]])
        for k in range(3):
            mean, scale = (leaf[row, k].detach() for leaf in leaves[1:3])
            fisher = weights[row, k] * component_fisher(mean, scale)
            back = fisher @ flat(natural[1][row, k], natural[2][row, k])
            expected = flat(plain[1][row, k], plain[2][row, k])
            assert_same([back], [expected], rtol=1e-10, atol=1e-12)


def test_what_the_logits_receive():
    leaves = inputs()
    weights, resp = responsibilities(leaves)
    ratio = resp / weights
    expected = {
        "ngem": weights - resp,
        "beta-nll": weights - resp,
        "ngem-listing": weights * ratio.sum(-1, keepdim=True) - ratio,
        "ngem-derived": 1 - ratio,
    }
    for name, grad in expected.items():
        assert_same([gradients(leaves, objective=name, reduction="sum")[0]], [grad])


def test_damping_bounds_the_step_of_a_vanishing_component():
    """The damped weight of a component without weight is damping / (1 + damping)."""
    _, mean, scale, y = inputs()
    logits = torch.tensor([0.0, -80.0, -90.0], dtype=torch.float64).expand(6, 3).requires_grad_()
    damping = ours.OBJECTIVES["ngem"].damping
    for power in (0.5, 1.0):
        damped = gradients([logits, mean, scale, y], power=power, coordinates="scale")
        undamped = gradients([logits, mean, scale, y], objective="ngem-derived", power=power)
        weights = torch.softmax(logits, -1).unsqueeze(-1)
        factor = ((weights + damping) / (1 + damping)) ** -power
        assert_same(damped[1:], [factor * weights**power * grad for grad in undamped[1:]], atol=0)


@pytest.mark.parametrize("power", [0.3, 0.5, torch.tensor(0.4, dtype=torch.float64)])
def test_flattening_lowers_the_weights_in_responsibilities_only(power):
    leaves = inputs()
    settings = {"power": power, "reduction": "sum"}
    weights, resp = responsibilities(leaves, 1 - 0.8 * power)
    grads = gradients(leaves, flattening=0.8, **settings)
    assert_same([grads[0]], [weights - resp])
    plain = gradients(leaves, flattening=0.0, **settings)
    ratio = (resp / responsibilities(leaves)[1]).unsqueeze(-1)
    assert_same(grads[1:], [ratio * grad for grad in plain[1:]])
    value = ours.mixture_loss(*leaves, flattening=0.8, **settings)
    torch.testing.assert_close(value, ours.nll_loss(*leaves, reduction="sum"), rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_only_objectives_with_a_strength_take_a_power(name):
    assert ours.OBJECTIVES[name].takes_power == (name in WITH_POWER)
    leaves = inputs()
    own = gradients(leaves, objective=name)
    assert_same(gradients(leaves, objective=name, power=None), own, rtol=0, atol=0)
    other = gradients(leaves, objective=name, power=0.2)
    if name in WITH_POWER:
        assert not torch.allclose(other[1], own[1])
    else:
        assert_same(other, own, rtol=0, atol=0)


def test_settings_are_replaced_where_there_are_any():
    before = preconditioners.Preconditioner(power=0.3, damping=0.1)
    assert before.with_settings(None, None) == before
    after = before.with_settings("variance", 0.5)
    assert after == dataclasses.replace(before, coordinates="variance", flattening=0.5)
    assert preconditioners.VarianceWeights(0.3).with_settings(
        "variance", 0.5
    ) == preconditioners.VarianceWeights(0.3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        after.power = 1.0
