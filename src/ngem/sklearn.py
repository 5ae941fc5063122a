"""The estimator under the name that scikit-learn users look for first."""

from .estimator.regressor import MDNRegressor

__all__ = ["MDNRegressor"]
