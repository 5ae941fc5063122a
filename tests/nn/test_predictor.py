"""The average of networks and its guard, against numpy and scipy."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ngem._defaults import CLIP_MARGIN
from ngem.nn import WIDTHS, Guard, Predictor, average, mixture_mlp

from .. import oracles
from ..cases import FAMILIES, families_but_slow, slow_but

KEY = jax.random.key(3)
GAUSSIANS = {name: FAMILIES[name] for name in ("diag", "full")}

SOME_FAMILIES = families_but_slow("full", "logistic")
BOTH_GAUSSIANS = pytest.mark.parametrize("case", GAUSSIANS.values(), ids=GAUSSIANS)

ARRAYS = {
    "log_weights": np.log([0.6, 0.2, 0.15, 0.05]),
    "slope": np.array([[1.0, -2.0, 0.5], [0.3, 0.0, 4.0]]),
    "intercept": np.array([0.5, -1.0]),
    "noise": np.array([0.1, 0.3]),
    "center": np.array([0.2, -0.1]),
    "widths": np.outer(np.square(WIDTHS), [1.0, 1.4]),
    "low": np.array([-1.0, 0.0, -2.0]),
    "high": np.array([1.0, 3.0, -2.0]),  # the last one is constant
    "unit": np.array([0.5, 2.0, 1.0]),
    "floor": np.array([-1.5, -1.0]),
    "ceiling": np.array([1.0, 0.5]),
}

#: Rows inside, at an edge, just outside and far away.
NEAR = [[0.0, 1.0, -2.0], [-1.0, 3.0, -2.0], [1.1, 1.0, -2.0]]
FAR = [1e6, 1e6, 1e6]
ROWS = np.array([*NEAR, [0.0, -7.0, 5.0], FAR])

Y = np.array([[0.0, 0.0], [0.7, -0.4], [-3.0, 2.0]])


def networks(case, n_members=3, dtype=float, seed=0, **settings):
    """Return small networks of three features and two targets, with outputs of some size."""
    settings = {"n_components": 2, "hidden_sizes": (5,), "family": case.family} | settings
    keys = jax.random.split(jax.random.fold_in(KEY, seed), n_members)
    members = [mixture_mlp(3, 2, key=key, **settings) for key in keys]

    def enlarged(leaf):
        return jnp.asarray(2 * np.asarray(leaf), dtype) if eqx.is_array(leaf) else leaf

    return [jax.tree.map(enlarged, member) for member in members]


def make_guard(dtype=float, **changes):
    return Guard(**{name: jnp.asarray(array, dtype) for name, array in (ARRAYS | changes).items()})


@eqx.filter_jit
def predict(network, x):
    return network(x)


def covariance(params):
    """Return the covariance of a Gaussian component."""
    full = params.scale.ndim == 2
    return params.scale @ params.scale.T if full else np.diag(params.scale**2)


def density(mixture, y):
    return np.exp(mixture.log_prob(jnp.asarray(y)))


def parts(mixture):
    """Return weight and parameters of each component, as numpy."""
    weights = np.exp(mixture.logits) / np.exp(mixture.logits).sum()
    components = [np.asarray(leaf) for leaf in mixture.components]
    kind = type(mixture.components)
    return [(w, kind(*leaves)) for w, *leaves in zip(weights, *components, strict=True)]


@SOME_FAMILIES
@pytest.mark.parametrize("n_members", slow_but([1, 3], 3))
def test_the_density_is_the_mean_of_the_members_densities(case, n_members):
    members = networks(case, n_members)
    predictor = average(members)
    for x, y in itertools.product(map(jnp.asarray, NEAR), Y):
        expected = np.mean(
            [
                sum(w * np.exp(case.scipy_logpdf(p, y)) for w, p in parts(predict(one, x)))
                for one in members
            ]
        )
        np.testing.assert_allclose(density(predict(predictor, x), y), expected, rtol=1e-10)


@pytest.mark.parametrize("settings", [{}, {"layer_norm": True}, {"separate": True}], ids=str)
def test_one_member_without_a_guard_is_the_network_itself(settings):
    (member,) = networks(FAMILIES["diag"], 1, **settings)
    predictor = average([member])
    for x in map(jnp.asarray, ROWS):
        found, expected = predict(predictor, x), predict(member, x)
        np.testing.assert_allclose(found.log_weights, expected.log_weights, rtol=1e-12)
        for left, right in zip(found.components, expected.components, strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-12)


@BOTH_GAUSSIANS
def test_the_guarded_density_is_its_definition(case):
    """Bounded components at clipped features, simple densities, weights by distance."""
    members, guard = networks(case), make_guard()
    predictor = average(members, guard)
    arrays = ARRAYS | {"stds": np.sqrt([ARRAYS["noise"], *ARRAYS["widths"]])}
    for x, y in itertools.product(ROWS, Y):
        inside = jnp.asarray(oracles.clipped(ARRAYS, x))
        components = [
            (weight / len(members), params.mean, covariance(params))
            for one in members
            for weight, params in parts(predict(one, inside))
        ]
        expected = oracles.guarded_density(arrays, components, x, y)
        found = density(predict(predictor, jnp.asarray(x)), y)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@SOME_FAMILIES
def test_weights_sum_to_one_everywhere(case):
    predictor = average(networks(case), make_guard())
    for x in map(jnp.asarray, ROWS):
        assert np.exp(predict(predictor, x).logits).sum() == pytest.approx(1, abs=1e-12)
        assert np.exp(predictor.guard.log_weights_at(x)).sum() == pytest.approx(1, abs=1e-12)


@SOME_FAMILIES
def test_far_outside_the_wide_densities_remain(case):
    mixture = predict(average(networks(case), make_guard()), jnp.asarray(FAR))
    std = np.sqrt(ARRAYS["widths"]) / case.standard().std()
    wide, wider = (case.standard(ARRAYS["center"], each) for each in std)
    for y in Y:
        expected = 0.95 * wide.pdf(y).prod() + 0.05 * wider.pdf(y).prod()
        np.testing.assert_allclose(density(mixture, y), expected, rtol=1e-6)


def test_weight_leaves_the_networks_with_distance():
    distances = np.array([0.0, 0.1, 1.0, 10.0, 1e3])
    # In standard deviations of the first feature, which is 0.5.
    rows = np.array([1.0, 1.0, -2.0]) + distances[:, None] * [0.5, 0, 0]
    guard = make_guard()
    found = jax.vmap(guard.distance)(jnp.asarray(rows))
    np.testing.assert_allclose(found, distances, atol=1e-12)
    log_weights = np.asarray(jax.vmap(guard.log_weights_at)(jnp.asarray(rows)))
    np.testing.assert_allclose(log_weights[0], ARRAYS["log_weights"], rtol=1e-12)
    assert np.all(np.diff(log_weights[:, :2], axis=0) < 0)
    assert np.all(np.diff(log_weights[:, 2]) > 0)
    np.testing.assert_array_equal(log_weights[:, 3], log_weights[0, 3])


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_inside_the_range_not_one_bit_of_a_feature_changes(dtype):
    guard = make_guard(dtype)
    low, high = np.asarray(guard.low), np.asarray(guard.high)
    random = low + (high - low) * np.random.default_rng(0).uniform(size=(100, 3)).astype(low.dtype)
    rows = jnp.asarray(np.concatenate([random, [low, high]]))
    clipped, distance = jax.jit(jax.vmap(lambda row: (guard.clip(row), guard.distance(row))))(rows)
    assert np.array_equal(clipped, rows)
    assert not np.any(distance)


def test_clipped_features_rise_smoothly_to_a_margin():
    guard = make_guard()
    value = lambda x: guard.clip(jnp.stack([x, jnp.ones(()), -2 * jnp.ones(())]))[0]  # noqa: E731
    each = jax.jit(jax.vmap(jax.value_and_grad(value)))
    grid = np.linspace(-8.0, 8.0, 4001)
    clipped = np.asarray(each(jnp.asarray(grid))[0])
    assert np.all(np.diff(clipped) > 0)
    assert np.all(np.diff(clipped) < 1.001 * (grid[1] - grid[0]))  # continuous
    margin = 0.5 * CLIP_MARGIN  # half a unit is the feature's standard deviation
    np.testing.assert_allclose(clipped[[0, -1]], [-1 - margin, 1 + margin], atol=1e-5)
    edges = [edge + step for edge in (-1.0, 1.0) for step in (-1e-9, 0.0, 1e-9)]
    np.testing.assert_allclose(each(jnp.asarray(edges))[1], 1, atol=1e-12)
    np.testing.assert_array_equal(each(jnp.asarray([1e3, 1e30]))[0], 1 + margin)


@SOME_FAMILIES
def test_means_and_scales_are_bounded_wherever_a_row_lies(case):
    predictor = average(networks(case), make_guard())
    for x in map(jnp.asarray, ROWS):
        mixture = predict(predictor, x)
        own = len(ARRAYS["log_weights"]) - 2  # the wide densities come last
        means = np.asarray(jax.vmap(case.family.mean)(mixture.components))[:-own]
        stds = np.sqrt(jax.vmap(case.family.variance)(mixture.components))[:-own]
        assert np.all((means >= ARRAYS["floor"]) & (means <= ARRAYS["ceiling"]))
        assert np.all(stds <= (ARRAYS["ceiling"] - ARRAYS["floor"]) * (1 + 1e-12))


@families_but_slow("full")
def test_jit_and_vmap_change_nothing(case):
    predictor, rows = average(networks(case), make_guard()), jnp.asarray(ROWS)
    mapped = eqx.filter_jit(lambda predictor, rows: jax.vmap(predictor)(rows))(predictor, rows)
    mapped = jax.tree.map(np.asarray, mapped)
    for index, x in enumerate(map(jnp.asarray, ROWS)):
        single = predictor(x)
        together = jax.tree.map(lambda leaf, index=index: leaf[index], mapped)
        for left, right in zip(jax.tree.leaves(together), jax.tree.leaves(single), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-14)


@SOME_FAMILIES
def test_extreme_features_are_finite_in_single_precision(case):
    predictor = average(networks(case, dtype=jnp.float32), make_guard(jnp.float32))
    for x in 1e12 * np.array([[1, 1, 1], [-1, 1, 0], [0, -1, 1]]):
        mixture = predict(predictor, jnp.asarray(x, jnp.float32))
        assert {leaf.dtype for leaf in jax.tree.leaves(mixture)} == {np.dtype("float32")}
        values = (mixture.log_prob(jnp.zeros(2, jnp.float32)), mixture.mean(), mixture.variance())
        assert all(np.all(np.isfinite(value)) for value in values)


def test_networks_without_weight_leave_a_density():
    log_weights = np.array([-np.inf, *np.log([0.5, 0.3, 0.2])])
    predictor = average(networks(FAMILIES["diag"]), make_guard(log_weights=log_weights))
    for x, y in itertools.product(map(jnp.asarray, ROWS), Y):
        assert np.isfinite(predict(predictor, x).log_prob(jnp.asarray(y)))


@SOME_FAMILIES
def test_members_with_the_guard_average_to_the_whole(case):
    """So that what one member predicts for its held-out rows is a part of the whole prediction."""
    predictor = average(networks(case), make_guard())
    for x, y in itertools.product(map(jnp.asarray, ROWS), Y):
        whole = density(predict(predictor, x), y)
        singles = [density(predict(predictor.subset([index]), x), y) for index in range(3)]
        np.testing.assert_allclose(np.mean(singles), whole, rtol=1e-10)


@SOME_FAMILIES
def test_members_give_way_to_the_density_of_the_targets_with_distance(case):
    """Inside they are alone, whatever the weights of the guard."""
    predictor = average(networks(case), make_guard())
    each = eqx.filter_jit(Predictor.each_at_distance)
    inside, far = jnp.asarray(NEAR[0]), jnp.asarray(FAR)
    std = np.sqrt(ARRAYS["widths"][0]) / case.standard().std()
    for y in Y:
        same = np.tile(y, (3, 1))
        members = density(average(networks(case)).each(inside), same)
        bounded = density(each(predictor, inside), same)
        assert np.all(np.isfinite(bounded))
        assert bounded.shape == members.shape == (3,)
        expected = case.standard(ARRAYS["center"], std).pdf(y).prod()
        np.testing.assert_allclose(density(each(predictor, far), same), expected, rtol=1e-6)


def test_sizes_are_those_of_all_members_and_the_guard():
    members = networks(FAMILIES["full"])
    alone, guarded = average(members), average(members, make_guard())
    assert (alone.n_members, alone.n_components, alone.dim) == (3, 6, 2)
    assert (guarded.n_members, guarded.n_components) == (3, 6 + 1 + len(WIDTHS))
    assert guarded(jnp.asarray(FAR)).n_components == guarded.n_components
    assert guarded.subset([1]).n_members == 1
    assert guarded.family == FAMILIES["full"].family
    shapes = {name: array.shape for name, array in vars(make_guard()).items()}
    assert Guard.shapes(3, 2) == shapes
