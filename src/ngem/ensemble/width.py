"""How wide the components of a stack should be, as held-out rows say."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._programs import kept
from .._types import Params
from ..families import AbstractFamily
from ..mixture import Mixture
from ..mixture.blocks import over_blocks
from ..mixture.rows import map_rows
from ..objectives import NLL

#: Logarithms of the widths that are compared.
_LOG_WIDTHS = np.linspace(-2.0, 0.0, 81)

#: Rows whose densities are computed at a time.
_BLOCK = 1024


class Width(NamedTuple):
    """How wide components should be.

    Attributes:
        factor: Factor of their scales, 1 at most.
        gain: By how much it raises the mean log density of held-out rows.
    """

    factor: float
    gain: float


def has_width(family: AbstractFamily) -> bool:
    """Return whether components of a family can become narrower around their means."""
    return family.base is family and family.admits_shift and family.is_scalable


def narrowed(mixture: Mixture, width: Float[Array, ""]) -> Mixture:
    """Return a mixture whose components keep their means and have `width` times their scales."""
    family = mixture.family

    def one(params: Params) -> Params:
        mean = family.mean(params)
        factor = jnp.broadcast_to(width, mean.shape).astype(mean.dtype)
        return family.rescale(params, (1 - factor) * mean, factor)

    return Mixture(mixture.logits, map_rows(one, mixture.logits.shape)(mixture.components), family)


def choose_width(
    each: Mixture, known: Float[np.ndarray, "batch given"], counts: Float[np.ndarray, " batch"]
) -> Width:
    """Return how narrow the components of an average of members should be.

    An average is wider than its members and errs less. So a row is judged by the average of all
    members that have not seen it. Components are never made wider: more members predict together
    than judge a row, and the more there are, the wider their average is.

    Args:
        each: Densities of each row under the members that have not seen it, (rows, members).
        known: What is known of the targets of each row.
        counts: How much each row counts.
    """
    log_density = log_densities(each, known, np.exp(_LOG_WIDTHS))
    scores = np.average(log_density, axis=1, weights=counts)
    log_width = _highest(scores)
    gain = float(np.interp(log_width, _LOG_WIDTHS, scores) - scores[-1])
    return Width(float(np.exp(log_width)), gain) if gain > 0 else Width(1.0, 0.0)


def log_densities(
    each: Mixture, known: Float[np.ndarray, "batch given"], widths: Float[np.ndarray, " width"]
) -> Float[np.ndarray, "width batch"]:
    """Return the log density of each row under the average of its members, at each width."""
    last = len(known) - 1

    def block(rows: slice) -> np.ndarray:
        # The last row stands in for those that are missing: zeros would be no densities.
        taken = np.minimum(np.arange(rows.start, rows.stop), last)
        own = jax.tree.map(lambda leaf: np.asarray(leaf)[taken], each)
        found = np.asarray(_at_widths(own, known[taken], np.float32(widths)))
        return found[: last + 1 - rows.start].astype(float)

    return over_blocks(block, len(known), _BLOCK).T


@kept()
def _at_widths(
    each: Mixture, known: Float[Array, "batch given"], widths: Float[Array, " width"]
) -> Float[Array, "batch width"]:
    # The average of the members of a row is one mixture.
    rows, members, comps = each.logits.shape
    logits = (each.log_weights - jnp.log(members)).reshape(rows, -1)
    flat = jax.tree.map(
        lambda leaf: leaf.reshape(rows, members * comps, *leaf.shape[3:]), each.components
    )
    mixture = Mixture(logits, flat, each.family)
    return jax.lax.map(lambda width: -NLL().losses(narrowed(mixture, width), known), widths).T


def _highest(scores: Float[np.ndarray, " width"]) -> float:
    """Return the log width with the best score, between the points of the grid by a parabola."""
    best = int(np.argmax(scores))
    if best in (0, len(scores) - 1):
        return float(_LOG_WIDTHS[best])
    before, top, after = scores[best - 1 : best + 2]
    shift = 0.5 * (before - after) / (before - 2 * top + after)
    return float(_LOG_WIDTHS[best] + shift * (_LOG_WIDTHS[1] - _LOG_WIDTHS[0]))
