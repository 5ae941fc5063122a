"""Distillation: rows between neighbors, and a network that has learned a model's densities."""

import numpy as np
import pytest

from ngem import DensityStack, MDNRegressor, MixtureBoostingRegressor
from ngem.estimator.distill import between_neighbors, distill, is_stepped
from ngem.estimator.stack import KindReport

RNG = np.random.default_rng


def test_rows_lie_between_a_row_and_a_near_one():
    x = np.column_stack([np.arange(100.0), 1000 * np.arange(100.0)])
    rows = between_neighbors(x, 500, RNG(0), 2)
    np.testing.assert_allclose(rows[:, 1], 1000 * rows[:, 0], rtol=1e-12)  # on the same line
    assert rows.min() >= 0
    assert rows[:, 0].max() <= 99
    assert len(np.unique(rows)) > 900  # new ones
    steps = rows[:, 0] - np.round(rows[:, 0])
    assert np.mean(np.abs(steps) > 0.1) > 0.5  # and between, not at the old ones


def test_rows_of_one_corner_are_rows_and_those_of_many_lie_within_their_hull():
    x = RNG(0).normal(size=(200, 2))
    rows = between_neighbors(x, 100, RNG(1), 1)
    assert np.abs(rows[:, None] - x).max(axis=2).min(axis=1).max() < 1e-12
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    rows = between_neighbors(corners + 0.0, 300, RNG(2), 4)
    # Three values are few: they are not mixed.
    assert np.isin(rows, [0.0, 1.0]).all()
    many = np.repeat(corners, 10, axis=0) + 1e-3 * RNG(3).uniform(size=(30, 2))
    rows = between_neighbors(many, 300, RNG(4), 5)
    assert rows.min() >= many.min()
    assert rows.sum(axis=1).max() <= many.sum(axis=1).max() + 1e-12


def test_values_of_few_kinds_are_not_mixed_and_gaps_stay():
    x = np.column_stack([RNG(0).normal(size=300), RNG(1).integers(3, size=300)])
    x[::3, 0] = np.nan
    rows = between_neighbors(x, 400, RNG(2), 2)
    assert set(rows[:, 1]) == {0, 1, 2}
    assert 0.1 < np.isnan(rows[:, 0]).mean() < 0.6


def test_rows_beyond_what_can_be_searched_are_sampled(monkeypatch):
    monkeypatch.setattr("ngem.estimator.distill._MOST_ROWS", 10)
    rows = between_neighbors(np.arange(1000.0)[:, None], 200, RNG(0), 2)
    assert rows.shape == (200, 1)


@pytest.mark.parametrize(
    ("weights", "expected"), [((0.6, 0.3, 0.1), False), ((0.4, 0.3, 0.3), True)]
)
def test_a_student_has_bins_where_the_teacher_has_steps(weights, expected):
    kinds = {
        "network": MDNRegressor(),
        "network with bins": MDNRegressor(n_bins=8),
        "trees": MixtureBoostingRegressor(),
    }
    stack = DensityStack()
    stack.estimators_ = kinds
    stack.kinds_ = [
        KindReport(name, 1.0, 0.0, weight, "used")
        for name, weight in zip(kinds, weights, strict=True)
    ]
    assert is_stepped(stack) is expected
    assert [is_stepped(kind) for kind in kinds.values()] == [False, True, True]


@pytest.mark.slow
@pytest.mark.trains
def test_the_student_has_learned_the_teachers_density():
    """KL(teacher, student) at new rows, by draws: both branches and their noise are there."""
    rng = RNG(0)
    x = rng.uniform(-2, 2, (600, 1))
    y = rng.choice([-1, 1], 600) * (1 + x[:, 0] ** 2) + 0.2 * rng.standard_normal(600)
    small = {"hidden_sizes": (32, 32), "n_components": 4, "max_epochs": 60}
    teacher = MDNRegressor(n_members=2, dropout=0.0, random_state=0, **small).fit(x, y)
    student = teacher.distill(x, n_rows=6000, random_state=1, **small)
    assert student.n_components_ == 4
    new = rng.uniform(-1.9, 1.9, (2000, 1))
    drawn = teacher.sample(new, 1, random_state=2)[0]
    lost = np.mean(teacher.log_prob(new, drawn) - student.log_prob(new, drawn))
    assert lost < 0.05
    assert distill(teacher, x[:50], n_rows=500, max_epochs=1).n_outputs_ == 1
