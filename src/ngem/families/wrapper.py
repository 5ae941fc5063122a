"""Families made from another one, to which they hand on whatever they do not change."""

import abc
from dataclasses import dataclass
from typing import Any

from jaxtyping import Array, Float

from .._types import Params, Power
from .base import AbstractFamily


@dataclass(frozen=True)
class AbstractWrapper(AbstractFamily):
    """A family that does what another one does, but for the methods that it defines itself.

    Its parameters are those of the other family, or hold them, see `rest` and `with_rest`.
    """

    @property
    @abc.abstractmethod
    def wrapped(self) -> AbstractFamily:
        """The other family."""

    def rest(self, params: Params) -> Params:
        """Return the parameters of the other family."""
        return params

    def with_rest(self, params: Params, rest: Params) -> Params:
        """Return the parameters with other ones of the other family."""
        del params
        return rest

    @property
    def far(self) -> float:
        return self.wrapped.far

    @property
    def takes_rows(self) -> bool:
        return self.wrapped.takes_rows

    @property
    def has_boxes(self) -> bool:
        return self.wrapped.has_boxes

    def num_raw(self, dim: int) -> int:
        return self.wrapped.num_raw(dim)

    def raw_kinds(self, dim: int) -> tuple[str, ...]:
        return self.wrapped.raw_kinds(dim)

    def constrain(self, raw: Float[Array, "raw *rows"], dim: int) -> Params:
        return self.wrapped.constrain(raw, dim)

    def unconstrain(self, params: Params) -> Float[Array, " raw"]:
        return self.wrapped.unconstrain(self.rest(params))

    def fisher_solve(
        self, params: Params, grad: Params, power: Power, coordinates: str = "scale"
    ) -> Params:
        rest, own = self.rest(params), self.rest(grad)
        return self.with_rest(grad, self.wrapped.fisher_solve(rest, own, power, coordinates))

    def fisher_solve_each(
        self, params: Params, grad: Params, power: Power, coordinates: str
    ) -> Params:
        rest, own = self.rest(params), self.rest(grad)
        return self.with_rest(grad, self.wrapped.fisher_solve_each(rest, own, power, coordinates))

    def raw_fisher_diagonal(self, params: Params) -> Float[Array, "raw *rows"]:
        return self.wrapped.raw_fisher_diagonal(self.rest(params))

    def rescale(self, params: Params, location: Any, scale: Any) -> Params:
        return self.with_rest(params, self.wrapped.rescale(self.rest(params), location, scale))

    def landmarks(self, params: Params, at: Float[Array, " points"]) -> Float[Array, " points"]:
        return self.wrapped.landmarks(self.rest(params), at)

    def scales(self, params: Params) -> Float[Array, " dim"]:
        return self.wrapped.scales(self.rest(params))

    def widen(self, params: Params, smallest: Float[Array, " dim"]) -> Params:
        return self.with_rest(params, self.wrapped.widen(self.rest(params), smallest))

    def bound(
        self, params: Params, low: Float[Array, " dim"], high: Float[Array, " dim"]
    ) -> Params:
        return self.with_rest(params, self.wrapped.bound(self.rest(params), low, high))
