"""Adam against optax's and against the paper's own recursion."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ngem.optimizers import adam

pytestmark = pytest.mark.trains


def stream(optimizer, grads):
    """Return the updates for a stream of gradients."""
    state = optimizer.init(jnp.zeros(grads.shape[1:]))
    body = lambda state, grad: optimizer.update(grad, state)[::-1]  # noqa: E731
    return jax.jit(lambda grads: jax.lax.scan(body, state, grads)[1])(grads)


@pytest.fixture(name="grads")
def _grads():
    rng = np.random.default_rng(0)
    return jnp.asarray(rng.standard_normal((50, 3, 4)) * np.geomspace(1e-8, 1e3, 4))


@pytest.mark.parametrize("rate", [0.1, lambda count: 0.1 / (1 + count)])
def test_it_is_adam(grads, rate):
    np.testing.assert_allclose(stream(adam(rate), grads), stream(optax.adam(rate), grads), 1e-10)


def test_it_is_the_recursion_of_kingma_and_ba(grads):
    first = second = 0.0
    for number, (grad, update) in enumerate(zip(grads, stream(adam(0.1), grads), strict=True)):
        first = 0.9 * first + 0.1 * np.asarray(grad)
        second = 0.999 * second + 0.001 * np.asarray(grad) ** 2
        root = np.sqrt(second / (1 - 0.999 ** (number + 1)))
        expected = -0.1 * first / (1 - 0.9 ** (number + 1)) / (root + 1e-8)
        np.testing.assert_allclose(update, expected, 1e-9)
