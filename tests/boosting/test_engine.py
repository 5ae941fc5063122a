"""Rounds of trees: laws of single steps against scikit-learn, and of whole fits."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from ngem.boosting import (
    Curvature,
    Outputs,
    Plan,
    Rows,
    TreeSettings,
    boost,
    marginal_start,
    row_nll,
)
from ngem.families import DiagonalGaussian

pytest.importorskip("lightgbm")

FAMILY = DiagonalGaussian(scale_floor=1e-6)
TRUE_WEIGHTS, TRUE_MEANS = np.array([0.8, 0.15, 0.05]), np.array([-2.0, 1.0, 4.0])


def raw_of(weights, means, scales):
    """Return raw outputs of a one-dimensional mixture: logits, then mean and log scale of each."""
    return np.concatenate([np.log(weights), np.column_stack([means, np.log(scales)]).ravel()])


def rows_of(trees, x, y):
    return Rows(
        trees.bin_rows(x, [], 1),
        np.ascontiguousarray(np.atleast_2d(y).astype(np.float32)),
        np.ones(len(x), np.float32),
    )


def run(trees, x, y, start, *, rounds, curvature="em", threads=1, seed=0, **settings):
    outputs = Outputs(len(start) // 3, 1, FAMILY)
    plan = Plan(outputs, Curvature(curvature, **settings), trees, rounds, None, threads)
    return boost(plan, rows_of(trees, x, y), None, start, seed)


def three_branches(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, n_rows, p=TRUE_WEIGHTS)
    return rng.uniform(size=(n_rows, 2)), TRUE_MEANS[kind] + 0.3 * rng.standard_normal(n_rows)


def test_a_leaf_takes_the_m_step_of_scikit_learn():
    """Curvature "em", rate one, no penalty, no damping: means become those of an M-step."""
    rng = np.random.default_rng(0)
    group = np.repeat([0.0, 1.0], 40)
    y = rng.normal(size=80) + group * np.repeat([0.0, 3.0], 40)
    weights, means, scales = np.array([0.5, 0.3, 0.2]), np.array([-1.0, 1.0, 3.0]), np.ones(3)
    trees = TreeSettings(learning_rate=1.0, num_leaves=2, min_rows_in_leaf=1)
    done = run(trees, group[:, None], y, raw_of(weights, means, scales), rounds=1)
    raw = done.forest.raw(np.array([[0.0], [1.0]]))
    for leaf in (0, 1):
        expected = GaussianMixture(
            3,
            covariance_type="diag",
            weights_init=weights,
            means_init=means[:, None],
            precisions_init=1 / scales[:, None] ** 2,
            max_iter=1,
        )
        with pytest.warns(ConvergenceWarning):
            expected.fit(y[group == leaf][:, None])
        np.testing.assert_allclose(raw[leaf, [3, 5, 7]], expected.means_[:, 0], rtol=1e-4)


@pytest.mark.parametrize("curvature", ["fisher", "em"])
def test_true_weights_are_learned(curvature):
    """From equal weights and misplaced means to 0.8, 0.15 and 0.05, within 0.02."""
    rng = np.random.default_rng(0)
    kind = np.repeat(np.arange(3), np.round(6000 * TRUE_WEIGHTS).astype(int))
    x, y = rng.uniform(size=(6000, 2)), TRUE_MEANS[kind] + 0.3 * rng.standard_normal(6000)
    start = raw_of(np.full(3, 1 / 3), [-1.0, 0.5, 3.0], [1.0, 1.0, 1.0])
    trees = TreeSettings(learning_rate=0.3, num_leaves=4, min_rows_in_leaf=1500)
    done = run(trees, x, y, start, rounds=40, curvature=curvature)
    raw = done.forest.raw(x).astype(float)
    weights = np.exp(raw[:, :3]) / np.exp(raw[:, :3]).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weights.mean(axis=0), TRUE_WEIGHTS, atol=0.02)
    # And the weights of most rows, not only their average: features tell nothing about them.
    assert np.mean(np.abs(weights - TRUE_WEIGHTS)) < 0.02


@pytest.mark.parametrize("curvature", ["fisher", "em", "hessian", "none", "scaled"])
def test_train_likelihood_rises_in_every_round(curvature):
    x, y = three_branches(300)
    start = raw_of(np.full(3, 1 / 3), [-1.0, 0.5, 3.0], [1.0, 1.0, 1.0])
    trees = TreeSettings(learning_rate=0.02, num_leaves=8, min_rows_in_leaf=10)
    done = run(trees, x, y, start, rounds=40, curvature=curvature)
    assert len(done.train_nll) == 41
    assert np.all(np.diff(done.train_nll) < 0)
    outputs = Outputs(3, 1, FAMILY)
    losses = row_nll(outputs, done.forest.raw(x).T, y[None].astype(np.float32))
    np.testing.assert_allclose(np.mean(losses), done.train_nll[-1], rtol=1e-5)


def test_a_step_that_all_rows_ask_for_needs_no_split():
    """Errors of one size: no split of the scale's tree gains anything, and yet it has to fall."""
    x, y = np.arange(60.0)[:, None], np.tile([-1.0, 1.0], 30)
    trees = TreeSettings(learning_rate=0.2, num_leaves=2, min_rows_in_leaf=30)
    done = run(trees, x, y, raw_of([1.0], [0.0], [10.0]), rounds=60, curvature="fisher")
    np.testing.assert_allclose(done.forest.raw(x), [[0.0, 0.0, 0.0]] * 60, atol=1e-3)
    best_nll = 0.5 + 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(done.train_nll[-1], best_nll, atol=1e-5)
    assert np.all(np.diff(done.train_nll) < 1e-6)


def test_common_steps_end_with_the_best_round():
    """Held-out rows with larger errors stop the fall of the scale; later steps are not kept."""
    x, sign = np.zeros((120, 1)), np.tile([-1.0, 1.0], 60)
    x[:60] = np.arange(60.0)[:, None] % 30
    y = np.where(np.arange(120) < 60, 0.5, 1.0) * sign
    trees = TreeSettings(learning_rate=0.2, num_leaves=2, min_rows_in_leaf=30)
    rows, outputs = rows_of(trees, x, y), Outputs(1, 1, FAMILY)
    plan = Plan(outputs, Curvature("fisher"), trees, 100, 10, 1)
    train, held_out = rows.take(np.arange(60)), rows.take(np.arange(60, 120))
    done = boost(plan, train, held_out, raw_of([1.0], [0.0], [4.0]), 0)
    assert 0 < done.best_round < len(done.validation_nll) - 1
    np.testing.assert_allclose(np.exp(done.forest.raw(x)[:, 2]), 1.0, atol=0.2)
    kept = row_nll(outputs, done.forest.raw(x[60:]).T, held_out.y)
    np.testing.assert_allclose(np.mean(kept), done.validation_nll.min(), rtol=1e-5)


def test_permuted_components_grow_permuted_trees():
    x, y = three_branches(300)
    order = np.array([2, 0, 1])
    columns = np.concatenate([order, *[3 + 2 * k + np.arange(2) for k in order]])
    start = raw_of([0.5, 0.3, 0.2], [-1.0, 0.5, 3.0], [1.0, 0.8, 1.2])
    trees = TreeSettings(learning_rate=0.1, num_leaves=4, min_rows_in_leaf=20)
    one = run(trees, x, y, start, rounds=3).forest.raw(x)
    other = run(trees, x, y, start[columns], rounds=3).forest.raw(x)
    np.testing.assert_allclose(other, one[:, columns], rtol=1e-4, atol=1e-5)


def test_threads_change_nothing_and_seeds_sample_rows_and_columns():
    x, y = three_branches(2000)
    start = raw_of([0.5, 0.3, 0.2], [-1.0, 0.5, 3.0], [1.0, 0.8, 1.2])
    trees = TreeSettings(num_leaves=8, row_fraction=0.5, column_fraction=0.5)
    found = [
        run(trees, x, y, start, rounds=3, threads=threads, seed=seed).forest.trees
        for threads, seed in ((1, 0), (2, 0), (1, 1))
    ]
    assert all(np.array_equal(a, b) for a, b in zip(found[0], found[1], strict=True))
    assert not np.array_equal(found[0].threshold, found[2].threshold)


@pytest.mark.parametrize("columns", [2, 4])
def test_every_output_sees_every_column_in_time(columns):
    """With six trees a round: LightGBM would show each of them one column, and always that one."""
    x = np.random.default_rng(0).uniform(size=(300, columns))
    start = raw_of([0.5, 0.5], [-0.5, 0.5], [1.0, 1.0])
    trees = TreeSettings(num_leaves=8, column_fraction=0.25)
    forest = run(trees, x, x.sum(axis=1) - columns / 2, start, rounds=20).forest
    used = np.abs(forest.contributions(x))[:, :, :-1].max(axis=0) > 0
    assert used[[2, 4]].all()  # the means


def test_the_best_round_of_held_out_rows_is_kept():
    x, y = three_branches(200)
    trees = TreeSettings(learning_rate=0.3, num_leaves=16, min_rows_in_leaf=2)
    rows, rng = rows_of(trees, x, y), np.random.default_rng(0)
    outputs = Outputs(3, 1, DiagonalGaussian(scale_floor=1e-3))
    train, held_out = rows.take(np.arange(100)), rows.take(np.arange(100, 200))
    start = marginal_start(outputs, train.y.T, train.weights, rng)
    calls = []
    done = boost(
        Plan(outputs, Curvature("em"), trees, 60, 5, 1),
        train,
        held_out,
        start,
        0,
        lambda *progress: calls.append(progress),
    )
    assert done.best_round == np.argmin(done.validation_nll)
    assert len(calls) == done.best_round + 5 < 60
    kept = -np.asarray(row_nll(outputs, done.forest.raw(x[100:]).T, held_out.y))
    np.testing.assert_allclose(kept, done.log_density, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(-kept.mean(), done.validation_nll.min(), rtol=1e-5)


def test_the_start_is_the_marginal_mixture_of_scikit_learn():
    _, y = three_branches(2000)
    outputs = Outputs(3, 1, FAMILY)
    raw = marginal_start(outputs, y[:, None], np.ones(len(y)), np.random.default_rng(0))
    expected = GaussianMixture(3, random_state=0).fit(y[:, None])
    order = np.argsort(raw[[3, 5, 7]])
    other = np.argsort(expected.means_[:, 0])
    np.testing.assert_allclose(raw[[3, 5, 7]][order], expected.means_[other, 0], atol=0.02)
    np.testing.assert_allclose(np.exp(raw[:3][order]), expected.weights_[other], atol=0.01)


def test_rows_with_large_weights_count_more_in_the_start():
    y = np.repeat([-1.0, 1.0], 100)[:, None]
    weights = np.repeat([9.0, 1.0], 100)
    raw = marginal_start(Outputs(1, 1, FAMILY), y, weights, np.random.default_rng(0))
    assert raw[1] == pytest.approx(-0.8, abs=0.15)
