"""From a user's targets to what networks learn, and back, as the family of the components admits.

A network of positive targets learns their logarithms, standardized; one of counts learns the counts
as they are. See `AbstractFamily.link`, `admits_shift` and `admits_scale`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Params
from ..families import AbstractFamily
from ..mixture import Mixture
from ..nn import AbstractPredictor
from .prediction import Model
from .preprocessing import Scaling, Table, fit_scaling


@dataclass(frozen=True)
class TargetUnits:
    """How targets relate to what networks learn: (link(y) - location) / scale.

    Attributes:
        family: Distribution of the components, in the user's units.
        scaling: Change of units after the link.
    """

    family: AbstractFamily
    scaling: Scaling

    def forward(self, y: Float[np.ndarray, "batch dim"]) -> np.ndarray:
        """Return targets as networks learn them, in single precision."""
        return self.scaling.forward(self.family.link.forward(y))

    def forward_ends(self, ends: Float[np.ndarray, "batch twice"]) -> np.ndarray:
        """Return ends of intervals as networks learn them; infinite ones lie far out."""
        return self.scaling.forward_ends(self.family.link.forward(ends), self.family.base.far)

    def forward_given(self, table: Table) -> np.ndarray:
        """Return what is known of the targets as networks learn it."""
        return (self.forward_ends if table.has_intervals else self.forward)(table.given)

    @property
    def widest(self) -> Float[np.ndarray, " dim"]:
        """How much wider than all targets a density beside the networks may be."""
        return self.family.link.widest(self.scaling.scale)

    @property
    def outer(self) -> Scaling:
        """The change of units that is left to do after the link is undone."""
        return Scaling(*self.family.link.outer(*self.scaling)[2:])

    def log_units(self, table: Table, resolution: float | None) -> Float[np.ndarray, " batch"]:
        """Return by how much log likelihoods in the user's units are lower than the networks'.

        A density has units, and a probability has none. Rounded targets have the mean density over
        their interval.
        """
        of_density = np.log(self.scaling.scale) - self.family.link.log_slope(table.y)
        of_density = np.where(self.family.is_atom(table.y), 0.0, of_density)
        if table.ends is None:
            return of_density.sum(axis=1)
        lower, upper = np.split(table.ends, 2, axis=1)
        of_interval = 0.0 if resolution is None else np.log(resolution)
        return np.where(lower == upper, of_density, of_interval).sum(axis=1)

    def mean_offset(self, table: Table) -> float:
        """Return what turns a mean negative log density of the networks' into the user's."""
        own = self.scaling.log_volume
        at = self.family.is_atom(table.y)
        offsets = np.where(at, np.log(self.scaling.scale), self.family.link.log_slope(table.y))
        slopes = offsets.sum(axis=1)
        return own - float(np.average(slopes, weights=table.weights)) if slopes.any() else own


class LinkedPredictor(AbstractPredictor):
    """A predictor of link(Y), as one of Y.

    Attributes:
        inner: What predicts link(Y), standardized.
        location: Zero of its units.
        scale: Their size.
        linked: Distribution of Y, in units of its own.
    """

    inner: AbstractPredictor
    location: Float[Array, " dim"]
    scale: Float[Array, " dim"]
    linked: AbstractFamily = eqx.field(static=True)

    @property
    def family(self) -> AbstractFamily:
        return self.linked

    @property
    def dim(self) -> int:
        return self.inner.dim

    @property
    def n_members(self) -> int:
        return self.inner.n_members

    @property
    def n_components(self) -> int:
        return self.inner.n_components

    @property
    def member_components(self) -> int:
        return self.inner.member_components

    @property
    def member_weights(self) -> Float[Array, " member"]:
        return self.inner.member_weights

    @property
    def is_guarded(self) -> bool:
        return self.inner.is_guarded

    def __call__(self, x: Float[Array, " inputs"]) -> Mixture:
        return self._linked(self.inner(x))

    def each(self, x: Float[Array, " inputs"]) -> Mixture:
        return self._linked(self.inner.each(x))

    def each_at_distance(self, x: Float[Array, " inputs"]) -> Mixture:
        return self._linked(self.inner.each_at_distance(x))

    def distance(self, x: Float[Array, " inputs"]) -> Float[Array, ""]:
        return self.inner.distance(x)

    def subset(self, indices: Sequence[int]) -> "LinkedPredictor":
        return LinkedPredictor(self.inner.subset(indices), self.location, self.scale, self.linked)

    def _linked(self, mixture: Mixture) -> Mixture:
        def one(params: Params) -> Params:
            return mixture.family.rescale(params, self.location, self.scale)

        for _ in mixture.logits.shape:
            one = jax.vmap(one)
        return Mixture(mixture.logits, one(mixture.components), self.linked)


def fit_targets(family: AbstractFamily, seen: Table, *, scale: bool = True) -> TargetUnits:
    """Return how targets become what networks learn, from the rows that members see."""
    return make_units(family, *fit_scaling(family.link.forward(seen.y), seen.weights), scale=scale)


def make_units(
    family: AbstractFamily, location: np.ndarray, size: np.ndarray, *, scale: bool = True
) -> TargetUnits:
    """Return the units of targets whose links have this mean and this standard deviation."""
    shifts, scales = (scale & part for part in family.base.unit_changes(len(location)))
    return TargetUnits(
        family, Scaling(np.where(shifts, location, 0.0), np.where(scales, size, 1.0))
    )


def make_model(
    units: TargetUnits, predictor: AbstractPredictor, inputs: Any, resolution: float | None
) -> Model:
    """Return a predictor of standardized targets as a model in the user's units."""
    family = units.family
    if family.base is family:
        return Model(predictor, inputs, units.scaling, resolution)
    inner = family.link.outer(*units.scaling)[:2]
    location, scale = (jnp.asarray(part, jnp.float32) for part in inner)
    linked = LinkedPredictor(predictor, location, scale, family.standard)
    return Model(linked, inputs, units.outer, resolution)


def own_predictor(model: Model) -> Any:
    """Return what predicts in units of its own: a predictor of link(Y)."""
    is_linked = isinstance(model.network, LinkedPredictor)
    return model.network.inner if is_linked else model.network


def read_inside(family: AbstractFamily, table: Table, name: str = "y") -> Table:
    """Return rows whose targets lie where the family has its probability, refusing others.

    Where only an interval is known, a value in the part of it that is possible is chosen.
    """
    if table.ends is None:
        family.check_targets(table.y, name)
        return table
    lower, upper = np.split(table.ends, 2, axis=1)
    is_known = lower == upper
    inside = family.link.backward(_between(*map(family.link.forward, (lower, upper))))
    y = np.where(is_known, lower, inside)
    family.check_targets(y, name)
    return table if family.base is family else table._replace(y=y)


def _between(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return a number in each interval; the mean of others where there is no end at all."""
    has_lower, has_upper = np.isfinite(lower), np.isfinite(upper)
    low, high = np.where(has_lower, lower, upper), np.where(has_upper, upper, lower)
    known = has_lower | has_upper
    low, high = np.where(known, low, 0.0), np.where(known, high, 0.0)
    middle = low + (high - low) / 2
    center = np.sum(np.where(known, middle, 0.0), axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known, middle, center)
