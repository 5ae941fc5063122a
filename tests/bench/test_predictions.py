"""Every side of `predict` answers the same question."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ngem.bench import predictions

ROWS, COMPONENTS = 6, 4


def by_scipy(question):
    parts = predictions.draw(ROWS, COMPONENTS)
    return [predictions.SCIPY[question](*row) for row in zip(*parts, strict=True)]


@pytest.mark.parametrize(
    ("question", "single"), [("cdf", 1e-5), ("quantile", 1e-4), ("crps", 1e-4)]
)
def test_ours_and_scipy_agree_in_both_precisions(question, single):
    answer, mixture, y = predictions.ours(question, ROWS, COMPONENTS)
    expected = by_scipy(question)
    np.testing.assert_allclose(answer(mixture, y), expected, rtol=1e-6)
    mixture, y = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (mixture, y))
    np.testing.assert_allclose(answer(mixture, y), expected, rtol=single)


@pytest.mark.slow  # a long program; `test_mixture.py` checks our regions in every change
def test_regions_agree_with_scipys():
    answer, mixture, y = predictions.ours("region", ROWS, COMPONENTS)
    for found, expected in zip(answer(mixture, y), by_scipy("region"), strict=True):
        # The grid that scipy's threshold comes from is right to about 1e-3.
        np.testing.assert_allclose(found[~np.isnan(found[:, 0])], expected, atol=0.02)


@pytest.mark.parametrize("question", ["cdf", "quantile"])
def test_skpro_agrees_with_scipy(question):
    pytest.importorskip("skpro", reason="skpro is not installed")
    answers = np.asarray(predictions.skpro(question, ROWS, COMPONENTS)(), float)
    np.testing.assert_allclose(answers.ravel(), by_scipy(question), rtol=1e-5)
