"""A choice between kinds of members that the held-out rows of the first folds make."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

K = TypeVar("K")
M = TypeVar("M")

#: Folds whose held-out rows decide.
_DECIDING_FOLDS = 2


class Candidate(NamedTuple):
    """A member to train: its kind, which of the members it is, and its number of all trained."""

    kind: Any
    member: int
    number: int


def train_best(
    kinds: Sequence[K],
    n_members: int,
    train: Callable[[list[Candidate]], list[M]],
    loss: Callable[[M], float],
) -> tuple[K, list[M]]:
    """Return the best kind and all members of it.

    The members of the first folds are trained with each kind. The one with the lower loss of their
    held-out rows is kept, and all other members are of it too.

    Args:
        kinds: What to choose from; with one kind there is no choice.
        n_members: How many members are to be trained.
        train: Trains candidates side by side.
        loss: Loss of the rows that a trained member has held out.
    """
    numbered = [
        [Candidate(kind, member, member + n_members * place) for member in range(n_members)]
        for place, kind in enumerate(kinds)
    ]
    if len(kinds) == 1:
        return kinds[0], train(numbered[0])
    size = min(_DECIDING_FOLDS, n_members)
    # Fold by fold, so that the first two runs compile different programs, each on its core.
    deciding = zip(*(kind[:size] for kind in numbered), strict=True)
    trained = train([candidate for fold in deciding for candidate in fold])
    each = [trained[place :: len(kinds)] for place in range(len(kinds))]
    best = int(np.argmin([np.mean(list(map(loss, members))) for members in each]))
    return kinds[best], each[best] + train(numbered[best][size:])
