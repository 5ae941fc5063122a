"""Gradient and curvature in raw outputs, against autodiff of the definition and quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from ngem import boosting
from ngem.boosting import Curvature, Outputs, newton
from ngem.families import DiagonalGaussian

from ..cases import FAMILIES as CASES
from ..cases import slow_but

N_COMPONENTS, DIM, ROWS = 3, 2, 5

row_newton = jax.jit(boosting.row_newton, static_argnums=(0, 1))

#: Densities of a residual at scale one, from their definitions.
DENSITIES = {
    "diag": lambda z: jnp.exp(-(z**2) / 2) / jnp.sqrt(2 * jnp.pi),
    "laplace": lambda z: jnp.exp(-jnp.abs(z)) / 2,
    "logistic": lambda z: jnp.exp(-z) / (1 + jnp.exp(-z)) ** 2,
}


@pytest.fixture(params=DENSITIES)
def name(request):
    return request.param


def rows(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N_COMPONENTS * (1 + 2 * DIM), ROWS)), rng.normal(size=(DIM, ROWS))


def outputs_of(name):
    return Outputs(N_COMPONENTS, DIM, CASES[name].family)


def plain_nll(name, raw, y):
    """Return the loss of one row from equation (3), logits first, then mean and log scale."""
    weights = jnp.exp(raw[:N_COMPONENTS]) / jnp.sum(jnp.exp(raw[:N_COMPONENTS]))
    each = raw[N_COMPONENTS:].reshape(N_COMPONENTS, 2, DIM)
    scale = jnp.exp(each[:, 1]) + CASES[name].family.scale_floor
    density = DENSITIES[name]((y[None] - each[:, 0]) / scale) / scale
    return -jnp.log(jnp.sum(weights * jnp.prod(density, axis=1)))


def resp_of(name, raw, y):
    """Return weights and responsibilities of one row, with scipy's densities."""
    case, each = CASES[name], raw[N_COMPONENTS:].reshape(N_COMPONENTS, -1)
    params = [case.family.constrain(jnp.asarray(one), DIM) for one in each]
    log_density = np.array([case.scipy_logpdf(one, y) for one in params])
    weights = special.softmax(raw[:N_COMPONENTS])
    return weights, special.softmax(np.log(weights) + log_density)


def fisher_of_components(name, raw):
    """Return the diagonal of the Fisher information of each component, by quadrature."""
    each = raw[N_COMPONENTS:].reshape(N_COMPONENTS, -1)
    return np.array([np.diag(CASES[name].raw_fisher(jnp.asarray(one), DIM)) for one in each])


def test_gradient_is_that_of_the_plain_definition(name):
    raw, y = rows()
    losses, grad, _ = row_newton(outputs_of(name), Curvature(), jnp.asarray(raw), jnp.asarray(y))
    plain = jax.value_and_grad(lambda r, t: plain_nll(name, r, t))
    values, expected = jax.jit(jax.vmap(plain, in_axes=1))(raw, y)
    np.testing.assert_allclose(losses, values, rtol=1e-10)
    np.testing.assert_allclose(grad, expected.T, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("damping", slow_but([0.0, 0.1], 0.1))
@pytest.mark.parametrize("kind", ["fisher", "em"])
def test_curvature_is_the_complete_data_fisher_information(name, kind, damping):
    """E[score score^T] of log(weight_z f_z(y)) over the component z and then over y."""
    raw, y = rows()
    curvature = Curvature(kind, damping)
    found = row_newton(outputs_of(name), curvature, jnp.asarray(raw), jnp.asarray(y))[2]
    for row in (0, 3):
        weights, resp = resp_of(name, raw[:, row], y[:, row])
        scores = np.eye(N_COMPONENTS) - weights  # of the logits, for each z
        own = np.diag(np.einsum("z,zi,zj->ij", weights, scores, scores)) + damping
        counts = (weights if kind == "fisher" else resp) + damping
        rest = counts[:, None] * fisher_of_components(name, raw[:, row])
        np.testing.assert_allclose(found[:, row], [*own, *rest.ravel()], rtol=1e-6)


@pytest.mark.parametrize("name", slow_but(DENSITIES, "logistic"))
def test_hessian_is_the_second_derivative_clipped(name):
    raw, y = rows()
    found = row_newton(outputs_of(name), Curvature("hessian"), jnp.asarray(raw), jnp.asarray(y))[2]
    second = jax.jit(jax.vmap(jax.hessian(lambda r, t: plain_nll(name, r, t)), in_axes=1))(raw, y)
    expected = np.maximum(np.diagonal(second, axis1=1, axis2=2), 1e-3)
    np.testing.assert_allclose(found, expected.T, rtol=1e-7)
    assert np.any(expected == 1e-3)  # a mixture's likelihood is not convex


def test_plain_and_scaled_gradients_have_curvature_one():
    raw, y = map(jnp.asarray, rows())
    _, plain, ones = row_newton(outputs_of("diag"), Curvature("none"), raw, y)
    _, scaled, same = row_newton(outputs_of("diag"), Curvature("scaled"), raw, y)
    assert np.all(np.asarray(ones) == 1)
    assert np.all(np.asarray(same) == 1)
    np.testing.assert_allclose(np.mean(np.asarray(scaled) ** 2, axis=1), 1.0, rtol=1e-10)
    ratio = np.asarray(plain) / np.asarray(scaled)
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[:, :1], ratio.shape), rtol=1e-10)


@pytest.mark.parametrize("kind", ["fisher", "em", "hessian"])
def test_units_and_weights_of_rows(kind):
    """The mean curvature is one, steps stay as they are, and a weight counts like repeated rows."""
    raw, y = rows()
    counts = np.array([1, 2, 3, 1, 2])
    outputs, curvature = outputs_of("diag"), Curvature(kind, 0.01)
    _, grad, positive = row_newton(outputs, curvature, jnp.asarray(raw), jnp.asarray(y))
    found = newton(outputs, curvature, *map(jnp.asarray, (raw, y, counts.astype(float))))
    total = np.asarray(found.curvature).sum(axis=1)
    np.testing.assert_allclose(total / counts.sum(), 1.0, rtol=1e-10)
    steps = np.asarray(found.grad).sum(axis=1) / total
    repeated = [
        np.repeat(np.asarray(part), counts, axis=1).sum(axis=1) for part in (grad, positive)
    ]
    np.testing.assert_allclose(steps, repeated[0] / repeated[1], rtol=1e-10)


def test_rates_multiply_steps_of_their_kind():
    raw, y = map(jnp.asarray, rows())
    outputs, ones = outputs_of("diag"), jnp.ones(ROWS)
    plain = newton(outputs, Curvature("em"), raw, y, ones)
    slow = newton(outputs, Curvature("em", weight_rate=0.3, scale_rate=0.1), raw, y, ones)
    rates = np.array([0.3] * 3 + [1.0, 1.0, 0.1, 0.1] * 3)
    np.testing.assert_allclose(slow.grad, np.asarray(plain.grad) * rates[:, None], rtol=1e-12)
    np.testing.assert_array_equal(slow.curvature, plain.curvature)


@pytest.fixture(scope="module", name="one_component")
def _one_component():
    """Raw outputs and targets of one Gaussian, with gradient / curvature of mean and log scale."""
    raw = np.random.default_rng(1).normal(size=(3, ROWS))
    y = np.random.default_rng(2).normal(size=(1, ROWS))
    outputs = Outputs(1, 1, DiagonalGaussian(scale_floor=0.0))
    _, grad, positive = row_newton(outputs, Curvature("fisher"), jnp.asarray(raw), jnp.asarray(y))
    return raw, y, np.asarray(grad[1:]) / np.asarray(positive[1:])


def test_one_component_takes_natural_gradient_steps(one_component):
    """F(mean) = 1/scale^2 and F(log scale) = 2 divide the gradients of a Normal."""
    (_, mean, log_scale), y, steps = one_component
    square = ((y[0] - mean) / np.exp(log_scale)) ** 2
    np.testing.assert_allclose(steps, [mean - y[0], (1 - square) / 2], rtol=1e-6)


@pytest.mark.slow  # importing ngboost takes seconds
@pytest.mark.filterwarnings("ignore")
def test_one_component_takes_the_steps_of_ngboost(one_component):
    """With one component, gradient / curvature is NGBoost's natural gradient of a Normal."""
    ngboost = pytest.importorskip("ngboost.distns")
    raw, y, steps = one_component
    score = next(kind for kind in ngboost.Normal.scores if "Log" in kind.__name__)
    manifold = type("NormalLogScore", (score, ngboost.Normal), {})(raw[1:])
    expected = manifold.grad(y[0], natural=True)
    np.testing.assert_allclose(steps.T, expected, rtol=1e-6)
