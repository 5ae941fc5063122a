"""The kinds of models that a stack is made of, as data."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from .boosting_regressor import MixtureBoostingRegressor
from .interface import Regressor
from .regressor import MDNRegressor


class Kind(NamedTuple):
    """A kind of model: an estimator, and what differs from its defaults."""

    estimator: type[Regressor]
    settings: Mapping[str, Any]


#: Bins of each feature, where a kind has them.
_BINS = 16

#: All kinds by name, in the order in which they run: those that gain most come first.
KINDS: dict[str, Kind] = {
    "network": Kind(MDNRegressor, {"dropout": 0.0}),
    "network with bins": Kind(MDNRegressor, {"dropout": 0.0, "n_bins": _BINS}),
    "trees": Kind(MixtureBoostingRegressor, {}),
    "network with dropout": Kind(MDNRegressor, {"dropout": 0.1}),
    "network with bins and dropout": Kind(MDNRegressor, {"dropout": 0.1, "n_bins": _BINS}),
    "network of one Gaussian": Kind(MDNRegressor, {"dropout": 0.0, "n_components": 1}),
    "trees of one Gaussian": Kind(MixtureBoostingRegressor, {"n_components": 1}),
    "normalized network": Kind(MDNRegressor, {"dropout": 0.0, "layer_norm": True}),
    "network by beta-nll": Kind(MDNRegressor, {"dropout": 0.0, "objective": "beta-nll"}),
}

#: Kinds of each preset. `benchmarks/stack_choices.py` compares sets of kinds.
QUALITIES: dict[str, tuple[str, ...]] = {
    "fast": ("network",),
    "good": ("network", "network with bins", "trees", "network with dropout"),
    "best": tuple(KINDS),
}


def make_kind(name: str, *, repeats: int = 1, **shared: Any) -> Any:
    """Return a new estimator of a kind; settings that it does not have are left out.

    Args:
        name: Name of the kind.
        repeats: How many members hold each row out.
        shared: Settings.
    """
    kind = KINDS[name]
    known = kind.estimator.param_names()
    # Components of trees have independent targets, and a stack has components of one family.
    shared = {"covariance": "diag", **shared}
    settings = {key: value for key, value in shared.items() if key in known}
    estimator: Any = kind.estimator(**{**settings, **kind.settings})
    estimator._repeats = repeats
    return estimator
