"""Laws of counts and of atoms, against scipy, sums over integers, autodiff and sampling."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, linalg

from ngem.families import Inflated, get_family, settle_name
from ngem.mixture import Mixture
from ngem.objectives import NLL

from ..cases import ATOMS, COUNTS, random_params, random_raw, slow_but
from .test_laws import as_numpy, vector

KEY = jax.random.key(11)
BOTH = {**COUNTS, **ATOMS}


def integers(law, reach=1e-16):
    """All integers that have a probability worth counting."""
    return np.arange(int(min(law.isf(reach), 1e6)) + 2.0)


def raw_fisher(case, raw):
    """E[score score^T] in raw outputs of one coordinate, from autodiff."""
    law = case.law(as_numpy(case.family.constrain(raw, 1)))
    y, weights = case.points(law)
    scores = np.asarray(case.scores(raw, y[:, None]))
    return np.einsum("n,ni,nj->ij", weights, scores, scores)


@pytest.mark.parametrize("name", slow_but(list(COUNTS), "negative-binomial"))
def test_probabilities_equal_scipys_and_add_up_to_one(name):
    case = COUNTS[name]
    ask = jax.jit(jax.vmap(case.family.log_prob, in_axes=(None, 0)))
    for key in jax.random.split(KEY, 3):
        params = random_params(case.family, 1, key)
        law = case.law(as_numpy(params))
        y = integers(law)
        log_prob = np.asarray(ask(params, jnp.asarray(y[:, None])))
        np.testing.assert_allclose(log_prob, law.logpmf(y), rtol=1e-9, atol=1e-10)
        assert np.exp(log_prob).sum() == pytest.approx(1, abs=1e-12)
    for impossible in (-1.0, 0.5, np.nan):
        assert ask(params, jnp.array([[impossible]]))[0] == -np.inf


@pytest.mark.parametrize("name", slow_but(list(COUNTS), "poisson"))
def test_cdf_and_quantiles_equal_scipys(name):
    family = COUNTS[name].family
    params = random_params(family, 1, KEY)
    law = COUNTS[name].law(as_numpy(params))
    y = np.arange(-1.0, 6.0)
    for method, shift in ((family.cdf, 0), (family.cdf_before, 1)):
        found = jax.jit(jax.vmap(method, in_axes=(None, 0)))(params, jnp.asarray(y[:, None]))
        np.testing.assert_allclose(found, law.cdf(y - shift), rtol=1e-9, atol=1e-12)
    q = np.array([1e-9, 0.01, 0.3, 0.5, 0.9, 0.999, 1 - 1e-9])
    found = jax.jit(jax.vmap(family.quantile, in_axes=(None, 0)))(params, jnp.asarray(q))
    np.testing.assert_array_equal(found, law.ppf(q))


@pytest.mark.parametrize("name", slow_but(list(BOTH), "negative-binomial", "zero-inflated gamma"))
def test_the_fisher_information_is_that_of_autodiff(name):
    """By a sum over integers, and by quadrature beside an atom; fractional powers too."""
    case = BOTH[name]
    raw = random_raw(case.family, 1, KEY)
    params = case.family.constrain(raw, 1)
    fisher = raw_fisher(case, raw)
    np.testing.assert_allclose(
        case.family.raw_fisher_diagonal(params), np.diag(fisher), rtol=1e-6, atol=1e-12
    )
    inverse = np.linalg.inv(case.jacobian(raw, 1))
    fisher = inverse.T @ fisher @ inverse
    np.testing.assert_allclose(fisher, np.diag(np.diag(fisher)), atol=1e-8 * np.max(fisher))
    grad = random_params(case.family, 1, jax.random.fold_in(KEY, 1))
    for power in (0.0, 0.5, 1.0):
        expected = linalg.fractional_matrix_power(fisher, -power) @ vector(grad)
        for strength in (power, jnp.asarray(power)):
            solved = case.family.fisher_solve(params, grad, strength)
            np.testing.assert_allclose(vector(solved), expected, rtol=1e-6)


@pytest.mark.parametrize("mean", slow_but([1e-3, 0.4, 20.0, 3e3], 0.4))
@pytest.mark.parametrize("scale", slow_but([1e-2, 0.3, 2.0, 8.0], 2.0))
def test_the_information_of_the_dispersion_is_its_sum(mean, scale):
    """Fisher's series for 1 / scale^2, which the quadrature replaces."""
    family, r = COUNTS["negative-binomial"].family, scale**-2
    params = family.from_moments(jnp.array([mean]), jnp.array([mean + (scale * mean) ** 2]))
    law = COUNTS["negative-binomial"].law(as_numpy(params))
    r = float(params.scale[0]) ** -2
    j = np.arange(1.0, min(float(law.isf(1e-15)), 2e6) + 60)
    series = np.sum(law.sf(j) * r * j / ((r + j) ** 2 * (r + j - 1)))
    assert family.information(params)[1][0] == pytest.approx(4 * series, rel=3e-6)


@pytest.mark.parametrize(
    "name", slow_but([name for name, case in BOTH.items() if case.moments], "binomial")
)
def test_moments_samples_and_starts_agree(name):
    case, n_draws = BOTH[name], 20_000
    mean, variance = map(jnp.array, case.moments)
    params = case.family.from_moments(mean, variance)
    np.testing.assert_allclose(case.family.mean(params), mean, rtol=1e-9)
    np.testing.assert_allclose(case.family.variance(params), variance, rtol=1e-8)
    np.testing.assert_allclose(case.family.covariance(params), np.diag(variance), rtol=1e-8)
    draw = jax.jit(jax.vmap(case.family.sample, in_axes=(None, 0)))
    draws = np.asarray(draw(params, jax.random.split(KEY, n_draws)))
    std = np.sqrt(np.asarray(variance))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * std / np.sqrt(n_draws))
    assert np.all(np.abs(draws.std(axis=0) / std - 1) < 0.1)
    np.testing.assert_allclose(
        case.family.unconstrain(case.family.constrain(case.family.unconstrain(params), 3)),
        case.family.unconstrain(params),
        rtol=1e-9,
    )


def mixture_of(name, weights=(0.6, 0.4)):
    case = COUNTS[name]
    params = random_params(case.family, 1, KEY, (2,))
    laws = [case.law(jax.tree.map(lambda leaf, k=k: np.asarray(leaf)[k], params)) for k in (0, 1)]
    y = np.arange(max(integers(law).max() for law in laws) + 1)
    mass = sum(w * law.pmf(y) for w, law in zip(weights, laws, strict=True))
    return Mixture(jnp.log(jnp.array(weights)), params, case.family), y, mass


@pytest.mark.parametrize("name", slow_but(list(COUNTS), "poisson"))
def test_mixtures_of_counts_by_sums(name):
    """CRPS, quantiles, smallest sets, modes and the randomized PIT, from all probabilities."""
    mixture, y, mass = mixture_of(name)
    below = np.cumsum(mass)
    for at in (0.0, 2.0, 9.0) if name != "categorical" else ():
        expected = np.sum((below - (y >= at)) ** 2) + max(at - len(y), 0)
        assert float(mixture.crps(jnp.array([at]))) == pytest.approx(expected, rel=1e-7)
    levels = np.array([0.05, 0.5, 0.9])
    expected = [np.argmax(below >= level) for level in levels]
    np.testing.assert_array_equal(mixture.quantile(jnp.asarray(levels)), expected)
    region = np.asarray(mixture.interval(0.8))
    inside = np.zeros(len(y), bool)
    for first, last in region[~np.isnan(region[:, 0])]:
        inside |= (y >= first) & (y <= last)
    order = np.argsort(-mass)
    smallest = np.argmax(np.cumsum(mass[order]) >= 0.8 * (1 - 1e-6)) + 1
    assert mass[inside].sum() >= 0.8 * (1 - 1e-6)
    assert inside.sum() == smallest
    expected = mass[mass >= mass[1] * (1 - 1e-12)].sum()
    assert float(mixture.region_mass(jnp.array([1.0]))) == pytest.approx(expected, rel=1e-6)
    assert float(mixture.modes()[0]) == order[0]


@pytest.mark.parametrize("name", slow_but(list(ATOMS)))
def test_mixtures_with_atoms(name):
    """Distribution function, quantiles, CRPS and regions, from probabilities and scipy."""
    case = ATOMS[name]
    params = random_params(case.family, 1, KEY, (2,))
    mixture = Mixture(jnp.log(jnp.array([0.7, 0.3])), params, case.family)
    laws = [case.law(jax.tree.map(lambda leaf, k=k: np.asarray(leaf)[k], params)) for k in (0, 1)]
    cdf = lambda y: sum(w * law.cdf(y) for w, law in zip((0.7, 0.3), laws, strict=True))  # noqa: E731
    for atom in case.family.atoms:
        before, at = (float(f(jnp.array([atom]))) for f in (mixture.cdf_before, mixture.cdf))
        assert at == pytest.approx(cdf(atom), rel=1e-9)
        assert at - before == pytest.approx(
            sum(w * law.mass(atom) for w, law in zip((0.7, 0.3), laws, strict=True)), rel=1e-9
        )
        assert float(mixture.quantile(0.5 * (before + at))) == atom
        assert any(ends[0] <= atom <= ends[1] for ends in np.asarray(mixture.interval(0.9)))
    levels = np.linspace(0.02, 0.98, 25)
    quantiles = np.asarray(mixture.quantile(jnp.asarray(levels)))
    assert np.all(np.diff(quantiles) >= 0)
    is_smooth = ~np.isin(quantiles, case.family.atoms)
    np.testing.assert_allclose([cdf(x) for x in quantiles[is_smooth]], levels[is_smooth], rtol=1e-6)
    low, high = laws[0].ends
    at = float(quantiles[15])
    pieces = sorted({low, *case.family.atoms, at, *quantiles.tolist(), high})
    expected = sum(
        integrate.quad(lambda y: (cdf(y) - (y >= at)) ** 2, *ends)[0]
        for ends in itertools.pairwise(pieces)
    )
    assert float(mixture.crps(jnp.array([at]))) == pytest.approx(expected, rel=1e-5)
    region = np.asarray(mixture.interval(0.8))
    region = region[~np.isnan(region[:, 0])]
    mass = sum(
        float(mixture.cdf(jnp.array([b]))) - float(mixture.cdf_before(jnp.array([a])))
        for a, b in region
    )
    assert mass == pytest.approx(0.8, abs=1e-5) or len(region) == len(case.family.atoms)


@pytest.mark.parametrize("name", slow_but(list(BOTH), "negative-binomial"))
def test_extremes_are_finite_in_single_precision(name):
    family = BOTH[name].family
    ask = jax.jit(jax.value_and_grad(lambda raw, y: family.log_prob(family.constrain(raw, 1), y)))
    for raw in (-15.0, 15.0) if name in ATOMS else (-1e30, -60.0, 60.0, 1e30):
        ends = jnp.full((family.num_raw(1),), raw, jnp.float32)
        for target in (0.0, 1.0, 1e6):
            y = jnp.array([BOTH[name].nearest(target)], jnp.float32)
            loss, grad = ask(ends, y)
            assert np.isfinite([loss, *grad]).all(), (raw, target)
        solved = family.fisher_solve(family.constrain(ends, 1), family.constrain(ends, 1), 0.5)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(solved))


@pytest.mark.parametrize("name", slow_but(list(COUNTS), "poisson"))
def test_expected_gradients_vanish_at_the_truth(name):
    """Unbiased with weights 0.8, 0.15 and 0.05."""
    case = COUNTS[name]
    raw = random_raw(case.family, 1, KEY, (3,))
    logits, weights = jnp.log(jnp.array([0.8, 0.15, 0.05])), np.array([0.8, 0.15, 0.05])
    params = [as_numpy(case.family.constrain(row, 1)) for row in raw]
    y = np.arange(max(integers(case.law(one)).max() for one in params) + 1)
    y = y[y <= case.family.most]
    mass = sum(w * case.law(p).pmf(y) for w, p in zip(weights, params, strict=True))

    def loss(logits, raw):
        components = jax.vmap(lambda row: case.family.constrain(row, 1))(raw)
        each = jax.vmap(lambda y: NLL().loss(case.family, logits, components, y))
        return jnp.sum(jnp.asarray(mass) * each(jnp.asarray(y)[:, None]))

    for grad in jax.jit(jax.grad(loss, argnums=(0, 1)))(logits, raw):
        np.testing.assert_allclose(grad, 0, atol=1e-9)


def test_the_probability_of_censored_counts():
    case = COUNTS["poisson"]
    params = random_params(case.family, 1, KEY)
    law = case.law(as_numpy(params))
    ends = [(0.0, 0.0), (0.0, 3.0), (2.0, 5.0), (4.0, 1e4), (1.5, 2.5), (-1e4, 1e4)]
    ask = jax.jit(jax.vmap(case.family.log_likelihood, in_axes=(None, 0)))
    expected = [np.log(law.cdf(np.floor(b)) - law.cdf(np.ceil(a) - 1)) for a, b in ends]
    np.testing.assert_allclose(ask(params, jnp.array(ends)), expected, atol=1e-9)
    family = COUNTS["negative-binomial"].family
    params = random_params(family, 1, KEY)
    with pytest.raises(NotImplementedError, match="counts of family 'negative-binomial' must be"):
        family.log_likelihood(params, jnp.array([0.0, 3.0]))


@pytest.mark.slow
def test_the_probability_of_censored_targets_with_an_atom():
    case = ATOMS["zero-inflated gamma"]
    params = random_params(case.family, 1, KEY)
    law = case.law(as_numpy(params))
    ends = [(0.0, 0.0), (0.0, 1.0), (0.5, 2.0), (-1e30, 1.5)]
    ask = jax.jit(jax.vmap(case.family.log_likelihood, in_axes=(None, 0)))
    expected = [law.mass(0.0), law.cdf(1.0), law.cdf(2.0) - law.cdf(0.5), law.cdf(1.5)]
    np.testing.assert_allclose(ask(params, jnp.array(ends)), np.log(expected), rtol=1e-6)
    masses = jax.vmap(case.family.log_mass, in_axes=(None, 0, 0))
    found = masses(params, jnp.array([[0.0], [0.5]]), jnp.array([[1.0], [2.0]]))
    np.testing.assert_allclose(found, np.log(expected[1:3]), rtol=1e-6)


def test_targets_that_are_no_counts_are_refused():
    with pytest.raises(ValueError, match=r"y must be whole numbers from 0 on .*got 1.5 in row 1"):
        get_family("poisson").check_targets(np.array([[1.0], [1.5]]))
    with pytest.raises(ValueError, match=r"y must be 0, 1, \.\.\. 4 .*got 5 in row 0"):
        get_family("binomial(4)").check_targets(np.array([[5.0]]))
    with pytest.raises(ValueError, match="trials of family 'binomial' must be a whole number"):
        get_family("binomial(2.5)")
    with pytest.raises(ValueError, match=r"y must be above 0 for family='gamma'.*got -1 in row 1"):
        get_family("zero-inflated gamma").check_targets(np.array([[0.0], [-1.0]]))


def test_atoms_by_name():
    family = get_family("logitnormal(0, 10) + 0 + 10:0.3")
    assert isinstance(family, Inflated)
    assert family.atoms == (0.0, 10.0)
    assert family.name == "logitnormal + 10 + 0"
    assert get_family("zero-inflated gamma") == get_family("gamma + 0")
    y = np.array([[0.0], [0.0], [10.0], [3.0]])
    assert settle_name("logitnormal(0, 10) + 0 + 10", y) == "logitnormal(0, 10) + 0:0.5 + 10:0.5"
    with pytest.raises(ValueError, match=r"a number must follow each \+ of a family, got 'zero'"):
        get_family("gamma + zero")
    with pytest.raises(ValueError, match=r"an atom must stand beside a density .*got 'poisson'"):
        get_family("zero-inflated poisson")
    with pytest.raises(ValueError, match=r"atoms must differ, got 0 twice"):
        get_family("gamma + 0 + 0")


def test_a_start_from_rows_finds_the_atom():
    family = get_family("zero-inflated lognormal")
    rng = np.random.default_rng(0)
    y = np.where(rng.random(4000) < 0.3, 0.0, rng.lognormal(1.0, 0.5, 4000))[:, None]
    params = family.from_cluster(
        jnp.asarray(y), jnp.ones(4000), jnp.asarray(y.mean(0)), jnp.asarray(y.var(0))
    )
    assert jax.nn.sigmoid(params.logit[0]) == pytest.approx(0.3, abs=0.03)
    np.testing.assert_allclose(params.rest.mean, 1.0, atol=0.05)
    np.testing.assert_allclose(params.rest.scale, 0.5, atol=0.05)
