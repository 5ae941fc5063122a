"""Scorers for scikit-learn's model selection; greater is better.

>>> from sklearn.model_selection import GridSearchCV
>>> from ngem import MDNRegressor, nll_scorer
>>> search = GridSearchCV(MDNRegressor(), {"n_components": [2, 5]}, scoring=nll_scorer)
"""

from typing import Any

import jax
import numpy as np

from ..metrics import energy_score


def nll_scorer(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Return the mean log-likelihood of a fitted estimator, the negative of its NLL.

    Args:
        estimator: An `MDNRegressor`, or a `Pipeline` or search that ends in one.
        X: Features.
        y: Targets.
        sample_weight: Weight of each row.
    """
    estimator, X = unwrap(estimator, X)
    return float(np.average(estimator.log_prob(X, y), weights=sample_weight))


def crps_scorer(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Return the negative of the mean continuous ranked probability score.

    Several target columns are averaged without scaling, so columns with large values count most.
    Arguments are those of `nll_scorer`.
    """
    estimator, X = unwrap(estimator, X)
    scores = np.asarray(estimator.crps(X, y))
    per_row = scores.reshape(len(scores), -1).mean(axis=1)
    return -float(np.average(per_row, weights=sample_weight))


def energy_scorer(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, n_samples: int = 256
) -> float:
    """Return the negative of the mean energy score: the CRPS of several target columns together.

    The score is estimated from samples, without bias. Distances are in the units of the targets;
    scale the targets if their units differ. Arguments are those of `nll_scorer`, and the number of
    samples per row.
    """
    estimator, X = unwrap(estimator, X)
    # In double precision: targets may be far from zero and vary by little.
    with jax.enable_x64(True):
        mixture = estimator.predict_distribution(X)
        targets = np.asarray(y).reshape(-1, mixture.dim)
        scores = energy_score(mixture, targets, n_samples=n_samples)
    return -float(np.average(scores, weights=sample_weight))


def unwrap(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the estimator that predicts densities, and the features after earlier transforms.

    Pipelines and searches forward only scikit-learn's own methods, not `log_prob`.
    """
    if hasattr(estimator, "best_estimator_"):
        return unwrap(estimator.best_estimator_, X)
    if hasattr(estimator, "steps"):
        before = estimator[:-1]
        return unwrap(estimator[-1], before.transform(X) if len(before) else X)
    if not hasattr(estimator, "log_prob"):
        raise TypeError(
            "the estimator must predict densities, like MDNRegressor or a Pipeline that ends in "
            f"one, got {type(estimator).__name__}; to scale targets use scale_targets=True instead "
            "of a TransformedTargetRegressor."
        )
    return estimator, X
