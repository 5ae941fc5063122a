"""The kinds of models that commands fit: all that differs between networks, trees and stacks."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._errors import check_choice
from ..estimator import boosting_parameters, parameters, stack
from ..estimator.boosting_regressor import MixtureBoostingRegressor
from ..estimator.regressor import MDNRegressor
from ..estimator.schema import Schema

#: What a command fits or loads.
Estimator = MDNRegressor | MixtureBoostingRegressor | stack.DensityStack

#: Members whose rounds are listed one by one.
_LISTED = 10


@dataclass(frozen=True)
class Kind:
    """A kind of model.

    Attributes:
        name: Value of the option --model.
        estimator: Class of the estimator.
        check: Refuses parameters that no fit could use.
        rules: Rules for rows with gaps, the default first.
        options: Parameter of the estimator that each option sets, for options of this kind.
        of_table: Returns the parameters that a table decides.
        resolve: Returns parameters with the values that None stands for, from the parameters and
            the numbers of targets and rows.
        what: Words for all members together.
        member: A word for one member.
        step: A word for one step of training, of which `history_` has the likelihoods; empty for a
            stack, whose kinds train by themselves.
        best: Returns where in the history of each member its best state is, and is kept.
    """

    name: str
    estimator: type[Estimator]
    check: Callable[[Mapping[str, Any]], None]
    rules: tuple[str, ...]
    options: Mapping[str, str]
    of_table: Callable[[Schema], dict[str, Any]]
    resolve: Callable[[Mapping[str, Any], int, int], Mapping[str, Any]]
    what: str
    member: str
    step: str = ""
    best: Callable[[Any], np.ndarray] = lambda estimator: np.empty(0, int)

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that options set; None stands for an option that is not given.

        Raises:
            ValueError: If an option belongs to another kind.
        """
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name not in self.options:
                other = _kind_with([name])
                raise ValueError(
                    f"--{name} must come with --model {other}, got --model {self.name}; leave it "
                    f"out, or choose --model {other}."
                )
        return {self.options[name]: value for name, value in given.items()}

    def in_options(self, text: str) -> str:
        """Return an error about parameters of the estimator as one about options."""
        for option, name in self.options.items():
            text = re.sub(rf"\b{name}=\(([^)]*)\)", rf"--{option} \1", text)
            text = re.sub(
                rf"\b{name}=(['\"]?)([^\s'\"]+?)\1(?=[.,;]?(\s|$))", rf"--{option} \2", text
            )
            text = re.sub(rf"(?<![-\w]){name}\b", f"--{option}", text)
        return re.sub(r"\bNone or ", "", text)

    def facts(self, estimator: Any) -> dict[str, Any]:
        """Return plain numbers about how the members, or the kinds of a stack, were trained."""
        facts = estimator.diagnostics_
        if not self.step:
            names = ("best_kind", "gain_over_best_kind", "width", "gain_of_width")
            kinds = [kind.plain() for kind in estimator.kinds_]
            own = {"kinds": kinds, "folds": estimator.n_members}
            return {**own, **{name: facts[name] for name in names}}
        names = ("effective_components", "dead_components")
        return {
            **{name: facts[name] for name in names},
            f"{self.step}s": estimator.n_iter_,
            f"best_{self.step}s": self.steps(estimator),
        }

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


_SHARED = {"members": "n_members", "components": "n_components", "resolution": "resolution"}

_NETWORK = Kind(
    name="network",
    estimator=MDNRegressor,
    check=parameters.check,
    rules=("impute", "error", "drop"),
    options={
        **_SHARED,
        "hidden": "hidden_sizes",
        "family": "family",
        "covariance": "covariance",
        "objective": "objective",
        "learning-rate": "learning_rate",
        "epochs": "max_epochs",
        "batch-size": "batch_size",
        "checkpoint": "checkpoint",
    },
    of_table=lambda schema: {"missing": "impute" if schema.missing == "impute" else "error"},
    resolve=parameters.resolve,
    what="networks",
    member="network",
    step="epoch",
    best=lambda estimator: estimator.best_epoch_,
)

_TREES = Kind(
    name="trees",
    estimator=MixtureBoostingRegressor,
    check=boosting_parameters.check,
    rules=("keep", "error", "drop"),
    options={
        **_SHARED,
        "family": "family",
        "learning-rate": "learning_rate",
        "rounds": "max_rounds",
        "leaves": "num_leaves",
        "leaf-rows": "min_rows_in_leaf",
    },
    of_table=lambda schema: {},
    resolve=lambda settings, dim, n_rows: boosting_parameters.resolve(settings),
    what="boosted trees",
    member="member",
    step="round",
    best=lambda estimator: estimator.best_round_,
)

_STACK = Kind(
    name="stack",
    estimator=stack.DensityStack,
    check=stack.check,
    rules=("impute", "error", "drop"),
    options={
        "members": "n_members",
        "resolution": "resolution",
        "quality": "quality",
        "budget": "budget",
    },
    of_table=lambda schema: {},
    resolve=lambda settings, dim, n_rows: settings,
    what="stack",
    member="member",
)

#: By the value of --model, the default first.
KINDS: dict[str, Kind] = {kind.name: kind for kind in (_STACK, _NETWORK, _TREES)}


def choose_kind(options: Mapping[str, Any]) -> str:
    """Return the kind of model to fit if the user names none: the first that has all options."""
    given = [name for name, value in options.items() if value is not None]
    return _kind_with(given)


def _kind_with(options: Sequence[str]) -> str:
    """Return the first kind that has all of the options, or else the first that has most."""
    return max(KINDS, key=lambda name: sum(option in KINDS[name].options for option in options))


def get_kind(name: str) -> Kind:
    """Return a kind by the value of --model."""
    return KINDS[check_choice("--model", name, KINDS)]


def kind_of(estimator: Any) -> Kind:
    """Return the kind of an estimator."""
    return next(kind for kind in KINDS.values() if isinstance(estimator, kind.estimator))
