"""Our side of the measurements does what it is compared for."""

import jax
import jax.numpy as jnp
import numpy as np

from ngem import training
from ngem.bench import ours


def test_the_products_are_those_of_a_gradient():
    """Without activations, half the squared output has exactly these products as gradient."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 3))
    weights = [rng.standard_normal(shape) for shape in ((4, 3), (6, 4), (2, 6))]

    def half_square(weights):
        out = jnp.asarray(x)
        for weight in weights:
            out = out @ weight.T
        return 0.5 * jnp.sum(out**2)

    expected = jax.grad(half_square)([jnp.asarray(weight) for weight in weights])
    for product, wanted in zip(ours._chain(np.matmul, x, weights), expected, strict=True):
        np.testing.assert_allclose(product, wanted, rtol=1e-10)


def test_distinct_conditions_do_not_repeat():
    """The side without repeated conditions must not be seen as having them."""
    condensed = []
    for distinct in (False, True):
        x, y = map(jnp.asarray, ours.noise(50, 3, 1, labels=3, distinct=distinct))
        condensed.append(training.condense(training.Data(x, y), 25))
    assert [data.condition is None for data in condensed] == [False, True]
    assert len(condensed[0].x) == 3
