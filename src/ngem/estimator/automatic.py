"""family="auto": families that suit the targets, from which held-out rows choose."""

from typing import Any

import numpy as np

from ..families import (
    OF_INTERVALS,
    Candidates,
    for_columns,
    get_family,
    propose_families,
    text_of,
)
from .encoding import Encoded
from .interface import cloned
from .seeds import draw_seed


def choose_candidates(X: Any, y: Any, *, has_intervals: bool) -> Candidates:
    """Return families that suit all target columns.

    Args:
        X: Features, which may know the names of the targets.
        y: Targets, as users give them.
        has_intervals: Whether they are rounded or censored; counts are then no counts.
    """
    values = np.asarray(y, float)
    columns = values[:, None] if values.ndim == 1 else values
    names = known_names(X, y, columns.shape[1])
    each = [propose_families(column, name) for column, name in zip(columns.T, names, strict=True)]
    if has_intervals:
        each = [one if _takes_intervals(one) else OF_INTERVALS for one in each]
    return for_columns(each)


def _takes_intervals(candidates: Candidates) -> bool:
    return any(get_family(name).takes_intervals for name in candidates.families)


def known_names(X: Any, y: Any, count: int) -> list[str | None]:
    """Return what the targets are called, as far as that is known."""
    if isinstance(X, Encoded):
        return list(X.schema.targets)
    names = getattr(y, "columns", None)
    names = [getattr(y, "name", None)] * count if names is None else list(names)
    return [name if isinstance(name, str) else None for name in names]


def fit_best(estimator: Any, candidates: Candidates, *rows: Any, **more: Any) -> tuple[Any, str]:
    """Return an estimator of the family whose held-out rows have the best mean log density.

    Args:
        estimator: Parameters of the fit; it is not fitted.
        candidates: Families to choose from.
        *rows: What `fit` is given.
        **more: The same by name.

    Returns:
        The fitted estimator, and one sentence on why it has its family.
    """
    # One seed for all, so that each holds out the same rows.
    seed = draw_seed(estimator.random_state)

    def fit(family: Any) -> Any:
        own: Any = cloned(estimator)
        own._repeats = estimator._repeats
        return own.set_params(family=family, random_state=seed).fit(*rows, **more)

    fitted = [fit(family) for family in candidates.families]
    scores = [_score(model) for model in fitted]
    best = int(np.argmax(scores)) if np.all(np.isfinite(scores)) else 0
    return fitted[best], _reason(candidates, scores, best)


def _score(model: Any) -> float:
    held_out = model.oof_log_prob_[~np.isnan(model.oof_log_prob_)]
    return float(np.mean(held_out)) if len(held_out) else float("nan")


def _reason(candidates: Candidates, scores: list[float], best: int) -> str:
    """Return why a family was chosen."""
    name = text_of(candidates.families[best])
    others = [
        f"{text_of(family)} {score:.3f}"
        for place, (family, score) in enumerate(zip(candidates.families, scores, strict=True))
        if place != best and np.isfinite(score)
    ]
    if not others or not np.isfinite(scores[best]):
        return f"{name}: {candidates.reason}."
    beaten = ", ".join(others)
    return (
        f"{name}: {candidates.reason}, and its mean log density of held-out rows is the best, "
        f"{scores[best]:.3f} against {beaten}."
    )
