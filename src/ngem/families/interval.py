"""Families of targets between two bounds: shares, percentages, scores."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .._types import Params
from .links import Logit
from .transformed import AbstractTransformed


@dataclass(frozen=True)
class AbstractInterval(AbstractTransformed):
    """A distribution of numbers strictly between two bounds.

    Attributes:
        lower: Lower bound.
        upper: Upper bound.
    """

    options: ClassVar[tuple[str, ...]] = ("lower", "upper")
    admits_shift: ClassVar[bool] = False
    admits_scale: ClassVar[bool] = False

    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        if not -1e300 < self.lower < self.upper < 1e300:
            name = self.names[0]
            raise ValueError(
                f"bounds of family {name!r} must be two numbers in ascending order, got "
                f"{self.lower!r} and {self.upper!r}; for example {name}(0, 100)."
            )

    @property
    def link(self) -> Logit:
        return Logit(self.lower, self.upper)

    @property
    def standard(self) -> "AbstractInterval":
        return replace(self, lower=0.0, upper=1.0)

    def rescale(self, params: Params, location: Any, scale: Any) -> Params:
        del location, scale  # only the bounds change
        return params

    def rescaled(self, location: np.ndarray, scale: np.ndarray) -> "AbstractInterval":
        lower, upper = (float(location[0] + scale[0] * end) for end in (self.lower, self.upper))
        return replace(self, lower=lower, upper=upper)
