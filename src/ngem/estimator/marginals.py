"""The one-dimensional mixtures of the columns of a predicted one."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .._types import Params
from ..families import AbstractFamily
from ..mixture import Mixture
from ..mixture.rows import map_rows


def marginals(mixture: Mixture) -> list[Mixture]:
    """Return the one-dimensional mixtures of all target columns, (rows, columns).

    Columns of one family are one mixture; else each has its own.
    """
    columns = [mixture.marginal(column) for column in range(mixture.dim)]
    has_one_family = all(column.family == mixture.family for column in columns)
    groups = [columns] if has_one_family else [[column] for column in columns]
    return [_stacked(group) for group in groups]


def _stacked(columns: list[Mixture]) -> Mixture:
    joined = jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *columns)
    components = map_rows(partial(_widened, joined.family), joined.logits.shape)(joined.components)
    return Mixture(joined.logits, components, joined.family)


def with_columns(mixtures: list[Mixture], y: Any) -> Iterator[tuple[Mixture, Any]]:
    """Yield the mixtures of columns, each with its part of some targets, (rows, dim)."""
    end = 0
    for mixture in mixtures:
        start, end = end, end + mixture.batch_shape[1]
        yield mixture, y[:, start:end]


def _widened(family: AbstractFamily, params: Params) -> Params:
    """Return a component that is wider than the spacing of floats at its mean.

    Far outside the data means are huge, and no search would find a region between two floats.
    """
    mean = family.mean(params)
    return family.widen(params, (4 * jnp.finfo(mean.dtype).eps).astype(mean.dtype) * jnp.abs(mean))
