"""Scorers for scikit-learn's model selection: greater is better.

>>> from sklearn.model_selection import GridSearchCV
>>> from ngem import MDNRegressor, nll_scorer
>>> search = GridSearchCV(MDNRegressor(), {"n_components": [2, 5]}, scoring=nll_scorer)
"""

from typing import Any

import numpy as np

from ..metrics import energy_score


def nll_scorer(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Return the mean log-likelihood of a fitted estimator, the negative of its NLL.

    Args:
        estimator: An `MDNRegressor`, or a `Pipeline` or search that ends in one.
        X: Features.
        y: Targets.
        sample_weight: How much each row counts.
    """
    estimator, X = unwrap(estimator, X)
    return float(np.average(estimator.log_prob(X, y), weights=sample_weight))


def crps_scorer(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Return the negative of the mean continuous ranked probability score.

    Of several target columns it is the plain mean, so that those with large numbers count most. See
    `nll_scorer`.
    """
    estimator, X = unwrap(estimator, X)
    scores = np.asarray(estimator.crps(X, y))
    per_row = scores.reshape(len(scores), -1).mean(axis=1)
    return -float(np.average(per_row, weights=sample_weight))


def energy_scorer(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, n_samples: int = 256
) -> float:
    """Return the negative of the mean energy score: CRPS for several target columns together.

    From draws, so that it is exact only on average over many rows. Distances are in the targets'
    units; scale these where they differ. See `nll_scorer`.
    """
    estimator, X = unwrap(estimator, X)
    mixture = estimator.predict_distribution(X)
    targets = np.asarray(y).reshape(-1, mixture.dim)
    scores = energy_score(mixture, targets, n_samples=n_samples)
    return -float(np.average(scores, weights=sample_weight))


def unwrap(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the estimator that predicts densities, and the features as they reach it.

    Pipelines and searches pass on only the methods that scikit-learn knows.
    """
    if hasattr(estimator, "best_estimator_"):
        return unwrap(estimator.best_estimator_, X)
    if hasattr(estimator, "steps"):
        before = estimator[:-1]
        return unwrap(estimator[-1], before.transform(X) if len(before) else X)
    if not hasattr(estimator, "log_prob"):
        raise TypeError(
            "the estimator must predict densities, as MDNRegressor or a Pipeline that ends in one "
            f"does, got {type(estimator).__name__}; to scale targets use scale_targets=True rather "
            "than a TransformedTargetRegressor."
        )
    return estimator, X
