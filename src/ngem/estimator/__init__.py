"""What scikit-learn users touch: the estimator, its predictions, files and scorers.

The public names are loaded by `ngem` itself: `ngem.MDNRegressor`,
`ngem.MixtureBoostingRegressor`, `ngem.ConformalRegressor`.
"""
