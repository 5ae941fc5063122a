"""Laws that hold for every family, against scipy, quadrature, autodiff and sampling."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, linalg

from ngem._defaults import COORDINATE_CHOICES
from ngem._types import LocationScale
from ngem.families import DiagonalGaussian, FullGaussian, Logistic
from ngem.geometry import CompleteDataFisher

from .. import oracles
from ..cases import FAMILIES, flat, random_params, unflat

KEY = jax.random.key(7)


@pytest.fixture(params=FAMILIES, name="case")
def _case(request):
    return FAMILIES[request.param]


def as_numpy(params):
    return LocationScale(*map(np.asarray, params))


def dense_fisher(case, params):
    """Minus the expected Hessian of the log density: autodiff, averaged by quadrature."""
    params = as_numpy(params)
    dim = params.mean.shape[0]
    full = isinstance(case.family, FullGaussian)

    def log_prob(vector, y):
        return case.family.log_prob(unflat(vector, dim, full=full), y)

    hessian = jax.jit(jax.vmap(jax.hessian(log_prob), in_axes=(None, 0)))
    vector = jnp.asarray(flat(params))
    if isinstance(case.family, Logistic):
        # Coordinates are independent, so one at a time with the others anywhere is enough.
        total = np.zeros((2 * dim, 2 * dim))
        nodes, weights = oracles.legendre_points(case.scipy_1d())
        for d in range(dim):
            y = np.tile(params.mean, (len(nodes), 1))
            y[:, d] += params.scale[d] * nodes
            mean = np.einsum("n,nij->ij", weights, hessian(vector, y))
            block = np.ix_([d, dim + d], [d, dim + d])
            total[block] = -mean[block]
        return total
    z, weights = oracles.hermite_points(dim)
    y = np.asarray(params.mean) + (z @ params.scale.T if full else z * params.scale)
    return -np.einsum("n,nij->ij", weights, hessian(vector, y))


def test_density_equals_scipys(case):
    for key in jax.random.split(KEY, 20):
        params = random_params(case.family, case.dim, key)
        y = np.asarray(jax.random.normal(key, (case.dim,))) * 3
        expected = case.scipy_logpdf(as_numpy(params), y)
        assert case.family.log_prob(params, jnp.asarray(y)) == pytest.approx(expected, rel=1e-12)


def test_density_integrates_to_one(case):
    params = random_params(case.family, 1, KEY)
    density = lambda y: float(jnp.exp(case.family.log_prob(params, jnp.array([y]))))  # noqa: E731
    centre, width = float(params.mean[0]), float(np.ravel(params.scale)[0])
    total, _ = integrate.quad(density, centre - 40 * width, centre + 40 * width, points=[centre])
    assert total == pytest.approx(1, abs=1e-8)


def test_samples_have_the_stated_moments(case):
    params = random_params(case.family, case.dim, KEY)
    keys = jax.random.split(KEY, 200_000)
    draws = np.asarray(jax.vmap(case.family.sample, in_axes=(None, 0))(params, keys))
    spread = np.sqrt(np.asarray(case.family.variance(params)))
    assert np.all(np.abs(draws.mean(0) - case.family.mean(params)) < 5 * spread / np.sqrt(2e5))
    covariance = np.asarray(case.family.covariance(params))
    error = np.abs(np.cov(draws.T) - covariance) / np.outer(spread, spread)
    assert error.max() < 0.02
    np.testing.assert_allclose(np.diag(covariance), case.family.variance(params), rtol=1e-12)


def test_fisher_solve_inverts_the_fisher_information(case):
    """Equation (21) and its counterparts: F by autodiff and quadrature times F^-1 g is g."""
    for key in jax.random.split(KEY, 4):
        params = random_params(case.family, case.dim, key)
        fisher = dense_fisher(case, params)
        grad = random_params(case.family, case.dim, jax.random.fold_in(key, 1))
        solved = flat(case.family.fisher_solve(params, grad, 1.0))
        np.testing.assert_allclose(fisher @ solved, flat(grad), rtol=2e-6, atol=1e-8)


def test_fisher_information_from_sampled_scores(case):
    """The same information as the second moment of the score, by sampling."""
    params = random_params(case.family, 2, KEY)
    full = isinstance(case.family, FullGaussian)
    draws = jax.vmap(case.family.sample, in_axes=(None, 0))(params, jax.random.split(KEY, 200_000))
    score = jax.grad(lambda v, y: case.family.log_prob(unflat(v, 2, full=full), y))
    scores = np.asarray(jax.vmap(score, in_axes=(None, 0))(jnp.asarray(flat(params)), draws))
    fisher = scores.T @ scores / len(scores)
    basis = [
        flat(case.family.fisher_solve(params, unflat(row, 2, full=full), 1.0))
        for row in jnp.eye(len(fisher))
    ]
    # In coordinates where F^-1 is the identity, so that the tolerance means the same everywhere.
    root = np.linalg.cholesky(np.array(basis).T)
    np.testing.assert_allclose(root.T @ fisher @ root, np.eye(len(fisher)), atol=0.05)


@pytest.mark.parametrize("power", [0.0, 0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("name", ["diag", "logistic"])
def test_fisher_solve_is_a_matrix_power(name, power):
    case = FAMILIES[name]
    params = random_params(case.family, 2, KEY)
    grad = random_params(case.family, 2, jax.random.fold_in(KEY, 1))
    expected = linalg.fractional_matrix_power(dense_fisher(case, params), -power) @ flat(grad)
    for strength in (power, jnp.asarray(power)):
        solved = flat(case.family.fisher_solve(params, grad, strength))
        np.testing.assert_allclose(solved, expected, rtol=1e-6)


def full_solve_matrix(params, power, coordinates="scale"):
    """Return what a full Gaussian multiplies gradients by."""
    dim = len(params.mean)
    solve = lambda row: FullGaussian().fisher_solve(  # noqa: E731
        params, unflat(row, dim, full=True), power, coordinates
    )
    basis = jnp.eye(dim + dim * (dim + 1) // 2)
    return np.stack([flat(solve(row)) for row in basis], axis=1)


@pytest.mark.parametrize("power", [0.0, 0.3, 0.5, 1.0])
def test_full_covariance_solve_in_coordinates_of_the_log_scale(power):
    """There the metric is J F J for the diagonal J: its inverse at 1, and symmetric in between."""
    dim = 3
    params = random_params(FullGaussian(), dim, KEY)
    rows, cols = np.tril_indices(dim)
    diagonal = np.where(rows == cols, np.asarray(params.scale)[rows, cols], 1.0)
    jacobian = np.concatenate([np.ones(dim), diagonal])
    solved = full_solve_matrix(params, power, "log_scale")
    raw = jacobian[:, None] * solved / jacobian  # from gradients of raw outputs to the same
    np.testing.assert_allclose(raw, raw.T, atol=1e-12)
    assert np.linalg.eigvalsh(raw).min() > 0
    if power == 1:
        fisher = dense_fisher(FAMILIES["full"], params) * np.outer(jacobian, jacobian)
        np.testing.assert_allclose(raw, np.linalg.inv(fisher), rtol=1e-6, atol=1e-8)
    if power == 0:
        np.testing.assert_array_equal(solved, np.eye(len(solved)))


@pytest.mark.parametrize("coordinates", COORDINATE_CHOICES)
def test_coordinates_of_full_and_diagonal_agree_on_diagonal_factors(coordinates):
    params = random_params(DiagonalGaussian(), 3, KEY)
    grad = random_params(DiagonalGaussian(), 3, jax.random.fold_in(KEY, 1))
    expected = DiagonalGaussian().fisher_solve(params, grad, 0.4, coordinates)
    wide = [LocationScale(p.mean, jnp.diag(p.scale)) for p in (params, grad)]
    solved = FullGaussian().fisher_solve(*wide, 0.4, coordinates)
    np.testing.assert_allclose(solved.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(jnp.diagonal(solved.scale), expected.scale, rtol=1e-12)


@pytest.mark.parametrize("power", [0.0, 0.3, 0.5, 1.0])
def test_full_covariance_solve_between_the_ends(power):
    """Symmetric, positive definite, F^-power on diagonal factors, equivariant to rescaling."""
    family, dim = FullGaussian(), 3
    params = random_params(family, dim, KEY)

    def matrix(params):
        return full_solve_matrix(params, power)

    dense = matrix(params)
    np.testing.assert_allclose(dense, dense.T, atol=1e-12)
    assert np.linalg.eigvalsh(dense).min() > 0

    stretch = jnp.array([0.1, 2.0, 30.0])
    scaled = LocationScale(params.mean * stretch, stretch[:, None] * params.scale)
    rows = np.concatenate([stretch, stretch[np.tril_indices(dim)[0]]]) ** power
    np.testing.assert_allclose(matrix(scaled), rows[:, None] * dense * rows, rtol=1e-9)

    diagonal = LocationScale(params.mean, jnp.diag(jnp.array([0.3, 1.0, 5.0])))
    fisher = dense_fisher(FAMILIES["full"], diagonal)
    expected = linalg.fractional_matrix_power(fisher, -power)
    np.testing.assert_allclose(matrix(diagonal), expected, rtol=1e-6, atol=1e-9)


def test_power_zero_changes_not_one_bit(case):
    params = random_params(case.family, case.dim, KEY)
    grad = random_params(case.family, case.dim, jax.random.fold_in(KEY, 1))
    for power, coordinates in itertools.product((0, 0.0, jnp.array(0.0)), COORDINATE_CHOICES):
        solved = case.family.fisher_solve(params, grad, power, coordinates)
        assert all(np.array_equal(a, b) for a, b in zip(solved, grad, strict=True))


@pytest.mark.parametrize(
    ("coordinates", "to", "back"),
    [
        ("log_scale", jnp.log, jnp.exp),
        # The variance up to one, the logarithm beyond.
        (
            "variance",
            lambda scale: jnp.where(scale < 1, scale**2 / 2, 0.5 + jnp.log(scale)),
            lambda other: jnp.where(
                other < 0.5, jnp.sqrt(2 * jnp.minimum(other, 0.5)), jnp.exp(other - 0.5)
            ),
        ),
    ],
)
def test_other_coordinates_give_the_natural_gradient_there(coordinates, to, back):
    """Solving in a function of the scale, with its own information, then mapping back, agrees."""
    plain = DiagonalGaussian()
    params = random_params(plain, 2, KEY)
    grad = random_params(plain, 2, jax.random.fold_in(KEY, 1))

    def log_prob(other, y):
        return plain.log_prob(LocationScale(params.mean, back(other)), y)

    z, weights = oracles.hermite_points(2)
    y = np.asarray(params.mean) + z * np.asarray(params.scale)
    hessian = jax.vmap(jax.hessian(log_prob), in_axes=(None, 0))(to(params.scale), y)
    fisher = -np.einsum("n,nij->ij", weights, hessian)
    change = jax.vmap(jax.grad(back))(to(params.scale))
    natural = np.linalg.solve(fisher, grad.scale * change)
    solved = plain.fisher_solve(params, grad, 1.0, coordinates)
    np.testing.assert_allclose(solved.scale * change, natural, rtol=1e-9)
    np.testing.assert_allclose(solved.mean, plain.fisher_solve(params, grad, 1.0).mean)


def test_constrain_and_unconstrain_are_inverses(case):
    for scale_map in ("exp", "softplus"):
        family = type(case.family)(scale_map=scale_map)
        raw = jax.random.normal(KEY, (family.num_raw(case.dim),))
        params = family.constrain(raw, case.dim)
        np.testing.assert_allclose(family.unconstrain(params), raw, rtol=1e-9)
        diagonal = params.scale if params.scale.ndim == 1 else np.diag(params.scale)
        assert np.all(diagonal > family.scale_floor)


def test_one_dimensional_cdf_and_quantile_equal_scipys(case):
    params = random_params(case.family, 1, KEY)
    reference = case.scipy_1d(float(params.mean[0]), float(np.ravel(params.scale)[0]))
    for q in (1e-9, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9):
        x = case.family.quantile(params, jnp.array(q))
        assert x == pytest.approx(reference.ppf(q), rel=1e-8)
        assert case.family.cdf(params, x[None]) == pytest.approx(q, rel=1e-8)


def test_marginal_has_the_marginal_moments(case):
    params = random_params(case.family, case.dim, KEY)
    for dims in ((1,), (2, 0)):
        part = case.family.marginal(params, dims)
        np.testing.assert_allclose(part.mean, params.mean[np.array(dims)])
        covariance = np.asarray(case.family.covariance(params))[np.ix_(dims, dims)]
        np.testing.assert_allclose(case.family.covariance(part), covariance, rtol=1e-12)


def test_jit_and_vmap_change_nothing(case):
    params = random_params(case.family, case.dim, KEY, (5,))
    y = jax.random.normal(KEY, (5, case.dim))
    mapped = jax.jit(jax.vmap(case.family.log_prob))(params, y)
    single = [
        case.family.log_prob(jax.tree.map(lambda leaf, i=i: leaf[i], params), y[i])
        for i in range(5)
    ]
    np.testing.assert_allclose(mapped, single, rtol=1e-14)


def test_large_full_covariance_uses_the_library_solve():
    dim = 40
    params = random_params(FullGaussian(), dim, KEY)
    params = params._replace(scale=params.scale * 0.1 + jnp.eye(dim))
    y = jax.random.normal(KEY, (dim,))
    expected = FAMILIES["full"].scipy_logpdf(as_numpy(params), y)
    assert FullGaussian().log_prob(params, y) == pytest.approx(expected, rel=1e-10)


def test_unknown_settings_are_refused():
    with pytest.raises(ValueError, match=r"scale_map must be one of 'exp', 'softplus', got 'relu'"):
        DiagonalGaussian(scale_map="relu")
    with pytest.raises(ValueError, match=r"coordinates must be one of 'scale', 'log_scale'"):
        CompleteDataFisher(DiagonalGaussian(), coordinates="precision")
