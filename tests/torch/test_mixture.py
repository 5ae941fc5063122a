"""Functions of a mixture's parameters, against scipy, scoringrules and the mixtures of JAX."""

import numpy as np
import pytest
import scoringrules
from scipy import optimize, stats

import ngem

from .. import oracles
from .common import mixture as functions
from .common import ours, torch


def univariate(batch=7, comp=4, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=dtype)  # noqa: E731
    return draw(batch, comp), 3 * draw(batch, comp, 1), draw(batch, comp, 1).exp()


HARD = {
    "narrow and wide": ([0.0, 0.0], [0.0, 0.0], [1e-12, 1e12]),
    "a wide gap": ([0.0, 0.0], [-1e6, 1e6], [1e-3, 1e-3]),
    "a faint component": ([0.0, -30.0], [0.0, 50.0], [1.0, 1e-3]),
    "far from zero": ([0.0, 0.0], [1e6, 1e6 + 1], [1e-2, 3.0]),
    "one component": ([0.0], [-2.0], [0.1]),
}


def test_cdf_is_scipys():
    logits, mean, scale = univariate()
    y = torch.linspace(-5, 5, 7, dtype=torch.float64)[:, None]
    weights = torch.softmax(logits, -1).numpy()
    parts = stats.norm(mean[..., 0], scale[..., 0]).cdf(y.numpy())
    np.testing.assert_allclose(
        ours.cdf(logits, mean, scale, y), (weights * parts).sum(1), rtol=1e-12
    )
    full = ours.cdf(logits, mean, scale[..., None], y)
    torch.testing.assert_close(full, ours.cdf(logits, mean, scale, y))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_quantile_inverts_cdf(dtype):
    parameters = univariate(dtype=dtype)
    for q in (1e-6, 0.05, 0.5, 0.9, 1 - 1e-6):
        x = ours.quantile(*parameters, q)
        assert x.shape == (7,)
        assert (ours.cdf(*parameters, x[:, None]) - q).abs().max() < 1e-6
    ends = ours.quantile(*parameters, torch.tensor([0.0, 1.0, 2.0], dtype=dtype))
    assert ends.shape == (7, 3)
    assert (ends[:, 0] == -torch.inf).all()
    assert (ends[:, 1] == torch.inf).all()
    assert ends[:, 2].isnan().all()


def test_levels_are_a_further_axis_of_quantiles():
    parameters = univariate(batch=2)
    levels = torch.tensor([[0.1, 0.5], [0.6, 0.9]], dtype=torch.float64)
    for q in (levels[0], levels):
        found = ours.quantile(*parameters, q)
        assert found.shape == (2, *q.shape)
        each = [ours.quantile(*parameters, level.item()) for level in q.reshape(-1)]
        torch.testing.assert_close(found.flatten(1), torch.stack(each, -1))


@pytest.mark.parametrize("q", [1e-12, 0.05, 0.5])
def test_quantile_is_the_root_of_scipys_cdf(q):
    """To double precision, far in the tails as well. The mirrored mixture has the upper tail."""
    logits, mean, scale = univariate(batch=3)
    weights, location, std = torch.softmax(logits, -1), mean[..., 0], scale[..., 0]
    lower, mirrored = ours.quantile(logits, mean, scale, q), ours.quantile(logits, -mean, scale, q)
    level = torch.tensor(1.0 - q, dtype=torch.float64)
    upper = ours.quantile(logits, mean, scale, level)
    for row in range(3):

        def excess(x, tail, probability, row=row):
            parts = getattr(stats.norm, tail)(x, location[row], std[row])
            return np.log(weights[row].numpy() @ parts / probability)

        for x, tail, probability in (
            (lower, "cdf", q),
            (-mirrored, "sf", q),
            (upper, "sf", 1.0 - level.item()),
        ):
            root = optimize.brentq(excess, -50, 50, (tail, probability), xtol=1e-14)
            np.testing.assert_allclose(x[row], root, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_quantile_takes_few_steps(dtype, monkeypatch):
    """Every step evaluates the cdf once; Newton's method doubles the digits with each."""
    calls, real = [], functions._normal_cdf
    monkeypatch.setattr(functions, "_normal_cdf", lambda z: (calls.append(z.shape), real(z))[1])
    parameters = univariate(batch=1000, dtype=dtype)
    for q in (1e-6, 0.05, 0.5, 0.9, 1 - 1e-6):
        calls.clear()
        ours.quantile(*parameters, q)
        assert len(calls) <= 16


@pytest.mark.parametrize("name", HARD)
def test_quantiles_of_hard_mixtures(name):
    logits, mean, scale = (torch.tensor(part, dtype=torch.float64) for part in HARD[name])
    parameters = logits, mean[:, None], scale[:, None]
    q = torch.tensor([1e-9, 0.01, 0.25, 0.4999, 0.5001, 0.75, 0.99, 1 - 1e-9], dtype=torch.float64)
    x = ours.quantile(*parameters, q)
    assert (ours.cdf(*parameters, x[:, None]) - q).abs().max() < 1e-6
    assert (x.diff() > 0).all()


def test_quantile_is_differentiable():
    parameters = [leaf.requires_grad_() for leaf in univariate(batch=2, comp=2)]
    q = torch.tensor([0.2, 0.9], dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(ours.quantile, (*parameters, q), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("seed", [0, 1])
def test_crps_is_that_of_scoringrules(seed):
    logits, mean, scale = univariate(seed=seed)
    y = torch.linspace(-5, 5, 7, dtype=torch.float64)[:, None]
    expected = scoringrules.crps_mixnorm(
        y[:, 0].numpy(),
        mean[..., 0].numpy(),
        scale[..., 0].numpy(),
        torch.softmax(logits, -1).numpy(),
    )
    np.testing.assert_allclose(ours.crps(logits, mean, scale, y), expected, rtol=1e-10)


def test_crps_is_never_negative_where_faint_components_are_far_away():
    parts = oracles.far_and_faint()
    logits, mean, scale, y = map(torch.tensor, parts)
    found = ours.crps(logits, mean[..., None], scale[..., None], y)
    assert (found >= 0).all()
    np.testing.assert_allclose(found, oracles.crps_of(*parts), rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_samples_have_the_moments_of_the_mixture(covariance):
    layer = ours.RawToMixture(3, 2, covariance)
    torch.manual_seed(3)
    parameters = layer(torch.randn(2, layer.num_raw).double())
    draws = ours.sample(*parameters, (100, 400), generator=torch.Generator().manual_seed(0))
    assert draws.shape == (100, 400, 2, 2)
    again = ours.sample(*parameters, (100, 400), generator=torch.Generator().manual_seed(0))
    assert torch.equal(draws, again)
    mixture = ngem.gaussian_mixture(*(part.numpy() for part in parameters))
    flat = draws.flatten(0, 1)
    std = np.sqrt(np.asarray(mixture.variance()))
    np.testing.assert_allclose(flat.mean(0), mixture.mean(), atol=5 * std.max() / 200)
    for row in range(2):
        np.testing.assert_allclose(
            np.cov(flat[:, row].T.numpy()), mixture.covariance()[row], atol=0.05 * std.max() ** 2
        )


def test_one_draw_has_the_shape_of_the_rows():
    assert ours.sample(*univariate()).shape == (7, 1)


@pytest.mark.parametrize("name", ["cdf", "crps", "quantile"])
def test_univariate_functions_refuse_several_columns(name):
    parameters = torch.zeros(4, 3), torch.zeros(4, 3, 2), torch.ones(4, 3, 2)
    with pytest.raises(ValueError, match=rf"{name} needs a one-dimensional mixture.*\(4, 3, 2\)"):
        getattr(ours, name)(*parameters, 0.5 if name == "quantile" else torch.zeros(4, 2))


def test_probabilities_outside_their_range_are_refused():
    with pytest.raises(ValueError, match="q must lie between 0 and 1, got 50"):
        ours.quantile(*univariate(), 50.0)
