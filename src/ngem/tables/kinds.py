"""The kinds of models that commands fit: all that differs between networks and trees."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._errors import check_choice
from ..estimator import boosting_parameters, parameters
from ..estimator.boosting_regressor import MixtureBoostingRegressor
from ..estimator.regressor import MDNRegressor
from ..estimator.schema import RULES, Schema

#: What a command fits or loads.
Estimator = MDNRegressor | MixtureBoostingRegressor

#: Members whose rounds are listed one by one.
_LISTED = 10


@dataclass(frozen=True)
class Kind:
    """A kind of model.

    Attributes:
        name: Value of the option --model.
        estimator: Class of the estimator.
        check: Refuses parameters that no fit could use.
        coding: How columns of categories become features.
        options: Parameter of the estimator that each option sets, for options of this kind.
        of_table: Returns the parameters that a table decides.
        resolve: Returns parameters with the values that None stands for, from the parameters and
            the numbers of targets and rows.
        best: Returns where in the history of each member its best state is, and is kept.
        what: Words for all members together.
        member: A word for one member.
        step: A word for one step of training, of which `history_` has the likelihoods.
    """

    name: str
    estimator: type[Estimator]
    check: Callable[[Mapping[str, Any]], None]
    coding: str
    options: Mapping[str, str]
    of_table: Callable[[Schema], dict[str, Any]]
    resolve: Callable[[Mapping[str, Any], int, int], Mapping[str, Any]]
    best: Callable[[Any], np.ndarray]
    what: str
    member: str
    step: str

    @property
    def rules(self) -> tuple[str, ...]:
        """Rules for rows with gaps, the default first."""
        return RULES[self.coding]

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that options set; None stands for an option that is not given.

        Raises:
            ValueError: If an option belongs to another kind.
        """
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name not in self.options:
                other = next(kind.name for kind in KINDS.values() if name in kind.options)
                raise ValueError(
                    f"--{name} must come with --model {other}, got --model {self.name}; leave it "
                    f"out, or choose --model {other}."
                )
        return {self.options[name]: value for name, value in given.items()}

    def steps(self, estimator: Any) -> list[int]:
        """Return the number of the epoch, or of the rounds, that was kept of each member."""
        # The history of trees begins before the first round, that of networks after the first
        # epoch.
        return (self.best(estimator) + (self.step == "epoch")).tolist()

    def kept_text(self, steps: Sequence[int]) -> str:
        """Return what was kept of each member."""
        first, last = f"{min(steps):,}", f"{max(steps):,}"
        span = first if first == last else f"{first} to {last}"
        if self.step == "epoch":
            return f"kept epoch{'' if first == last else 's'} {span}"
        if len(steps) <= _LISTED and first != last:
            span = ", ".join(f"{count:,}" for count in steps)
        return f"kept {span} round{'' if span == '1' else 's'}"


_SHARED = {"members": "n_members", "components": "n_components"}

_NETWORK = Kind(
    name="network",
    estimator=MDNRegressor,
    check=parameters.check,
    coding="one-hot",
    options={
        **_SHARED,
        "hidden": "hidden_sizes",
        "family": "family",
        "covariance": "covariance",
        "objective": "objective",
        "learning-rate": "learning_rate",
        "epochs": "max_epochs",
    },
    of_table=lambda schema: {"missing": "impute" if schema.missing == "impute" else "error"},
    resolve=parameters.resolve,
    best=lambda estimator: estimator.best_epoch_,
    what="networks",
    member="network",
    step="epoch",
)

_TREES = Kind(
    name="trees",
    estimator=MixtureBoostingRegressor,
    check=boosting_parameters.check,
    coding="codes",
    options={
        **_SHARED,
        "family": "family",
        "learning-rate": "learning_rate",
        "rounds": "max_rounds",
        "leaves": "num_leaves",
        "leaf-rows": "min_rows_in_leaf",
    },
    of_table=lambda schema: {"categorical_features": schema.coded},
    resolve=lambda settings, dim, n_rows: settings,
    best=lambda estimator: estimator.best_round_,
    what="boosted trees",
    member="member",
    step="round",
)

KINDS: dict[str, Kind] = {kind.name: kind for kind in (_NETWORK, _TREES)}


def get_kind(name: str) -> Kind:
    """Return a kind by the value of --model."""
    return KINDS[check_choice("--model", name, KINDS)]


def kind_of(estimator: Any) -> Kind:
    """Return the kind of an estimator."""
    return next(kind for kind in KINDS.values() if isinstance(estimator, kind.estimator))
