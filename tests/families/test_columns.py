"""A family for each target column: what it says of each, against scipy and the families alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ngem.ensemble import guard
from ngem.families import Columns, get_family, order_columns, settle_name, split_columns
from ngem.mixture import Mixture

from ..cases import random_mixture, random_params

KEY = jax.random.key(3)
NAMES = ("gamma + 0:0.3", "poisson", "von-mises(360)", "gaussian")
FAMILY = get_family(NAMES)
Y = np.array([[0.0, 3.0, 350.0, -0.4], [1.7, 0.0, 20.0, 1.2], [0.4, 9.0, 181.0, 0.3]])


def parts(params):
    return zip(FAMILY.columns, params, strict=True)


def test_density_is_the_product_of_scipys():
    params = random_params(FAMILY, 4, KEY)
    (logit, (location, scale)), (rate,), (cosine, sine), (mean, std) = jax.tree.map(
        lambda leaf: float(leaf[0]), params
    )
    at_zero = 1 / (1 + np.exp(-logit))
    amount = stats.gamma(scale**-2, scale=np.exp(location) * scale**2)
    direction = stats.vonmises(np.hypot(cosine, sine), np.arctan2(sine, cosine))
    for y in Y:
        expected = (
            (np.log(at_zero) if y[0] == 0 else np.log1p(-at_zero) + amount.logpdf(y[0]))
            + stats.poisson(np.exp(rate)).logpmf(y[1])
            + direction.logpdf(np.deg2rad(y[2]))
            + np.log(np.pi / 180)
            + stats.norm(mean, std).logpdf(y[3])
        )
        assert FAMILY.log_prob(params, jnp.asarray(y)) == pytest.approx(expected, rel=1e-10)


def test_raw_outputs_are_those_of_the_columns_one_after_the_other():
    raw = jnp.linspace(-1, 1, FAMILY.num_raw(4))
    params = FAMILY.constrain(raw, 4)
    np.testing.assert_allclose(FAMILY.unconstrain(params), raw, rtol=1e-12)
    sizes = [family.num_raw(1) for family in FAMILY.columns]
    assert len(raw) == sum(sizes) == len(FAMILY.raw_kinds(4))
    for part, own, (family, _) in zip(
        jnp.split(raw, np.cumsum(sizes)[:-1]), params, parts(params), strict=True
    ):
        for one, other in zip(*map(jax.tree.leaves, (family.constrain(part, 1), own)), strict=True):
            np.testing.assert_array_equal(one, other)


def test_fisher_information_is_that_of_the_score():
    """By sampling: E[score^2] of each raw output; and the solve inverts it, block by block."""
    params = random_params(FAMILY, 4, KEY)
    raw = FAMILY.unconstrain(params)
    draws = jax.vmap(FAMILY.sample, in_axes=(None, 0))(params, jax.random.split(KEY, 20_000))
    score = jax.jit(
        jax.vmap(jax.grad(lambda raw, y: FAMILY.log_prob(FAMILY.constrain(raw, 4), y)), (None, 0))
    )(raw, draws)
    squares = np.asarray(score) ** 2
    error = squares.std(axis=0) / np.sqrt(len(squares))
    gap = squares.mean(axis=0) - FAMILY.raw_fisher_diagonal(params)
    assert np.all(np.abs(gap) < 5 * error)
    grad = random_params(FAMILY, 4, jax.random.key(5))
    solved = FAMILY.fisher_solve(params, grad, 0.7)
    each = [
        family.fisher_solve(own, part, 0.7)
        for (family, own), part in zip(parts(params), grad, strict=True)
    ]
    assert jax.tree.all(jax.tree.map(jnp.array_equal, solved, tuple(each)))


def test_a_mixture_of_columns_has_the_mixtures_of_each_column_as_marginals():
    mixture = random_mixture(FAMILY, KEY, batch=(3,), dim=4)
    y = jnp.asarray(Y)
    assert (mixture.dim, mixture.mean().shape, mixture.variance().shape) == (4, (3, 4), (3, 4))
    for place, family in enumerate(FAMILY.columns):
        alone = Mixture(mixture.logits, mixture.components[place], family)
        column = mixture.marginal(place)
        assert column.family == family
        np.testing.assert_allclose(mixture.mean()[:, place], alone.mean()[:, 0], rtol=1e-12)
        np.testing.assert_allclose(mixture.variance()[:, place], alone.variance()[:, 0], rtol=1e-12)
        np.testing.assert_array_equal(column.log_prob(y[:, place]), alone.log_prob(y[:, place]))


def test_conditional_density_times_marginal_is_the_joint_one():
    mixture = random_mixture(FAMILY, KEY, batch=(3,), dim=4)
    given, rest = (2, 0), (1, 3)
    y = jnp.asarray(Y)
    conditional = mixture.condition_on(given, y[:, given])
    product = mixture.marginal(given).log_prob(y[:, given]) + conditional.log_prob(y[:, rest])
    np.testing.assert_allclose(product, mixture.log_prob(y), rtol=1e-10)


def test_intervals_are_those_of_the_columns():
    family = get_family(("gaussian", "poisson"))
    params = random_params(family, 2, KEY)
    (mean, std), (rate,) = jax.tree.map(lambda leaf: float(leaf[0]), params)
    found = family.log_observed(params, jnp.array([0.1, 2.0]), jnp.array([0.1, 5.0]))
    poisson = stats.poisson(np.exp(rate))
    expected = stats.norm(mean, std).logpdf(0.1) + np.log(poisson.cdf(5) - poisson.cdf(1))
    assert found == pytest.approx(expected, rel=1e-10)


def test_only_columns_that_admit_it_are_shifted_and_scaled():
    shifts, scales = FAMILY.unit_changes(4)
    assert shifts.tolist() == [False, False, False, True]
    assert scales.tolist() == [True, False, False, True]
    params = random_params(FAMILY, 4, KEY)
    location, scale = np.array([0.0, 0.0, 0.0, 2.0]), np.array([3.0, 1.0, 1.0, 5.0])
    moved = FAMILY.rescale(params, jnp.asarray(location), jnp.asarray(scale))
    y = location + scale * Y[1]
    assert FAMILY.rescaled(location, scale).log_prob(moved, jnp.asarray(y)) == pytest.approx(
        float(FAMILY.log_prob(params, jnp.asarray(Y[1]))) - np.log(15), rel=1e-10
    )


def test_the_guard_beside_columns_leaves_rows_out_as_it_does_for_each_column():
    """A shift changes the shape of a count's distribution, so it must not be taken for one."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 1))
    y = np.c_[rng.poisson(3.0, 60), rng.normal(size=60)].astype(float)
    names = ("poisson", "gaussian")

    def left_out(family, y):
        rows = guard.Rows(x, y, np.ones(60))
        linear, error = guard._fit_linear(rows)
        simple = guard._make_guard(rows, linear, error, 4.0)
        return guard._left_out_log_densities(family, simple, rows, error)

    each = [left_out(get_family(name), y[:, [place]]) for place, name in enumerate(names)]
    joint = left_out(get_family(names), y)
    # The penalty of the linear model is chosen for both columns together.
    np.testing.assert_allclose(joint[:, 1:], (each[0] + each[1])[:, 1:], rtol=2e-4, atol=1e-4)


def test_links_and_atoms_are_those_of_each_column():
    family = get_family(["lognormal", "gaussian + 2"])
    y = np.array([[1.0, 2.0], [np.e, 1.0]])
    np.testing.assert_allclose(family.link.forward(y), [[0, 2], [1, 1]])
    np.testing.assert_allclose(family.link.forward(np.c_[y, y]), [[0, 2, 0, 2], [1, 1, 1, 1]])
    np.testing.assert_allclose(family.link.backward(family.link.forward(y)), y)
    np.testing.assert_allclose(family.link.log_slope(y), [[0, 0], [-1, 0]])
    assert family.is_atom(y).tolist() == [[False, True], [False, False]]
    assert family.base.columns[0] == get_family("gaussian")
    assert FAMILY.base is FAMILY


def test_a_column_of_impossible_targets_is_named():
    with pytest.raises(ValueError, match="column 1 of y must be whole numbers"):
        FAMILY.check_targets(np.array([[1.0, 0.5, 3.0, 0.0]]))
    with pytest.raises(ValueError, match="one distribution for each of 2 target columns, got 4"):
        FAMILY.check_targets(Y[:, :2])


def test_families_of_columns_in_three_spellings():
    by_name = {"visits": "poisson", "loss": "student(df=4)"}
    text = "visits=poisson, loss=student(df=4)"
    assert split_columns(text) == tuple(by_name.items())
    for given in (by_name, text, ["student(df=4)", "poisson"]):
        assert order_columns(given, ["loss", "visits"]) == ("student(df=4)", "poisson")
    assert order_columns("student(df=4)", ["loss", "visits"]) == "student(df=4)"
    assert order_columns({"loss": "gamma"}, ["loss"]) == "gamma"
    settled = settle_name(["gamma + 0", "poisson"], np.array([[0.0, 1.0], [2.0, 0.0]]))
    assert settled == ("gamma + 0:0.5", "poisson")
    assert isinstance(get_family(settled), Columns)


@pytest.mark.parametrize(
    ("given", "names", "message"),
    [
        ({"loss": "gamma"}, ["loss", "visits"], "each of 2 target columns once"),
        ({"loss": "gamma", "x": "gamma"}, ["loss", "visits"], "loss, visits"),
        ({"loss": "gamma", "x": "gamma"}, [None, None], "unknown names"),
        (["gamma"], ["loss", "visits"], "got 1"),
        ("loss=gamma,poisson", ["loss", "visits"], "must be column=family"),
    ],
)
def test_families_that_do_not_fit_the_columns_are_refused(given, names, message):
    with pytest.raises(ValueError, match=message):
        order_columns(given, names)


def test_a_covariance_beside_families_of_columns_is_refused():
    with pytest.raises(ValueError, match="covariance of a family for each column"):
        get_family(["gaussian", "gaussian"], "full")
