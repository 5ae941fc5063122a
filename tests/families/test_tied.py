"""Laws of the Gaussian whose covariance all components of a row share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from ngem.families import TiedGaussian
from ngem.geometry import CompleteDataFisher
from ngem.mixture import Mixture
from ngem.nn import MixtureNetwork, num_outputs
from ngem.objectives import NGEM

from ..cases import FAMILIES, standard_normal

KEY = jax.random.key(7)
FAMILY, DIM, COMP = TiedGaussian(), 2, 3
HEAD = MixtureNetwork(lambda raw: raw, COMP, DIM, FAMILY)


def test_components_of_a_row_share_raw_outputs_and_covariance():
    raw = standard_normal(KEY, (HEAD.num_raw,))
    assert HEAD.num_raw == COMP * (1 + DIM) + 3 == COMP + num_outputs(FAMILY, COMP, DIM)
    mixture = HEAD(raw)
    np.testing.assert_array_equal(mixture.components.scale[0], mixture.components.scale[2])
    assert len({float(mean[0]) for mean in mixture.components.mean}) == COMP
    np.testing.assert_allclose(HEAD.to_raw(mixture), raw, rtol=1e-12)


def dense_fisher(raw):
    """The information of log p(y, z) in raw outputs: weight_k times that of component k, summed."""
    size, own = FAMILY.num_raw(DIM), COMP * DIM
    fisher, weights = np.zeros((own + 3, own + 3)), special.softmax(np.asarray(raw[:COMP]))
    for k in range(COMP):
        index = [*range(COMP + k * DIM, COMP + (k + 1) * DIM), *range(COMP + own, COMP + own + 3)]
        block = FAMILIES["tied"].raw_fisher(raw[np.array(index)], DIM)
        places = np.array(index) - COMP
        fisher[np.ix_(places, places)] += weights[k] * block
    assert size == len(index)
    return fisher


def test_natural_gradient_is_that_of_the_information_of_shared_outputs():
    """At power 1, in coordinates of raw outputs: F of all outputs, from autodiff and quadrature."""
    raw = 0.7 * standard_normal(KEY, (HEAD.num_raw,))
    y = standard_normal(jax.random.fold_in(KEY, 1), (DIM,))

    def gradient(objective):
        loss = lambda raw: objective.loss(FAMILY, *HEAD.outputs(raw), y)  # noqa: E731
        return jax.jit(jax.grad(loss))(raw)[COMP:]

    plain = gradient(NGEM(power=0.0))
    natural = gradient(NGEM(power=1.0, damping=0.0, coordinates="log_scale"))
    expected = np.linalg.solve(dense_fisher(raw), plain)
    np.testing.assert_allclose(natural, expected, rtol=1e-5, atol=1e-8)


@pytest.mark.slow
def test_shared_outputs_have_no_weight():
    mixture: Mixture = HEAD(standard_normal(KEY, (HEAD.num_raw,)))
    metric = CompleteDataFisher(FAMILY, power=0.5)
    ones = jax.tree.map(jnp.ones_like, mixture.components)
    _, solved = metric.solve(mixture.logits, mixture.components, (mixture.logits, ones), None)
    np.testing.assert_allclose(solved.scale[0], solved.scale[2], rtol=1e-12)
    ratio = solved.mean[0] / solved.mean[2]
    expected = np.sqrt(mixture.weights[2] / mixture.weights[0])
    np.testing.assert_allclose(ratio, expected, rtol=1e-10)
