"""Classes with and without an order, against scikit-learn, sums over classes and sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import brier_score_loss

from ngem import MixtureBoostingRegressor
from ngem.families import get_family, settle_name
from ngem.mixture import Mixture

from ..cases import COUNTS, random_params
from .test_laws import as_numpy

KEY = jax.random.key(21)
NAMES = ("ordinal", "categorical")
WEIGHTS = np.array([0.6, 0.4])


def mixture_of(name):
    case = COUNTS[name]
    params = random_params(case.family, 1, KEY, (2,))
    laws = [case.law(jax.tree.map(lambda leaf, k=k: np.asarray(leaf)[k], params)) for k in (0, 1)]
    classes = np.arange(int(case.family.classes))
    chance = sum(w * law.pmf(classes) for w, law in zip(WEIGHTS, laws, strict=True))
    return Mixture(jnp.log(jnp.asarray(WEIGHTS)), params, case.family), classes, chance


@pytest.mark.parametrize("name", NAMES)
def test_probabilities_are_those_of_the_stick(name):
    case = COUNTS[name]
    params = random_params(case.family, 1, KEY)
    law = case.law(as_numpy(params))
    chance = case.family.probabilities(params)[0]
    np.testing.assert_allclose(chance, law.pmf(np.arange(len(chance))), rtol=1e-12)
    keys = jax.random.split(KEY, 20_000)
    draws = np.asarray(jax.vmap(case.family.sample, in_axes=(None, 0))(params, keys))[:, 0]
    seen = np.bincount(draws.astype(int), minlength=len(chance)) / len(draws)
    assert np.all(np.abs(seen - chance) < 5 * np.sqrt(np.asarray(chance) / len(draws)))


def test_moments_of_an_order_are_those_of_the_numbers():
    mixture, classes, chance = mixture_of("ordinal")
    mean = chance @ classes
    assert float(mixture.mean()[0]) == pytest.approx(mean, rel=1e-12)
    assert float(mixture.variance()[0]) == pytest.approx(chance @ (classes - mean) ** 2, rel=1e-12)


def test_names_have_a_most_probable_one_and_half_a_brier_score():
    mixture, classes, chance = mixture_of("categorical")
    best = int(np.argmax(chance))
    assert float(mixture.mean()[0]) == best
    assert float(mixture.variance()[0]) == pytest.approx(1 - chance[best], rel=1e-12)
    for y in classes:
        brier = np.sum((chance - (classes == y)) ** 2)
        assert float(mixture.crps(jnp.array([float(y)]))) == pytest.approx(brier / 2, rel=1e-10)
    two = get_family("categorical(2)")
    single = Mixture(jnp.zeros(1), random_params(two, 1, KEY, (1,)), two)
    rows = np.array([0.0, 1.0, 1.0])
    chance = np.full(3, np.exp(float(single.log_prob(jnp.array([1.0])))))
    score = np.mean([float(single.crps(jnp.array([y]))) for y in rows])
    assert score == pytest.approx(brier_score_loss(rows, chance), rel=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_a_start_from_rows_has_their_frequencies(name):
    family = get_family(f"{name}(3)")
    y = np.repeat([0.0, 1.0, 2.0], [500, 300, 200])[:, None]
    some = (jnp.asarray(y), jnp.ones(1000), jnp.asarray(y.mean(0)), jnp.asarray(y.var(0)))
    params = family.from_cluster(*some)
    np.testing.assert_allclose(family.probabilities(params)[0], [0.5, 0.3, 0.2], atol=2e-3)
    only = family.from_cluster(some[0], jnp.asarray(1.0 * (y[:, 0] == 1)), *some[2:])
    assert family.probabilities(only)[0, 1] > 0.99
    moments = family.from_moments(jnp.array([0.2, 1.8]), jnp.array([0.3, 0.3]))
    mean = family.probabilities(moments) @ jnp.arange(3.0)
    expected = [0.27, 1.73] if name == "ordinal" else [1, 1]
    np.testing.assert_allclose(mean, expected, atol=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_the_probability_of_intervals_of_classes(name):
    case = COUNTS[name]
    params = random_params(case.family, 1, KEY)
    law = case.law(as_numpy(params))
    ends = [(0.0, 0.0), (0.0, 2.0), (1.0, 3.0), (2.0, 1e4), (-1e4, 1e4)]
    found = jax.vmap(case.family.log_likelihood, in_axes=(None, 0))(params, jnp.array(ends))
    expected = [np.log(law.cdf(b) - law.cdf(a - 1)) for a, b in ends]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_number_of_classes_comes_from_the_targets():
    y = np.array([[0.0], [3.0], [1.0]])
    assert settle_name("ordinal", y) == "ordinal(4)"
    assert settle_name("ordinal(6)", y) == "ordinal(6)"
    mixed = settle_name(["gaussian", "categorical"], np.c_[y, y])
    assert mixed == ("gaussian", "categorical(4)")
    with pytest.raises(ValueError, match="classes of family 'ordinal' must be a whole number"):
        get_family("ordinal(1)")
    with pytest.raises(ValueError, match=r"y must be 0, 1, \.\.\. 3 .*got 0.5 in row 1"):
        get_family("ordinal(4)").check_targets(np.array([[0.0], [0.5]]))


@pytest.mark.trains
def test_trees_learn_classes_beside_an_amount():
    """Of a mixed table of targets, nearly the likelihood of the truth."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (700, 2))
    score = np.stack([2 * x[:, 0], np.zeros(700), 2 * x[:, 1]], axis=1)
    chance = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    label = np.array([rng.choice(3, p=row) for row in chance]).astype(float)
    y = np.c_[label, label + rng.normal(0, 0.3, 700)]
    model = MixtureBoostingRegressor(
        3,
        family=["categorical", "gaussian"],
        n_members=1,
        max_rounds=100,
        patience=15,
        random_state=0,
    ).fit(x[:500], y[:500])
    assert model.family_ == ("categorical(3)", "gaussian")
    truth = np.log(chance[np.arange(700), label.astype(int)]) - 0.5 * np.log(
        2 * np.pi * np.e * 0.09
    )
    assert truth[500:].mean() - model.log_prob(x[500:], y[500:]).mean() < 0.45
    predicted = model.predict(x[500:])[:, 0]
    assert set(predicted) <= {0.0, 1.0, 2.0}
    best = np.mean(np.argmax(chance[500:], axis=1) == label[500:])
    assert np.mean(predicted == label[500:]) > best - 0.1
    # A component is a class: given the amount, the class is nearly known.
    mixture = model.predict_distribution(x[500:])
    given = mixture.condition_on(1, y[500:, [1]].astype(np.float32))
    known = np.asarray(given.mean())[:, 0]
    assert np.mean(known == label[500:]) > 0.85
