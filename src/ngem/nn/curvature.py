"""What K-FAC needs to know of a network: layer inputs, and gradients sampled from the model."""

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Params
from .head import MixtureNetwork, check_own_network


def tapped(
    network: MixtureNetwork, x: Float[Array, "batch features"], taps: tuple[Array, ...]
) -> tuple[Float[Array, "batch raw"], tuple[Array, ...]]:
    """Return raw outputs and layer inputs of a batch, with a tap added to each layer's output."""
    body = check_own_network(network.body, "K-FAC", "use another optimizer")
    return jax.vmap(body.tapped)(x, taps)


def output_gradient(
    network: MixtureNetwork, raw: Float[Array, " raw"], key: PRNGKeyArray
) -> Float[Array, " raw"]:
    """Return the gradient of log p(y, z) in the raw outputs, for y and z drawn from the model.

    Its second moment is the complete-data Fisher information of Proposition 4, carried to the raw
    outputs.
    """
    pick_key, draw_key = jax.random.split(key)
    mixture = network.to_mixture(raw)
    picked = jax.random.categorical(pick_key, mixture.logits)

    def pick(components: Params) -> Params:
        return jax.tree.map(lambda leaf: leaf[picked], components)

    y = network.family.sample(pick(mixture.components), draw_key)

    def log_complete(raw: Float[Array, " raw"]) -> Float[Array, ""]:
        mixture = network.to_mixture(raw)
        return mixture.log_weights[picked] + network.family.log_prob(pick(mixture.components), y)

    return jax.grad(log_complete)(raw)
