"""Tasks of the objective study: their splits, truths and units."""

import numpy as np
import pytest
from scipy import stats

from ngem.datasets import RandomSplit
from ngem.repro.objective_study import TASKS, TaskData, standardized


def test_the_known_truth_is_the_density_of_the_test_rows():
    data = TASKS["two-sinusoids 0.8"].rows(3)
    np.testing.assert_array_equal(np.concatenate(data.split), np.arange(len(data.x)))
    assert [len(part) for part in data.split] == [2000, 400, 5000]
    x, y = data.x[data.split.test], data.y[data.split.test]
    waves = [np.pi * np.sin(x), -np.pi * np.sin(x)]
    density = sum(
        w * stats.norm.pdf(y, wave, 0.1) for w, wave in zip((0.8, 0.2), waves, strict=True)
    )
    assert data.true_nll == pytest.approx(-np.log(density).mean(), abs=1e-6)


def test_the_seed_gives_other_rows_of_the_same_task():
    first, second = (TASKS["two-gaussians 0.8"].rows(seed) for seed in (3, 4))
    assert not np.array_equal(first.y, second.y)
    assert first.true_nll == pytest.approx(second.true_nll, abs=0.05)
    assert first.true_weight == 0.8


def test_training_rows_are_standardized_and_the_volume_is_exact():
    data = TASKS["two-gaussians 0.5"].rows(1)
    parts, log_volume = standardized(data)
    np.testing.assert_allclose(parts[0].y.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(parts[0].y.std(axis=0), 1, atol=1e-6)
    assert log_volume == pytest.approx(np.log(data.y[data.split.train].std(axis=0)).sum())


def test_images_keep_their_range():
    rng = np.random.default_rng(0)
    split = RandomSplit(*np.split(np.arange(30), [20, 25]))
    images = TaskData(rng.normal(size=(30, 2)), rng.uniform(size=(30, 101)), split)
    parts, log_volume = standardized(images)
    assert log_volume == 0
    np.testing.assert_allclose(parts[0].y, images.y[:20], rtol=1e-6)
