"""Adam with one division an element, where optax has three: on small networks that shows."""

import math

import jax
import jax.numpy as jnp
import optax


def adam(
    learning_rate: optax.ScalarOrSchedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> optax.GradientTransformation:
    """Return the Adam optimizer of Kingma and Ba (2015), `optax.adam` up to rounding.

    Args:
        learning_rate: A number, possibly traced, or an optax schedule.
        b1: Decay of the momentum.
        b2: Decay of the second moment.
        eps: Added to the root of the second moment.
    """

    def init(params: optax.Params) -> optax.ScaleByAdamState:
        return optax.ScaleByAdamState(
            jnp.zeros((), jnp.int32),
            optax.tree.zeros_like(params),
            optax.tree.zeros_like(params),
        )

    def update(
        updates: optax.Updates, state: optax.OptState, params: optax.Params | None = None
    ) -> tuple[optax.Updates, optax.OptState]:
        del params
        assert isinstance(state, optax.ScaleByAdamState)
        rate = learning_rate(state.count) if callable(learning_rate) else learning_rate
        count = optax.safe_increment(state.count)
        mu = optax.tree.update_moment(updates, state.mu, b1, 1)
        nu = optax.tree.update_moment_per_elem_norm(updates, state.nu, b2, 2)
        # What corrects both moments is one number each: the rate and the root take them in.
        first_mass, second_mass = (-jnp.expm1(count * math.log(decay)) for decay in (b1, b2))
        step, root = rate / first_mass, jax.lax.rsqrt(second_mass)

        def move(first, second):
            shrink = jnp.sqrt(second) * root.astype(second.dtype) + eps
            return -jnp.asarray(step, first.dtype) * first / shrink

        return jax.tree.map(move, mu, nu), optax.ScaleByAdamState(count, mu, nu)

    return optax.GradientTransformation(init, update)
