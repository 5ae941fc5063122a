"""Fitted kinds as one model: their weights and the width of their components, by held-out rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..ensemble import (
    Part,
    StackPredictor,
    Width,
    choose_width,
    has_width,
    log_densities,
    stack,
)
from ..mixture import Mixture
from .pools import Pools, find_pools
from .prediction import Model, Readable
from .preprocessing import Scaling, Table

#: How many members hold each row out: for up to so many rows, so many.
_REPEATS = {50: 1, 1_000: 3, 20_000: 2}

#: Rows that choose the width, and rows whose held-out densities are in memory at a time.
_ROWS = 16_384


@dataclass(frozen=True)
class StackInputs:
    """Inputs of all parts of a stack, one after the other."""

    parts: tuple[Readable, ...]

    @property
    def n_features(self) -> int:
        """Number of features, the same for all parts."""
        return self.parts[0].n_features

    def forward(self, x: np.ndarray) -> Float[np.ndarray, "batch inputs"]:
        """Return the inputs of each row, in single precision."""
        return np.concatenate([part.forward(x) for part in self.parts], axis=1)


class Combined(NamedTuple):
    """Several kinds as one model, and what held-out rows say of them.

    Attributes:
        model: The kinds in use together.
        weights: The weight of each kind, zero for those that were dropped.
        nll: The mean negative log density of each kind.
        all_nll: That of all kinds together.
        log_density: Log density of each row under all together, NaN for rows never held out.
        width: How much narrower components are.
    """

    model: Model
    weights: Float[np.ndarray, " kind"]
    nll: Float[np.ndarray, " kind"]
    all_nll: float
    log_density: Float[np.ndarray, " batch"]
    width: Width


def choose_repeats(n_rows: int) -> int:
    """Return how many members of each kind should hold each row out."""
    return next((repeats for most, repeats in _REPEATS.items() if n_rows <= most), 1)


def combine(models: Sequence[Any], table: Table, sample_weight: Any, repeats: int) -> Combined:
    """Return fitted estimators, which held out the same rows, as one model.

    Args:
        models: Fitted estimators of one family.
        table: The rows of the fit; those that do not count are left out.
        sample_weight: How much each row that the user gave counts.
        repeats: How many members of each have held each row out.
    """
    each = np.column_stack([model.oof_log_prob_ for model in models])
    rows = np.flatnonzero(np.isfinite(each).all(axis=1))
    if not len(rows):
        raise ValueError(
            "the kinds of a stack must hold rows out, got kinds that do not; fit them with "
            "early_stopping=True."
        )
    counts = np.ones(len(each)) if sample_weight is None else np.asarray(sample_weight, float)
    stacked = stack(each[rows], counts[rows])
    used = [one.model_ for one, weight in zip(models, stacked.weights, strict=True) if weight]
    model = stack_models(used, stacked.weights[stacked.weights > 0], table.x[:1])
    log_density = np.full(len(each), np.nan)
    log_density[rows] = stacked.log_density
    width = Width(1.0, 0.0)
    if has_width(model.network.family):
        kept = np.flatnonzero(counts)
        places = [np.searchsorted(kept, fold) for fold in models[0].folds_]
        judge = _Judge(model, find_pools(places, repeats), table)
        width = judge.choose(counts[kept])
        log_density[kept] += judge.changes(width.factor, len(kept))
        model = replace(model, network=model.network.at_width(width.factor))
    mean = partial(np.average, axis=0, weights=counts[rows])
    nll = -float(mean(log_density[rows]))
    return Combined(model, stacked.weights, -mean(each[rows]), nll, log_density, width)


class _Judge(NamedTuple):
    """A stack, and the rows that some of its members have not seen."""

    model: Model
    pools: Pools
    table: Table

    def choose(self, counts: Float[np.ndarray, " batch"]) -> Width:
        """Return the width that held-out rows choose; thousands of them decide as well as all."""
        some = np.sort(np.random.default_rng(0).permutation(len(self.pools.rows))[:_ROWS])
        return choose_width(*self._densities(some), counts[self.pools.rows[some]])

    def changes(self, width: float, n_rows: int) -> Float[np.ndarray, " batch"]:
        """Return by how much a width changes the log density of each held-out row."""
        found = np.zeros(n_rows)
        if width == 1.0:
            return found
        for start in range(0, len(self.pools.rows), _ROWS):
            some = np.arange(start, min(start + _ROWS, len(self.pools.rows)))
            after, before = log_densities(*self._densities(some), np.array([width, 1.0]))
            found[self.pools.rows[some]] = after - before
        return found

    def _densities(self, some: np.ndarray) -> tuple[Mixture, np.ndarray]:
        """Return densities of some rows under each member of their pools, and their targets."""
        table = self.table.take(self.pools.rows[some])
        own, targets = self.pools.members[some], self.model.targets
        model, inputs = self.model.encoded(table.x)
        by_member = [
            model.member(member).own_parameters(inputs[np.any(own == member, axis=1)])
            for member in np.unique(own).tolist()
        ]
        # Rows stand member by member, and ascend for each of them.
        back = np.argsort(np.argsort(own.ravel(), kind="stable"))

        def in_place(*leaves: np.ndarray) -> Any:
            joined = np.concatenate(leaves)[back]
            return jnp.asarray(joined.reshape(*own.shape, *joined.shape[1:]), jnp.float32)

        logits, components = jax.tree.map(in_place, *by_member)
        each = Mixture(logits, components, model.network.family)
        if table.ends is None:
            return each, targets.forward(table.y)
        return each, targets.forward_ends(table.ends, each.family.far)


def stack_models(
    models: Sequence[Model],
    weights: Float[np.ndarray, " part"],
    row: np.ndarray,
    width: float | None = None,
) -> Model:
    """Return several models as one, in the units of the first.

    Args:
        models: Models of one family.
        weights: The weight of each.
        row: One row of features, from which the number of inputs of each is read.
        width: Factor of the scales of all components.
    """
    units = models[0].targets
    families = [model.network.family.kind for model in models]
    if len(set(families)) > 1:
        names = ", ".join(model.network.family.name for model in models)
        raise ValueError(
            f"the kinds of a stack must have components of one family, got {names}; set family and "
            "covariance='diag' of each kind alike."
        )
    parts = tuple(
        Part(model.network, *_relative(model.targets, units), model.inputs.forward(row).shape[1])
        for model in models
    )
    network = StackPredictor(parts, jnp.asarray(np.log(np.float32(weights)))).at_width(width)
    inputs = StackInputs(tuple(model.inputs for model in models))
    return Model(network, inputs, units, models[0].resolution)


def _relative(own: Scaling, units: Scaling) -> tuple[Any, Any]:
    """Return location and scale of some units in others, in single precision."""
    location = (own.location - units.location) / units.scale
    return jnp.asarray(np.float32(location)), jnp.asarray(np.float32(own.scale / units.scale))
