"""Mixtures of fewer components, with a bound on what is lost."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._types import Params
from ..families import AbstractFamily


class _State(NamedTuple):
    """Components of one row while pairs of them merge.

    Attributes:
        weights: Their weights, zero for those that are gone.
        params: Their parameters.
        costs: Nats that are lost by merging a pair, infinite for pairs that cannot merge.
        loss: Nats lost so far, at most.
    """

    weights: Float[Array, " comp"]
    params: Params
    costs: Float[Array, "comp comp"]
    loss: Float[Array, ""]


def reduce_row(
    family: AbstractFamily, n_components: int, weights: Float[Array, " comp"], params: Params
) -> tuple[Float[Array, " few"], Params, Float[Array, ""]]:
    """Return weights and parameters of fewer components of one row, and a bound on the loss.

    The pair whose merging costs least is merged, again and again (Runnalls 2007). A group of
    components f_i that became g costs sum_i weight_i KL(f_i, g). By the log sum inequality the sum
    over groups is a bound on KL(before, after). For Gaussians the costs of single mergers add up to
    exactly that sum, because merging keeps means and variances.
    """
    price = partial(_costs, family)
    costs = jax.vmap(price, in_axes=(0, 0, None, None))(weights, params, weights, params)
    others = ~jnp.eye(len(weights), dtype=bool)
    start = _State(weights, params, jnp.where(others, costs, jnp.inf), jnp.zeros_like(weights[0]))
    step = lambda _, state: _merge_cheapest(family, state)  # noqa: E731
    end = jax.lax.fori_loop(0, len(weights) - n_components, step, start)
    order = jnp.argsort(_is_gone(end.costs), stable=True)[:n_components]
    return end.weights[order], jax.tree.map(lambda leaf: leaf[order], end.params), end.loss


def _is_gone(costs: Float[Array, "comp comp"]) -> Bool[Array, " comp"]:
    return jnp.all(jnp.isinf(costs), axis=1)


def _merge_cheapest(family: AbstractFamily, state: _State) -> _State:
    weights, params, costs, loss = state
    first, second = jnp.divmod(jnp.argmin(costs), len(weights))
    cost = costs[first, second]
    merged, weight = _merge(family, *(_take((weights, params), index) for index in (first, second)))
    weights = weights.at[first].set(weight).at[second].set(0)
    params = jax.tree.map(lambda leaf, new: leaf.at[first].set(new), params, merged)
    costs = costs.at[second].set(jnp.inf).at[:, second].set(jnp.inf)
    fresh = _costs(family, weight, merged, weights, params)
    fresh = jnp.where(jnp.isinf(costs[first]), jnp.inf, fresh)
    costs = costs.at[first].set(fresh).at[:, first].set(fresh)
    return _State(weights, params, costs, loss + cost)


def _take(tree: tuple, index: Array) -> tuple:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _merge(
    family: AbstractFamily, one: tuple[Array, Params], other: tuple[Array, Params]
) -> tuple[Params, Float[Array, ""]]:
    """Return a pair as one component, and its weight."""
    weights, params = jax.tree.map(lambda *leaves: jnp.stack(leaves), one, other)
    total = jnp.sum(weights)
    # Two components without weight merge at no cost, whatever comes of them.
    fractions = jnp.where(total > 0, weights / jnp.where(total > 0, total, 1), 0.5)
    return family.merge(params, fractions), total


def _costs(
    family: AbstractFamily,
    weight: Float[Array, ""],
    params: Params,
    weights: Float[Array, " comp"],
    others: Params,
) -> Float[Array, " comp"]:
    """Return the nats that merging one component with each of the others loses."""

    def one(other_weight: Float[Array, ""], other: Params) -> Float[Array, ""]:
        merged, _ = _merge(family, (weight, params), (other_weight, other))
        lost = family.divergence(params, merged), family.divergence(other, merged)
        # Rounding can make the cost of two equal components negative.
        return jnp.maximum(weight * lost[0] + other_weight * lost[1], 0)

    return jax.vmap(one)(weights, others)
