"""Components so far from a target that their density underflows do not learn from it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ngem.families import get_family
from ngem.objectives import ANNEALED, NLL, OBJECTIVES

#: Families on the whole line.
ON_THE_LINE = (
    *("gaussian", "logistic", "laplace", "student(4)", "student-learned", "gumbel"),
    "asymmetric-laplace",
)

LIKELIHOODS = {
    **{name: one for name, one in OBJECTIVES.items() if name != "mse"},
    "annealed": ANNEALED,
}


@pytest.mark.parametrize("name", ON_THE_LINE)
@pytest.mark.parametrize("far", [1e10, 1e20, 1e28])
def test_a_component_beyond_all_deviations_gets_no_gradient(name, far):
    """In single precision, where the square of its distance is infinite; the other one learns."""
    family, y = get_family(name), jnp.full((1,), 0.7, jnp.float32)
    near, away = (
        family.unconstrain(family.from_moments(jnp.full(1, at), jnp.full(1, variance)))
        for at, variance in ((0.0, 1.0), (far, 1e-8))
    )
    raw, logits = jnp.stack([near, away]).astype(jnp.float32), jnp.zeros(2, jnp.float32)

    def loss(objective, logits, raw):
        components = jax.vmap(lambda one: family.constrain(one, 1))(raw)
        return objective.loss(family, logits, components, y)

    for objective in LIKELIHOODS.values():
        grads = jax.grad(loss, argnums=(1, 2))(objective, logits, raw)
        assert all(np.isfinite(leaf).all() for leaf in grads)
        np.testing.assert_array_equal(grads[1][1], 0.0)
        assert np.any(grads[1][0] != 0)
    # The likelihood's logits move as if all responsibility were the other one's.
    np.testing.assert_allclose(jax.grad(loss, argnums=1)(NLL(), logits, raw), [-0.5, 0.5])
