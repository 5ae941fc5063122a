"""The strength over training, and which schedule a strength of the user's brings."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ngem
from ngem.objectives import DEFAULT, NLL, SGEM, Schedule
from ngem.objectives.schedule import scheduled_power


def test_a_schedule_follows_the_rate_in_proportion_and_up_to_half_of_training():
    assert Schedule(0.8, 0.2, 0.2).numbers() == (0.8, 0.2, 0.2)
    assert Schedule(0.8, 0.2, 0.2).numbers(4.0) == pytest.approx((0.8, 0.2, 0.05))
    assert Schedule(0.8, 0.2, 0.2).numbers(0.01) == (0.8, 0.2, 0.5)
    assert Schedule(0.8, 0.2, 0.2, follows_rate=False).numbers(4.0) == (0.8, 0.2, 0.2)


def test_the_strength_goes_from_start_to_end_in_a_line():
    numbers, at = jnp.array([0.8, 0.2, 0.5]), np.array([0.0, 0.125, 0.5, 1.0])
    found = [float(scheduled_power(numbers, jnp.asarray(t))) for t in at]
    np.testing.assert_allclose(found, np.interp(at, [0, 0.5], [0.8, 0.2]))


def test_a_strength_that_ends_at_zero_keeps_the_rest_of_the_schedule():
    expected = Schedule(0.6, 0.0, 0.3, follows_rate=False)
    assert DEFAULT.with_power((0.6, 0.0, 0.3)) == dataclasses.replace(DEFAULT, schedule=expected)


def test_a_component_without_density_leaves_values_and_gradients_of_sgem_finite():
    joint = jnp.array([-1.0, -jnp.inf])
    value, gradient = jax.value_and_grad(lambda first: SGEM().reduce(joint.at[0].set(first), None))(
        joint[0]
    )
    assert float(value) == pytest.approx(1.0)
    assert float(gradient) == pytest.approx(-1.0)


@pytest.mark.slow
def test_intervals_may_have_several_axes_of_rows():
    """Against each row by itself."""
    rng = np.random.default_rng(0)
    logits, mean = (
        jnp.asarray(rng.normal(size=(2, 3, 4))),
        jnp.asarray(rng.normal(size=(2, 3, 4, 1))),
    )
    lower = rng.normal(size=(2, 3, 1))
    ends = jnp.asarray(np.concatenate([lower, lower + 0.5], axis=-1))
    found = NLL().losses(ngem.gaussian_mixture(logits, mean, jnp.exp(mean)), ends)
    flat = ngem.gaussian_mixture(
        *(a.reshape(6, *a.shape[2:]) for a in (logits, mean, jnp.exp(mean)))
    )
    np.testing.assert_allclose(found, NLL().losses(flat, ends.reshape(6, 2)).reshape(2, 3))
