"""Several target columns with a family each, independent given the component."""

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Params, Power
from .base import AbstractFamily
from .links import AbstractLink, ByColumn, by_column


@dataclass(frozen=True)
class Columns(AbstractFamily):
    """One family for each target column.

    Its parameters are a tuple with those of each column. The Fisher information has a block for
    each of them.

    Attributes:
        columns: The families, each with independent coordinates.
    """

    names: ClassVar[tuple[str, str]] = ("columns", "diag")
    # Not all columns together; `unit_changes` says which.
    admits_shift: ClassVar[bool] = False
    admits_scale: ClassVar[bool] = False

    columns: tuple[AbstractFamily, ...] = ()

    def __post_init__(self) -> None:
        wrong = [one.name for one in self.columns if one.names[1] != "diag"]
        if wrong or not self.columns:
            raise ValueError(
                "a family for each column must have independent coordinates, got "
                f"{wrong or 'none'}; name one distribution for each target column."
            )

    # What is true of all columns, or of some.

    @property
    def name(self) -> str:
        return ", ".join(one.name for one in self.columns)

    @property
    def kind(self) -> Any:
        return type(self), tuple(one.kind for one in self.columns)

    @property
    def link(self) -> AbstractLink:
        return ByColumn(tuple(one.link for one in self.columns))

    @property
    def base(self) -> AbstractFamily:
        bases = tuple(one.base for one in self.columns)
        is_same = all(base is one for base, one in zip(bases, self.columns, strict=True))
        return self if is_same else replace(self, columns=bases)

    @property
    def standard(self) -> "Columns":
        return replace(self, columns=tuple(one.standard for one in self.columns))

    @property
    def far(self) -> Any:
        return np.array([one.far for one in self.columns])

    @property
    def has_steps(self) -> bool:
        return any(one.has_steps for one in self.columns)

    @property
    def takes_intervals(self) -> bool:
        return all(one.takes_intervals for one in self.columns)

    @property
    def takes_rows(self) -> bool:
        return all(one.takes_rows for one in self.columns)

    @property
    def has_boxes(self) -> bool:
        return all(one.has_boxes for one in self.columns)

    @property
    def averages_parts(self) -> bool:
        return any(one.averages_parts for one in self.columns)

    def unit_changes(self, dim: int) -> tuple[np.ndarray, np.ndarray]:
        self._check_dim(dim)
        each = [one.unit_changes(1) for one in self.columns]
        shifts, scales = (np.concatenate(part) for part in zip(*each, strict=True))
        return shifts, scales

    def is_atom(self, y: np.ndarray) -> np.ndarray:
        return by_column([one.is_atom for one in self.columns], y)

    def difference(self, one: Any, other: Any) -> Any:
        return by_column([family.difference for family in self.columns], one, other)

    def check_targets(self, y: np.ndarray, name: str = "y") -> None:
        self._check_dim(y.shape[1])
        for place, one in enumerate(self.columns):
            one.check_targets(y[:, [place]], f"column {place} of {name}")

    def _check_dim(self, dim: int) -> None:
        if dim != len(self.columns):
            raise ValueError(
                f"family must name one distribution for each of {dim} target columns, got "
                f"{len(self.columns)}: {self.name}."
            )

    # From raw outputs to parameters.

    def num_raw(self, dim: int) -> int:
        self._check_dim(dim)
        return sum(self._sizes)

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(one.num_raw(1) for one in self.columns)

    def raw_kinds(self, dim: int) -> tuple[str, ...]:
        self._check_dim(dim)
        return sum((one.raw_kinds(1) for one in self.columns), ())

    def constrain(self, raw: Float[Array, "raw *rows"], dim: int) -> Params:
        self._check_dim(dim)
        parts = jax.lax.split(raw, self._sizes)
        return tuple(one.constrain(part, 1) for one, part in zip(self.columns, parts, strict=True))

    def unconstrain(self, params: Params) -> Float[Array, " raw"]:
        return self._joined("unconstrain", params)

    # Densities and geometry.

    def log_prob(self, params: Params, y: Float[Array, "dim *rows"]) -> Float[Array, "*rows"]:
        return self._sum("log_prob", params, y)

    def log_observed(
        self, params: Params, lower: Float[Array, "dim *rows"], upper: Float[Array, "dim *rows"]
    ) -> Float[Array, "*rows"]:
        return self._sum("log_observed", params, lower, upper)

    def log_mass(
        self, params: Params, lower: Float[Array, " dim"], upper: Float[Array, " dim"]
    ) -> Float[Array, ""]:
        return self._sum("log_mass", params, lower, upper)

    def fisher_solve(
        self, params: Params, grad: Params, power: Power, coordinates: str = "scale"
    ) -> Params:
        return tuple(
            one.fisher_solve(part, own, power, coordinates)
            for one, part, own in zip(self.columns, params, grad, strict=True)
        )

    def fisher_solve_each(
        self, params: Params, grad: Params, power: Power, coordinates: str
    ) -> Params:
        return tuple(
            one.fisher_solve_each(part, own, power, coordinates)
            for one, part, own in zip(self.columns, params, grad, strict=True)
        )

    def raw_fisher_diagonal(self, params: Params) -> Float[Array, "raw *rows"]:
        return self._joined("raw_fisher_diagonal", params)

    # Moments and samples.

    def sample(self, params: Params, key: PRNGKeyArray) -> Float[Array, " dim"]:
        keys = jax.random.split(key, len(self.columns))
        each = zip(self.columns, params, keys, strict=True)
        return jnp.concatenate([one.sample(part, key) for one, part, key in each])

    def mean(self, params: Params) -> Float[Array, "dim *rows"]:
        return self._joined("mean", params)

    def mean_parts(self, params: Params) -> Float[Array, "dim part"]:
        parts = [one.mean_parts(own) for one, own in zip(self.columns, params, strict=True)]
        most = max(part.shape[1] for part in parts)
        return jnp.concatenate(
            [jnp.pad(part, ((0, 0), (0, most - part.shape[1]))) for part in parts]
        )

    def mean_of_parts(self, parts: Float[Array, "... part"]) -> Float[Array, "..."]:
        each = [
            one.mean_of_parts(parts[..., place : place + 1, :])
            for place, one in enumerate(self.columns)
        ]
        return jnp.concatenate(each, axis=-1)

    def variance(self, params: Params) -> Float[Array, "dim *rows"]:
        return self._joined("variance", params)

    def variance_around(
        self, params: Params, center: Float[Array, "dim *rows"]
    ) -> Float[Array, "dim *rows"]:
        each = zip(self._places, params, strict=True)
        return jnp.concatenate(
            [one.variance_around(part, center[here]) for (one, here), part in each]
        )

    def from_moments(self, mean: Float[Array, " dim"], variance: Float[Array, " dim"]) -> Params:
        return tuple(one.from_moments(mean[here], variance[here]) for one, here in self._places)

    def from_cluster(
        self,
        y: Float[Array, "batch dim"],
        counts: Float[Array, " batch"],
        mean: Float[Array, " dim"],
        variance: Float[Array, " dim"],
    ) -> Params:
        return tuple(
            one.from_cluster(y[:, here], counts, mean[here], variance[here])
            for one, here in self._places
        )

    # Other targets and units.

    def count_targets(self, params: Params, axis: int = 0) -> int:
        del params, axis
        return len(self.columns)

    def of_columns(self, dims: tuple[int, ...]) -> AbstractFamily:
        """Return the families of some columns; of a single one, its own."""
        chosen = tuple(self.columns[dim] for dim in dims)
        return chosen[0] if len(chosen) == 1 else replace(self, columns=chosen)

    def marginal(self, params: Params, dims: tuple[int, ...]) -> Params:
        chosen = tuple(params[dim] for dim in dims)
        return chosen[0] if len(chosen) == 1 else chosen

    def rescale(self, params: Params, location: Any, scale: Any) -> Params:
        each = zip(self._places, params, strict=True)
        return tuple(
            one.rescale(part, location[..., here], scale[..., here]) for (one, here), part in each
        )

    def rescaled(self, location: np.ndarray, scale: np.ndarray) -> "Columns":
        each = (one.rescaled(location[here], scale[here]) for one, here in self._places)
        return replace(self, columns=tuple(each))

    # One dimension: the only column.

    def cdf(self, params: Params, y: Float[Array, " 1"]) -> Float[Array, ""]:
        return self.columns[0].cdf(params[0], y)

    def quantile(self, params: Params, q: Float[Array, ""]) -> Float[Array, ""]:
        return self.columns[0].quantile(params[0], q)

    # Scales.

    def scales(self, params: Params) -> Float[Array, " dim"]:
        return self._joined("scales", params)

    def widen(self, params: Params, smallest: Float[Array, " dim"]) -> Params:
        each = zip(self._places, params, strict=True)
        return tuple(one.widen(part, smallest[here]) for (one, here), part in each)

    def bound(
        self, params: Params, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> Params:
        each = zip(self._places, params, strict=True)
        return tuple(one.bound(part, low[here], high[here]) for (one, here), part in each)

    @property
    def _places(self) -> list[tuple[AbstractFamily, slice]]:
        """The families, and where the column of each stands in an array of all."""
        return [(one, slice(place, place + 1)) for place, one in enumerate(self.columns)]

    def _joined(self, method: str, params: Params) -> Array:
        """Return what a method gives for the columns, one after the other."""
        each = zip(self.columns, params, strict=True)
        return jnp.concatenate([getattr(one, method)(part) for one, part in each])

    def _sum(self, method: str, params: Params, *y: Array) -> Array:
        """Return the sum over columns of what a method gives."""
        each = zip(self._places, params, strict=True)
        parts = [
            getattr(one, method)(part, *(values[here] for values in y))
            for (one, here), part in each
        ]
        return reduce(jnp.add, parts)
