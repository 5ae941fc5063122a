"""Trees as plain arrays, and LightGBM's text of them.

LightGBM's own reader is C++ and trusts its text. So a file of ours holds arrays; they are checked
here, and the text is written from them.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int8, Int32, UInt32

#: Names in LightGBM's text of what each inner node and each leaf has, in the order of `Trees`.
_OF_NODES = (
    "split_feature",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "split_gain",
    "internal_count",
)
_OF_LEAVES = ("leaf_value", "leaf_count")
_OF_CATEGORIES = ("cat_boundaries", "cat_threshold")

#: Decisions: whether a node splits by categories, and the way of missing values in other bits.
IS_CATEGORICAL, _GAPS_GO_LEFT, _MOST_DECISION = 1, 2, 11

#: What `gap_kinds` gives where a gap is no number; it is zero where a gap is read as zero.
GAP_IS_NAN = 2


class Trees(NamedTuple):
    """Many trees, one after the other. A tree of L leaves has L - 1 inner nodes, the root first.

    Attributes:
        num_leaves: Leaves of each tree.
        num_cat: Splits by categories of each tree.
        split_feature: Column that a node looks at.
        threshold: Rows up to this value go left; for categories, which of the sets goes left.
        decision_type: LightGBM's bits: 1 for categories, 2 if gaps go left, 4 and 8 what a gap is.
        left_child: Inner node, or minus one minus the number of a leaf.
        right_child: The same.
        split_gain: Gain of a node's split.
        internal_count: Training rows of a node.
        leaf_value: Step of a leaf.
        leaf_count: Training rows of a leaf.
        cat_boundaries: Where each set of categories starts among the words of its tree, and where
            the last one ends.
        cat_threshold: The sets, as bits of words.
    """

    num_leaves: Int32[np.ndarray, " tree"]
    num_cat: Int32[np.ndarray, " tree"]
    split_feature: Int32[np.ndarray, " node"]
    threshold: Float[np.ndarray, " node"]
    decision_type: Int8[np.ndarray, " node"]
    left_child: Int32[np.ndarray, " node"]
    right_child: Int32[np.ndarray, " node"]
    split_gain: Float32[np.ndarray, " node"]
    internal_count: Int32[np.ndarray, " node"]
    leaf_value: Float[np.ndarray, " leaf"]
    leaf_count: Int32[np.ndarray, " leaf"]
    cat_boundaries: Int32[np.ndarray, " boundary"]
    cat_threshold: UInt32[np.ndarray, " word"]

    def fault(self, *, n_trees: int, n_features: int, most_leaves: int) -> str | None:
        """Return what makes the arrays no trees of this kind, or None if they are.

        Whatever the arrays hold, LightGBM reads no memory that is not its own if this is None.
        """
        if len(self.num_leaves) != n_trees or len(self.num_cat) != n_trees:
            return "other numbers of trees"
        if np.any((self.num_leaves < 1) | (self.num_leaves > most_leaves)):
            return "impossible numbers of leaves"
        total = int(np.sum(self.num_leaves, dtype=np.int64))
        nodes = [len(getattr(self, name)) for name in _OF_NODES]
        leaves = [len(getattr(self, name)) for name in _OF_LEAVES]
        if set(nodes) != {total - n_trees} or set(leaves) != {total}:
            return "other numbers of nodes"
        return self._fault_of_shape() or self._fault_of_splits(n_features)

    def _fault_of_shape(self) -> str | None:
        """Return what is wrong with the children: each node and leaf must be one of one parent."""
        inner = self.num_leaves - 1
        tree = np.repeat(np.arange(len(inner)), inner)
        first = np.cumsum(inner) - inner
        own = np.arange(len(tree)) - first[tree]
        child = np.concatenate([self.left_child, self.right_child]).astype(np.int64)
        parent, tree = np.tile(own, 2), np.tile(tree, 2)
        is_inner = child >= 0
        # A node's number is above that of its parent, so there are no circles.
        if np.any(is_inner & ((child <= parent) | (child >= inner[tree]))):
            return "children that are no nodes"
        if np.any(~is_inner & (-child > self.num_leaves[tree])):
            return "children that are no leaves"
        place = np.where(
            is_inner, child + first[tree], -1 - child + (first + np.arange(len(inner)))[tree]
        )
        for kind in (is_inner, ~is_inner):
            if len(np.unique(place[kind])) != np.sum(kind):
                return "children with two parents"
        return None

    def _fault_of_splits(self, n_features: int) -> str | None:
        if np.any((self.split_feature < 0) | (self.split_feature >= n_features)):
            return "splits of other columns"
        if np.any((self.decision_type < 0) | (self.decision_type > _MOST_DECISION)):
            return "unknown decisions"
        # An infinite threshold splits gaps from all numbers.
        are_finite = np.all(np.isfinite(self.leaf_value)) and np.all(np.isfinite(self.split_gain))
        if np.any(np.isnan(self.threshold)) or not are_finite:
            return "numbers that are not finite"
        if np.any(self.leaf_count < 1) or np.any(self.internal_count < 1):
            return "nodes without rows"
        return self._fault_of_categories()

    def _fault_of_categories(self) -> str | None:
        tree = np.repeat(np.arange(len(self.num_leaves)), self.num_leaves - 1)
        by_category = (self.decision_type & IS_CATEGORICAL) > 0
        which, sets = self.threshold[by_category], self.num_cat[tree[by_category]]
        if np.any((which < 0) | (which >= sets) | (which != np.floor(which))):
            return "sets of categories that are not there"
        if np.any((self.num_cat < 0) | (self.num_cat >= self.num_leaves)):
            return "impossible numbers of sets of categories"
        has_sets = self.num_cat > 0
        ends = np.cumsum(np.where(has_sets, self.num_cat + 1, 0))
        if len(self.cat_boundaries) != (ends[-1] if len(ends) else 0):
            return "other numbers of sets of categories"
        words = 0
        for end, count in zip(ends[has_sets], self.num_cat[has_sets], strict=True):
            boundaries = self.cat_boundaries[end - count - 1 : end]
            if boundaries[0] != 0 or np.any(np.diff(boundaries) < 1):
                return "empty sets of categories"
            words += int(boundaries[-1])
        return None if words == len(self.cat_threshold) else "other sets of categories"

    def gains(self, num_raw: int, n_features: int) -> Float[np.ndarray, "raw column"]:
        """Return the total gain of each column in the trees of each raw output."""
        tree = np.repeat(np.arange(len(self.num_leaves)), self.num_leaves - 1)
        total = np.zeros((num_raw, n_features))
        np.add.at(total, (tree % num_raw, self.split_feature), self.split_gain.astype(float))
        return total

    def to_text(self, num_raw: int, n_features: int) -> str:
        """Return LightGBM's text of checked trees, so many of them in a round."""
        head = [
            "tree",
            "version=v4",
            f"num_class={num_raw}",
            f"num_tree_per_iteration={num_raw}",
            "label_index=0",
            f"max_feature_idx={n_features - 1}",
            "feature_names=" + " ".join(f"Column_{index}" for index in range(n_features)),
            "feature_infos=" + " ".join(["none"] * n_features),
        ]
        trees = ["\n".join([f"Tree={index}", *lines]) for index, lines in enumerate(self._lines())]
        return "\n".join(head) + "\n\n" + "\n\n\n".join([*trees, "end of trees"]) + "\n"

    def _lines(self) -> Iterator[list[str]]:
        """Yield the lines of each tree."""
        node = leaf = boundary = word = 0
        for count, sets in zip(self.num_leaves.tolist(), self.num_cat.tolist(), strict=True):
            lines = [f"num_leaves={count}", f"num_cat={sets}"]
            for name in _OF_NODES:
                lines.append(_line(name, getattr(self, name)[node : node + count - 1]))
            for name in _OF_LEAVES:
                lines.append(_line(name, getattr(self, name)[leaf : leaf + count]))
            node, leaf = node + count - 1, leaf + count
            if sets:
                boundaries = self.cat_boundaries[boundary : boundary + sets + 1]
                words = self.cat_threshold[word : word + int(boundaries[-1])]
                lines += [_line("cat_boundaries", boundaries), _line("cat_threshold", words)]
                boundary, word = boundary + sets + 1, word + len(words)
            yield [*lines, "is_linear=0", "shrinkage=1"]


def gap_kinds(trees: Trees) -> Int8[np.ndarray, " node"]:
    """Return what a gap is at each node, in LightGBM's numbers."""
    return trees.decision_type >> 2


def goes_left_by_default(trees: Trees) -> Bool[np.ndarray, " node"]:
    """Return where a gap that is no number goes left."""
    return (trees.decision_type & _GAPS_GO_LEFT) > 0


#: The dtype of each array.
DTYPES = {
    **dict.fromkeys(Trees._fields, np.int32),
    "threshold": np.float64,
    "decision_type": np.int8,
    "split_gain": np.float32,
    "leaf_value": np.float64,
    "cat_threshold": np.uint32,
}


def parse_trees(text: str | None) -> Trees:
    """Return the trees in a text that LightGBM itself has written; None stands for no trees."""
    parts: dict[str, list[str]] = {name: [] for name in Trees._fields}
    for block in (text or "").split("\nTree=")[1:]:
        lines = block.split("\n\n")[0].splitlines()
        values = dict(line.split("=", 1) for line in lines if "=" in line)
        is_leaf = values["num_leaves"] == "1"
        for name in ("num_leaves", "num_cat", *_OF_NODES, *_OF_LEAVES, *_OF_CATEGORIES):
            parts[name] += values.get(name, "").split()
        if is_leaf and not values.get("leaf_count", "").split():
            parts["leaf_count"].append("1")
    arrays = {name: np.array(part, np.float64) for name, part in parts.items()}
    trees = Trees(**{name: array.astype(DTYPES[name]) for name, array in arrays.items()})
    # LightGBM does not count the rows of a tree that is one leaf.
    return trees._replace(leaf_count=np.maximum(trees.leaf_count, 1))


def _line(name: str, values: np.ndarray) -> str:
    return f"{name}=" + " ".join(map(repr, values.tolist()))
