"""Links: one-to-one maps from where targets lie to the real line, column by column.

A one-to-one map of the target changes neither responsibilities nor the Fisher information. So a
distribution of positive numbers is a distribution of their logarithms, and has its natural
gradient. NumPy and JAX arrays alike.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def _module(values: Any) -> Any:
    return jnp if isinstance(values, jax.Array) else np


class AbstractLink(abc.ABC):
    """An increasing map z = link(y) from an interval to the real line."""

    @property
    @abc.abstractmethod
    def ends(self) -> tuple[float, float]:
        """The interval; its ends themselves do not belong to it, unless the line is all of it."""

    @abc.abstractmethod
    def forward(self, y: Any) -> Any:
        """Return z; -inf and inf at the ends of the interval and beyond."""

    @abc.abstractmethod
    def backward(self, z: Any) -> Any:
        """Return y."""

    @abc.abstractmethod
    def log_slope(self, y: Any) -> Any:
        """Return log dz/dy, for y inside the interval."""

    def widest(self, scale: Any) -> Any:
        """Return how much wider than all targets a density beside the networks may be.

        Args:
            scale: Standard deviation of link(y) of each column.
        """
        return np.full_like(scale, 4.0)

    @abc.abstractmethod
    def outer(self, location: Any, scale: Any) -> tuple[Any, Any, Any, Any]:
        """Return two changes of units that together are y = backward(location + scale z).

        The first maps z, before the link; the second maps what comes after it: (location, scale)
        of each. So results near 1e-300 or 1e300 need no such numbers inside a network.
        """


@dataclass(frozen=True)
class Line(AbstractLink):
    """All real numbers, as they are."""

    @property
    def ends(self) -> tuple[float, float]:
        return -np.inf, np.inf

    def forward(self, y: Any) -> Any:
        return y

    def backward(self, z: Any) -> Any:
        return z

    def log_slope(self, y: Any) -> Any:
        return _module(y).zeros_like(y)

    def outer(self, location: Any, scale: Any) -> tuple[Any, Any, Any, Any]:
        return np.zeros_like(location), np.ones_like(scale), location, scale


@dataclass(frozen=True)
class Log(AbstractLink):
    """Positive numbers by their logarithms."""

    @property
    def ends(self) -> tuple[float, float]:
        return 0.0, np.inf

    def forward(self, y: Any) -> Any:
        lib = _module(y)
        inside = lib.where(y > 0, y, 1.0)
        return lib.where(y > 0, lib.log(inside), -np.inf)

    def backward(self, z: Any) -> Any:
        return _module(z).exp(z)

    def widest(self, scale: Any) -> Any:
        # The mean of a log-normal variable grows as exp(variance / 2). A faint density with a
        # standard deviation of 6 would decide the mean of the whole mixture.
        return np.clip(1.5 / scale, 1.0, 4.0)

    def log_slope(self, y: Any) -> Any:
        lib = _module(y)
        return -lib.log(lib.where(y > 0, y, 1.0))

    def outer(self, location: Any, scale: Any) -> tuple[Any, Any, Any, Any]:
        return np.zeros_like(location), scale, np.zeros_like(location), np.exp(location)


@dataclass(frozen=True)
class Logit(AbstractLink):
    """Numbers between two bounds by log((y - lower) / (upper - y)).

    Attributes:
        lower: Lower bound.
        upper: Upper bound.
    """

    lower: float = 0.0
    upper: float = 1.0

    @property
    def ends(self) -> tuple[float, float]:
        return self.lower, self.upper

    def forward(self, y: Any) -> Any:
        lib = _module(y)
        below, above, inside = self._distances(y)
        z = lib.log(below) - lib.log(above)
        return lib.where(inside, z, lib.where(y <= self.lower, -np.inf, np.inf))

    def backward(self, z: Any) -> Any:
        lib = _module(z)
        # The smaller side by its own exponential, so that both ends keep all digits.
        small = lib.exp(-lib.abs(z))
        fraction = lib.where(z < 0, small, 1.0) / (1 + small)
        return self.lower + (self.upper - self.lower) * fraction

    def log_slope(self, y: Any) -> Any:
        lib = _module(y)
        below, above, _ = self._distances(y)
        return float(np.log(self.upper - self.lower)) - lib.log(below) - lib.log(above)

    def outer(self, location: Any, scale: Any) -> tuple[Any, Any, Any, Any]:
        width = self.upper - self.lower
        return location, scale, np.full_like(location, self.lower), np.full_like(scale, width)

    def _distances(self, y: Any) -> tuple[Any, Any, Any]:
        """Return the distances from both bounds, harmless ones outside, and what is inside."""
        lib = _module(y)
        inside = (y > self.lower) & (y < self.upper)
        return (
            lib.where(inside, y - self.lower, 1.0),
            lib.where(inside, self.upper - y, 1.0),
            inside,
        )


@dataclass(frozen=True)
class ByColumn(AbstractLink):
    """A link for each target column, which is the last axis of all arrays.

    Where that axis is a multiple as long, as that of the ends of intervals is, the links repeat.

    Attributes:
        links: The links.
    """

    links: tuple[AbstractLink, ...]

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest interval that holds those of all columns."""
        lows, highs = zip(*(link.ends for link in self.links), strict=True)
        return min(lows), max(highs)

    def forward(self, y: Any) -> Any:
        return by_column([link.forward for link in self.links], y)

    def backward(self, z: Any) -> Any:
        return by_column([link.backward for link in self.links], z)

    def log_slope(self, y: Any) -> Any:
        return by_column([link.log_slope for link in self.links], y)

    def widest(self, scale: Any) -> Any:
        return by_column([link.widest for link in self.links], scale)

    def outer(self, location: Any, scale: Any) -> tuple[Any, Any, Any, Any]:
        each = zip(self.links, np.asarray(location), np.asarray(scale), strict=True)
        parts = [link.outer(*units) for link, *units in each]
        before, size, after, factor = (np.stack(part) for part in zip(*parts, strict=True))
        return before, size, after, factor


def by_column(functions: Sequence[Callable], *values: Any) -> Any:
    """Return what each function gives for its column, the last axis; NumPy and JAX alike."""
    lib = _module(values[0])
    columns = [
        functions[place % len(functions)](*(part[..., place] for part in values))
        for place in range(values[0].shape[-1])
    ]
    return lib.stack(columns, axis=-1)
