"""Families of the losses beside Gaussians, against scipy and PyTorch's autodiff."""

import numpy as np
import pytest
from scipy import stats

from ngem.torch._location_scale import read_family

from .common import as_users_call, inputs, ours, torch

LAWS = {
    "laplace": stats.laplace,
    "logistic": stats.logistic,
    "student": lambda mean, scale: stats.t(5, mean, scale),
    "student(3)": lambda mean, scale: stats.t(3, mean, scale),
}


@pytest.mark.parametrize("family", LAWS)
def test_value_is_scipys_and_gradient_that_of_autodiff(family):
    """The gradient of nll by differences of scipy's density."""
    leaves = inputs(batch=4)
    logits, mean, scale, y = (leaf.detach().numpy() for leaf in leaves)

    def loss(logits, mean, scale):
        density = LAWS[family](mean, scale).logpdf(y[:, None]).sum(-1)
        log_weights = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return -np.log(np.exp(log_weights + density).sum(-1)).mean()

    value = ours.nll_loss(*leaves, family=family)
    assert value.item() == pytest.approx(loss(logits, mean, scale), rel=1e-12)
    value.backward()
    parts, step = [logits, mean, scale], 1e-6
    for place, leaf in enumerate(leaves[:3]):
        moved = np.zeros_like(parts[place])
        moved.flat[3] = step
        ends = [
            loss(*(part + sign * moved if i == place else part for i, part in enumerate(parts)))
            for sign in (1, -1)
        ]
        expected = (ends[0] - ends[1]) / (2 * step)
        assert leaf.grad.numpy().flat[3] == pytest.approx(expected, rel=1e-6)


def test_module_and_functions_take_the_same_families():
    leaves = inputs()
    for family in ("laplace", "student(df=3)"):
        loss = ours.NGEMLoss(family=family)(*leaves)
        assert torch.equal(loss, ours.ngem_loss(*leaves, family=family))
        assert torch.equal(loss, ours.nll_loss(*leaves, family=family))
    assert torch.equal(ours.NGEMLoss(family="gaussian")(*leaves), ours.NGEMLoss()(*leaves))


@pytest.mark.parametrize(
    ("family", "message"),
    [
        ("normal", r"family must be one of 'gaussian', 'laplace'.*got 'normal'"),
        ("gamma", r"family must be one of 'gaussian'"),
        ("laplace(2)", r"family 'laplace' must have no options, got '2'"),
        ("student(1)", r"df of family 'student' must be a number above 2.*got '1'"),
        ("student(x)", r"df of family 'student' must be a number above 2.*got 'x'"),
        (3, r"family must be one of 'gaussian'.*got 3"),
    ],
)
def test_families_that_do_not_exist_are_refused(family, message):
    with pytest.raises(ValueError, match=message):
        as_users_call(ours.mixture_loss)(*inputs(), family=family)


def test_a_full_covariance_is_for_gaussians():
    with pytest.raises(ValueError, match=r"scale must have the shape of mean.*family='laplace'"):
        ours.ngem_loss(*inputs(full=True), family="laplace")


@pytest.mark.parametrize("family", LAWS)
def test_variance_at_scale_one_is_scipys(family):
    found = read_family(family).variance
    assert found == pytest.approx(LAWS[family](0.0, 1.0).var(), rel=1e-12)
