"""Rows to learn from, and the order in which a training run visits them."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._errors import check_finite
from ..mixture.checks import check_weights
from ..nn import MixtureNetwork

#: Rounds of the shuffle; each moves the columns and the rows of a table once.
_ROUNDS = 4

#: Row numbers shuffled at a time.
_SHUFFLE_BLOCK = 8192


class Data(NamedTuple):
    """Rows to learn from: features, targets and, where they differ, weights.

    Targets that are not known exactly are intervals: `y` then has the lower ends of all targets,
    followed by the upper ends, in twice as many columns. Equal ends are a known target.

    Where few conditions repeat over many rows, `x` may hold each condition once, and `condition` is
    the index in `x` of each target's condition. The network then runs on the distinct conditions
    only, forward and backward, for exactly the same gradient. `condense` finds such data.
    """

    x: Float[Array, "conditions features"]
    y: Float[Array, "batch dim"]
    weights: Float[Array, " batch"] | None = None
    condition: Int[Array, " batch"] | None = None

    @property
    def rows(self) -> Float[Array, "batch features"]:
        """Features of every row."""
        return self.x if self.condition is None else self.x[self.condition]

    def take(self, index: Int[Array, " batch"]) -> "Data":
        """Return some of the rows; all conditions stay."""
        weights = None if self.weights is None else self.weights[index]
        if self.condition is None:
            return Data(self.x[index], self.y[index], weights)
        return Data(self.x, self.y[index], weights, self.condition[index])


class Batches(NamedTuple):
    """The rows of each step of an epoch.

    Attributes:
        order: Row numbers in random order. The last batch is filled up with rows of the first.
        size: Rows per batch.
        n_batches: Batches per epoch.
    """

    order: Int[Array, " place"]
    size: int
    n_batches: int

    @property
    def is_divided(self) -> bool:
        """Whether each device has its own rows only."""
        return False

    def mass(self, batch: Data | None, number: Int[Array, ""]) -> Float[Array, ""]:
        """Return the sum of the weights of a batch."""
        del number
        assert batch is not None, "every device has all rows"
        if batch.weights is None:
            return jnp.asarray(len(batch.y), batch.y.dtype)
        return jnp.sum(batch.weights)

    def take(self, data: Data, number: Int[Array, ""]) -> Data:
        """Return a batch; rows that only fill up the last batch have weight zero."""
        index = jax.lax.dynamic_slice(self.order, (number * self.size,), (self.size,))
        batch = data.take(index)
        if self.n_batches * self.size == len(data.y):
            return batch
        present = number * self.size + jnp.arange(self.size) < len(data.y)
        weights = present.astype(batch.y.dtype)
        return batch._replace(weights=weights if batch.weights is None else weights * batch.weights)

    def take_part(
        self, data: Data, number: Int[Array, ""], part: Int[Array, ""], parts: int
    ) -> Data:
        """Return one of several equal parts of a batch; rows that only fill up have weight zero."""
        size = -(-self.size // parts)
        within = part * size + jnp.arange(size, dtype=jnp.int32)
        place = number * self.size + within
        batch = data.take(self.order[jnp.minimum(place, len(self.order) - 1)])
        present = ((within < self.size) & (place < len(data.y))).astype(batch.y.dtype)
        return batch._replace(weights=present if batch.weights is None else present * batch.weights)


def make_batches(key: PRNGKeyArray, data: Data, batch_size: int) -> Batches:
    """Return the batches of one epoch, with rows in random order."""
    size = min(batch_size, len(data.y))
    n_batches = -(-len(data.y) // size)
    return Batches(shuffled(key, len(data.y), n_batches * size), size, n_batches)


def filled_up(data: Data, parts: int) -> Data:
    """Return data whose number of rows is divisible; rows that only fill up have weight zero."""
    count, lacking = len(data.y), -len(data.y) % parts
    if not lacking:
        return data
    place = jnp.arange(count + lacking, dtype=jnp.int32)
    filled = data.take(jnp.minimum(place, count - 1))
    present = (place < count).astype(data.y.dtype)
    return filled._replace(weights=present if filled.weights is None else present * filled.weights)


def check_data(name: str, data: Data) -> None:
    """Refuse data that no step could use."""
    rows = len(data.x if data.condition is None else data.condition)
    if rows != len(data.y) or rows == 0:
        raise ValueError(
            f"{name} data must have as many rows of x as of y and at least one, got "
            f"{rows} and {len(data.y)}; check how they were split."
        )
    if data.condition is not None:
        _check_condition(data.x, np.asarray(data.condition))
    for label, array in (("x", data.x), ("y", data.y)):
        check_finite(f"{name} {label}", array)
    if data.weights is not None:
        check_weights((rows,), data.weights)


def _check_condition(x: Array, condition: np.ndarray) -> None:
    if not 0 <= condition.min() <= condition.max() < len(x):
        raise ValueError(
            f"condition must number the {len(x)} rows of x from 0, got {condition.min()} to "
            f"{condition.max()}; check which row each target belongs to."
        )


def condense(data: Data, at_most: int) -> Data:
    """Return the data with each distinct condition once, if there are at most so many of them."""
    x = np.asarray(data.rows)
    # The first rows of most data show that it has too many conditions, without sorting all rows.
    if len(np.unique(x[: 2 * at_most + 1], axis=0)) > at_most:
        return data._replace(x=data.rows, condition=None)
    distinct, condition = np.unique(x, axis=0, return_inverse=True)
    if len(distinct) > at_most:
        return data._replace(x=data.rows, condition=None)
    return data._replace(x=jnp.asarray(distinct), condition=jnp.asarray(condition.ravel()))


def arrange(network: MixtureNetwork, data: Data, batch_size: int) -> Data:
    """Return the data in the form that trains fastest.

    Conditions pay if a batch repeats them. They need a network that treats equal rows equally,
    which dropout does not, and targets that are known, not intervals.
    """
    if network.is_random or data.y.shape[1] != network.dim:
        return data._replace(x=data.rows, condition=None)
    return condense(data, min(batch_size, len(data.y)) // 2)


def shuffled(key: PRNGKeyArray, count: int, places: int) -> Int[Array, " place"]:
    """Return the numbers below `count` in random order.

    About 20 times as fast as `jax.random.permutation`, which would take 16% of an epoch of 6,554
    rows (`docs/results/shuffle.json`).

    After `count` places the order starts again; there are at least `places` of them in all.

    The numbers fill a table. Its columns and rows are rotated in turn, each by a random distance of
    its own. That is a Feistel network with random functions: four rounds of it are hard to tell
    from a random permutation, and these are eight. The table may have a few more places than
    numbers; a number that lands on one of those moves on until it reaches a valid place.
    """
    rows = math.isqrt(count - 1) + 1
    columns = -(-count // rows)
    shape = (_ROUNDS, 2, max(rows, columns))
    # Along one axis: the code of random bits then compiles several times faster.
    uniform = jax.random.uniform(key, (math.prod(shape),)).reshape(shape)
    distances = (uniform * jnp.array([[[rows], [columns]]])).astype(jnp.int32)

    def move(at: Int[Array, " block"]) -> Int[Array, " block"]:
        def rotate(number: Int[Array, ""], place: tuple[Array, Array]) -> tuple[Array, Array]:
            row, column = place
            row = _wrap(row + distances[number, 0][column], rows)
            return row, _wrap(column + distances[number, 1][row], columns)

        row, column = jax.lax.fori_loop(0, _ROUNDS, rotate, (at // columns, at % columns))
        return row * columns + column

    def advance(carry: tuple[Array, Bool[Array, " block"]]) -> tuple[Array, Bool[Array, " block"]]:
        at = jnp.where(carry[1], carry[0], move(carry[0]))
        return at, at < count

    # Numbers move independently: block by block, with no more memory than the result takes.
    blocks = -(-places // _SHUFFLE_BLOCK)
    size = -(-places // blocks)

    def block(number: Int[Array, ""]) -> Int[Array, " block"]:
        begin = (number * size + jnp.arange(size, dtype=jnp.int32)) % count
        # Nothing is in a valid place at first, so all move once, and `move` is compiled once.
        start = (begin, jnp.zeros((size,), bool))
        return jax.lax.while_loop(lambda carry: ~jnp.all(carry[1]), advance, start)[0]

    return jax.lax.map(block, jnp.arange(blocks, dtype=jnp.int32)).reshape(-1)


def _wrap(place: Int[Array, "..."], size: int) -> Int[Array, "..."]:
    """Return a place modulo a size, of which it is less than twice; cheaper than a division."""
    return jnp.where(place >= size, place - size, place)
