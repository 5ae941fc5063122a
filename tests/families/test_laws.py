"""Laws that hold for every family, against scipy, quadrature, autodiff and sampling."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import integrate, linalg

from ngem._defaults import COORDINATE_CHOICES
from ngem.families import FAMILY_NAMES, DiagonalGaussian, get_family

from .. import oracles
from ..cases import FAMILIES, families_but_slow, random_params, random_raw, slow_but

KEY = jax.random.key(7)
ELEMENTWISE = [
    name for name, case in FAMILIES.items() if case.family.takes_rows and case.is_on_line
]
CROSSED = ["logit-beta", "inverse-gaussian", "student-learned", "asymmetric-laplace"]
WITH_CRPS = [name for name, case in FAMILIES.items() if case.family.has_crps]

#: These differ from full and diagonal ones in what is shared, which files of their own test.
SHARING = ("tied", "spherical")

#: These have the laws of a base that has all of them itself.
LINKED = ("beta",)
SLOW = (*SHARING, *LINKED)
CASES = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in FAMILIES]

#: For families whose targets may be any numbers; others are bounded and widened as these are.
ON_LINE = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[pytest.mark.slow] * (name in SHARING))
        for name, case in FAMILIES.items()
        if case.is_on_line
    ],
)


@pytest.fixture(params=CASES, name="case")
def _case(request):
    return FAMILIES[request.param]


def as_numpy(params):
    return jax.tree.map(np.asarray, params)


def vector(tree):
    return np.asarray(ravel_pytree(tree)[0])


def test_density_equals_scipys(case):
    log_prob = jax.jit(case.family.log_prob)
    for key in jax.random.split(KEY, 20):
        params = random_params(case.family, case.dim, key)
        y = case.targets(np.asarray(jax.random.normal(key, (case.dim,))) * 3)
        expected = case.scipy_logpdf(as_numpy(params), y)
        assert log_prob(params, jnp.asarray(y)) == pytest.approx(expected, rel=1e-11, abs=1e-11)


def test_density_integrates_to_one(case):
    params = random_params(case.family, 1, KEY)
    density = jax.jit(lambda y: jnp.exp(case.family.log_prob(params, y[None])))
    quantile = jax.jit(case.family.quantile)
    ends = [float(quantile(params, jnp.array(q))) for q in (1e-10, 0.01, 0.5, 0.99, 1 - 1e-10)]
    parts = [
        integrate.quad(lambda y: float(density(jnp.asarray(y))), low, high)[0]
        for low, high in itertools.pairwise(ends)
    ]
    assert sum(parts) == pytest.approx(1, abs=1e-8)


@families_but_slow(
    *("diag", "full", "logistic", "laplace", "student", "gumbel", "lognormal", "gamma"),
    among=FAMILIES,
)
def test_samples_have_the_stated_moments(case):
    params = case.mild_params(case.dim, KEY)
    keys, root = jax.random.split(KEY, case.n_draws), np.sqrt(case.n_draws)
    draws = np.asarray(jax.jit(jax.vmap(case.family.sample, in_axes=(None, 0)))(params, keys))
    deviation = np.sqrt(np.asarray(case.family.variance(params)))
    assert np.all(np.abs(draws.mean(0) - case.family.mean(params)) < 5 * deviation / root)
    covariance = np.asarray(case.family.covariance(params))
    error = np.abs(np.cov(draws.T) - covariance) / np.outer(deviation, deviation)
    assert error.max() < 9 / root
    np.testing.assert_allclose(np.diag(covariance), case.family.variance(params), rtol=1e-12)


def test_parameters_from_moments_have_these_moments(case):
    mean, variance = map(jnp.array, case.moments)
    params = case.family.from_moments(mean, variance)
    np.testing.assert_allclose(case.family.mean(params), mean, rtol=1e-11)
    np.testing.assert_allclose(
        case.family.covariance(params), np.diag(variance), rtol=1e-10, atol=1e-12
    )


def test_fisher_solve_inverts_the_fisher_information(case):
    """Equation (21) and its counterparts.

    A natural gradient is a tangent vector. So the Jacobian of `constrain` carries the one that the
    Fisher information in raw outputs gives, by autodiff and quadrature, to the parameters.
    """
    if case.has_own_metric:
        pytest.skip("its laws are in a file of its own")
    dim = 2
    for key in jax.random.split(KEY, 2):
        raw = random_raw(case.family, dim, key)
        params = random_params(case.family, dim, key)
        grad = random_params(case.family, dim, jax.random.fold_in(key, 1))
        solved = jax.jit(case.family.fisher_solve, static_argnums=2)(params, grad, 1.0)
        jacobian = case.jacobian(raw, dim)
        step = np.linalg.solve(case.raw_fisher(raw, dim), jacobian.T @ vector(grad))
        np.testing.assert_allclose(jacobian @ step, vector(solved), rtol=1e-6, atol=1e-8)


def test_diagonal_in_raw_outputs_is_that_of_the_fisher_information(case):
    dim = 2
    raw = random_raw(case.family, dim, KEY)
    expected = np.diag(case.raw_fisher(raw, dim))
    diagonal = case.family.raw_fisher_diagonal(case.family.constrain(raw, dim))
    np.testing.assert_allclose(diagonal, expected, rtol=1e-6)


@families_but_slow("diag", "full", "logistic", "laplace", "student", among=FAMILIES)
def test_fisher_information_from_sampled_scores(case):
    """The same information as the second moment of the score, by sampling."""
    raw = random_raw(case.family, 2, KEY)
    sample = jax.jit(jax.vmap(case.family.sample, in_axes=(None, 0)))
    draws = sample(case.family.constrain(raw, 2), jax.random.split(KEY, case.n_draws))
    scores = np.asarray(case.scores(raw, draws))
    values, vectors = np.linalg.eigh(case.raw_fisher(raw, 2))
    seen = values > 1e-9 * values.max()
    # In coordinates where F is the identity, so that the tolerance means the same everywhere.
    scaled = scores @ vectors[:, seen] / np.sqrt(values[seen])
    sampled = scaled.T @ scaled / len(scores)
    np.testing.assert_allclose(sampled, np.eye(seen.sum()), atol=22 / np.sqrt(case.n_draws))
    # Where F is zero, as for turned factors of a low rank, no draw says anything.
    np.testing.assert_allclose(scores @ vectors[:, ~seen], 0, atol=1e-6)


@pytest.mark.parametrize("power", [0.0, 0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("name", [name for name in ELEMENTWISE if name not in SHARING])
def test_fisher_solve_is_a_matrix_power(name, power):
    case = FAMILIES[name]
    raw = random_raw(case.family, 1, KEY)
    params = case.family.constrain(raw, 1)
    grad = random_params(case.family, 1, jax.random.fold_in(KEY, 1))
    inverse = np.linalg.inv(case.jacobian(raw, 1))
    fisher = inverse.T @ case.raw_fisher(raw, 1) @ inverse
    expected = linalg.fractional_matrix_power(fisher, -power) @ vector(grad)
    for strength in (power, jnp.asarray(power)):
        solved = case.family.fisher_solve(params, grad, strength)
        np.testing.assert_allclose(vector(solved), expected, rtol=1e-6)


@pytest.mark.parametrize("coordinates", ["log_scale", "variance"])
@pytest.mark.parametrize("name", slow_but(CROSSED, "logit-beta"))
def test_a_cross_term_is_part_of_other_coordinates(name, coordinates):
    """F^-power in these coordinates, F by autodiff and quadrature."""
    case = FAMILIES[name]
    raw = random_raw(case.family, 1, KEY)
    params = case.family.constrain(raw, 1)
    grad = random_params(case.family, 1, jax.random.fold_in(KEY, 1))
    inverse = np.linalg.inv(case.jacobian(raw, 1))
    scale = float(params.scale[0])
    unit = scale if coordinates == "log_scale" or scale > 1 else 1 / scale
    change = np.ones(len(raw))
    change[1] = unit
    fisher = change[:, None] * (inverse.T @ case.raw_fisher(raw, 1) @ inverse) * change
    expected = linalg.fractional_matrix_power(fisher, -0.5) @ (change * vector(grad)) / change
    solved = case.family.fisher_solve(params, grad, 0.5, coordinates)
    np.testing.assert_allclose(vector(solved), expected, rtol=1e-6)


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
        return plain.log_prob(params._replace(scale=back(other)), y)

    z, weights = oracles.hermite_points(2)
    y = np.asarray(params.mean) + z * np.asarray(params.scale)
    hessian = jax.jit(jax.vmap(jax.hessian(log_prob), in_axes=(None, 0)))(to(params.scale), y)
    fisher = -np.einsum("n,nij->ij", weights, hessian)
    change = jax.vmap(jax.grad(back))(to(params.scale))
    natural = np.linalg.solve(fisher, grad.scale * change)
    solved = plain.fisher_solve(params, grad, 1.0, coordinates)
    np.testing.assert_allclose(solved.scale * change, natural, rtol=1e-9)
    np.testing.assert_allclose(solved.mean, plain.fisher_solve(params, grad, 1.0).mean)


def test_constrain_and_unconstrain_are_inverses(case):
    raw = random_raw(case.family, case.dim, KEY)
    params = random_params(case.family, case.dim, KEY)  # of the same raw outputs
    np.testing.assert_allclose(jax.jit(case.family.unconstrain)(params), raw, rtol=1e-9)
    assert np.all(case.family.scales(params) > case.family.scale_floor)


def test_scales_stay_between_their_floor_and_what_single_precision_can_square(case):
    for raw in (-1e30, -200.0, 200.0, 1e30):
        ends = jnp.full((case.family.num_raw(2),), raw, jnp.float32)
        scales = case.family.scales(case.family.constrain(ends, 2))
        assert np.all(scales >= np.float32(case.family.scale_floor))
        assert np.all(np.isfinite(scales**2))
    # Below the bound nothing is bounded: a prediction far from the data is as wide as it should be.
    raw = jnp.full((case.family.num_raw(1),), 39.0)
    scales = np.asarray(case.family.scales(case.family.constrain(raw, 1)))
    np.testing.assert_allclose(scales, np.exp(39.0), rtol=1e-6)


def test_the_first_axis_of_every_leaf_is_that_of_targets(case):
    for dim in (1, 3):
        params = random_params(case.family, dim, KEY)
        assert {leaf.shape[0] for leaf in jax.tree.leaves(params)} == {dim}


def test_rescaled_parameters_are_those_of_the_rescaled_target(case):
    params = random_params(case.family, case.dim, KEY, (2,))
    location, scale = np.array([1.0, -5.0, 0.0]), np.array([10.0, 0.5, 2.0])
    location = location if case.family.admits_shift else np.zeros(3)
    scale = scale if case.family.admits_scale else np.ones(3)
    y = case.targets(np.asarray(jax.random.normal(KEY, (2, case.dim))))
    log_prob = jax.jit(jax.vmap(case.family.log_prob))
    expected = log_prob(params, y) - np.sum(np.log(scale))
    rescale = lambda p: case.family.rescale(p, jnp.asarray(location), jnp.asarray(scale))  # noqa: E731
    on_device = jax.jit(jax.vmap(rescale))
    on_host = case.family.rescale(as_numpy(params), location, scale)  # with its leading axis
    for moved in (on_device(params), jax.tree.map(jnp.asarray, on_host)):
        np.testing.assert_allclose(log_prob(moved, location + scale * y), expected, rtol=1e-10)


@ON_LINE
def test_widened_components_have_at_least_the_scale_asked_for(case):
    params = random_params(case.family, case.dim, KEY)
    before, smallest = case.family.scales(params), jnp.array([1e-9, 1e3, 1e-9])
    after = case.family.widen(params, smallest)
    np.testing.assert_allclose(case.family.scales(after), np.maximum(before, smallest))
    np.testing.assert_array_equal(after.mean, params.mean)


@ON_LINE
def test_bounded_components_have_bounded_moments(case):
    """Each coordinate by itself; correlations stay."""
    params = random_params(case.family, case.dim, KEY)
    moments = jax.jit(
        lambda p: (case.family.mean(p), case.family.variance(p), case.family.covariance(p))
    )
    mean, variance, covariance = map(np.asarray, moments(params))
    std = np.sqrt(variance)
    low = mean + np.array([-9.0, 0.1, -0.5]) * std
    high = low + np.array([18.0, 1e3, 0.2]) * std  # the first is inside, the last too wide as well
    bounded = jax.jit(case.family.bound)(params, *map(jnp.asarray, (low, high)))
    bounded_mean, bounded_variance, bounded_covariance = map(np.asarray, moments(bounded))
    np.testing.assert_allclose(bounded_mean, np.clip(mean, low, high), rtol=1e-12)
    largest = high - low
    after = np.sqrt(bounded_variance)
    np.testing.assert_allclose(after, np.minimum(std, largest), rtol=1e-12)
    np.testing.assert_allclose(after[2], largest[2], rtol=1e-12)
    correlations = [
        each / np.outer(deviation, deviation)
        for each, deviation in ((covariance, std), (bounded_covariance, after))
    ]
    np.testing.assert_allclose(*correlations, rtol=1e-10, atol=1e-14)


@ON_LINE
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_a_bound_changes_not_one_bit_inside(case, dtype):
    params = random_params(case.family, case.dim, KEY, dtype=dtype)
    mean = case.family.mean(params)
    reach = 1 + jnp.abs(mean) + 9 * jnp.sqrt(case.family.variance(params))
    for low, high in ((-reach, reach), (mean, mean + reach)):
        bounded = case.family.bound(params, low, high)
        assert all(np.array_equal(a, b) for a, b in zip(bounded, params, strict=True))


@ON_LINE
def test_bounded_components_stay_finite_in_single_precision(case):
    low, high = jnp.array([-1.0, 0.0], jnp.float32), jnp.array([1.0, 3.0], jnp.float32)
    for raw in (200.0, 1e17):  # scales have a ceiling of their own, means and correlations none
        ends = jnp.full((case.family.num_raw(2),), raw, jnp.float32)
        bounded = case.family.bound(case.family.constrain(ends, 2), low, high)
        assert np.all(np.sqrt(case.family.variance(bounded)) <= (high - low) * (1 + 1e-6))
        assert np.isfinite(case.family.log_prob(bounded, low))


def test_one_dimensional_cdf_and_quantile_equal_scipys(case):
    params = random_params(case.family, 1, KEY)
    reference = case.scipy_1d(as_numpy(params))
    quantile, cdf = jax.jit(case.family.quantile), jax.jit(case.family.cdf)
    for q in (1e-9, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9):
        x = np.asarray(quantile(params, jnp.array(q)))
        assert x == pytest.approx(reference.ppf(q), rel=1e-8)
        assert cdf(params, jnp.asarray(x[None])) == pytest.approx(q, rel=1e-8)


@functools.cache
def quadrature(name):
    return oracles.product_points(FAMILIES[name].standard(), 1, 80)


@functools.cache
def mass_below(name, scale):
    """The integral of the distribution function up to 1.7."""
    return integrate.quad(FAMILIES[name].standard(0.3, scale).cdf, -60, 1.7)[0]


@functools.cache
def distances_of(name):
    family = FAMILIES[name].family
    return jax.jit(family.mean_distance), jax.jit(family.mean_distance_between)


@pytest.mark.parametrize("name", slow_but(WITH_CRPS, "diag", "full", "laplace"))
@pytest.mark.parametrize("ratio", [0.1, 0.95, 1.0, 1 + 1e-9, 3.0])
@pytest.mark.parametrize("offset", [0.0, 0.4, 30.0])
def test_mean_distances_equal_scipys(name, ratio, offset):
    """E|Y - y| by quadrature, and E|Y - Y'| as the expectation of that."""
    family, _standard = FAMILIES[name].family, FAMILIES[name].standard
    one = family.from_moments(jnp.array([0.3]), jnp.array([0.5]))
    other = family.rescale(one, jnp.array([offset]), jnp.array([ratio]))
    scale, location = float(family.scales(other)[0]), float(family.mean(other)[0])
    z, weights = quadrature(name)
    y = location + scale * z[:, 0]
    expected = 2 * mass_below(name, float(family.scales(one)[0])) - 1.7 + 0.3
    distance, between = distances_of(name)
    assert distance(one, jnp.asarray(1.7)) == pytest.approx(expected, rel=1e-7)
    distances = [distance(one, jnp.asarray(at)) for at in y]
    assert between(one, other) == pytest.approx(float(weights @ np.array(distances)), rel=2e-3)
    assert between(one, other) == pytest.approx(float(between(other, one)), rel=1e-12)


def test_marginal_has_the_marginal_moments(case):
    params = random_params(case.family, case.dim, KEY)
    for dims in ((1,), (2, 0)):
        part = case.family.marginal(params, dims)
        np.testing.assert_allclose(case.family.mean(part), case.family.mean(params)[np.array(dims)])
        covariance = np.asarray(case.family.covariance(params))[np.ix_(dims, dims)]
        np.testing.assert_allclose(case.family.covariance(part), covariance, rtol=1e-12)


def test_jit_and_vmap_change_nothing(case):
    params = random_params(case.family, case.dim, KEY, (5,))
    y = jnp.asarray(case.targets(np.asarray(jax.random.normal(KEY, (5, case.dim)))))
    mapped = jax.jit(jax.vmap(case.family.log_prob))(params, y)
    single = [
        case.family.log_prob(jax.tree.map(lambda leaf, i=i: leaf[i], params), y[i])
        for i in range(5)
    ]
    np.testing.assert_allclose(mapped, single, rtol=1e-14)


def test_families_by_name():
    for case in FAMILIES.values():
        family, covariance = case.family.names
        if family in FAMILY_NAMES:
            assert get_family(family, covariance) == case.family
    assert get_family("laplace", scale_floor=0.1).scale_floor == 0.1
    with pytest.raises(ValueError, match=r"family must be one of 'gaussian'.*got 'normal'"):
        get_family("normal")
    with pytest.raises(ValueError, match=r"covariance of family 'laplace' must be one of 'diag'"):
        get_family("laplace", "full")
