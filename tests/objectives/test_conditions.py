"""Rows that share a condition: the same losses and gradients as if each had its own mixture."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ngem import gaussian_mixture
from ngem.nn import mixture_mlp
from ngem.objectives import NGEM, OBJECTIVES, AbstractLoss
from ngem.training import Data, Plan, condense, fit
from ngem.training.data import arrange

from ..cases import FAMILIES, random_mixture, slow_but, standard_normal

KEY = jax.random.key(3)
CONDITION = jnp.array([0, 2, 2, 1, 0, 2, 2])


# sgem and ngem-derived differ from these in what the distinct mixtures receive, not in the rows.
DIAGONAL = [(name, "diag", 2) for name in ("nll", "ngem", "ngem-listing", "beta-nll", "mse")]
OTHERS = [("ngem", "full", 2), ("mse", "full", 2), ("ngem", "logistic", 2)]
PRODUCTS = [("nll", "diag", 40), ("ngem", "diag", 40), ("beta-nll", "diag", 40)]
FACTORS = [("ngem", "low-rank", 40)]
CASES = slow_but(
    [*DIAGONAL, *OTHERS, *PRODUCTS, *FACTORS],
    *(*DIAGONAL[3:], OTHERS[0], OTHERS[2], PRODUCTS[1]),
)


@pytest.mark.parametrize(("objective", "family", "dim"), CASES)
def test_losses_and_gradients_are_those_of_repeated_rows(family, dim, objective):
    mixture = random_mixture(FAMILIES[family].family, KEY, batch=(3,), dim=dim)
    y = standard_normal(KEY, (len(CONDITION), dim))
    weights = jnp.arange(1.0, 8.0)

    def shared(mixture):
        return OBJECTIVES[objective].losses(mixture, y, condition=CONDITION)

    def repeated(mixture):
        rows = jax.tree.map(lambda leaf: leaf[CONDITION], mixture)
        return OBJECTIVES[objective].losses(rows, y)

    def measure(losses):
        total = lambda mixture: jnp.sum(weights * losses(mixture))  # noqa: E731
        return jax.jit(lambda mixture: (losses(mixture), jax.grad(total)(mixture)))(mixture)

    ours, expected = measure(shared), measure(repeated)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_an_objective_that_is_not_a_likelihood_is_asked_for_each_row():
    """One of a user's own has `loss` and no more, and must not become a likelihood by sharing."""

    class Distance(AbstractLoss):
        def loss(self, family, logits, components, y, power=None):
            return jnp.sum(jnp.abs(components.mean[0] - y), axis=0)

    mixture = random_mixture(FAMILIES["diag"].family, KEY, batch=(3,))
    y = jax.random.normal(KEY, (len(CONDITION), 2))
    losses = Distance().losses(mixture, y, condition=CONDITION)
    expected = np.abs(mixture.components.mean[CONDITION, 0] - y).sum(axis=1)
    np.testing.assert_allclose(losses, expected, rtol=1e-12)


def test_products_keep_single_precision_with_small_scales_far_from_zero():
    """Multiplied-out squares cancel; centering keeps what float32 can hold."""
    rng = np.random.default_rng(0)
    mean = 100 + rng.uniform(size=(3, 2, 64))
    scale = np.full_like(mean, 0.03)
    y = mean[CONDITION, 0] + 0.03 * rng.standard_normal((len(CONDITION), 64))
    logits = rng.standard_normal((3, 2))
    measure = jax.jit(lambda mixture, y: NGEM().losses(mixture, y, condition=CONDITION))
    double = [jnp.asarray(leaf) for leaf in (logits, mean, scale, y)]
    single = [leaf.astype(jnp.float32) for leaf in double]
    losses, exact = (measure(gaussian_mixture(*a[:3]), a[3]) for a in (single, double))
    # Targets and means alone, rounded at 100, differ by 4e-6, a ten-thousandth of a scale.
    np.testing.assert_allclose(losses, exact, atol=0.05)


def test_condense_finds_few_conditions_only():
    labels = np.array([3, 1, 3, 3, 1, 7])
    data = Data(jnp.eye(10)[labels], jnp.arange(6.0)[:, None])
    compact = condense(data, 3)
    assert compact.x.shape == (3, 10)
    np.testing.assert_array_equal(compact.rows, data.x)
    assert condense(data, 2).condition is None
    np.testing.assert_array_equal(condense(compact, 2).x, data.x)


@pytest.mark.trains
@pytest.mark.parametrize("optimizer", ["adam", "kfac"])
@pytest.mark.slow
def test_training_is_the_same_with_conditions_declared_found_or_unused(optimizer, monkeypatch):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=40)
    y = jnp.asarray(rng.standard_normal((40, 20)) + labels[:, None])
    found = Data(jnp.eye(3)[labels], y)
    declared = Data(jnp.eye(3), y, condition=jnp.asarray(labels))
    network = mixture_mlp(3, 20, key=KEY, n_components=2, hidden_sizes=(8,))
    network = jax.tree.map(lambda v: v.astype(float) if hasattr(v, "astype") else v, network)
    plan = Plan(optimizer=optimizer, batch_size=16)
    settings = {"key": KEY, "max_epochs": 3, "validation": found}
    histories = [fit(network, data, plan, **settings).history for data in (found, declared)]
    monkeypatch.setattr("ngem.training.loop.arrange", lambda network, data, batch_size: data)
    histories.append(fit(network, found, plan, **settings).history)
    for history in histories[1:]:
        for part in ("train", "validation"):
            np.testing.assert_allclose(
                getattr(history, part), getattr(histories[0], part), rtol=1e-9
            )


@pytest.mark.trains
def test_dropout_treats_equal_rows_differently():
    """With dropout every row has its own noise, so no row may stand for another."""
    data = Data(jnp.ones((1, 2)), jnp.zeros((12, 1)), condition=jnp.zeros(12, int))
    network = mixture_mlp(2, 1, key=KEY, n_components=2, hidden_sizes=(8,), dropout=0.5)
    assert arrange(network, data, 8).condition is None


def test_conditions_out_of_range_are_refused():
    data = Data(jnp.ones((2, 1)), jnp.zeros((3, 1)), condition=jnp.array([0, 1, 2]))
    network = mixture_mlp(1, 1, key=KEY, n_components=2, hidden_sizes=(4,))
    with pytest.raises(ValueError, match="condition must number the 2 rows of x from 0, got 0 to"):
        fit(network, data, Plan(), key=KEY, max_epochs=1)
