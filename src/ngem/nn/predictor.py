"""What a fitted estimator predicts with: an average of networks, guarded where data say little."""

import abc
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._defaults import CLIP_MARGIN, HALF_TRUST
from .._types import Params
from ..families import AbstractFamily
from ..mixture import Mixture
from .head import MixtureNetwork

#: Standard deviations of the wide densities, in those of the targets.
WIDTHS = (1.0, 4.0)


class Guard(eqx.Module):
    """Simple densities beside the networks, with weights that held-out rows have chosen.

    The first is a linear model with constant noise. The others are wide densities that do not
    depend on the features: the first of them has the moments of the targets. They bound what a
    surprising target costs, and take over where features lie far outside the training rows.

    Attributes:
        log_weights: Log weights of the networks, the linear model and each wide density.
        slope: Coefficients of the linear model.
        intercept: Its value at zero.
        noise: Its variance.
        center: Mean of the wide densities.
        widths: Variance of each wide density.
        low: Smallest value of each feature in the training rows.
        high: Largest value of each feature in the training rows.
        unit: Standard deviation of each feature there, 1 for a constant one.
        floor: Smallest mean that a component may have.
        ceiling: Largest mean; scales are at most its distance from the floor.
    """

    log_weights: Float[Array, " kind"]
    slope: Float[Array, "dim features"]
    intercept: Float[Array, " dim"]
    noise: Float[Array, " dim"]
    center: Float[Array, " dim"]
    widths: Float[Array, "wide dim"]
    low: Float[Array, " features"]
    high: Float[Array, " features"]
    unit: Float[Array, " features"]
    floor: Float[Array, " dim"]
    ceiling: Float[Array, " dim"]

    @staticmethod
    def shapes(n_inputs: int, dim: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each array of a guard."""
        return {
            "log_weights": (2 + len(WIDTHS),),
            "slope": (dim, n_inputs),
            "widths": (len(WIDTHS), dim),
            **dict.fromkeys(("intercept", "noise", "center", "floor", "ceiling"), (dim,)),
            **dict.fromkeys(("low", "high", "unit"), (n_inputs,)),
        }

    def clip(self, x: Float[Array, " features"]) -> Float[Array, " features"]:
        """Return the features, smoothly kept within a margin of the range of training rows."""
        inside, margin = jnp.clip(x, self.low, self.high), CLIP_MARGIN * self.unit
        return inside + margin * jnp.tanh((x - inside) / margin)

    def distance(self, x: Float[Array, " features"]) -> Float[Array, ""]:
        """Return how far outside the training rows the most extreme feature lies; 0 inside.

        In standard deviations. A feature that never varied says nothing, whatever its value is.
        """
        excess = jnp.abs(x - jnp.clip(x, self.low, self.high)) / self.unit
        return jnp.max(jnp.where(self.high > self.low, excess, 0.0), initial=0.0)

    def mix(self, mixture: Mixture, x: Float[Array, " features"]) -> Mixture:
        """Return the networks' mixture with bounded components and with the simple densities."""
        family = mixture.family
        bound = jax.vmap(lambda params: family.bound(params, self.floor, self.ceiling))
        own = self.components(family, self.clip(x))
        parts = [bound(mixture.components), own]
        components = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
        log_weights = self.log_weights_at(x)
        logits = jnp.concatenate([mixture.log_weights + log_weights[0], log_weights[1:]])
        return Mixture(logits, components, family)

    def components(self, family: AbstractFamily, x: Float[Array, " features"]) -> Params:
        """Return the simple densities at clipped features, the linear model first."""
        linear = jnp.clip(self.slope @ x + self.intercept, self.floor, self.ceiling)
        means = jnp.stack([linear, *[self.center] * len(self.widths)])
        variances = jnp.concatenate([self.noise[None], self.widths])
        return jax.vmap(family.from_moments)(means, variances)

    def log_weights_at(self, x: Float[Array, " features"]) -> Float[Array, " kind"]:
        """Return the log weights at some features.

        Far outside, what the networks and the linear model lose goes to the density with the
        moments of the targets.
        """
        trust = 1 / (1 + (self.distance(x) / HALF_TRUST) ** 2)
        weights = jnp.exp(self.log_weights)
        given = (1 - trust) * (weights[0] + weights[1])
        near = self.log_weights[:2] + jnp.log(trust)
        return jnp.concatenate([near, jnp.log(weights[2:3] + given), self.log_weights[3:]])


class AbstractPredictor(eqx.Module):
    """A density for each row, averaged over members: what all predictions are made from."""

    @property
    @abc.abstractmethod
    def family(self) -> AbstractFamily:
        """The components' distribution."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Number of target columns."""

    @property
    @abc.abstractmethod
    def n_members(self) -> int:
        """Number of members."""

    @property
    @abc.abstractmethod
    def n_components(self) -> int:
        """Number of components of a predicted mixture."""

    @property
    @abc.abstractmethod
    def member_components(self) -> int:
        """Number of components of the largest member."""

    @property
    def num_raw(self) -> int:
        """Numbers that describe a predicted mixture."""
        return self.n_components * (1 + self.family.num_raw(self.dim))

    @property
    @abc.abstractmethod
    def member_weights(self) -> Float[Array, " member"]:
        """The weight of each member in the average."""

    @property
    @abc.abstractmethod
    def is_guarded(self) -> bool:
        """Whether it knows the range of the training rows."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, " inputs"]) -> Mixture:
        """Return the mixture for one row of inputs."""

    @abc.abstractmethod
    def each(self, x: Float[Array, " inputs"]) -> Mixture:
        """Return the mixture of each member for one row of inputs, members first."""

    @abc.abstractmethod
    def each_at_distance(self, x: Float[Array, " inputs"]) -> Mixture:
        """Return each member's mixture, with the targets' density in its place far outside.

        Inside the range of the training rows these are the members alone.
        """

    @abc.abstractmethod
    def distance(self, x: Float[Array, " inputs"]) -> Float[Array, ""]:
        """Return how far outside the training rows a row lies, in standard deviations."""

    @abc.abstractmethod
    def subset(self, indices: Sequence[int]) -> "AbstractPredictor":
        """Return the members with these numbers by themselves."""


class Predictor(AbstractPredictor):
    """The average of the densities of several networks, exactly one mixture for each row.

    Attributes:
        members: Networks of one architecture; their arrays have a first axis of members.
        guard: Simple densities beside them, or None.
    """

    members: MixtureNetwork
    guard: Guard | None = None

    @property
    def family(self) -> AbstractFamily:
        return self.members.family

    @property
    def dim(self) -> int:
        return self.members.dim

    @property
    def n_members(self) -> int:
        arrays = [leaf for leaf in jax.tree.leaves(self.members) if eqx.is_array(leaf)]
        return len(arrays[0]) if arrays else 1

    @property
    def n_components(self) -> int:
        own = 0 if self.guard is None else len(self.guard.log_weights) - 1
        return self.n_members * self.members.n_components + own

    @property
    def member_components(self) -> int:
        return self.members.n_components

    @property
    def member_weights(self) -> Float[Array, " member"]:
        return jnp.full(self.n_members, 1 / self.n_members)

    @property
    def is_guarded(self) -> bool:
        return self.guard is not None

    def distance(self, x: Float[Array, " features"]) -> Float[Array, ""]:
        return jnp.zeros((), x.dtype) if self.guard is None else self.guard.distance(x)

    def __call__(self, x: Float[Array, " features"]) -> Mixture:
        """Return the mixture for one row of features."""
        mixture = _joined(self.each(x))
        return mixture if self.guard is None else self.guard.mix(mixture, x)

    def each(self, x: Float[Array, " features"]) -> Mixture:
        """Return the mixture of each member for one row of features, members first."""
        if self.guard is not None:
            x = self.guard.clip(x)
        predict = eqx.filter_vmap(lambda network: network(x), axis_size=self.n_members)
        return predict(self.members)

    def each_at_distance(self, x: Float[Array, " features"]) -> Mixture:
        """Return each member's mixture, with the targets' density in its place far outside.

        Inside the range of the training rows these are the members alone.
        """
        mixtures, guard = self.each(x), self.guard
        if guard is None:
            return mixtures
        trusting = jnp.where(jnp.arange(len(guard.log_weights)) == 0, 0.0, -jnp.inf)
        guard = eqx.tree_at(
            lambda tree: tree.log_weights, guard, trusting.astype(guard.log_weights.dtype)
        )
        return jax.vmap(lambda one: guard.mix(one, x))(mixtures)

    def subset(self, indices: Sequence[int]) -> "Predictor":
        """Return some members by themselves, with the same guard."""
        chosen = np.asarray(indices)
        # Not by JAX, which would compile a program for each shape.
        members = jax.tree.map(
            lambda a: jnp.asarray(np.asarray(a)[chosen]) if eqx.is_array(a) else a, self.members
        )
        return Predictor(members, self.guard)


def average(networks: Sequence[MixtureNetwork], guard: Guard | None = None) -> Predictor:
    """Return the average of networks of one architecture."""
    arrays, rest = zip(*(eqx.partition(net, eqx.is_array) for net in networks), strict=True)
    # Not by JAX, which would compile a program for each shape.
    stacked = jax.device_put(jax.tree.map(lambda *leaves: np.stack(leaves), *arrays))
    return Predictor(eqx.combine(stacked, rest[0]), guard)


def _joined(mixtures: Mixture) -> Mixture:
    """Return the average of the mixtures along the first axis as one mixture."""
    n_members = jnp.asarray(len(mixtures.logits), mixtures.logits.dtype)
    log_weights = mixtures.log_weights - jnp.log(n_members)
    components = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), mixtures.components)
    return Mixture(log_weights.ravel(), components, mixtures.family)
