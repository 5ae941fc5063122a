"""One network that predicts what a larger model predicts, small enough to serve and to export."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from .density_regressor import DensityRegressor
from .encoding import Encoded
from .regressor import MDNRegressor
from .seeds import draw_seed, read_state, to_key

#: In a column of at most this many values no others are made up between two of them.
_FEW_VALUES = 20

#: Rows among which the nearest ones are looked for, at most.
_MOST_ROWS = 20_000

_NEIGHBORS = 5

#: Bins of each feature, for teachers that have steps.
_BINS = 16

#: Between how many rows new ones lie, by whether the teacher has steps.
_CORNERS = {True: 1, False: 5}

#: What a network needs to follow the average of many; the rows that it learns from never run out.
DEFAULTS: dict[str, Any] = {
    "n_components": 15,
    "n_members": 1,
    "hidden_sizes": (256, 256),
    "dropout": 0.0,
    "guard": False,
}


def distill(
    teacher: DensityRegressor,
    X: Any,
    *,
    n_rows: int = 100_000,
    n_draws: int = 1,
    n_corners: int | None = None,
    random_state: Any = None,
    **settings: Any,
) -> MDNRegressor:
    """Return one network that has learned the densities of a fitted model.

    The network learns from as many rows as asked for. Their features are those of X and points
    between neighbors among them, and their targets are draws from the teacher's densities, so no
    new labels are needed.

    Args:
        teacher: A fitted estimator: a stack, networks or trees.
        X: Features like those it was fitted to; the more rows, the better.
        n_rows: Rows to learn from.
        n_draws: Targets that are drawn for each of them.
        n_corners: Between how many rows of X each lies; 1 for rows of X alone. None is 1 if most of
            the teacher is trees, or networks with bins, and else 5.
        random_state: Seed of rows, draws and of the network.
        settings: Parameters of the `MDNRegressor` other than those of `DEFAULTS`. It has bins of
            each feature (`n_bins=16`) if most of the teacher is trees, or networks with bins.

    >>> from ngem import DensityStack
    >>> from ngem.estimator import distill
    >>> def small(stack: DensityStack, X):
    ...     return distill(stack, X, random_state=0)
    """
    x, stepped = teacher._read_features(X), is_stepped(teacher)
    rng = read_state(random_state)
    # Between rows a step may be anywhere.
    corners = n_corners or _CORNERS[stepped]
    rows = between_neighbors(x, n_rows, np.random.default_rng(draw_seed(rng)), corners)
    draws = teacher.model_.sample(rows, n_draws, to_key(rng))
    draws = draws.reshape(-1, draws.shape[2])
    rows = np.repeat(rows, n_draws, axis=0)
    features = rows if teacher.table_ is None else Encoded(rows, teacher.table_)
    seed = draw_seed(rng)
    own: dict[str, Any] = {"missing": "impute"} if np.isnan(rows).any() else {}
    if settings.get("network") is None and stepped:
        own["n_bins"] = _BINS
    student = MDNRegressor(**{**DEFAULTS, **own, "random_state": seed, **settings})
    return student.fit(features, draws[:, 0] if teacher.target_ndim_ == 1 else draws)


def is_stepped(teacher: DensityRegressor) -> bool:
    """Return whether most of a model is trees, or networks with bins, as held-out rows weigh it."""
    parts: dict[str, Any] = getattr(teacher, "estimators_", {"": teacher})
    weights = {kind.name: kind.weight for kind in getattr(teacher, "kinds_", [])}
    # Trees have no such parameter.
    stepped = [name for name, part in parts.items() if getattr(part, "n_bins", _BINS) is not None]
    return sum(weights.get(name, 1.0) for name in stepped) >= 0.5


def between_neighbors(
    x: Float[np.ndarray, "batch column"],
    n_rows: int,
    rng: np.random.Generator,
    n_corners: int,
) -> Float[np.ndarray, "more column"]:
    """Return rows that are like those of x: each lies between one of them and its neighbors.

    A column of few values, and a category, has the value of the closest of them, and so has a gap.

    Args:
        x: Rows.
        n_rows: How many to return.
        rng: Source of randomness.
        n_corners: Between how many rows each lies.
    """
    some = x if len(x) <= _MOST_ROWS else x[rng.choice(len(x), _MOST_ROWS, replace=False)]
    neighbors = _nearest(some)
    first = rng.integers(len(some), size=n_rows)
    places = rng.integers(neighbors.shape[1], size=(n_rows, n_corners - 1))
    corners = some[np.column_stack([first, neighbors[first[:, None], places]])]
    parts = rng.dirichlet(np.ones(n_corners), n_rows)
    nearest = corners[np.arange(n_rows), parts.argmax(axis=1)]
    inside = np.einsum("ij,ijk->ik", parts, corners)
    return np.where(_has_steps(some) | np.isnan(inside), nearest, inside)


def _nearest(x: Float[np.ndarray, "batch column"]) -> Int[np.ndarray, "batch near"]:
    """Return each row's nearest rows, itself among them, in units of standard deviations."""
    from sklearn.neighbors import NearestNeighbors  # slow to import, and predictions do without

    center, scale = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
    standard = np.nan_to_num((x - center) / np.where(scale > 0, scale, 1))
    count = min(_NEIGHBORS + 1, len(x))
    found = NearestNeighbors(n_neighbors=count).fit(standard)
    return found.kneighbors(standard, return_distance=False)


def _has_steps(x: Float[np.ndarray, "batch column"]) -> Bool[np.ndarray, " column"]:
    return np.array([len(np.unique(column[~np.isnan(column)])) <= _FEW_VALUES for column in x.T])
