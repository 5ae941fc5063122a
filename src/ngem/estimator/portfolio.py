"""The kinds of models that a stack is made of, as data."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator

from .boosting_regressor import MixtureBoostingRegressor
from .regressor import MDNRegressor


class Kind(NamedTuple):
    """A kind of model: an estimator, and what differs from its defaults."""

    estimator: type[BaseEstimator]
    settings: Mapping[str, Any]


#: All kinds by name, the cheapest and most different ones first.
KINDS: dict[str, Kind] = {
    "network": Kind(MDNRegressor, {"dropout": 0.0}),
    "trees": Kind(MixtureBoostingRegressor, {}),
    "network with dropout": Kind(MDNRegressor, {"dropout": 0.1}),
    "network by beta-nll": Kind(MDNRegressor, {"dropout": 0.0, "objective": "beta-nll"}),
    "trees of one Gaussian": Kind(MixtureBoostingRegressor, {"n_components": 1}),
    "normalized network": Kind(MDNRegressor, {"dropout": 0.0, "layer_norm": True}),
    "network of one Gaussian": Kind(MDNRegressor, {"dropout": 0.0, "n_components": 1}),
}

#: Kinds of each preset, in the order in which they run.
QUALITIES: dict[str, tuple[str, ...]] = {
    "fast": ("network",),
    "good": ("network", "trees", "network with dropout"),
    "best": tuple(KINDS),
}


def make_kind(name: str, **shared: Any) -> Any:
    """Return a new estimator of a kind; settings that it does not have are left out."""
    kind = KINDS[name]
    known = kind.estimator._get_param_names()
    # Components of trees have independent targets, and a stack has components of one family.
    shared = {"covariance": "diag", **shared}
    settings = {key: value for key, value in shared.items() if key in known}
    return kind.estimator(**{**settings, **kind.settings})
