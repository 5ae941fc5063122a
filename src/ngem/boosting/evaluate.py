"""Trees evaluated for rows side by side, by comparisons and bit masks instead of branches.

LightGBM takes a row from node to node. A processor cannot guess these steps, and thousands of trees
do not fit into its cache. Here every node of a tree is asked at once, for many rows: those that
send a row to the right rule out the leaves to their left. The row's leaf is the first that is left
over (Lucchese et al. 2015, QuickScorer). Sums are in double precision and in LightGBM's order, so
that they have the same bits.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt32

from .._programs import kept
from .trees import GAP_IS_NAN, IS_CATEGORICAL, Trees, gap_kinds, goes_left_by_default

#: Leaves of a tree at most: beyond, going from node to node is faster.
_MOST_LEAVES = 64

#: Leaves that one mask holds, and the mask of all of them.
_BITS, _ALL = 32, 0xFFFFFFFF

#: Rows that are evaluated together, the first size that holds all of them. The features of the most
#: stay in a core's cache.
_SIZES = (8, 64, 1024)

#: What LightGBM reads as zero.
_ZERO = float(np.float32(1e-35))

#: What a gap is at a node: a number above all others, one below, or zero.
_TREATMENTS = _ABOVE, _BELOW, _AS_ZERO = 0, 1, 2


class _Nodes(NamedTuple):
    """Nodes and leaves of all trees, by raw output and round; rounds are padded with empty trees.

    Attributes:
        column: Column of codes that a node looks at.
        code: Rows with a larger code go right.
        mask: The leaves that remain for such rows.
        leaf_value: Step of each leaf, from left to right.
    """

    column: Int[Array, "raw round node"]
    code: Int[Array, "raw round node"]
    mask: UInt32[Array, "raw round node word"]
    leaf_value: Float[Array, "raw round leaf"]


class Evaluator:
    """Trees, prepared for any number of rows.

    Args:
        trees: Trees for which `suits` is true.
        num_raw: How many of them a round has.
    """

    def __init__(self, trees: Trees, num_raw: int) -> None:
        self._n_rounds = len(trees.num_leaves) // num_raw
        treatment = _treatment(trees)
        which, place = np.unique(
            trees.split_feature * len(_TREATMENTS) + treatment, return_inverse=True
        )
        self._columns = [divmod(int(one), len(_TREATMENTS)) for one in which]
        self._levels = {
            feature: np.unique(trees.threshold[trees.split_feature == feature])
            for feature, _ in self._columns
        }
        code = np.empty(len(place), np.int32)
        for feature, levels in self._levels.items():
            here = trees.split_feature == feature
            code[here] = np.searchsorted(levels, trees.threshold[here])
        with jax.enable_x64(True):
            self._nodes = _arrange(trees, num_raw, place.astype(np.int32), code)

    def __call__(self, x: np.ndarray) -> Float[np.ndarray, "batch raw"]:
        """Return the sums of steps of each row and raw output, in double precision."""
        size = next((size for size in _SIZES if len(x) <= size), _SIZES[-1])
        blocks = [self._block(x[at : at + size], size) for at in range(0, len(x), size)]
        return np.concatenate(blocks)

    def _block(self, x: np.ndarray, size: int) -> Float[np.ndarray, "batch raw"]:
        codes = np.zeros((max(1, len(self._columns)), size), np.int32)
        for row, (feature, treatment) in enumerate(self._columns):
            codes[row, : len(x)] = _codes(x[:, feature], self._levels[feature], treatment)
        with jax.enable_x64(True):
            sums = _evaluate(self._nodes, codes, np.int32(self._n_rounds))
        return np.asarray(sums)[:, : len(x)].T


def suits(trees: Trees) -> bool:
    """Return whether trees can be evaluated here: small, and without splits by categories."""
    gaps_are_known = bool(np.all(gap_kinds(trees) % GAP_IS_NAN == 0))
    by_number = not np.any(trees.decision_type & IS_CATEGORICAL)
    return by_number and gaps_are_known and int(trees.num_leaves.max(initial=1)) <= _MOST_LEAVES


def _treatment(trees: Trees) -> Int[np.ndarray, " node"]:
    """Return what a gap is at each node."""
    sent = np.where(goes_left_by_default(trees), _BELOW, _ABOVE)
    return np.where(gap_kinds(trees) == GAP_IS_NAN, sent, _AS_ZERO)


def _codes(
    values: Float[np.ndarray, " batch"], levels: Float[np.ndarray, " level"], treatment: int
) -> Int[np.ndarray, " batch"]:
    """Return how many thresholds are below each value."""
    values = values.astype(np.float64)
    values = np.where(np.abs(values) <= _ZERO, 0.0, values)
    gap = {_ABOVE: np.inf, _BELOW: -np.inf, _AS_ZERO: 0.0}[treatment]
    codes = np.searchsorted(levels, np.where(np.isnan(values), gap, values))
    return np.where(np.isnan(values) & (treatment == _ABOVE), len(levels), codes)


def _arrange(
    trees: Trees,
    num_raw: int,
    column: Int[np.ndarray, " node"],
    code: Int[np.ndarray, " node"],
) -> _Nodes:
    """Return nodes and leaves by raw output and round."""
    inner = trees.num_leaves - 1
    n_trees, most = len(inner), max(1, int(inner.max(initial=0)))
    is_node = np.arange(most) < inner[:, None]
    is_leaf = np.arange(most + 1) < trees.num_leaves[:, None]

    def spread(values: np.ndarray, places: Bool[np.ndarray, "tree place"], rest: int) -> np.ndarray:
        table = np.full(places.shape, rest, values.dtype)
        table[places] = values
        return table

    left, right = (spread(side, is_node, -1) for side in (trees.left_child, trees.right_child))
    first, size, position = _order(left, right, is_node)
    values = np.zeros((n_trees, most + 1))
    tree, leaf = np.nonzero(is_leaf)
    values[tree, position[tree, leaf]] = trees.leaf_value
    parts = (
        spread(column, is_node, 0),
        spread(code, is_node, np.iinfo(np.int32).max),
        _masks(first, size, -(-(most + 1) // _BITS)),
        values,
    )
    rounds = n_trees // num_raw
    padding = 2 ** max(0, rounds - 1).bit_length() - rounds
    by_output = [part.reshape(rounds, num_raw, *part.shape[1:]).swapaxes(0, 1) for part in parts]
    widths = [[(0, 0), (0, padding)] + [(0, 0)] * (part.ndim - 2) for part in by_output]
    return _Nodes(*(jnp.asarray(np.pad(*pair)) for pair in zip(by_output, widths, strict=True)))


def _order(
    left: Int[np.ndarray, "tree node"],
    right: Int[np.ndarray, "tree node"],
    is_node: Bool[np.ndarray, "tree node"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the first leaf left of each node, how many are there, and the place of each leaf.

    Places are counted from left to right. A child that is a leaf has a negative number.
    """
    n_trees, most = left.shape
    every = np.arange(n_trees)
    leaves = np.ones((n_trees, most + 1), np.int32)  # below each node; the last column for leaves
    size = np.zeros((n_trees, most), np.int32)
    for node in reversed(range(most)):  # children have higher numbers than their parents
        size[:, node] = leaves[every, np.where(left[:, node] < 0, most, left[:, node])]
        others = leaves[every, np.where(right[:, node] < 0, most, right[:, node])]
        leaves[:, node] = size[:, node] + others
    first = np.zeros((n_trees, most), np.int32)
    position = np.zeros((n_trees, most + 1), np.int32)
    for node in range(most):
        start = first[:, node]
        for child, at in ((left[:, node], start), (right[:, node], start + size[:, node])):
            for places, index, holds in ((first, child, child >= 0), (position, ~child, child < 0)):
                here = holds & is_node[:, node]
                places[every[here], index[here]] = at[here]
    return first, size, position


def _masks(
    first: Int[np.ndarray, "tree node"], size: Int[np.ndarray, "tree node"], words: int
) -> UInt32[np.ndarray, "tree node word"]:
    """Return the bits of all leaves but so many from the first one on."""
    leaf = np.arange(words * _BITS)
    gone = (leaf >= first[..., None]) & (leaf < (first + size)[..., None])
    bits = np.packbits(~gone, axis=-1, bitorder="little")
    return bits.view("<u4").astype(np.uint32)


@kept()
def _evaluate(
    nodes: _Nodes, codes: Int[Array, "column batch"], n_rounds: Int[Array, ""]
) -> Float[Array, "raw batch"]:
    """Return the sums of steps of each raw output and row."""

    def one_output(nodes: _Nodes) -> Float[Array, " batch"]:
        add = partial(_add_round, nodes, codes)
        return jax.lax.fori_loop(0, n_rounds, add, jnp.zeros(codes.shape[1], jnp.float64))

    return jax.lax.map(one_output, nodes)


def _add_round(
    nodes: _Nodes, codes: Int[Array, "column batch"], index: Array, sums: Float[Array, " batch"]
) -> Float[Array, " batch"]:
    column, code, mask, value = (part[index] for part in nodes)
    every = jnp.uint32(_ALL)
    left_over = [jnp.full(codes.shape[1], every) for _ in range(mask.shape[1])]
    for node in range(len(code)):
        goes_right = jax.lax.dynamic_index_in_dim(codes, column[node], 0, False) > code[node]
        left_over = [
            bits & jnp.where(goes_right, mask[node, word], every)
            for word, bits in enumerate(left_over)
        ]
    return sums + value.at[_first_bit(left_over)].get(mode="promise_in_bounds")


def _first_bit(words: list[UInt32[Array, " batch"]]) -> Int[Array, " batch"]:
    """Return the place of the lowest bit that is set."""
    place = jnp.zeros(words[0].shape, jnp.int32)
    for index, bits in reversed(list(enumerate(words))):
        below = (bits & (~bits + jnp.uint32(1))) - jnp.uint32(1)
        own = jax.lax.population_count(below).astype(jnp.int32) + _BITS * index
        place = jnp.where(bits != 0, own, place)
    return place
