"""Several predictors as one: their mixtures, weighted, are one mixture."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Params
from ..families import AbstractFamily
from ..mixture import Mixture
from ..nn import AbstractPredictor
from .weights import stacking_weights
from .width import narrowed

#: Kinds with a smaller weight are dropped.
SMALLEST_WEIGHT = 1e-3


class Part(eqx.Module):
    """A predictor and its place in a stack.

    Attributes:
        predictor: What predicts, in units of its own.
        location: Zero of these units, in those of the stack.
        scale: Their size.
        n_inputs: How many inputs the predictor reads.
    """

    predictor: AbstractPredictor
    location: Float[Array, " dim"]
    scale: Float[Array, " dim"]
    n_inputs: int = eqx.field(static=True)

    def to_stack(self, mixture: Mixture) -> Mixture:
        """Return a mixture of the predictor in the units of the stack; more axes may come first."""
        family = mixture.family

        def one(params: Params) -> Params:
            return family.rescale(params, self.location, self.scale)

        for _ in mixture.logits.shape:
            one = jax.vmap(one)
        return Mixture(mixture.logits, one(mixture.components), family)


class StackPredictor(AbstractPredictor):
    """The weighted average of the densities of several predictors, one mixture for each row.

    Its inputs are those of all parts, one after the other.

    Attributes:
        parts: The predictors; their components are of one family, whose smallest scale may differ.
        log_weights: Log weight of each.
        width: Factor of the scales of all components; None leaves them as they are.
    """

    parts: tuple[Part, ...]
    log_weights: Float[Array, " part"]
    width: Float[Array, ""] | None = None

    @property
    def family(self) -> AbstractFamily:
        return self.parts[0].predictor.family

    @property
    def dim(self) -> int:
        return self.parts[0].predictor.dim

    @property
    def n_members(self) -> int:
        return sum(part.predictor.n_members for part in self.parts)

    @property
    def n_components(self) -> int:
        return sum(part.predictor.n_components for part in self.parts)

    @property
    def member_components(self) -> int:
        return max(part.predictor.member_components for part in self.parts)

    @property
    def member_weights(self) -> Float[Array, " member"]:
        each = [
            weight * part.predictor.member_weights.astype(weight.dtype)
            for weight, part in zip(jnp.exp(self.log_weights), self.parts, strict=True)
        ]
        return jnp.concatenate(each)

    @property
    def is_guarded(self) -> bool:
        return all(part.predictor.is_guarded for part in self.parts)

    def __call__(self, x: Float[Array, " inputs"]) -> Mixture:
        mixtures = [
            part.to_stack(part.predictor(inputs))
            for part, inputs in zip(self.parts, self._split(x), strict=True)
        ]
        logits = [
            mixture.log_weights + log_weight
            for mixture, log_weight in zip(mixtures, self.log_weights, strict=True)
        ]
        components = _joined([mixture.components for mixture in mixtures])
        return self._narrowed(Mixture(jnp.concatenate(logits), components, self.family))

    def each(self, x: Float[Array, " inputs"]) -> Mixture:
        return self._members([part.predictor.each for part in self.parts], x)

    def each_at_distance(self, x: Float[Array, " inputs"]) -> Mixture:
        return self._members([part.predictor.each_at_distance for part in self.parts], x)

    def distance(self, x: Float[Array, " inputs"]) -> Float[Array, ""]:
        pairs = zip(self.parts, self._split(x), strict=True)
        return jnp.max(jnp.stack([part.predictor.distance(inputs) for part, inputs in pairs]))

    def subset(self, indices: Sequence[int]) -> "StackPredictor":
        # All parts have as many members, which held out the same rows.
        parts = tuple(
            eqx.tree_at(lambda tree: tree.predictor, part, part.predictor.subset(indices))
            for part in self.parts
        )
        return StackPredictor(parts, self.log_weights, self.width)

    def at_width(self, width: float | None) -> "StackPredictor":
        """Return the same with another factor of the components' scales."""
        factor = None if width in (None, 1.0) else jnp.asarray(width, jnp.float32)
        return StackPredictor(self.parts, self.log_weights, factor)

    def _narrowed(self, mixture: Mixture) -> Mixture:
        return mixture if self.width is None else narrowed(mixture, self.width)

    def _split(self, x: Float[Array, " inputs"]) -> list[Array]:
        ends = np.cumsum([part.n_inputs for part in self.parts])
        return jnp.split(x, ends[:-1])

    def _members(self, predict: Sequence, x: Float[Array, " inputs"]) -> Mixture:
        """Return the mixtures of all members, with as many components each as the largest has."""
        mixtures = [
            part.to_stack(one(inputs))
            for part, one, inputs in zip(self.parts, predict, self._split(x), strict=True)
        ]
        most = max(mixture.n_components for mixture in mixtures)
        padded = [_pad(mixture, most) for mixture in mixtures]
        logits = jnp.concatenate([mixture.logits for mixture in padded])
        joined = Mixture(logits, _joined([one.components for one in padded]), self.family)
        return self._narrowed(joined)


def _joined(parts: Sequence[Params]) -> Params:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def _pad(mixture: Mixture, n_components: int) -> Mixture:
    """Return mixtures with more components: copies of the first, without weight."""
    more = n_components - mixture.n_components

    def repeat(leaf: Array) -> Array:
        copies = jnp.broadcast_to(leaf[:, :1], (len(leaf), more, *leaf.shape[2:]))
        return jnp.concatenate([leaf, copies], axis=1)

    logits = jnp.pad(mixture.logits, ((0, 0), (0, more)), constant_values=-jnp.inf)
    return Mixture(logits, jax.tree.map(repeat, mixture.components), mixture.family)


class Stacked(NamedTuple):
    """What held-out rows say of several kinds together.

    Attributes:
        weights: Weight of each kind, zero for those that were dropped.
        log_density: Log density of each row under all kinds together.
    """

    weights: Float[np.ndarray, " kind"]
    log_density: Float[np.ndarray, " batch"]


def stack(
    log_density: Float[np.ndarray, "batch kind"], counts: Float[np.ndarray, " batch"] | None = None
) -> Stacked:
    """Return the weights with the best log score of held-out rows.

    Kinds with a weight below a thousandth are dropped, and the others are weighed again.

    Args:
        log_density: Log density of each held-out row under each kind.
        counts: How much each row counts.
    """
    kept = np.arange(log_density.shape[1])
    while True:
        weights = stacking_weights(log_density[:, kept], np.zeros(len(kept)), counts)
        if weights.min() >= SMALLEST_WEIGHT:
            break
        kept = kept[weights >= SMALLEST_WEIGHT]
    joint = np.logaddexp.reduce(log_density[:, kept] + np.log(weights), axis=1)
    scores = np.average(log_density, axis=0, weights=counts)
    best = int(np.argmax(scores))
    # EM is slow where the optimum is one kind alone.
    if np.average(joint, weights=counts) <= scores[best]:
        kept, weights, joint = np.array([best]), np.ones(1), log_density[:, best]
    all_weights = np.zeros(log_density.shape[1])
    all_weights[kept] = weights
    return Stacked(all_weights, joint)
