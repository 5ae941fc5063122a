"""Propositions 3 and 4 and the categorical Fisher information, the slow way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from ngem.families import DiagonalGaussian, FullGaussian, LocationScale
from ngem.geometry import LOGITS_RULES, CompleteDataFisher, raw_fisher_diagonal
from ngem.mixture import Mixture
from ngem.objectives import DERIVED

from .cases import families_but_slow, random_mixture, random_raw, standard_normal

KEY = jax.random.key(3)


def categorical_fisher(logits):
    """Minus the expected Hessian of log softmax, equation (22), by autodiff."""
    hessians = jax.jit(jax.hessian(jax.nn.log_softmax))(logits)
    return -np.einsum("k,kij->ij", jax.nn.softmax(logits), hessians)


def rule_matrix(name, logits):
    """The matrix that a logits rule applies to a gradient of the logits that sums to zero.

    The rules take the gradient a of the log weights; that of the logits is a - weight sum(a).
    """
    rows = jnp.eye(len(logits))
    return np.stack([LOGITS_RULES[name](logits, row) for row in rows], axis=1)


def test_categorical_fisher_is_the_stated_one():
    logits = jax.random.normal(KEY, (5,))
    weights = np.asarray(jax.nn.softmax(logits))
    expected = np.diag(weights) - np.outer(weights, weights)
    np.testing.assert_allclose(categorical_fisher(logits), expected, atol=1e-14)


def test_what_the_paper_calls_a_pseudo_inverse_is_a_generalized_inverse():
    """B.7: G = diag(1/weight) - 11^T satisfies two of the four Penrose identities.

    F G F = F and G F G = G hold, so the natural gradient is right on the tangent space (gradients
    that sum to zero). But F G and G F are not symmetric. The Moore-Penrose inverse is
    P diag(1/weight) P with P = I - 11^T/K; the two answers differ by a shift of all logits.
    """
    logits = jnp.array([1.0, -0.5, 0.3, -2.0])
    fisher = categorical_fisher(logits)
    weights = np.asarray(jax.nn.softmax(logits))
    paper = np.diag(1 / weights) - 1.0
    center = np.eye(4) - 0.25
    moore_penrose = center @ np.diag(1 / weights) @ center

    assert np.allclose(fisher @ paper @ fisher, fisher, atol=1e-12)
    assert np.allclose(paper @ fisher @ paper, paper, atol=1e-10)
    assert not np.allclose(fisher @ paper, (fisher @ paper).T, atol=1e-3)
    assert not np.allclose(paper @ fisher, (paper @ fisher).T, atol=1e-3)
    np.testing.assert_allclose(moore_penrose, np.linalg.pinv(fisher, rcond=1e-10), atol=1e-9)

    gradient = np.array([0.3, -0.5, 0.1, 0.1])
    shift = paper @ gradient - moore_penrose @ gradient
    np.testing.assert_allclose(shift, shift[0], atol=1e-12)


@pytest.mark.parametrize("name", ["derived", "pseudo-inverse"])
def test_fisher_times_rule_is_the_identity_on_the_tangent_space(name):
    """The rules take gradients of the log weights, so F times rule is the plain rule."""
    logits = jax.random.normal(KEY, (5,))
    solved = categorical_fisher(logits) @ rule_matrix(name, logits)
    np.testing.assert_allclose(solved, rule_matrix("plain", logits), atol=1e-12)


def test_rules_are_the_formulas_of_the_paper():
    """With gradient -responsibility: weight - responsibility, 1 - r and 1 - r centered."""
    logits = jax.random.normal(KEY, (4,))
    weights, resp = np.asarray(jax.nn.softmax(logits)), np.array([0.1, 0.6, 0.05, 0.25])
    ratio = resp / weights
    expected = {
        "plain": weights - resp,
        "listing": weights * np.sum(ratio) - ratio,
        "derived": 1 - ratio,
        "pseudo-inverse": np.mean(ratio) - ratio,
    }
    for name, rule in LOGITS_RULES.items():
        np.testing.assert_allclose(rule(logits, -jnp.asarray(resp)), expected[name], rtol=1e-12)


@families_but_slow("full", "laplace")
def test_complete_data_fisher_is_block_diagonal(case):
    """Proposition 4, in raw outputs: blocks weight_k F_k and F_pi, zero elsewhere.

    E[score score^T] of log p(y, z), averaged over z exactly and over y by quadrature.
    """
    dim, comp, family = 1, 3, case.family
    raws, logits = random_raw(family, dim, KEY, (comp,)), standard_normal(KEY, (comp,))
    size = raws.shape[1]
    weights = np.asarray(jax.nn.softmax(logits))

    def log_complete(vector, k, y):
        params = family.constrain(vector[: comp * size].reshape(comp, size)[k], dim)
        return jax.nn.log_softmax(vector[comp * size :])[k] + family.log_prob(params, y)

    vector = jnp.concatenate([raws.ravel(), logits])
    total, expected = np.zeros((2, len(vector), len(vector)))
    score = jax.jit(jax.vmap(jax.grad(log_complete), in_axes=(None, None, 0)))
    components = jax.jit(jax.vmap(lambda raw: family.constrain(raw, dim)))(raws)
    for k in range(comp):
        params = jax.tree.map(lambda leaf, k=k: np.asarray(leaf)[k], components)
        y, quadrature = case.quadrature(params, dim)
        scores = score(vector, jnp.asarray(k), y)
        total += weights[k] * np.einsum("n,ni,nj->ij", quadrature, scores, scores)
        block = slice(k * size, (k + 1) * size)
        expected[block, block] = weights[k] * case.raw_fisher(raws[k], dim)
    expected[comp * size :, comp * size :] = categorical_fisher(logits)
    np.testing.assert_allclose(total, expected, atol=1e-10)

    for_logits, for_raws = raw_fisher_diagonal(family, logits, components)
    diagonal = np.concatenate([np.ravel(for_raws), for_logits])
    np.testing.assert_allclose(diagonal, np.diag(total), rtol=1e-6)


def test_metric_preconditions_by_weight_and_fisher():
    """Equation (20): each component's gradient is divided by weight_k F_k, to the power."""
    mixture = random_mixture(DiagonalGaussian(), KEY)
    grads = (jnp.ones(3), mixture.components)
    for power in (0.0, 0.4, 1.0):
        metric = CompleteDataFisher(DiagonalGaussian(), power=power)
        _, solved = metric.solve(mixture.logits, mixture.components, grads, None)
        weights, scale = np.asarray(mixture.weights)[:, None], np.asarray(mixture.components.scale)
        np.testing.assert_allclose(
            solved.mean, mixture.components.mean * (weights / scale**2) ** -power, rtol=1e-12
        )
        np.testing.assert_allclose(
            solved.scale, scale * (weights * 2 / scale**2) ** -power, rtol=1e-12
        )


def test_damping_bounds_the_step_of_a_component_without_weight():
    logits = jnp.array([0.0, -1e4], jnp.float32)
    components = LocationScale(jnp.ones((2, 1), jnp.float32), jnp.ones((2, 1), jnp.float32))
    for power in (0.5, 1.0):
        metric = CompleteDataFisher(DiagonalGaussian(), power=power, damping=1e-3)
        _, solved = metric.solve(logits, components, (logits, components), None)
        np.testing.assert_allclose(solved.mean[:, 0], [1.0, 1001**power], rtol=1e-5)


def test_without_damping_steps_are_divided_by_the_weights():
    """The paper's natural gradient is the default: (weight F)^-1, with F = 1 at scale one."""
    weights, ones = np.array([0.9, 0.1]), jnp.ones((2, 1))
    components = LocationScale(ones, ones)
    _, solved = CompleteDataFisher(DiagonalGaussian()).solve(
        jnp.log(jnp.asarray(weights)), components, (jnp.zeros(2), components), None
    )
    np.testing.assert_allclose(solved.mean[:, 0], 1 / weights, rtol=1e-12)


def moments(mixture):
    """Expected sufficient statistics of the complete data: weight, weight mean, weight E[yy^T]."""
    weights = mixture.weights[:, None]
    mean = mixture.components.mean
    covariance = jax.vmap(mixture.family.covariance)(mixture.components)
    second = covariance + mean[:, :, None] * mean[:, None, :]
    return mixture.weights, weights * mean, weights[:, :, None] * second


@pytest.mark.parametrize("family", [DiagonalGaussian(), FullGaussian()])
def test_a_natural_gradient_step_is_an_em_step(family):
    """Proposition 3, in the coordinates where it is exact: the expected sufficient statistics.

    The natural gradient is a tangent vector, so it is carried there by the Jacobian. With learning
    rate 1 on the full batch the step lands on scikit-learn's EM update to rounding.
    """
    dim, comp = 2, 3
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(c, 1.0, (n, dim)) for c, n in ((-2, 80), (0, 40), (3, 20))])
    points[:, 1] += 0.5 * points[:, 0]
    mixture = random_mixture(family, KEY, comp=comp, dim=dim)

    arrays = (mixture.logits, mixture.components)
    rebuild = lambda arrays: Mixture(*arrays, family)  # noqa: E731
    step = jax.jit(jax.grad(lambda arrays: DERIVED(rebuild(arrays), points)))(arrays)
    before, velocity = jax.jvp(lambda arrays: moments(rebuild(arrays)), (arrays,), (step,))
    weight, first, second = (np.asarray(b - v) for b, v in zip(before, velocity, strict=True))
    means = first / weight[:, None]
    covariances = second / weight[:, None, None] - means[:, :, None] * means[:, None, :]

    full = isinstance(family, FullGaussian)
    covariance = np.asarray(jax.vmap(family.covariance)(mixture.components))
    precision = np.linalg.inv(covariance)
    diagonal = np.diagonal(precision, axis1=1, axis2=2)
    reference = GaussianMixture(
        comp,
        covariance_type="full" if full else "diag",
        weights_init=np.asarray(mixture.weights),
        means_init=np.asarray(mixture.components.mean),
        precisions_init=precision if full else diagonal,
        max_iter=1,
        reg_covar=0.0,
    )
    with pytest.warns(ConvergenceWarning):
        reference.fit(points)
    np.testing.assert_allclose(weight, reference.weights_, rtol=1e-9)
    np.testing.assert_allclose(means, reference.means_, rtol=1e-9)
    learned = covariances if full else np.diagonal(covariances, axis1=1, axis2=2)
    np.testing.assert_allclose(learned, reference.covariances_, rtol=1e-8)


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"logits_rule must be one of 'plain'.*got 'natural'"):
        CompleteDataFisher(DiagonalGaussian(), logits_rule="natural")
    with pytest.raises(ValueError, match="damping must be at least 0, got -1"):
        CompleteDataFisher(DiagonalGaussian(), damping=-1.0)
